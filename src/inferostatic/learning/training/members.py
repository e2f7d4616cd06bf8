"""Trained members of an ensemble: several settings trained side by side, and members joined."""

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ...estimator.history import History
from ...models.architecture import AbstractArchitecture, Shapes
from ...models.features.feature_map import IdentityMap
from ...models.features.features import AbstractFeatures
from ...models.potential import AbstractModel
from ..dataset.dataset import AbstractDataset, Split
from ..methods import AbstractMethod
from .options import Training, count_steps
from .steps import Job
from .train import train_members
from .weights import derive_member_key, draw_weights, extract_weights, insert_weights


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A model of one or more trained members.

    Attributes:
        model: with the weights of all members.
        shapes: what was learned from the events, such as features.
        history: of the training.
        event_losses: loss of every validation event for every member, shape (members, events).
    """

    model: AbstractModel
    shapes: Shapes
    history: History
    event_losses: np.ndarray


@dataclasses.dataclass(frozen=True)
class MemberSetting:
    """What may differ between networks trained in one compiled batch."""

    features: AbstractFeatures
    weight_decay: float


def train_side_by_side(
    architecture: AbstractArchitecture,
    method: AbstractMethod,
    dataset: AbstractDataset,
    split: Split,
    training: Training,
    settings: Sequence[MemberSetting],
    seed: int,
    *,
    title: str | None = None,
) -> list[TrainedModel]:
    """One network for each setting, from the same initial weights and on the same batches."""
    kinds = list(dict.fromkeys(setting.features for setting in settings))
    by_kind = {
        kind: dataset.learn_shapes(dataclasses.replace(architecture, x_features=kind), split.train)
        for kind in kinds
    }
    shapes = [by_kind[setting.features] for setting in settings]
    key = derive_member_key(seed, 0)
    template, weights = draw_weights(architecture, shapes[0], [key] * len(settings))
    own = len(kinds) > 1
    maps = [s.x_features for s in shapes] if own else [shapes[0].x_features]
    decay = jnp.asarray([setting.weight_decay for setting in settings], jnp.float32)
    job = Job(
        without_features(template),
        method,
        dataset.distribution,
        training,
        count_steps(training, len(split.train)),
        decay,
        own,
    )
    result = train_members(job, weights, dataset.examples(maps), split, seed, title=title)
    return [
        TrainedModel(
            insert_weights(
                eqx.tree_at(lambda m: m.x_features, template, shape.x_features),
                result.weights[j : j + 1],
            ),
            shape,
            select_member(result.history, j),
            result.event_losses[j : j + 1],
        )
        for j, shape in enumerate(shapes)
    ]


def without_features(model: AbstractModel) -> AbstractModel:
    """The model for examples whose features are computed already."""
    return eqx.tree_at(lambda m: m.x_features, model, IdentityMap())


def join_members(first: TrainedModel, others: TrainedModel) -> TrainedModel:
    """Both sets of members as one model; they have the same features and were trained alike."""
    template, weights = extract_weights(first.model)
    weights = jnp.concatenate([weights, extract_weights(others.model)[1]])
    one, two = first.history, others.history
    longer = one if len(one.seconds) > len(two.seconds) else two
    history = dataclasses.replace(
        longer,
        train_loss=_put_beside(one.train_loss, two.train_loss),
        validation_loss=_put_beside(one.validation_loss, two.validation_loss),
        best_epoch=np.concatenate([one.best_epoch, two.best_epoch]),
        warnings=tuple(dict.fromkeys((*one.warnings, *two.warnings))),
    )
    losses = np.concatenate([first.event_losses, others.event_losses])
    return TrainedModel(insert_weights(template, weights), first.shapes, history, losses)


def _put_beside(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Losses of all members; of one that stopped earlier, NaN for the epochs it did not run."""
    epochs = max(len(one), len(two))
    columns = np.full((epochs, one.shape[1] + two.shape[1]), np.nan)
    columns[: len(one), : one.shape[1]] = one
    columns[: len(two), one.shape[1] :] = two
    return columns


def select_member(history: History, member: int) -> History:
    """What happened to one of the members."""
    one = slice(member, member + 1)
    return dataclasses.replace(
        history,
        train_loss=history.train_loss[:, one],
        validation_loss=history.validation_loss[:, one],
        best_epoch=history.best_epoch[one],
    )
