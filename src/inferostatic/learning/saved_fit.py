"""A fit in a checkpoint: all that it depends on, and the estimator it ended with."""

import dataclasses
from typing import Any

from ..checkpoint import AbstractSavedWork, Step
from ..estimator.estimator import AbstractEstimator
from ..estimator.loading import read_described
from ..estimator.matrix_element import MatrixElement
from ..events.events import Events
from ..fingerprint import Fingerprint, identify
from ..inputs import warn_user
from ..serial import UserObject
from .arguments import FitOptions
from .draw import Records
from .training.devices import count_devices

#: Step that holds the estimator.
ESTIMATOR = "estimator"


def identify_fit(
    events: Events | Records, method: object, options: FitOptions
) -> dict[str, Fingerprint]:
    """All that the weights depend on."""
    parts: dict[str, object] = {"records": events}
    if isinstance(events, Events):
        parts = {f"events.{name}": part for name, part in events.checkpoint_identity().items()}
    for field in dataclasses.fields(options.training):
        if field.name != "progress_bar":
            parts[f"training.{field.name}"] = getattr(options.training, field.name)
    parts |= {
        "method": method,
        "network": options.network,
        "members": options.members,
        "start": options.start,
        "seed": options.seed,
        "number of devices": count_devices(),
    }
    return identify(parts)


def keep_estimator(saved: AbstractSavedWork, estimator: AbstractEstimator | MatrixElement) -> None:
    """Keep the estimator, unless it holds functions of the user's, which files cannot."""
    users: dict[str, UserObject] = {}
    header, arrays = estimator.described(users)
    if not users:
        saved.keep(ESTIMATOR, lambda: Step(header, arrays), now=True)


def recall_estimator(saved: AbstractSavedWork) -> Any:  # noqa: ANN401
    """The estimator of a fit that ended, if it is kept."""
    found = saved.recall(ESTIMATOR)
    if found is None:
        return None
    try:
        estimator = read_described(found.values, found.arrays, "the checkpoint's estimator")
    except ValueError as error:
        warn_user(f"{error} It is put together again from its trainings.")
        return None
    for remark in found.values.get("warnings", ()):
        warn_user(remark)
    return estimator
