"""The compiled loop: one call runs many steps for all members at once.

Weights are one flat vector for each member, so that the optimiser is a single fused operation; for
small networks the number of operations, not arithmetic, is what a step costs. The host returns
only between calls, for progress, early stopping and the best epoch.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ...compilation import NOTHING, UNTRIED, compile_with_options
from ...models.members import with_network
from ...models.potential import AbstractModel
from ...supervision.supervision import ThetaDistribution
from ..dataset.examples import Examples
from ..methods import AbstractMethod
from .devices import count_devices
from .options import Adam

#: Validation events evaluated at a time, to bound the memory.
VALIDATION_CHUNK = 2048


class Job(eqx.Module):
    """What is being trained and how: everything a step needs besides data and weights.

    The number of steps and the decay are arrays, so that trainings of any length share a program.
    """

    model: AbstractModel
    method: AbstractMethod
    distribution: ThetaDistribution | None
    adam: Adam = eqx.field(static=True)
    total_steps: Int[Array, ""] = eqx.field(converter=jnp.asarray)
    decay: Float[Array, " members"] | None = None
    own_features: bool = eqx.field(static=True, default=False)

    def unravel(self, weights: Float[Array, " parameters"]) -> Any:  # noqa: ANN401
        """The network's arrays out of one flat vector."""
        return ravel_pytree(eqx.filter(self.model.network, eqx.is_inexact_array))[1](weights)

    def member(self, arrays: Any) -> Any:  # noqa: ANN401
        """The model with these arrays in its network."""
        static = eqx.filter(self.model.network, eqx.is_inexact_array, inverse=True)
        return with_network(self.model, eqx.combine(arrays, static))

    def optimiser(self) -> optax.GradientTransformationExtraArgs:
        """Built inside the trace, so that equal settings share one compilation."""
        if self.decay is None:
            return self.adam.build(self.total_steps, None)
        arrays = eqx.filter(self.model.network, eqx.is_inexact_array)
        matrices = jax.tree.map(lambda a: jnp.full(a.shape, float(a.ndim > 1)), arrays)
        return self.adam.build(self.total_steps, ravel_pytree(matrices)[0])

    def losses(self, arrays: Any, examples: Examples) -> Float[Array, " batch"]:  # noqa: ANN401
        """Weighted loss of each example."""
        model = self.member(arrays)
        return examples.weight * self.method.losses_of(model, examples.features, examples.records)


class State(eqx.Module):
    """Weights of all members and the optimiser's memory."""

    weights: Float[Array, "members parameters"]
    optimiser: Any


@eqx.filter_jit
def initial_state(job: Job, weights: Float[Array, "members parameters"]) -> State:
    """Fresh optimiser states."""
    return State(weights, jax.vmap(job.optimiser().init)(weights))


def _run_steps(
    job: Job,
    state: State,
    examples: Examples,
    order: Int[Array, "*members steps batch"],
    real: Float[Array, " steps"],
    key: PRNGKeyArray,
) -> tuple[State, Float[Array, "steps members"]]:
    """Train on the examples in `order`, which is shared by all members or has one for each.

    `real` is the number of real examples in each batch; positions beyond it are padding, marked by
    an index of −1, and get weight 0.
    """
    optimiser = job.optimiser()
    shared = order.ndim == 2
    batches = supervise_examples(job, examples, order, key)
    batches = eqx.tree_at(lambda b: b.weight, batches, jnp.where(order >= 0, batches.weight, 0.0))
    if not shared:
        batches = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1), batches)
    elif job.own_features:
        batches = eqx.tree_at(lambda b: b.features, batches, jnp.moveaxis(batches.features, 0, 1))

    def one(weights: Array, memory: Any, decay: Any, batch: Examples, count: Array) -> Any:  # noqa: ANN401
        def mean_loss(arrays: Any) -> Array:  # noqa: ANN401
            return jnp.sum(job.losses(arrays, batch)) / count

        # Differentiated by the arrays, not by the flat vector: the transpose of slicing is a sum
        # of padded vectors, one for each array, where a single concatenation does.
        loss, gradients = jax.value_and_grad(mean_loss)(job.unravel(weights))
        gradient = ravel_pytree(gradients)[0]
        updates, memory = optimiser.update(gradient, memory, weights, decay=decay)
        return optax.apply_updates(weights, updates), memory, loss

    def step(state: State, step_input: tuple[Examples, Array]) -> tuple[State, Array]:
        batch, count = step_input
        own, common = _own_and_common(batch, features=job.own_features, all_=not shared)
        mapped = (state.weights, state.optimiser, job.decay, own)
        weights, memory, loss = _over_members(
            job, lambda w, m, d, o: one(w, m, d, eqx.combine(o, common), count), mapped
        )
        return State(weights, memory), loss

    return jax.lax.scan(step, state, (batches, real))


def _run_epochs(
    job: Job,
    state: State,
    examples: Examples,
    orders: Int[Array, "epochs *members steps batch"],
    real: Float[Array, "epochs steps"],
    keys: PRNGKeyArray,
) -> tuple[State, tuple[Float[Array, "epochs steps members"], Float[Array, "epochs members p"]]]:
    """Several epochs, as `_run_steps` does one: their losses, and the weights after each."""

    def epoch(state: State, given: tuple[Array, Array, PRNGKeyArray]) -> tuple[State, Any]:
        state, losses = _run_steps(job, state, examples, *given)
        return state, (losses, state.weights)

    return jax.lax.scan(epoch, state, (orders, real, keys))


def _own_and_common(
    batch: Examples, *, features: bool, all_: bool = False
) -> tuple[Examples, Examples]:
    """What each member has for itself, with an axis of members in front, and what all share."""
    mine = jax.tree.map(lambda _: all_, batch)
    mine = eqx.tree_at(lambda b: b.features, mine, features or all_)
    return eqx.partition(batch, mine)


