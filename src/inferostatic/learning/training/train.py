"""The loop over epochs: train, validate, remember the best, and stop when it is time."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from ...estimator.history import History
from ...inputs import warn_user
from ...progress import Advance, progress
from ...streams import Purpose, Stream
from ...threefry import fold_in
from ..dataset.examples import Epoch, Examples
from .best_epoch import BestEpoch, KeptEpoch, choose_epoch
from .checks import raise_bad_loss, warn_beyond_limit
from .devices import Placement, choose_placement
from .options import count_steps
from .run import Run, TrainingResult
from .saved_training import identify_training
from .steps import Job, State, compile_steps, initial_state, member_losses, supervise_examples
from .stopping import Stop, StoppingRule
from .validation import Task, draw_validation, find_event_losses


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
        while (stop := rule.decide(run.validation_loss)) is None:
            epoch = dataclasses.replace(epoch, number=run.epochs)
            run = _add_epoch(task, run, validation, epoch, placement)
            saved.keep_run(run)
            advance(steps, _note(run))
        result = _finish(task, run, validation, stop)
        saved.keep_result(result)
    return result


def _finish(task: Task, run: Run, validation: Examples | None, stop: Stop) -> TrainingResult:
    kept = _keep(task, run, stopped_early=stop.early)
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


def _add_epoch(
    task: Task, run: Run, validation: Examples | None, epoch: Epoch, placement: Placement
) -> Run:
    """The run with one more epoch."""
    began = time.perf_counter()
    state, train_loss = _train_epoch(task, run.state, epoch, placement)
    loss = np.full(len(train_loss), np.nan)
    if validation is not None:
        each = np.asarray(member_losses(task.job, state.weights, validation), np.float64)
        loss = each.mean(axis=1)
    seconds = time.perf_counter() - began
    number = epoch.number + 1
    good = np.isfinite(train_loss) & (np.isfinite(loss) | (validation is None))
    if not good.all():
        member = int(np.flatnonzero(~good)[0])
        raise_bad_loss(task, run.state.weights, epoch=number, member=member)
    keep_best = validation is not None and task.training.keep_best
    return Run(
        state=state,
        best=run.best.update(state.weights, loss, number, keep_best=keep_best),
        train_loss=np.concatenate([run.train_loss, train_loss[None]]),
        validation_loss=np.concatenate([run.validation_loss, loss[None]]),
        seconds=np.append(run.seconds, seconds),
    )


def _train_epoch(
    task: Task, state: State, epoch: Epoch, placement: Placement
) -> tuple[State, np.ndarray]:
    """One pass over the training events in a fresh order; the mean loss of each member."""
    key = Stream(epoch.seed, Purpose.EPOCH_RECORDS).key(epoch.number)
    steps = count_steps(task.training, len(task.split.train))
    run_steps = compile_steps(task.job, steps)
    losses = []
    with contextlib.closing(task.examples.pieces(task.split.train, epoch)) as pieces:
        for number, piece in enumerate(pieces):
            order = placement.place_order(piece.order, own=epoch.orders is not None)
            real, own = jax.device_put(piece.real), fold_in(key, number)
            examples = placement.repeat(piece.examples)
            state, loss = run_steps(task.job, state, examples, jax.device_put(order), real, own)
            losses.append(np.asarray(loss, np.float64) * piece.real[:, None])
    return state, np.concatenate(losses).sum(axis=0) / len(task.split.train)


def _keep(task: Task, run: Run, *, stopped_early: bool) -> KeptEpoch:
    """The best or the last epoch of every member."""
    best, last = run.best, run.state.weights
    if len(task.split.validation) == 0:
        return KeptEpoch(best.weights, best.epoch, np.zeros((len(last), 0)))
    of_last, of_best = find_event_losses(task, [last, best.weights])
    final = KeptEpoch(np.asarray(last), np.full(len(last), run.epochs), of_last)
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
