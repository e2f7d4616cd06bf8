"""`fit`: from events or records to an estimator; `train_estimator` has the steps."""

import dataclasses
from typing import Required, TypedDict, Unpack, overload

from ..checkpoint import CheckpointChoice, open_checkpoint
from ..estimator.density import DensityEstimator
from ..estimator.estimator import AbstractEstimator, Estimator, RatioEstimator, ScoreEstimator
from ..estimator.matrix_element import MatrixElement
from ..events.events import Events
from ..models.architecture import (
    AbstractArchitecture,
    DirectRatio,
    DirectScore,
    PairChoice,
    Potential,
)
from ..models.flows.flow import Flow
from ..models.matrix_element import MEM
from ..models.networks.networks import NetworkChoice
from .arguments import check_events, check_options
from .draw import Records
from .matrix_element import fit_matrix_element
from .methods import AbstractMethod
from .saved_fit import identify_fit, keep_estimator, recall_estimator
from .train_estimator import train_estimator
from .training.options import Training
from .training.saved_training import Story


class _More(TypedDict, total=False):
    """Arguments of `fit` on which its result does not depend in kind."""

    members: int | None
    training: Training | None
    start: AbstractEstimator | None
    checkpoint: CheckpointChoice
    seed: Required[int]


_Data = Events | Records
_Method = AbstractMethod | None
_Potential = Potential | NetworkChoice | PairChoice | None
_Network = AbstractArchitecture | NetworkChoice | PairChoice | None


@overload
def fit(
    events: _Data, method: MEM, *, network: Flow | None = None, **more: Unpack[_More]
) -> MatrixElement: ...
@overload
def fit(
    events: _Data, method: _Method = None, *, network: Flow, **more: Unpack[_More]
) -> DensityEstimator: ...
@overload
def fit(
    events: _Data, method: _Method = None, *, network: DirectScore, **more: Unpack[_More]
) -> ScoreEstimator: ...
@overload
def fit(
    events: _Data, method: _Method = None, *, network: DirectRatio, **more: Unpack[_More]
) -> RatioEstimator: ...
@overload
def fit(
    events: _Data, method: _Method = None, *, network: _Potential = None, **more: Unpack[_More]
) -> Estimator: ...
@overload
def fit(
    events: _Data, method: _Method = None, *, network: _Network = None, **more: Unpack[_More]
) -> AbstractEstimator: ...
def fit(
    events: Events | Records,
    method: AbstractMethod | MEM | None = None,
    *,
    network: _Network = None,
    members: int | None = None,
    training: Training | None = None,
    start: AbstractEstimator | None = None,
    checkpoint: CheckpointChoice = None,
    seed: int,
) -> AbstractEstimator | MatrixElement:
    """Train a model.

    Without further arguments this is the best we know: a potential trained by multi-scale KCE, with
    the latent information that the events carry. Features, network and weight decay are chosen by
    validation events, and its score is centred. `history.choices` of the estimator says what was
    chosen, and whether the score could be centred.

    Args:
        events: stored `Events`, whose supervision is drawn fresh in every epoch, or fixed
            `Records` from `ist.draw`.
        method: such as `ist.KCE()` or `ist.KLRE(ist.Rectangular(0.4))`; records bring their own.
            The default is `ist.KCE(latent=True)` where events carry a joint density, `ist.KCE()`
            with `ist.SALLY()` where they carry joint scores, and otherwise `ist.KCE()`.
            `ist.MEM(…)` gives an `ist.MatrixElement`.
        network: a network such as `ist.MLP((32, 32))` for a potential, or an architecture:
            `ist.Potential(…)`, `ist.Flow(…)`, `ist.DirectScore(…)`, `ist.DirectRatio(…)`. Methods
            that learn a density train `ist.Flow()` by default.
        members: networks trained side by side and averaged. By default two, or three where
            trials for up to 15,000 events say so; one where `training` gives the number of epochs.
        training: its settings, `ist.Training(epochs=…, …)`.
        start: continue from this estimator's weights, by default with its method.
        checkpoint: a folder in which the fit is kept, or `ist.Checkpoint(path, minutes=…)`. Every
            minute, when a training ends, on Ctrl-C and on SIGTERM all that was done is saved
            there. The same call, after the process ended for whatever reason, goes on from there,
            to the same weights bit by bit; after the end it returns the estimator at once. The
            checkpoint of other events, settings, versions or devices is refused.
        seed: everything random follows from it; the same seed gives the same weights.
    """
    check_events(events)
    options = check_options(network, members, training, start, seed)
    with open_checkpoint(checkpoint, "fit", lambda: identify_fit(events, method, options)) as saved:
        finished = recall_estimator(saved)
        if finished is not None:
            return finished
        options = dataclasses.replace(options, story=Story(saved))
        if isinstance(method, MEM):
            estimator = fit_matrix_element(events, method, options)
        else:
            estimator = train_estimator(events, method, options)
        if checkpoint is not None:
            keep_estimator(saved, estimator)
        return estimator
