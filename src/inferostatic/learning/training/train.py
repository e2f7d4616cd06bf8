"""Training: epochs of the compiled loop, validation, the choice of epoch, and what went wrong."""

import contextlib
import dataclasses
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...estimator.history import History
from ...inputs import bad_rows, finite_rows, warn_user
from ...progress import progress
from ..dataset.dataset import Split
from ..dataset.mapped import MappedExamples, some_rows
from .epochs import Epoch, pieces_of
from .steps import (
    Examples,
    Job,
    State,
    beyond_limit,
    compiled_steps,
    fixed_records,
    initial_state,
    mean_losses,
    member_losses,
)

#: Stored events whose freshly drawn targets are checked before training.
CHECKED_TARGETS = 20_000
#: Candidate sets, pairs, … with which finished members are judged, over all held-out events, and
#: for one event at most.
JUDGED, JUDGED_EACH = 30_000, 16
#: Standard errors by which an earlier epoch must be better than the last to be preferred.
CLEARLY_BETTER = 2.0


class TrainingError(RuntimeError):
    """Training could not go on; the message says where and what to change."""


def check_targets(job: Job, examples: Examples | MappedExamples, seed: int) -> None:
    """Draw targets once before training, and name the rows where they are not finite."""
    if examples.rows is None:
        return
    some = _taken(job, examples, np.arange(min(len(examples), CHECKED_TARGETS)))
    drawn = fixed_records(job, some, jax.random.fold_in(jax.random.key(seed), 3))
    good = np.ones(len(some), bool)
    for leaf in jax.tree.leaves(drawn.records):
        good &= finite_rows(np.asarray(leaf))
    if not good.all():
        raise TrainingError(
            f"the targets of {job.method} are NaN or infinite in {bad_rows(good)}; check the "
            "prior's density and the kernel's width function at these events."
        )


def _taken(job: Job, examples: Examples | MappedExamples, index: np.ndarray) -> Examples:
    """The examples at `index`, in memory."""
    if isinstance(examples, MappedExamples):
        return examples.take(index)
    return examples.take(jnp.asarray(index), own_features=job.own_features)


@dataclasses.dataclass(frozen=True)
class Result:
    """What came of a training.

    Attributes:
        weights: of every member, shape (members, parameters).
        history: losses by epoch.
        judged: loss of every held-out event for every member, shape (members, held out), each
            over several candidate sets, pairs, … that are the same for all members.
    """

    weights: Array
    history: History
    judged: np.ndarray