def _over_members(job: Job, function: Any, mapped: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """`function` of every member's part."""
    members = len(mapped[0])
    if members == 1:
        # A single member is trained without a batch axis, which is faster for small networks.
        result = function(*jax.tree.map(lambda leaf: leaf[0], mapped))
        return jax.tree.map(lambda leaf: leaf[None], result)
    if jax.default_backend() == "cpu" and count_devices() == 1 and not is_small(job.model):
        # One after another: on a CPU products of stacked matrices take up to twice the time.
        return jax.lax.map(lambda parts: function(*parts), mapped)
    return jax.vmap(function)(*mapped)


#: XLA hands products of matrices to a library (YNNPACK) whose calls cost more than the products
#: themselves when these are small; without it a step of the paper's network takes a third less.
_SMALL = {"xla_cpu_experimental_ynn_fusion_type": ""}
#: Numbers in the largest weight matrix up to which that holds, whatever the batch.
SMALL_MATRIX = 512
#: Large networks compile in half the time so, and run as fast.
_LARGE = {"xla_backend_optimization_level": 1}


#: Steps from which it pays to try out kernels on a GPU.
MANY_STEPS = 5_000


@functools.cache
def compile_with(function: Any, *, small: bool = False, long: bool = False) -> Any:  # noqa: ANN401
    """The function compiled for matrices of its size, and for the time that it will run."""
    return compile_with_options(function, _SMALL if small else _LARGE, NOTHING if long else UNTRIED)


def compile_steps(job: Job, steps: int, *, epochs: int = 1) -> Any:  # noqa: ANN401
    """`_run_steps`, compiled in the way that suits the network and the length of its training.

    For several `epochs` at a time `_run_epochs`.
    """
    run = _run_steps if epochs == 1 else _run_epochs
    return compile_with(run, small=is_small(job.model), long=steps >= MANY_STEPS)


def is_small(model: AbstractModel) -> bool:
    """Whether the matrices are so small that the number of operations is what a step costs."""
    arrays = jax.tree.leaves(eqx.filter(model.network, eqx.is_inexact_array))
    return max(a.size for a in arrays) <= SMALL_MATRIX


def supervise_examples(
    job: Job, examples: Examples, order: Int[Array, "*shape"], key: PRNGKeyArray
) -> Examples:
    """The examples in `order` with their records: those given, or fresh ones for stored events."""
    examples, shape = examples.take(order, own_features=job.own_features), order.shape
    if examples.rows is None:
        return examples
    count = int(np.prod(shape))
    rows = jax.tree.map(lambda leaf: leaf.reshape(count, *leaf.shape[len(shape) :]), examples.rows)
    distribution = job.distribution
    assert distribution is not None
    records = jax.vmap(lambda row, k: job.method.supervise(row, distribution, key=k))(
        rows, jax.random.split(key, count)
    )
    records = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), records)
    return Examples(examples.features, examples.weight, records, None)


def fix_records(job: Job, examples: Examples, key: PRNGKeyArray) -> Examples:
    """Examples with records that stay the same for the whole run."""
    # Without the model and the decay, so that all networks share a program.
    bare = eqx.tree_at(lambda j: (j.model, j.decay), job, (None, None), is_leaf=lambda a: a is None)
    return compile_with(_fix_records)(bare, examples, key)


def _fix_records(job: Job, examples: Examples, key: PRNGKeyArray) -> Examples:
    return supervise_examples(job, examples, jnp.arange(len(examples)), key)


def member_losses(
    job: Job, weights: Float[Array, "members parameters"], examples: Examples
) -> Float[Array, "members n"]:
    """Weighted loss of every example for each member, in chunks."""
    return compile_with(_member_losses)(job, weights, examples)


def epoch_losses(
    job: Job,
    weights: Float[Array, "epochs members parameters"],
    examples: Examples,
    *,
    count: int | None = None,
) -> Float[Array, "epochs members n"]:
    """The same for the weights of several epochs, or of the first `count`."""
    some = jax.device_put(np.int32(len(weights) if count is None else count))
    return compile_with(_epoch_losses)(job, weights, examples, some)


def _epoch_losses(
    job: Job,
    weights: Float[Array, "epochs members parameters"],
    examples: Examples,
    count: Int[Array, ""],
) -> Float[Array, "epochs members n"]:
    def add(i: Array, losses: Array) -> Array:
        return losses.at[i].set(_member_losses(job, weights[i], examples))

    return jax.lax.fori_loop(0, count, add, jnp.zeros((*weights.shape[:2], len(examples))))


def _member_losses(
    job: Job, weights: Float[Array, "members parameters"], examples: Examples
) -> Float[Array, "members n"]:
    count = len(examples)
    size = min(VALIDATION_CHUNK, count)
    chunks = -(-count // size)
    index = jnp.minimum(jnp.arange(chunks * size), count - 1).reshape(chunks, size)

    def chunk(i: Array) -> Array:
        part = examples.take(i, own_features=job.own_features)
        own, common = _own_and_common(part, features=job.own_features)
        return _over_members(
            job, lambda w, o: job.losses(job.unravel(w), eqx.combine(o, common)), (weights, own)
        )

    losses = jax.lax.map(chunk, index)
    return jnp.moveaxis(losses, 0, 1).reshape(len(weights), -1)[:, :count]


@eqx.filter_jit
def beyond_limit(job: Job, weights: Float[Array, " parameters"], examples: Examples) -> Array:
    """Fraction of examples where a loss had to be continued linearly."""
    model = job.member(job.unravel(weights))
    each = jax.vmap(lambda x, record: job.method.beyond_limit(model, x, record))
    return jnp.mean(each(examples.features, examples.records))
