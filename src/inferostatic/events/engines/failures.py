"""What becomes of events that a simulator could not make: x that is NaN or infinite."""

import dataclasses

import numpy as np

from ...inputs import bad_rows, finite_rows, kind_of, rounded, warn_user


@dataclasses.dataclass(frozen=True)
class Drop:
    """Leave out events with NaN or infinite x, with a warning, in place of an error.

    The events that remain follow p(x; θ) given that the simulator succeeds. If it fails more often
    at some θ or x than at others, every ratio and score is biased there: mend it where you can.
    Events are left out by `ist.simulate`; whatever needs an event at every θ still raises.
    """


def require_failures(failures: object) -> None:
    """Refuse what is neither None nor a `Drop`."""
    if failures is not None and not isinstance(failures, Drop):
        raise TypeError(
            "failures must be ist.Drop(), which leaves out events with NaN or infinite x, or "
            f"None, which raises an error; got {kind_of(failures)}."
        )


def find_successes(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The rows whose x is finite; warns of the others, and raises if there are no others."""
    good = finite_rows(x)
    if good.all():
        return np.arange(len(x))
    lost, count = theta[: len(x)][~good], int((~good).sum())
    where = (
        f"{bad_rows(good)}, with θ between {rounded(lost.min(axis=0))} and "
        f"{rounded(lost.max(axis=0))}"
    )
    if not good.any():
        raise ValueError(f"the simulator returned NaN or infinite x for every event: {where}.")
    warn_dropped(count, len(x), where)
    return np.flatnonzero(good)


def warn_dropped(count: int, total: int, where: str) -> None:
    """Say how many events were dropped, where, and what that means."""
    warn_user(
        f"{count:,} of {total:,} events were dropped, because the simulator returned NaN or "
        f"infinite x in {where}. What is learned from the others describes events given that the "
        "simulator succeeds: ratios and scores are biased where its failures depend on θ."
    )
