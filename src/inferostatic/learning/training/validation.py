"""Validation: the same events with the same records throughout a training."""

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


def draw_validation(
    job: Job, examples: AbstractExampleSource, split: Split, seed: int, times: int = 1
) -> Examples | None:
    """The validation events, each `times` with records of its own that never change."""
    if len(split.validation) == 0:
        return None
    index = split.validation
    if not examples.has_fixed_records:
        index = np.tile(index, times)
    return draw_records(job, examples, index, seed)


def draw_records(
    job: Job,
    examples: AbstractExampleSource,
    index: np.ndarray,
    seed: int,
    purpose: Purpose = Purpose.VALIDATION_RECORDS,
) -> Examples:
    """The examples at `index` with records from a random stream of their own."""
    return fix_records(job, examples.take(index), Stream(seed, purpose).key())


def find_event_losses(
    job: Job, weights: list[Array], examples: AbstractExampleSource, split: Split, seed: int
) -> list[np.ndarray]:
    """For each set of weights, the loss of every validation event, shape (members, events).

    Each is a mean over several records, where these are drawn, which are the same for all.
    """
    # Fixed records are what they are; stored events can be asked more than once.
    times = 1
    if not examples.has_fixed_records:
        times = max(1, min(FINAL_RECORDS // len(split.validation), FINAL_RECORDS_EACH))
    validation = draw_validation(job, examples, split, seed, times)
    assert validation is not None
    losses = [np.asarray(member_losses(job, w, validation), np.float64) for w in weights]
    return [loss.reshape(len(loss), times, -1).mean(axis=1) for loss in losses]
