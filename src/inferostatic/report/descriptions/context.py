"""What a description may use beside the result itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...events.events import Events
from ...inference.arguments import ONE_SIGMA
from ..section import Level, Table, Verdict

#: How a remark begins on the bias of a result, which the verdict repeats.
JUDGED = "learned bias:"
#: How it begins where nothing is known of the bias.
NOT_MEASURED = "learned bias: not measured"


@dataclass(frozen=True)
class Context:
    """What is known beside a result.

    Attributes:
        title: heading in place of the default one.
        truth: the true θ by parameter, where it is known.
        events: simulated events for pictures of an estimator.
        level: confidence level of intervals in tables, where one was asked for.
    """

    title: str | None = None
    truth: dict[str, float] | None = None
    events: Events | None = None
    level: float | None = None

    @property
    def interval_level(self) -> float:
        """The level of intervals, one standard deviation by default."""
        return ONE_SIGMA if self.level is None else self.level

    @property
    def interval_columns(self) -> tuple[str, str]:
        """Headings of both ends of an interval."""
        return f"{100 * self.interval_level:.4g}% from".replace("68.27", "68"), "to"

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


def join_notes(notes: Sequence[str]) -> str:
    """Remarks as sentences, without those that the verdict repeats."""
    return " ".join(sentence(note) for note in notes if not note.startswith(JUDGED))


def sentence(text: str) -> str:
    """A remark as a sentence of its own: with a capital and a full stop."""
    text = text.strip()
    first = text[:1] if text.startswith("ln ") else text[:1].upper()
    return first + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
