"""`fit`: from events or records to an estimator."""

import dataclasses
from typing import Any, overload

import equinox as eqx
import jax.numpy as jnp

from ..estimator.density import DensityEstimator
from ..estimator.estimator import AbstractEstimator, Estimator, RatioEstimator, ScoreEstimator
from ..events.events import Events
from ..inputs import as_count, as_seed, kind_of, warn_user
from ..models.architecture import (
    AbstractArchitecture,
    DirectRatio,
    DirectScore,
    PairChoice,
    Potential,
)
from ..models.direct import RatioModel, ScoreModel
from ..models.features.columns import odd_columns
from ..models.features.feature_map import IdentityMap
from ..models.features.per_particle import PerParticle
from ..models.flows.flow import DensityModel, Flow
from ..models.matrix_element import MEM
from ..models.members import with_centring
from ..models.networks.networks import NetworkChoice, Residual
from ..models.potential import AbstractModel, PotentialModel
from ..supervision.candidates import CandidateSets
from ..supervision.records import Capability
from .centring import centred
from .choose_defaults import Choice, chosen
from .dataset.dataset import Supplied, supplied
from .draw import Records
from .matrix_element import MatrixElement, fit_matrix_element
from .methods import KCE, AbstractMethod
from .training.members import Trained, joined, member_key, trained, untrained, weights_of
from .training.options import Training
from .training.plan import (
    UNCENTRED_EVENTS,
    planned,
    total_steps,
    tries_out,
    usual_members,
    usual_size,
)
from .training.steps import Job
from .training.train import check_targets, train