def train(
    job: Job,
    weights: Array,
    examples: Examples | MappedExamples,
    split: Split,
    seed: int,
    *,
    title: str | None = None,
) -> Result:
    """Train all members, each from its row of `weights`."""
    training = job.training
    epochs = training.epochs
    assert epochs is not None
    assert training.batch_size is not None
    held = _held_out(job, examples, split, seed, 1)
    state = initial_state(job, weights)
    members, count = len(weights), len(split.train)
    plan = Epoch(
        seed=seed,
        number=0,
        batch=min(training.batch_size, count),
        orders=None if training.shared_batches else members,
        numbers=_example_size(job, examples),
    )
    best, best_loss = weights, np.full(members, np.inf)
    best_epoch = np.zeros(members, int)
    train_losses, held_losses, seconds = [], [], []
    stopped, early = f"all {epochs} epochs were run", False
    title = f"training {job.method}" if title is None else title
    with progress(title, epochs, show=training.progress_bar) as advance:
        for epoch in range(epochs):
            began = time.perf_counter()
            before = state.weights
            this = dataclasses.replace(plan, number=epoch)
            state, train_loss = _epoch(job, state, examples, split, this)
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
                early = True
                stopped = (
                    f"no better validation loss in {training.patience} epochs, at epoch "
                    f"{epoch + 1} of {epochs}"
                )
                break
    judged = np.zeros((members, 0))
    if held is not None:
        # Fixed records are what they are; stored events can be asked more than once.
        times = 1 if examples.rows is None else max(1, min(JUDGED // len(held), JUDGED_EACH))
        jury = _held_out(job, examples, split, seed, times)
        assert jury is not None
        last = np.asarray(member_losses(job, state.weights, jury), np.float64)
        first = np.asarray(member_losses(job, best, jury), np.float64)
        last, first = (a.reshape(members, times, -1).mean(axis=1) for a in (last, first))
        take_best = np.full(members, early) | _clearly_better(first, last)
        best = jnp.where(take_best[:, None], best, state.weights)
        best_epoch = np.where(take_best, best_epoch, len(seconds))
        judged = np.where(take_best[:, None], first, last)
    remarks = _remarks(job, best, held, examples, split, seed)
    history = History(
        train_loss=np.array(train_losses),
        validation_loss=np.array(held_losses),
        seconds=np.array(seconds),
        best_epoch=best_epoch,
        stopped=stopped,
        warnings=remarks,
    )
    return Result(best, history, judged)


def _held_out(
    job: Job, examples: Examples | MappedExamples, split: Split, seed: int, times: int
) -> Examples | None:
    """The held-out events, each `times` with records of its own that never change."""
    if len(split.validation) == 0:
        return None
    index = split.validation
    if examples.rows is not None:
        index = np.tile(index, times)
    held = _taken(job, examples, index)
    return fixed_records(job, held, jax.random.fold_in(jax.random.key(seed), 2))


def _clearly_better(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """For each member, whether the first losses are lower by more than their noise."""
    if first.shape[1] < 2:
        return np.asarray(first.mean(axis=1) < second.mean(axis=1))
    gain = second - first
    error = gain.std(axis=1, ddof=1) / np.sqrt(gain.shape[1])
    return np.asarray(gain.mean(axis=1) > CLEARLY_BETTER * error)


def _last_improvement(losses: np.ndarray) -> np.ndarray:
    """The epoch, counted from 1, with the lowest loss so far, for each member."""
    return np.argmin(np.where(np.isfinite(losses), losses, np.inf), axis=0) + 1


def _epoch(
    job: Job, state: State, examples: Examples | MappedExamples, split: Split, epoch: Epoch
) -> tuple[State, np.ndarray]:
    """One pass over the training events in a fresh order."""
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(epoch.seed), 4), epoch.number)
    steps_of = compiled_steps(job)
    losses = []
    with contextlib.closing(pieces_of(examples, split.train, epoch)) as pieces:
        for number, piece in enumerate(pieces):
            state, loss = steps_of(
                job,
                state,
                piece.examples,
                jnp.asarray(piece.order),
                jnp.asarray(piece.real),
                jax.random.fold_in(key, number),
            )
            losses.append(np.asarray(loss, np.float64) * piece.real[:, None])
    return state, np.concatenate(losses).sum(axis=0) / len(split.train)


def _example_size(job: Job, examples: Examples | MappedExamples) -> int:
    """Numbers that one supervised example holds."""
    one = _taken(job, examples, np.zeros(1, np.int32))
    shapes = eqx.filter_eval_shape(fixed_records, job, one, jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves((one, shapes)))


def _check_loss(
    job: Job,
    before: Array,
    examples: Examples | MappedExamples,
    split: Split,
    train_loss: np.ndarray,
    held_loss: np.ndarray,
    epoch: int,
    seed: int,
) -> None:
    good = np.isfinite(train_loss) & (np.isfinite(held_loss) | (len(split.validation) == 0))
    if good.all():
        return
    member = int(np.flatnonzero(~good)[0])
    subset = some_rows(split.train, CHECKED_TARGETS)
    some = fixed_records(
        job, _taken(job, examples, subset), jax.random.fold_in(jax.random.key(seed), 5)
    )
    finite = np.isfinite(np.asarray(member_losses(job, before, some))[member])
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
    examples: Examples | MappedExamples,
    split: Split,
    seed: int,
) -> tuple[str, ...]:
    """Warn where a loss was continued linearly, because that changes its minimiser there."""
    if job.own_features:
        return ()
    if held is None:
        some = _taken(job, examples, some_rows(split.train, CHECKED_TARGETS))
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
