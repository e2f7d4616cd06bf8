"""What a description may use beside the result itself."""

from dataclasses import dataclass

import numpy as np

from ...events.events import Events
from ..section import Level, Table, Verdict


@dataclass(frozen=True)
class Context:
    """What is known beside a result.

    Attributes:
        title: heading in place of the default one.
        truth: the true θ by parameter, where it is known.
        events: simulated events for pictures of an estimator.
    """

    title: str | None = None
    truth: dict[str, float] | None = None
    events: Events | None = None

    def heading(self, default: str) -> str:
        """The heading of a section."""
        return default if self.title is None else self.title

    def true_values(self, names: tuple[str, ...]) -> np.ndarray | None:
        """The true values of these parameters; None where one of them is not known."""
        if self.truth is None or not set(names) <= set(self.truth):
            return None
        return np.array([self.truth[name] for name in names])


def matrix_table(matrix: np.ndarray, names: tuple[str, ...], caption: str, form: str) -> Table:
    """A table of a matrix with parameters along both sides."""
    rows = [[name, *map(float, row)] for name, row in zip(names, matrix, strict=True)]
    return Table(("parameter", *names), rows, caption, form)


def join_verdicts(*found: Verdict | None) -> Verdict | None:
    """The worst level, with the texts of all that are not good, or else of all."""
    some = [one for one in found if one is not None]
    if not some:
        return None
    order = list(Level)
    worst = max(some, key=lambda one: order.index(one.level)).level
    kept = [one for one in some if one.level is not Level.GOOD] or some
    return Verdict(worst, " ".join(one.text for one in kept))


def sentence(text: str) -> str:
    """A remark as a sentence of its own: with a capital and a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
