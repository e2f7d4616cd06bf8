"""The loop over epochs: train, validate, remember the best, and stop when it is time."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator, Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from ...estimator.history import History
from ...inputs import warn_user
from ...progress import Advance, progress
from ...streams import Purpose, Stream
from ...threefry import fold_in, stack_keys
from ..dataset.examples import Epoch, Examples
from .best_epoch import BestEpoch, KeptEpoch, choose_epoch
from .checks import raise_bad_loss, warn_beyond_limit
from .devices import Placement, choose_placement
from .options import count_epochs_together, count_steps
from .run import Run, TrainingResult
from .saved_training import identify_training
from .steps import (
    Job,
    State,
    compile_steps,
    epoch_losses,
    initial_state,
    member_losses,
    supervise_examples,
)
from .stopping import Stop, StoppingRule
from .validation import Task, draw_validation, find_event_losses

#: Weights that a call of several epochs may keep, those after each of them: 40 MB.
MOST_KEPT = 10_000_000


def train_members(task: Task, weights: np.ndarray, *, title: str | None = None) -> TrainingResult:
    """Train all members, each from its row of `weights`, or from where its checkpoint stands."""
    training = task.training
    assert training.epochs is not None
    counts = len(task.split.train), len(task.split.validation)
    saved = task.place.begin(
        identify_training(training, weights, task.job.decay, task.seed, counts)
    )
    title = f"training {task.job.method}" if title is None else title
    steps = count_steps(training, len(task.split.train)) // training.epochs
    with _show(task, title, training.epochs * steps, len(weights)) as advance:
        if saved.result is not None:
            advance(steps * len(saved.result.history.seconds))
            for remark in saved.result.history.warnings:
                warn_user(remark)
            return saved.result
        epoch = _plan_epochs(task, members=len(weights))
        placement = choose_placement(len(weights), epoch.batch)
        task = dataclasses.replace(task, examples=placement.repeat(task.examples))
        validation = draw_validation(task)
        rule = StoppingRule(training.epochs, training.patience)
        run = saved.continue_run(_begin(task.job, jax.device_put(weights)))
        run = dataclasses.replace(run, state=placement.place_members(run.state))
        if run.epochs:
            advance(steps * run.epochs, _note(run))
        # Whatever number of epochs was kept, the rest comes out even.
        together = math.gcd(_count_together(task, weights, epoch, placement), run.epochs)
        while (stop := rule.decide(run.validation_loss)) is None:
            numbers = range(run.epochs, run.epochs + together)
            epochs = [dataclasses.replace(epoch, number=number) for number in numbers]
            run = _add_epochs(task, run, validation, epochs, placement)
            saved.keep_run(run, added=together)
            advance(together * steps, _note(run))
        result = _finish(task, run, validation, stop, together)
        saved.keep_result(result)
    return result


def _finish(
    task: Task, run: Run, validation: Examples | None, stop: Stop, together: int
) -> TrainingResult:
    kept = _keep(task, run, together, stopped_early=stop.early)
    history = History(
        train_loss=run.train_loss,
        validation_loss=run.validation_loss,
        seconds=run.seconds,
        best_epoch=kept.epoch,
        stopped=stop.reason,
        warnings=warn_beyond_limit(task, kept.weights, validation),
    )
    return TrainingResult(kept.weights, history, kept.event_losses)


@contextlib.contextmanager
def _show(task: Task, title: str, steps: int, members: int) -> Iterator[Advance]:
    """A display of this training, or its part in that of the whole fit: steps of every member."""
    whole = task.advance
    if whole is None:
        with progress(title, steps, show=task.training.progress_bar) as advance:
            yield advance
    else:
        yield lambda steps, note="": whole(members * steps, f"{title}: {note}")


def _begin(job: Job, weights: Array) -> Run:
    nothing = np.zeros((0, len(weights)))
    best = BestEpoch.before_training(weights)
    return Run(initial_state(job, weights), best, nothing, nothing, np.zeros(0))


def _plan_epochs(task: Task, *, members: int) -> Epoch:
    training = task.training
    assert training.batch_size is not None
    batch = min(training.batch_size, len(task.split.train))
    orders = None if training.shared_batches else members
    return Epoch(task.seed, 0, batch, orders, numbers=_measure_example(task))


def _count_together(task: Task, weights: np.ndarray, epoch: Epoch, placement: Placement) -> int:
    """Epochs that one compiled call makes: several where they are short."""
    train, training = task.split.train, task.training
    alone = training.patience is not None or placement.mesh is not None
    if alone or not task.examples.has_one_piece(train, epoch):
        return 1
    together = count_epochs_together(training, len(train))
    # The weights after each of them are kept until the end of the call.
    return together if together * weights.size <= MOST_KEPT else 1


def _add_epochs(
    task: Task,
    run: Run,
    validation: Examples | None,
    epochs: Sequence[Epoch],
    placement: Placement,
) -> Run:
    """The run with more epochs."""
    began = time.perf_counter()
    if len(epochs) > 1:
        state, weights, train_loss = _train_short_epochs(task, run.state, epochs)
    else:
        state, train_loss = _train_epoch(task, run.state, epochs[0], placement)
        weights = state.weights
    # Shaped on the host: on the device that would compile a program.
    each = np.asarray(weights).reshape(len(epochs), *run.state.weights.shape)
    loss = np.full(train_loss.shape, np.nan)
    if validation is not None:
        find = epoch_losses if len(epochs) > 1 else member_losses
        of_events = np.asarray(find(task.job, weights, validation), np.float64)
        loss = of_events.reshape(*loss.shape, -1).mean(axis=2)
    seconds = np.full(len(epochs), (time.perf_counter() - began) / len(epochs))
    good = np.isfinite(train_loss) & (np.isfinite(loss) | (validation is None))
    if not good.all():
        first, member = (int(index[0]) for index in np.nonzero(~good))
        before = [run.state.weights, *each][first]
        raise_bad_loss(task, before, epoch=epochs[first].number + 1, member=member)
    keep_best = validation is not None and task.training.keep_best
    best = run.best
    for epoch, own, of_epoch in zip(epochs, each, loss, strict=True):
        best = best.update(own, of_epoch, epoch.number + 1, keep_best=keep_best)
    return Run(
        state=state,
        best=best,
        train_loss=np.concatenate([run.train_loss, train_loss]),
        validation_loss=np.concatenate([run.validation_loss, loss]),
        seconds=np.concatenate([run.seconds, seconds]),
    )


def _train_epoch(
    task: Task, state: State, epoch: Epoch, placement: Placement
) -> tuple[State, np.ndarray]:
    """One pass over the training events in a fresh order; the mean loss, shape (1, members)."""
    key = Stream(epoch.seed, Purpose.EPOCH_RECORDS).key(epoch.number)
    run_steps = compile_steps(task.job, count_steps(task.training, len(task.split.train)))
    losses = []
    with contextlib.closing(task.examples.pieces(task.split.train, epoch)) as pieces:
        for number, piece in enumerate(pieces):
            order = placement.place_order(piece.order, own=epoch.orders is not None)
            real, own = jax.device_put(piece.real), fold_in(key, number)
            examples = placement.repeat(piece.examples)
            state, loss = run_steps(task.job, state, examples, jax.device_put(order), real, own)
            losses.append(np.asarray(loss, np.float64) * piece.real[:, None])
    return state, np.concatenate(losses).sum(axis=0)[None] / len(task.split.train)


def _train_short_epochs(
    task: Task, state: State, epochs: Sequence[Epoch]
) -> tuple[State, Array, np.ndarray]:
    """The same for several epochs of one piece each, in one call; and the weights after each."""
    train = task.split.train
    steps = count_steps(task.training, len(train))
    run_epochs = compile_steps(task.job, steps, epochs=len(epochs))
    pieces = [piece for epoch in epochs for piece in task.examples.pieces(train, epoch)]
    order, real = np.stack([p.order for p in pieces]), np.stack([p.real for p in pieces])
    # The number of the piece is folded in, as for an epoch alone.
    keys = [Stream(one.seed, Purpose.EPOCH_RECORDS).key(one.number) for one in epochs]
    given = jax.device_put(order), jax.device_put(real), stack_keys([fold_in(k, 0) for k in keys])
    state, (loss, weights) = run_epochs(task.job, state, pieces[0].examples, *given)
    losses = np.asarray(loss, np.float64) * real[..., None]
    return state, weights, losses.sum(axis=1) / len(train)


def _keep(task: Task, run: Run, together: int, *, stopped_early: bool) -> KeptEpoch:
    """The best or the last epoch of every member."""
    best, last = run.best, np.asarray(run.state.weights)
    if len(task.split.validation) == 0:
        return KeptEpoch(best.weights, best.epoch, np.zeros((len(last), 0)))
    of_last, of_best = find_event_losses(task, np.stack([last, best.weights]), together)
    final = KeptEpoch(last, np.full(len(last), run.epochs), of_last)
    return choose_epoch(best, final, of_best, stopped_early=stopped_early)


def _measure_example(task: Task) -> int:
    """Numbers that one supervised example holds."""
    index, key = np.zeros(1, np.int32), Stream(0, Purpose.TRY_MODEL).key()
    one = task.examples.take(index)
    shapes = eqx.filter_eval_shape(supervise_examples, task.job, one, jax.device_put(index), key)
    return sum(leaf.size for leaf in jax.tree.leaves((one, shapes)))


def _note(run: Run) -> str:
    loss = run.validation_loss[-1]
    validation = "" if np.isnan(loss).all() else f", validation {np.mean(loss):.4f}"
    return f"loss {np.mean(run.train_loss[-1]):.4f}{validation}"
