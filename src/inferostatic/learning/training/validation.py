"""Validation: the same events with the same records throughout a training."""

import dataclasses

import jax
import numpy as np

from ...progress import Advance
from ...streams import Purpose, Stream
from ..dataset.dataset import AbstractExampleSource, Split
from ..dataset.examples import Examples
from .options import Training
from .saved_training import NOWHERE, Place
from .steps import Job, epoch_losses, fix_records, member_losses

#: Records (candidate sets, pairs, …) over all validation events by which finished members are
#: compared: more than during training, since it is done once.
FINAL_RECORDS = 30_000
#: Records of one event in that comparison, at most.
FINAL_RECORDS_EACH = 16


@dataclasses.dataclass(frozen=True)
class Task:
    """What is trained on what: a job, its examples, their split, and the seed of all randomness.

    `advance` reports steps to the display of a whole fit; without it a training shows its own.
    `place` is where it is kept.
    """

    job: Job
    training: Training
    examples: AbstractExampleSource
    split: Split
    seed: int
    advance: Advance | None = None
    place: Place = NOWHERE


def draw_validation(task: Task, number: int = 0) -> Examples | None:
    """The validation events, with records that never change; each number gives others."""
    index = task.split.validation
    return None if len(index) == 0 else draw_records(task, index, number=number)


def draw_records(
    task: Task,
    index: np.ndarray,
    purpose: Purpose = Purpose.VALIDATION_RECORDS,
    number: int = 0,
) -> Examples:
    """The examples at `index` with records from a random stream of their own."""
    key = Stream(task.seed, purpose).key(number)
    return fix_records(task.job, task.examples.take(index), key)


def find_event_losses(task: Task, weights: np.ndarray, together: int = 1) -> np.ndarray:
    """The loss of every validation event by several sets of weights, shape (sets, members, events).

    Each is a mean over several records, where these are drawn, which are the same for all.
    """
    # Fixed records are what they are; stored events can be asked more than once.
    times = 1
    if not task.examples.has_fixed_records:
        times = max(1, min(FINAL_RECORDS // len(task.split.validation), FINAL_RECORDS_EACH))
    losses = np.zeros((*weights.shape[:2], len(task.split.validation)))
    for number in range(times):
        validation = draw_validation(task, number)
        assert validation is not None
        losses += _find_losses(task.job, weights, validation, together) / times
    return losses


def _find_losses(job: Job, weights: np.ndarray, examples: Examples, together: int) -> np.ndarray:
    """By the program that was compiled for the validation of so many epochs."""
    if together == 1:
        each = [member_losses(job, jax.device_put(one), examples) for one in weights]
        return np.asarray(each, np.float64)
    # What the program takes for further epochs is not evaluated.
    filled = np.zeros((together, *weights.shape[1:]), weights.dtype)
    filled[: len(weights)] = weights
    losses = epoch_losses(job, jax.device_put(filled), examples, count=len(weights))
    return np.asarray(losses, np.float64)[: len(weights)]
