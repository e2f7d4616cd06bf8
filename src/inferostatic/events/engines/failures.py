"""What becomes of events that a simulator could not make: x that is NaN or infinite."""

import dataclasses

from ...inputs import kind_of


@dataclasses.dataclass(frozen=True)
class Drop:
    """Leave out events with NaN or infinite x, with a warning, in place of an error.

    The events that remain follow p(x; θ) given that the simulator succeeds. If it fails more often
    at some θ or x than at others, every ratio and score is biased there: mend it where you can.
    """


def require_failures(failures: object) -> None:
    """Refuse what is neither None nor a `Drop`."""
    if failures is not None and not isinstance(failures, Drop):
        raise TypeError(
            "failures must be ist.Drop(), which leaves out events with NaN or infinite x, or "
            f"None, which raises an error; got {kind_of(failures)}."
        )
