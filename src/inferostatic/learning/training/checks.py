"""What can go wrong in training: targets or losses that are not finite, losses out of range."""

import jax
import numpy as np
from jaxtyping import Array

from ...inputs import bad_rows, finite_rows, warn_user
from ...streams import Purpose
from ..dataset.examples import Examples
from .steps import beyond_limit, member_losses
from .validation import Task, draw_records

#: Stored events whose freshly drawn targets are checked.
CHECKED_TARGETS = 20_000


class TrainingError(RuntimeError):
    """Training could not go on; the message says where and what to change."""


def check_targets(task: Task) -> None:
    """Draw targets once before training, and name the rows where they are not finite."""
    if task.examples.has_fixed_records:
        return
    count = min(len(task.examples), CHECKED_TARGETS)
    # As many at a time as validate, whose program is then compiled already.
    size = len(task.split.validation) or count
    good = np.ones(-(-count // size) * size, bool)
    for start in range(0, count, size):
        rows = slice(start, start + size)
        index = np.minimum(np.arange(start, start + size), count - 1)
        drawn = draw_records(task, index, Purpose.TARGET_RECORDS, start // size)
        for leaf in jax.tree.leaves(drawn.records):
            good[rows] &= finite_rows(np.asarray(leaf))
    good = good[:count]
    if not good.all():
        raise TrainingError(
            f"the targets of {task.job.method} are NaN or infinite in {bad_rows(good)}; check the "
            "prior's density and the kernel's width function at these events."
        )


def raise_bad_loss(task: Task, weights: Array, *, epoch: int, member: int) -> None:
    """Report the events whose loss is not finite, with the weights before the epoch."""
    rows = task.split.train.some(CHECKED_TARGETS)
    some = draw_records(task, rows, Purpose.LOSS_RECORDS)
    finite = np.isfinite(np.asarray(member_losses(task.job, weights, some))[member])
    where = (
        "every event's loss was still finite when the epoch began, so the weights ran away"
        if finite.all()
        else f"the first bad events are {sorted(rows[~finite].tolist())[:5]}"
    )
    raise TrainingError(
        f"the loss of {task.job.method} became NaN or infinite in epoch {epoch} (member {member}): "
        f"{where}. Lower Training(learning_rate=…), set clip=1.0, or look for extreme values of x "
        "at these rows."
    )


def warn_beyond_limit(
    task: Task, weights: np.ndarray, validation: Examples | None
) -> tuple[str, ...]:
    """Warn where a loss was continued linearly, because that changes its minimiser there."""
    if task.job.own_features or not task.job.method.has_limit:
        return ()
    if validation is None:
        validation = draw_records(task, task.split.train.some(CHECKED_TARGETS))
    fraction = max(float(beyond_limit(task.job, one, validation)) for one in weights)
    if fraction == 0:
        return ()
    remark = (
        f"for {fraction:.2%} of the events |ln r| lies beyond the range of the loss, which is "
        "continued linearly there: the ratios of these events are not trustworthy. Use the "
        "logistic loss."
    )
    warn_user(remark)
    return (remark,)
