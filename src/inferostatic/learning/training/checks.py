"""What can go wrong in training: targets or losses that are not finite, losses out of range."""

import jax
import numpy as np
from jaxtyping import Array

from ...inputs import bad_rows, finite_rows, warn_user
from ...streams import Purpose
from ..dataset.dataset import AbstractExampleSource, Split
from ..dataset.examples import Examples
from .steps import Job, beyond_limit, member_losses
from .validation import draw_records

#: Stored events whose freshly drawn targets are checked.
CHECKED_TARGETS = 20_000


class TrainingError(RuntimeError):
    """Training could not go on; the message says where and what to change."""


def check_targets(job: Job, examples: AbstractExampleSource, seed: int) -> None:
    """Draw targets once before training, and name the rows where they are not finite."""
    if examples.has_fixed_records:
        return
    index = np.arange(min(len(examples), CHECKED_TARGETS))
    drawn = draw_records(job, examples, index, seed, Purpose.TARGET_RECORDS)
    good = np.ones(len(drawn), bool)
    for leaf in jax.tree.leaves(drawn.records):
        good &= finite_rows(np.asarray(leaf))
    if not good.all():
        raise TrainingError(
            f"the targets of {job.method} are NaN or infinite in {bad_rows(good)}; check the "
            "prior's density and the kernel's width function at these events."
        )


def raise_bad_loss(
    job: Job,
    weights: Array,
    examples: AbstractExampleSource,
    split: Split,
    seed: int,
    *,
    epoch: int,
    member: int,
) -> None:
    """Report the events whose loss is not finite, with the weights before the epoch."""
    rows = split.train.some(CHECKED_TARGETS)
    some = draw_records(job, examples, rows, seed, Purpose.LOSS_RECORDS)
    finite = np.isfinite(np.asarray(member_losses(job, weights, some))[member])
    where = (
        "every event's loss was still finite when the epoch began, so the weights ran away"
        if finite.all()
        else f"the first bad events are {sorted(rows[~finite].tolist())[:5]}"
    )
    raise TrainingError(
        f"the loss of {job.method} became NaN or infinite in epoch {epoch} (member {member}): "
        f"{where}. Lower Training(learning_rate=…), set clip=1.0, or look for extreme values of x "
        "at these rows."
    )


def warn_beyond_limit(
    job: Job,
    weights: Array,
    validation: Examples | None,
    examples: AbstractExampleSource,
    split: Split,
    seed: int,
) -> tuple[str, ...]:
    """Warn where a loss was continued linearly, because that changes its minimiser there."""
    if job.own_features:
        return ()
    if validation is None:
        validation = draw_records(job, examples, split.train.some(CHECKED_TARGETS), seed)
    fraction = max(float(beyond_limit(job, member, validation)) for member in weights)
    if fraction == 0:
        return ()
    remark = (
        f"for {fraction:.2%} of the events |ln r| lies beyond the range of the loss, which is "
        "continued linearly there: the ratios of these events are not trustworthy. Use the "
        "logistic loss."
    )
    warn_user(remark)
    return (remark,)
