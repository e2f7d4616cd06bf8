"""Validation: the same events with the same records throughout a training."""

import dataclasses

import numpy as np
from jaxtyping import Array

from ...streams import Purpose, Stream
from ..dataset.dataset import AbstractExampleSource, Split
from ..dataset.examples import Examples
from .steps import Job, fix_records, member_losses

#: Records (candidate sets, pairs, …) over all validation events by which finished members are
#: compared: more than during training, since it is done once.
FINAL_RECORDS = 30_000
#: Records of one event in that comparison, at most.
FINAL_RECORDS_EACH = 16


@dataclasses.dataclass(frozen=True)
class Task:
    """What is trained on what: a job, its examples, their split, and the seed of all randomness."""

    job: Job
    examples: AbstractExampleSource
    split: Split
    seed: int


def draw_validation(task: Task, times: int = 1) -> Examples | None:
    """The validation events, each `times` with records of its own that never change."""
    index = task.split.validation
    if len(index) == 0:
        return None
    return draw_records(task, index if task.examples.has_fixed_records else np.tile(index, times))


def draw_records(
    task: Task, index: np.ndarray, purpose: Purpose = Purpose.VALIDATION_RECORDS
) -> Examples:
    """The examples at `index` with records from a random stream of their own."""
    return fix_records(task.job, task.examples.take(index), Stream(task.seed, purpose).key())


def find_event_losses(task: Task, weights: list[Array]) -> list[np.ndarray]:
    """For each set of weights, the loss of every validation event, shape (members, events).

    Each is a mean over several records, where these are drawn, which are the same for all.
    """
    # Fixed records are what they are; stored events can be asked more than once.
    times = 1
    if not task.examples.has_fixed_records:
        times = max(1, min(FINAL_RECORDS // len(task.split.validation), FINAL_RECORDS_EACH))
    validation = draw_validation(task, times)
    assert validation is not None
    losses = [np.asarray(member_losses(task.job, w, validation), np.float64) for w in weights]
    return [loss.reshape(len(loss), times, -1).mean(axis=1) for loss in losses]
