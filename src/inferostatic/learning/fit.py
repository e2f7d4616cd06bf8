"""`fit`: from events or records to an estimator."""

import dataclasses
import time
from typing import Any, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from ..estimator import (
    AbstractEstimator,
    Estimator,
    History,
    RatioEstimator,
    Region,
    ScoreEstimator,
    with_network,
)
from ..events.events import Events
from ..inputs import as_count, as_seed, bad_rows, finite_rows, kind_of, warn_user
from ..models.architecture import (
    AbstractArchitecture,
    DirectRatio,
    DirectScore,
    Potential,
    Shapes,
)
from ..models.direct import RatioModel, ScoreModel
from ..models.features import AbstractFeatureMap, Identity
from ..models.networks import NetworkChoice
from ..models.potential import AbstractModel, PotentialModel
from ..progress import progress
from ..supervision.candidates import AbstractCandidateLaw
from ..supervision.kernels import AbstractKernel, largest_widths
from ..supervision.pairs import AbstractPairLaw
from ..supervision.records import Row
from ..supervision.references import ReferencePoint
from ..supervision.supervision import StoredLaw, trusted_region
from ..world.prior import AbstractPrior
from .draw import Records
from .loop import (
    Examples,
    Job,
    State,
    beyond_limit,
    compiled_steps,
    each_loss,
    fixed_records,
    initial_state,
    mean_losses,
)
from .methods import KCE, AbstractMethod
from .training import Training

#: Numbers (features, candidates, …) that one compiled call may hold as supervised batches.
BLOCK_NUMBERS = 60_000_000
#: Events from which features are learned; more would not change them.
FEATURE_EVENTS = 200_000
FEATURE_CHUNK = 16_384
#: Stored events whose freshly drawn targets are checked before training.
CHECKED_TARGETS = 20_000


class TrainingError(RuntimeError):
    """Training could not go on; the message says where and what to change."""