@overload
def fit(
    events: Events | Records,
    method: MEM,
    *,
    network: Flow | None = None,
    members: int | None = None,
    training: Training | None = None,
    start: AbstractEstimator | None = None,
    seed: int,
) -> MatrixElement: ...
@overload
def fit(
    events: Events | Records,
    method: AbstractMethod | None = None,
    *,
    network: Flow,
    members: int | None = None,
    training: Training | None = None,
    start: AbstractEstimator | None = None,
    seed: int,
) -> DensityEstimator: ...
@overload
def fit(
    events: Events | Records,
    method: AbstractMethod | None = None,
    *,
    network: DirectScore,
    members: int | None = None,
    training: Training | None = None,
    start: AbstractEstimator | None = None,
    seed: int,
) -> ScoreEstimator: ...
@overload
def fit(
    events: Events | Records,
    method: AbstractMethod | None = None,
    *,
    network: DirectRatio,
    members: int | None = None,
    training: Training | None = None,
    start: AbstractEstimator | None = None,
    seed: int,
) -> RatioEstimator: ...
@overload
def fit(
    events: Events | Records,
    method: AbstractMethod | None = None,
    *,
    network: Potential | NetworkChoice | PairChoice | None = None,
    members: int | None = None,
    training: Training | None = None,
    start: AbstractEstimator | None = None,
    seed: int,
) -> Estimator: ...
@overload
def fit(
    events: Events | Records,
    method: AbstractMethod | None = None,
    *,
    network: AbstractArchitecture | NetworkChoice | PairChoice | None = None,
    members: int | None = None,
    training: Training | None = None,
    start: AbstractEstimator | None = None,
    seed: int,
) -> AbstractEstimator: ...
def fit(
    events: Events | Records,
    method: AbstractMethod | MEM | None = None,
    *,
    network: AbstractArchitecture | NetworkChoice | PairChoice | None = None,
    members: int | None = None,
    training: Training | None = None,
    start: AbstractEstimator | None = None,
    seed: int,
) -> AbstractEstimator | MatrixElement:
    """Train a model.

    Without further arguments this is the best we know: a residual potential trained by multi-scale
    KCE, with features and weight decay chosen on held-out events, and centred where events are
    many.

    Args:
        events: stored `Events`, whose supervision is drawn fresh in every epoch, or fixed
            `Records` from `ist.draw`.
        method: such as `ist.KCE()`, the default, or `ist.KLRE(ist.Rectangular(0.4))`; records
            bring their own. `ist.MEM(…)` gives an `ist.MatrixElement`.
        network: a network such as `ist.MLP((32, 32))` for a potential, or an architecture:
            `ist.Potential(…)`, `ist.Flow(…)`, `ist.DirectScore(…)`, `ist.DirectRatio(…)`. Methods
            that learn a density train `ist.Flow()` unless told.
        members: networks trained side by side and averaged. Unless told, three for up to 15,000
            events; one for more, or where `training` gives the number of epochs.
        training: the knobs, `ist.Training(epochs=…, …)`.
        start: continue from this estimator's weights, with its method unless one is given.
        seed: everything random follows from it; the same seed gives the same weights.
    """
    if isinstance(method, MEM):
        return fit_matrix_element(
            fit,
            events,
            method,
            network=network,
            members=members,
            training=training,
            start=start,
            seed=seed,
        )
    training = Training() if training is None else training
    if not isinstance(training, Training):
        raise TypeError(f"training must be ist.Training(…); got {kind_of(training)}.")
    if start is not None and not isinstance(start, AbstractEstimator):
        raise TypeError(
            f"start must be a trained estimator, from ist.fit or ist.load; got {kind_of(start)}."
        )
    seed = as_seed(seed)
    members = None if members is None else as_count(members, "members")
    if method is None and start is not None and isinstance(events, Events):
        method = start.method
    method = _method(events, method)
    supply = supplied(events, method)
    count = len(supply.weight)
    split = supply.split(training.validation_fraction, seed)
    choice = Choice(Potential(), planned(training, count, len(split.train)))
    if start is not None:
        members = _check_start(start, events, network, members)
        architecture, shapes = start.architecture, start.shapes
        _check_centre(training, events, architecture)
        template, weights = weights_of(with_centring(start.model, None))
        check_capability(method, template)
        remarks = _remarks(supply, events.x_names, architecture)
    else:
        members = usual_members(count, training) if members is None else members
        architecture = as_architecture(network, count, method)
        check_capability(method, architecture)
        _check_centre(training, events, architecture)
        remarks = _remarks(supply, events.x_names, architecture)
        choice = chosen(architecture, method, supply, split, training, seed)
        architecture = choice.architecture
        shapes = supply.shapes(architecture, split.train)
        keys = [member_key(seed, member) for member in range(members)]
        template, weights = untrained(architecture, shapes, keys)
    plan, made = choice.training, choice.ready
    if made is not None:
        weights = weights[1:]
    if len(weights):
        bare = eqx.tree_at(lambda m: m.x_features, template, IdentityMap())
        decay = jnp.full(len(weights), plan.weight_decay) if plan.weight_decay else None
        job = Job(bare, method, supply.law, plan, total_steps(plan, len(split.train)), decay)
        examples = supply.examples([shapes.x_features])
        check_targets(job, examples, seed)
        result = train(job, weights, examples, split, seed)
        others = Trained(trained(template, result.weights), shapes, result.history, result.judged)
        made = others if made is None else joined(made, others)
    assert made is not None
    estimator = assembled(
        events,
        method,
        supply,
        architecture,
        made,
        plan,
        choices=choice.reasons,
        warnings=remarks,
    )
    if not isinstance(estimator, Estimator) or not isinstance(events, Events):
        return estimator
    if isinstance(estimator, DensityEstimator) or not centres(training, method, count):
        return estimator
    return _centred(estimator, events, supply, seed)


def _check_centre(
    training: Training, events: Events | Records, architecture: AbstractArchitecture
) -> None:
    if not training.centre:
        return
    if Capability.DENSITY in architecture.capabilities:
        raise ValueError(
            "centre=True would break the normalisation of a density, whose mean score is 0 by "
            "itself; leave it out."
        )
    if not isinstance(events, Events) or Capability.POTENTIAL not in architecture.capabilities:
        raise ValueError(
            "centre=True needs a potential and stored ist.Events, whose x were simulated at their "
            "θ; leave it out, or fit events instead of records."
        )


def centres(training: Training, method: AbstractMethod, events: int) -> bool:
    """Whether the score is centred after training."""
    if training.centre is not None:
        return training.centre
    of_sets = isinstance(getattr(method, "supervision", None), CandidateSets)
    return of_sets and tries_out(training) and events > UNCENTRED_EVENTS


def _centred(estimator: Estimator, events: Events, supply: Supplied, seed: int) -> Estimator:
    result, record = centred(estimator, supply.x, events.theta, supply.weight, seed=seed)
    words = "not centred: the mean score at θ cannot be told from 0"
    if record.terms:
        words = (
            f"centred: the mean score at θ was {record.before:.1%} of a score's spread, and a "
            f"function of θ with {record.terms} terms is subtracted"
        )
    history = dataclasses.replace(result.history, choices=(*result.history.choices, words))
    return dataclasses.replace(result, history=history)


