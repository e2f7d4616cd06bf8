"""The loop over epochs: train, validate, remember the best, and stop when it is time."""

import contextlib
import dataclasses
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...estimator.history import History
from ...progress import progress
from ...streams import Purpose, Stream
from ..dataset.dataset import AbstractExampleSource, Split
from ..dataset.epoch import Epoch
from ..dataset.examples import Examples
from .best_epoch import BestEpoch, KeptEpoch, choose_epoch
from .checks import raise_bad_loss, warn_beyond_limit
from .steps import Job, State, compile_steps, fix_records, initial_state, mean_losses
from .stopping import StoppingRule
from .validation import draw_validation, find_event_losses


@dataclasses.dataclass(frozen=True)
class Run:
    """All that the epochs so far have left: whoever has it can go on from here.

    Attributes:
        state: weights of all members and the optimiser's memory.
        best: the best epoch of every member.
        train_loss, validation_loss: of every epoch, shape (epochs, members).
        seconds: wall time of every epoch, shape (epochs,).
    """

    state: State
    best: BestEpoch
    train_loss: np.ndarray
    validation_loss: np.ndarray
    seconds: np.ndarray

    @property
    def epochs(self) -> int:
        """Epochs done."""
        return len(self.seconds)


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What came of a training.

    Attributes:
        weights: of every member, shape (members, parameters).
        history: losses by epoch.
        event_losses: loss of every validation event for every member, shape (members, events).
    """

    weights: Array
    history: History
    event_losses: np.ndarray


def train_members(
    job: Job,
    weights: Array,
    examples: AbstractExampleSource,
    split: Split,
    seed: int,
    *,
    title: str | None = None,
) -> TrainingResult:
    """Train all members, each from its row of `weights`."""
    training = job.training
    assert training.epochs is not None
    validation = draw_validation(job, examples, split, seed)
    epoch = _plan_epochs(job, examples, split, seed, members=len(weights))
    rule = StoppingRule(training.epochs, training.patience)
    run = _begin(job, weights)
    title = f"training {job.method}" if title is None else title
    with progress(title, training.epochs, show=training.progress_bar) as advance:
        while (stop := rule.decide(run.validation_loss)) is None:
            this = dataclasses.replace(epoch, number=run.epochs)
            run = _add_epoch(job, run, examples, split, validation, this)
            advance(1, _note(run))
    kept = _keep(job, run, examples, split, seed, stopped_early=stop.early)
    history = History(
        train_loss=run.train_loss,
        validation_loss=run.validation_loss,
        seconds=run.seconds,
        best_epoch=kept.epoch,
        stopped=stop.reason,
        warnings=warn_beyond_limit(job, kept.weights, validation, examples, split, seed),
    )
    return TrainingResult(kept.weights, history, kept.event_losses)


def _begin(job: Job, weights: Array) -> Run:
    nothing = np.zeros((0, len(weights)))
    best = BestEpoch.before_training(weights)
    return Run(initial_state(job, weights), best, nothing, nothing, np.zeros(0))


def _plan_epochs(
    job: Job, examples: AbstractExampleSource, split: Split, seed: int, *, members: int
) -> Epoch:
    training = job.training
    assert training.batch_size is not None
    return Epoch(
        seed=seed,
        number=0,
        batch=min(training.batch_size, len(split.train)),
        orders=None if training.shared_batches else members,
        numbers=_measure_example(job, examples),
    )


def _add_epoch(
    job: Job,
    run: Run,
    examples: AbstractExampleSource,
    split: Split,
    validation: Examples | None,
    epoch: Epoch,
) -> Run:
    """The run with one more epoch."""
    began = time.perf_counter()
    state, train_loss = _train_epoch(job, run.state, examples, split, epoch)
    loss = np.full(len(train_loss), np.nan)
    if validation is not None:
        loss = np.asarray(mean_losses(job, state.weights, validation), np.float64)
    seconds = time.perf_counter() - began
    number = epoch.number + 1
    good = np.isfinite(train_loss) & (np.isfinite(loss) | (validation is None))
    if not good.all():
        member = int(np.flatnonzero(~good)[0])
        before = run.state.weights
        raise_bad_loss(job, before, examples, split, epoch.seed, epoch=number, member=member)
    keep_best = validation is not None and job.training.keep_best
    return Run(
        state=state,
        best=run.best.update(state.weights, loss, number, keep_best=keep_best),
        train_loss=np.concatenate([run.train_loss, train_loss[None]]),
        validation_loss=np.concatenate([run.validation_loss, loss[None]]),
        seconds=np.append(run.seconds, seconds),
    )


def _train_epoch(
    job: Job, state: State, examples: AbstractExampleSource, split: Split, epoch: Epoch
) -> tuple[State, np.ndarray]:
    """One pass over the training events in a fresh order; the mean loss of each member."""
    key = Stream(epoch.seed, Purpose.EPOCH_RECORDS).key(epoch.number)
    run_steps = compile_steps(job)
    losses = []
    with contextlib.closing(examples.pieces(split.train, epoch)) as pieces:
        for number, piece in enumerate(pieces):
            state, loss = run_steps(
                job,
                state,
                piece.examples,
                jnp.asarray(piece.order),
                jnp.asarray(piece.real),
                jax.random.fold_in(key, number),
            )
            losses.append(np.asarray(loss, np.float64) * piece.real[:, None])
    return state, np.concatenate(losses).sum(axis=0) / len(split.train)


def _keep(
    job: Job,
    run: Run,
    examples: AbstractExampleSource,
    split: Split,
    seed: int,
    *,
    stopped_early: bool,
) -> KeptEpoch:
    """The best or the last epoch of every member."""
    best, last = run.best, run.state.weights
    if len(split.validation) == 0:
        return KeptEpoch(best.weights, best.epoch, np.zeros((len(last), 0)))
    of_last, of_best = find_event_losses(job, [last, best.weights], examples, split, seed)
    final = KeptEpoch(last, np.full(len(last), run.epochs), of_last)
    return choose_epoch(best, final, of_best, stopped_early=stopped_early)


def _measure_example(job: Job, examples: AbstractExampleSource) -> int:
    """Numbers that one supervised example holds."""
    one = examples.take(np.zeros(1, np.int32))
    shapes = eqx.filter_eval_shape(fix_records, job, one, Stream(0, Purpose.TRY_MODEL).key())
    return sum(leaf.size for leaf in jax.tree.leaves((one, shapes)))


def _note(run: Run) -> str:
    loss = run.validation_loss[-1]
    validation = "" if np.isnan(loss).all() else f", validation {np.mean(loss):.4f}"
    return f"loss {np.mean(run.train_loss[-1]):.4f}{validation}"