@overload
def fit(
    events: Events | Records,
    method: AbstractMethod | None = None,
    *,
    network: DirectScore,
    members: int = 1,
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
    members: int = 1,
    training: Training | None = None,
    start: AbstractEstimator | None = None,
    seed: int,
) -> RatioEstimator: ...
@overload
def fit(
    events: Events | Records,
    method: AbstractMethod | None = None,
    *,
    network: Potential | NetworkChoice | None = None,
    members: int = 1,
    training: Training | None = None,
    start: AbstractEstimator | None = None,
    seed: int,
) -> Estimator: ...
@overload
def fit(
    events: Events | Records,
    method: AbstractMethod | None = None,
    *,
    network: AbstractArchitecture | NetworkChoice | None = None,
    members: int = 1,
    training: Training | None = None,
    start: AbstractEstimator | None = None,
    seed: int,
) -> AbstractEstimator: ...
def fit(
    events: Events | Records,
    method: AbstractMethod | None = None,
    *,
    network: AbstractArchitecture | NetworkChoice | None = None,
    members: int = 1,
    training: Training | None = None,
    start: AbstractEstimator | None = None,
    seed: int,
) -> AbstractEstimator:
    """Train a model.

    Args:
        events: stored `Events`, whose supervision is drawn fresh in every epoch, or fixed
            `Records` from `ist.draw`.
        method: such as `ist.KCE()`, the default, or `ist.KLRE(ist.Rectangular(0.4))`; records
            bring their own.
        network: a network such as `ist.MLP((32, 32))` for a potential, or an architecture:
            `ist.Potential(…)`, `ist.DirectScore(…)`, `ist.DirectRatio(…)`.
        members: networks trained side by side and averaged.
        training: the knobs, `ist.Training(epochs=…, …)`.
        start: continue from this estimator's weights, with its method unless one is given.
        seed: everything random follows from it; the same seed gives the same weights.
    """
    training = Training() if training is None else training
    if not isinstance(training, Training):
        raise TypeError(f"training must be ist.Training(…); got {kind_of(training)}.")
    if start is not None and not isinstance(start, AbstractEstimator):
        raise TypeError(
            f"start must be a trained estimator, from ist.fit or ist.load; got {kind_of(start)}."
        )
    seed, members = as_seed(seed), as_count(members, "members")
    if method is None and start is not None and isinstance(events, Events):
        method = start.method
    method = _method(events, method)
    supply = _supply(events, method)
    if start is not None:
        members = _check_start(start, events, network, members)
    split = _split(len(supply.weight), training.validation_fraction, seed)
    architecture = start.architecture if start is not None else _architecture(network)
    shapes = start.shapes if start is not None else supply.shapes(architecture, split.train)
    model, weights = _initial(architecture, shapes, members, start, seed)
    _check_capability(method, model)
    features = _transform(shapes.x_features, supply.x)
    examples = Examples(
        features=features, weight=supply.normalised(), records=supply.records, rows=supply.rows
    )
    bare = eqx.tree_at(lambda m: m.x_features, model, Identity())
    steps = -(-len(split.train) // min(training.batch_size, len(split.train)))
    job = Job(bare, method, supply.law, training, steps * training.epochs)
    _check_targets(job, examples, seed)
    result = _train(job, weights, examples, split, seed)
    return _KINDS[type(model)](
        model=_trained(model, result.weights),
        architecture=architecture,
        shapes=shapes,
        method=method,
        prior=supply.prior,
        region=supply.region(),
        x_names=events.x_names,
        theta_names=events.theta_names,
        history=result.history,
    )


@dataclasses.dataclass(frozen=True)
class _Supplied:
    """Events or records in one form."""

    x: np.ndarray
    weight: np.ndarray
    records: Any
    rows: Row | None
    law: StoredLaw | None
    prior: AbstractPrior
    low: np.ndarray
    high: np.ndarray

    def normalised(self) -> Array:
        """Weights with mean 1, so that a weight of 2 equals the event twice."""
        return jnp.asarray(self.weight / self.weight.mean(), jnp.float32)

    def shapes(self, architecture: AbstractArchitecture, train: np.ndarray) -> Shapes:
        """What the architecture learns from the training events."""
        return architecture.shapes(self.x[train[:FEATURE_EVENTS]], *self.prior.centre_and_scale)

    def region(self) -> Region:
        """Where the trained model can be trusted."""
        return Region(self.low, self.high, self.x.min(axis=0), self.x.max(axis=0))


def _method(events: Events | Records, method: AbstractMethod | None) -> AbstractMethod:
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
    if method is None:
        return KCE()
    if not isinstance(method, AbstractMethod):
        raise TypeError(f"method must be such as ist.KCE() or ist.CARL(); got {method!r}.")
    return method


def _supply(events: Events | Records, method: AbstractMethod) -> _Supplied:
    if isinstance(events, Records):
        theta = next(v for k, v in vars(events.record).items() if k.startswith("theta"))
        rows = np.asarray(theta).reshape(-1, events.prior.dim)
        low, high = trusted_region(events.prior, rows)
        if isinstance(events.method.supervision, ReferencePoint):
            point = np.asarray(events.method.supervision.theta_ref)
            low, high = np.minimum(low, point), np.maximum(high, point)
        weight = np.ones(len(events))
        return _Supplied(events.x, weight, events.record, None, None, events.prior, low, high)
    for kernel in _kernels(method):
        largest_widths(kernel, events.x, events.theta)
    supply = method.supply(events)
    x = np.asarray(supply.rows.x)
    rows = supply.rows
    if not _uses_x(method):
        # Targets do not look at x, so batches need not carry it beside its features.
        rows = eqx.tree_at(lambda r: r.x, rows, jnp.zeros((len(x), 0)))
    law = supply.law
    return _Supplied(
        x,
        supply.weight,
        None,
        rows,
        law,
        law.prior,
        np.asarray(law.low, np.float64),
        np.asarray(law.high, np.float64),
    )


def _kernels(method: AbstractMethod) -> list[AbstractKernel]:
    nodes = jax.tree.leaves(method, is_leaf=lambda node: isinstance(node, AbstractKernel))
    return [node for node in nodes if isinstance(node, AbstractKernel)]


def _uses_x(method: AbstractMethod) -> bool:
    # A user's own pair or candidate law may look at x as well.
    laws = jax.tree.leaves(method, is_leaf=_is_law)
    foreign = any(_is_law(law) and not type(law).__module__.startswith(_PACKAGE) for law in laws)
    return foreign or any(kernel.depends_on_x for kernel in _kernels(method))


_PACKAGE = __name__.split(".")[0] + "."


def _is_law(node: object) -> bool:
    return isinstance(node, AbstractPairLaw | AbstractCandidateLaw)


def _architecture(network: Any) -> AbstractArchitecture:  # noqa: ANN401
    if network is None:
        return Potential()
    if isinstance(network, AbstractArchitecture):
        return network
    if callable(network) and not isinstance(network, type):
        return Potential(network)
    raise TypeError(
        "network must be such as ist.MLP((64, 64)), ist.Potential(…), ist.DirectScore(…), "
        f"ist.DirectRatio(…), or a function (in_size, out_size, *, key); got "
        f"{kind_of(network) if isinstance(network, type) else repr(network)}."
    )


def _check_start(
    start: AbstractEstimator, events: Events | Records, network: object, members: int
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
    if members not in (1, start.members):
        raise ValueError(f"the estimator to start from has {start.members} members, not {members}.")
    return start.members


def _check_capability(method: AbstractMethod, model: AbstractModel) -> None:
    missing = method.capabilities - model.capabilities
    if missing:
        wanted = " and ".join(sorted(c.value for c in missing))
        offered = " and ".join(sorted(c.value for c in model.capabilities))
        raise TypeError(
            f"{method} trains {wanted}, but this network offers only {offered}. Use a potential "
            "(the default network, or ist.Potential(…)), which offers everything."
        )


@dataclasses.dataclass(frozen=True)
class _Split:
    train: np.ndarray
    validation: np.ndarray


def _split(n: int, fraction: float, seed: int) -> _Split:
    """The same held-out events for every member, whatever the method."""
    order = np.random.default_rng(np.random.SeedSequence([seed, 10])).permutation(n)
    held = round(fraction * n)
    if held >= n:
        raise ValueError(f"{n} events are too few to hold out {fraction:.0%} of them.")
    if fraction > 0 and held == 0:
        raise ValueError(
            f"{n} events are too few to hold out {fraction:.0%} of them; set "
            "Training(validation_fraction=0) or give more events."
        )
    return _Split(train=order[held:], validation=order[:held])


def _initial(
    architecture: AbstractArchitecture,
    shapes: Shapes,
    members: int,
    start: AbstractEstimator | None,
    seed: int,
) -> tuple[AbstractModel, Array]:
    """A model of one member as a template, and the flat weights of all."""
    if start is not None:
        # The first member as it is: a new build could differ in arrays that are not trained.
        first = jax.tree.map(
            lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, start.model.network
        )
        template = with_network(start.model, first)
        networks = eqx.filter(start.model.network, eqx.is_inexact_array)
    else:
        keys = jax.random.split(jax.random.key(seed), members)
        built = [architecture.build(shapes, key=key) for key in keys]
        template = built[0]
        parts = [eqx.filter(model.network, eqx.is_inexact_array) for model in built]
        networks = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
    return template, jax.vmap(lambda network: ravel_pytree(network)[0])(networks)


def _trained(model: AbstractModel, weights: Array) -> AbstractModel:
    """The template with the members' weights stacked."""
    arrays, static = eqx.partition(model.network, eqx.is_inexact_array)
    # Arrays that are not trained, such as integer buffers, are repeated for every member.
    static = jax.tree.map(
        lambda leaf: jnp.stack([leaf] * len(weights)) if eqx.is_array(leaf) else leaf, static
    )
    stacked = jax.vmap(ravel_pytree(arrays)[1])(weights)
    return with_network(model, eqx.combine(stacked, static))


def _transform(features: AbstractFeatureMap, x: np.ndarray) -> Array:
    """Features of all events, computed once: they do not change during training."""
    if isinstance(features, Identity):
        return jnp.asarray(x, jnp.float32)
    apply = jax.jit(jax.vmap(features))
    parts = [
        np.asarray(apply(jnp.asarray(x[start : start + FEATURE_CHUNK], jnp.float32)))
        for start in range(0, len(x), FEATURE_CHUNK)
    ]
    return jnp.asarray(np.concatenate(parts))


def _check_targets(job: Job, examples: Examples, seed: int) -> None:
    """Draw targets once before training, and name the rows where they are not finite."""
    if examples.rows is None:
        return
    some = examples.take(jnp.arange(min(len(examples), CHECKED_TARGETS)))
    drawn = fixed_records(job, some, jax.random.fold_in(jax.random.key(seed), 3))
    good = np.ones(len(some), bool)
    for leaf in jax.tree.leaves(drawn.records):
        good &= finite_rows(np.asarray(leaf))
    if not good.all():
        raise TrainingError(
            f"the targets of {job.method} are NaN or infinite in {bad_rows(good)}; check the "
            "prior's density and the kernel's width function at these events."
        )


@dataclasses.dataclass(frozen=True)
class _Result:
    weights: Array
    history: History


def _train(job: Job, weights: Array, examples: Examples, split: _Split, seed: int) -> _Result:
    training = job.training
    held = None
    if len(split.validation):
        key = jax.random.fold_in(jax.random.key(seed), 2)
        held = fixed_records(job, examples.take(jnp.asarray(split.validation)), key)
    state = initial_state(job, weights)
    numbers = _example_size(job, examples)
    members = len(weights)
    best, best_loss = weights, np.full(members, np.inf)
    best_epoch = np.zeros(members, int)
    train_losses, held_losses, seconds = [], [], []
    stopped = f"all {training.epochs} epochs were run"
    with progress(f"training {job.method}", training.epochs, show=training.progress_bar) as advance:
        for epoch in range(training.epochs):
            began = time.perf_counter()
            before = state.weights
            stream = _Stream(seed, epoch)
            state, train_loss = _epoch(job, state, examples, split.train, numbers, stream)
            held_loss = np.full(members, np.nan)
            if held is not None:
                held_loss = np.asarray(mean_losses(job, state.weights, held), np.float64)
            seconds.append(time.perf_counter() - began)
            train_losses.append(train_loss)
            held_losses.append(held_loss)
            _check_loss(job, before, examples, split, train_loss, held_loss, epoch, seed)
            better = held_loss < best_loss
            if held is None or not training.keep_best:
                better = np.ones(members, bool)
            best = jnp.where(better[:, None], state.weights, best)
            best_epoch = np.where(better, epoch + 1, best_epoch)
            best_loss = np.fmin(best_loss, held_loss)
            advance(1, _note(train_loss, held_loss))
            since = epoch + 1 - _last_improvement(np.array(held_losses))
            if training.patience is not None and (since >= training.patience).all():
                stopped = (
                    f"no better validation loss in {training.patience} epochs, at epoch "
                    f"{epoch + 1} of {training.epochs}"
                )
                break
    remarks = _remarks(job, best, held, examples, split.train, seed)
    history = History(
        train_loss=np.array(train_losses),
        validation_loss=np.array(held_losses),
        seconds=np.array(seconds),
        best_epoch=best_epoch,
        stopped=stopped,
        warnings=remarks,
    )
    return _Result(best, history)


def _last_improvement(losses: np.ndarray) -> np.ndarray:
    """The epoch, counted from 1, with the lowest loss so far, for each member."""
    return np.argmin(np.where(np.isfinite(losses), losses, np.inf), axis=0) + 1


@dataclasses.dataclass(frozen=True)
class _Stream:
    """Where an epoch's randomness comes from."""

    seed: int
    epoch: int


def _epoch(
    job: Job, state: State, examples: Examples, train: np.ndarray, numbers: int, stream: _Stream
) -> tuple[State, np.ndarray]:
    """One pass over the training events in a fresh order; `numbers` is the size of an example."""
    training = job.training
    batch = min(training.batch_size, len(train))
    steps = -(-len(train) // batch)
    rng = np.random.default_rng(np.random.SeedSequence([stream.seed, 11, stream.epoch]))
    copies = 1 if training.shared_batches else len(state.weights)
    order = np.full((copies, steps * batch), -1, np.int32)
    for copy in range(copies):
        order[copy, : len(train)] = train[rng.permutation(len(train))]
    order = order.reshape(copies, steps, batch)
    order = order[0] if training.shared_batches else order
    real = np.full(steps, batch, np.float32)
    real[-1] = len(train) - (steps - 1) * batch
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(stream.seed), 4), stream.epoch)
    # As many steps as fit the bound on memory: usually a whole epoch in one call.
    block = max(1, BLOCK_NUMBERS // (numbers * batch * copies))
    steps_of = compiled_steps(job)
    losses = []
    for number, first in enumerate(range(0, steps, block)):
        part = np.ascontiguousarray(order[..., first : first + block, :])
        counts = real[first : first + block]
        state, loss = steps_of(
            job,
            state,
            examples,
            jnp.asarray(part),
            jnp.asarray(counts),
            jax.random.fold_in(key, number),
        )
        losses.append(np.asarray(loss, np.float64) * counts[:, None])
    return state, np.concatenate(losses).sum(axis=0) / len(train)


def _example_size(job: Job, examples: Examples) -> int:
    """Numbers that one supervised example holds."""
    one = examples.take(jnp.zeros(1, jnp.int32))
    shapes = eqx.filter_eval_shape(fixed_records, job, one, jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves((one, shapes)))


def _check_loss(
    job: Job,
    before: Array,
    examples: Examples,
    split: _Split,
    train_loss: np.ndarray,
    held_loss: np.ndarray,
    epoch: int,
    seed: int,
) -> None:
    good = np.isfinite(train_loss) & (np.isfinite(held_loss) | (len(split.validation) == 0))
    if good.all():
        return
    member = int(np.flatnonzero(~good)[0])
    subset = split.train[:CHECKED_TARGETS]
    some = fixed_records(
        job, examples.take(jnp.asarray(subset)), jax.random.fold_in(jax.random.key(seed), 5)
    )
    finite = np.isfinite(np.asarray(each_loss(job, before[member], some)))
    where = (
        "every event's loss was still finite when the epoch began, so the weights ran away"
        if finite.all()
        else f"the first bad events are {sorted(subset[~finite].tolist())[:5]}"
    )
    raise TrainingError(
        f"the loss of {job.method} became NaN or infinite in epoch {epoch + 1} (member {member}): "
        f"{where}. Lower Training(learning_rate=…), set clip=1.0, or look for extreme values of x "
        "at these rows."
    )


def _remarks(
    job: Job,
    weights: Array,
    held: Examples | None,
    examples: Examples,
    train: np.ndarray,
    seed: int,
) -> tuple[str, ...]:
    """Warn where a loss was continued linearly, because that changes its minimiser there."""
    if held is None:
        some = examples.take(jnp.asarray(train[:CHECKED_TARGETS]))
        held = fixed_records(job, some, jax.random.fold_in(jax.random.key(seed), 2))
    fraction = max(float(beyond_limit(job, member, held)) for member in weights)
    if fraction == 0:
        return ()
    remark = (
        f"for {fraction:.2%} of the events |ln r| lies beyond the range of the loss, which is "
        "continued linearly there: the ratios of these events are not trustworthy. Use the "
        "logistic loss."
    )
    warn_user(remark)
    return (remark,)


def _note(train_loss: np.ndarray, held_loss: np.ndarray) -> str:
    held = "" if np.isnan(held_loss).all() else f", held out {np.mean(held_loss):.4f}"
    return f"loss {np.mean(train_loss):.4f}{held}"


_KINDS: dict[type[AbstractModel], type[AbstractEstimator]] = {
    PotentialModel: Estimator,
    ScoreModel: ScoreEstimator,
    RatioModel: RatioEstimator,
}