def _remarks(
    supply: Supplied, names: tuple[str, ...], architecture: AbstractArchitecture
) -> tuple[str, ...]:
    # Slots for particles that no event has are empty on purpose.
    padded = isinstance(architecture.x_features, PerParticle)
    remarks = [] if padded else odd_columns(supply.x, names)
    for remark in remarks:
        warn_user(remark)
    return tuple(remarks)


def assembled(
    events: Events | Records,
    method: AbstractMethod,
    supply: Supplied,
    architecture: AbstractArchitecture,
    made: Trained,
    training: Training,
    *,
    choices: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
) -> AbstractEstimator:
    """The estimator around a trained model."""
    history = dataclasses.replace(
        made.history, choices=choices, warnings=(*warnings, *made.history.warnings)
    )
    return KINDS[type(made.model)](
        model=made.model,
        architecture=architecture,
        shapes=made.shapes,
        method=method,
        prior=supply.prior,
        region=supply.region(),
        x_names=events.x_names,
        theta_names=events.theta_names,
        history=history,
        training=training,
    )


def _method(events: Events | Records, method: object) -> AbstractMethod:
    if isinstance(events, Records):
        if method is not None and method != events.method:
            raise ValueError(
                f"these records were drawn for {events.method}; fit them without a method, or "
                "draw new ones."
            )
        return events.method
    if not isinstance(events, Events):
        raise TypeError(
            "fit takes ist.Events (or ist.simulate(…)) or records from ist.draw(…); got "
            f"{type(events).__name__}."
        )
    return as_method(method)


def as_method(method: object) -> AbstractMethod:
    """The method, the default one where there is none."""
    if method is None:
        return KCE()
    if not isinstance(method, AbstractMethod):
        raise TypeError(f"method must be such as ist.KCE() or ist.CARL(); got {method!r}.")
    return method


def as_architecture(
    network: Any,  # noqa: ANN401
    events: int,
    method: AbstractMethod | None = None,
) -> AbstractArchitecture:
    """The architecture around a network, the default one of the method where there is none."""
    if network is None and method is not None and Capability.DENSITY in method.capabilities:
        return Flow()
    if network is None:
        return Potential(Residual(*usual_size(events)))
    if isinstance(network, AbstractArchitecture):
        return network
    if callable(network) and not isinstance(network, type):
        return Potential(network)
    raise TypeError(
        "network must be such as ist.MLP((64, 64)), ist.Potential(…), ist.Flow(…), "
        f"ist.DirectScore(…), ist.DirectRatio(…), or a function (in_size, out_size, *, key); got "
        f"{kind_of(network) if isinstance(network, type) else repr(network)}."
    )


def _check_start(
    start: AbstractEstimator, events: Events | Records, network: object, members: int | None
) -> int:
    if network is not None:
        raise ValueError("give either start= or network=: a started fit keeps its network.")
    if len(start.theta_names) != len(events.theta_names) or len(start.x_names) != len(
        events.x_names
    ):
        raise ValueError(
            f"the estimator to start from has {len(start.x_names)} observables and "
            f"{len(start.theta_names)} parameters, the events {len(events.x_names)} and "
            f"{len(events.theta_names)}."
        )
    for ours, theirs in ((start.x_names, events.x_names), (start.theta_names, events.theta_names)):
        if ours != theirs and set(ours) == set(theirs):
            raise ValueError(
                f"the estimator to start from has the columns {', '.join(ours)}, the events the "
                f"same in another order, {', '.join(theirs)}; reorder the events' columns."
            )
    if members not in (None, start.members):
        raise ValueError(f"the estimator to start from has {start.members} members, not {members}.")
    return start.members


def check_capability(method: AbstractMethod, model: AbstractModel | AbstractArchitecture) -> None:
    """Refuse a method that asks for what the model does not offer."""
    missing = method.capabilities - model.capabilities
    if missing:
        wanted = " and ".join(sorted(c.value for c in missing))
        offered = " and ".join(sorted(c.value for c in model.capabilities))
        remedy = "a potential (the default network, or ist.Potential(…))"
        if Capability.DENSITY in missing:
            remedy = "a flow (the default network of this method, or ist.Flow(…))"
        raise TypeError(
            f"{method} trains {wanted}, but this network offers only {offered}. Use {remedy}, "
            "which offers everything."
        )


KINDS: dict[type[AbstractModel], type[AbstractEstimator]] = {
    PotentialModel: Estimator,
    DensityModel: DensityEstimator,
    ScoreModel: ScoreEstimator,
    RatioModel: RatioEstimator,
}
