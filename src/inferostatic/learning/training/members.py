"""Networks as rows of flat weights, and several settings trained side by side."""

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ...estimator.history import History
from ...models.architecture import AbstractArchitecture, Shapes
from ...models.features.feature_map import IdentityMap
from ...models.features.features import AbstractFeatures
from ...models.members import with_network
from ...models.potential import AbstractModel
from ..dataset.dataset import Split, Supplied
from ..methods import AbstractMethod
from .options import Training
from .plan import total_steps
from .steps import Job
from .train import train


def untrained(
    architecture: AbstractArchitecture, shapes: Shapes, keys: Sequence[Array] | Array
) -> tuple[AbstractModel, Array]:
    """A model of one member as a template, and flat weights, one row for each key."""
    built = [architecture.build(shapes, key=key) for key in keys]
    parts = [eqx.filter(model.network, eqx.is_inexact_array) for model in built]
    return built[0], jnp.stack([ravel_pytree(part)[0] for part in parts])


def weights_of(model: AbstractModel) -> tuple[AbstractModel, Array]:
    """The same for a trained model, whose arrays have an axis of members in front."""
    # The first member as it is: a new build could differ in arrays that are not trained.
    first = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, model.network)
    networks = eqx.filter(model.network, eqx.is_inexact_array)
    return with_network(model, first), jax.vmap(lambda n: ravel_pytree(n)[0])(networks)


def trained(template: AbstractModel, weights: Array) -> AbstractModel:
    """The template with the members' weights stacked."""
    arrays, static = eqx.partition(template.network, eqx.is_inexact_array)
    # Arrays that are not trained, such as integer buffers, are repeated for every member.
    static = jax.tree.map(
        lambda leaf: jnp.stack([leaf] * len(weights)) if eqx.is_array(leaf) else leaf, static
    )
    stacked = jax.vmap(ravel_pytree(arrays)[1])(weights)
    return with_network(template, eqx.combine(stacked, static))


def member_key(seed: int, member: int) -> Array:
    """From which a member's initial weights are drawn."""
    return jax.random.fold_in(jax.random.key(seed), member)


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained model: its features and all its members."""

    model: AbstractModel
    shapes: Shapes
    history: History
    judged: np.ndarray


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A setting that may differ between networks trained in one compiled batch."""

    features: AbstractFeatures
    weight_decay: float


def side_by_side(
    architecture: AbstractArchitecture,
    method: AbstractMethod,
    supply: Supplied,
    split: Split,
    training: Training,
    candidates: Sequence[Candidate],
    seed: int,
    *,
    title: str | None = None,
) -> list[Trained]:
    """One network for each candidate, from the same initial weights and on the same batches."""
    kinds = list(dict.fromkeys(candidate.features for candidate in candidates))
    by_kind = {
        kind: supply.shapes(dataclasses.replace(architecture, x_features=kind), split.train)
        for kind in kinds
    }
    shapes = [by_kind[candidate.features] for candidate in candidates]
    key = member_key(seed, 0)
    template, weights = untrained(architecture, shapes[0], [key] * len(candidates))
    own = len(kinds) > 1
    maps = [s.x_features for s in shapes] if own else [shapes[0].x_features]
    bare = eqx.tree_at(lambda m: m.x_features, template, IdentityMap())
    decay = jnp.asarray([candidate.weight_decay for candidate in candidates], jnp.float32)
    steps = total_steps(training, len(split.train))
    job = Job(bare, method, supply.law, training, steps, decay, own)
    result = train(job, weights, supply.examples(maps), split, seed, title=title)
    return [
        Trained(
            trained(
                eqx.tree_at(lambda m: m.x_features, template, shape.x_features),
                result.weights[j : j + 1],
            ),
            shape,
            member_history(result.history, j),
            result.judged[j : j + 1],
        )
        for j, shape in enumerate(shapes)
    ]


def joined(first: Trained, others: Trained) -> Trained:
    """Both sets of members as one model; they have the same features and were trained alike."""
    template, weights = weights_of(first.model)
    weights = jnp.concatenate([weights, weights_of(others.model)[1]])
    one, two = first.history, others.history
    longer = one if len(one.seconds) > len(two.seconds) else two
    history = dataclasses.replace(
        longer,
        train_loss=_beside(one.train_loss, two.train_loss),
        validation_loss=_beside(one.validation_loss, two.validation_loss),
        best_epoch=np.concatenate([one.best_epoch, two.best_epoch]),
        warnings=tuple(dict.fromkeys((*one.warnings, *two.warnings))),
    )
    judged = np.concatenate([first.judged, others.judged])
    return Trained(trained(template, weights), first.shapes, history, judged)


def _beside(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Losses of all members; of one that stopped earlier, NaN for the epochs it did not run."""
    epochs = max(len(one), len(two))
    columns = np.full((epochs, one.shape[1] + two.shape[1]), np.nan)
    columns[: len(one), : one.shape[1]] = one
    columns[: len(two), one.shape[1] :] = two
    return columns


def member_history(history: History, member: int) -> History:
    """What happened to one of the members."""
    one = slice(member, member + 1)
    return dataclasses.replace(
        history,
        train_loss=history.train_loss[:, one],
        validation_loss=history.validation_loss[:, one],
        best_epoch=history.best_epoch[one],
    )
