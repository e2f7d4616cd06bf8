"""Centring: make the mean score at every θ vanish, and report how far it was from that."""

import dataclasses

import numpy as np

from ..estimator.estimator import Estimator
from ..events.events import Events
from ..inputs import as_seed, kind_of
from ..learning.centring import Centring, centre_score
from ..learning.measure_bias import choose_test_rows, measure_on_rows
from ..learning.training.options import Training
from ..streams import Purpose, Stream
from ..summary import AbstractSummarised, Summary, SummaryTable
from ..weights import warn_few_effective

#: Events in each half at least: with fewer, nothing can be seen.
FEWEST_EVENTS = 200
#: Size of the steps in θ for the mean ratio, as a part of the range of each parameter.
STEP = 0.05


@dataclasses.dataclass(frozen=True, repr=False)
class CentringReport(AbstractSummarised):
    """How far from centred an estimator was, and is, by events that had no part in it.

    Attributes:
        mean_score: root mean square over θ of E[ŝ | θ], in units of the score's spread, before
            and after, as far as a function of θ repairs it on events that it was not found with;
            0 where none does.
        mean_ratio: E[r(x; θ', θ)] of events at θ for a θ' nearby, which must be 1, before and
            after.
        mean_ratio_error: their standard errors.
        terms: of the function of θ that is subtracted.
        events: number of events used.
    """

    mean_score: tuple[float, float]
    mean_ratio: tuple[float, float]
    mean_ratio_error: tuple[float, float]
    terms: int
    events: int

    def __repr__(self) -> str:
        """Both measures before and after, in a line."""
        score, ratio = self.mean_score, self.mean_ratio
        return (
            f"CentringReport(mean score {score[0]:.4f} to {score[1]:.4f}, mean ratio "
            f"{ratio[0]:.4f} to {ratio[1]:.4f} ± {self.mean_ratio_error[1]:.4f}; "
            f"{self.events:,} events)"
        )

    def _summarise(self) -> Summary:
        names = ["mean score at θ, in units of its spread", "mean ratio of neighbours, 1 if right"]
        columns = {"": names} | {
            when: [f"{score:.4f}", f"{ratio:.4f} ± {error:.4f}"]
            for when, score, ratio, error in zip(
                ("before", "after"),
                self.mean_score,
                self.mean_ratio,
                self.mean_ratio_error,
                strict=True,
            )
        }
        title = f"Centring by {self.events:,} events, {self.terms} terms"
        return Summary(title, (SummaryTable(columns),))


def centre(estimator: Estimator, events: Events, *, seed: int = 0) -> Estimator:
    """Subtract a function of θ from a potential, so that the mean score at every θ is 0.

    The true score has this property. Errors of a learned potential that depend on θ alone add up
    over the events of a fit, and are the easiest to repair. `centring_report` measures what it
    changes.

    Args:
        estimator: a trained potential.
        events: simulated at many θ; best those that it was not trained on. A part of them measures
            the bias that is left.
        seed: which events are used for what.
    """
    _require_potential_and_events(estimator, events, "centre")
    test = choose_test_rows(events, estimator.architecture, Training())
    rows = np.delete(np.arange(len(events)), test)
    result, record = _centre_on(estimator, events, rows, as_seed(seed))
    result = measure_on_rows(dataclasses.replace(result, score_bias=None), events, test)
    words = (
        f"centred by {record.events:,} events: a function of θ with {record.terms} terms is "
        "subtracted"
        if record.terms
        else "not centred: the mean score at θ cannot be distinguished from 0"
    )
    history = dataclasses.replace(result.history, choices=(*result.history.choices, words))
    return dataclasses.replace(result, history=history)


def centring_report(estimator: Estimator, events: Events, *, seed: int = 0) -> CentringReport:
    """Measure how far an estimator is from centred, and how far it is after `centre`.

    Half of the events centre it, and the other half measure what is left.

    Args:
        estimator: a trained potential, before it is centred by these events.
        events: simulated at many θ; best those that it was not trained on.
        seed: which events are used for what.
    """
    _require_potential_and_events(estimator, events, "centring_report")
    seed = as_seed(seed)
    order = Stream(seed, Purpose.CENTRING_REPORT).generator().permutation(len(events))
    one, two = np.array_split(order, 2)
    _, record = _centre_on(estimator, events, np.arange(len(events)), seed)
    half, _ = _centre_on(estimator, events, one, seed)
    ratios = [_mean_ratio(each, events, two) for each in (estimator, half)]
    return CentringReport(
        mean_score=(
            _mean_score(estimator, events, two, seed),
            _mean_score(half, events, two, seed),
        ),
        mean_ratio=(ratios[0][0], ratios[1][0]),
        mean_ratio_error=(ratios[0][1], ratios[1][1]),
        terms=record.terms,
        events=record.events,
    )


def _require_potential_and_events(estimator: object, events: object, name: str) -> None:
    if not isinstance(estimator, Estimator):
        raise TypeError(
            f"{name} needs a potential (ist.Estimator), which ist.fit(events, seed=…) trains by "
            f"default; got {kind_of(estimator)}."
        )
    if not isinstance(events, Events):
        raise TypeError(f"{name} takes ist.Events, simulated at many θ; got {kind_of(events)}.")
    warn_few_effective(events.weight, "the events' weight")
    if len(events) < 2 * FEWEST_EVENTS:
        raise ValueError(
            f"centring needs at least {2 * FEWEST_EVENTS} simulated events; got {len(events)}."
        )


def _centre_on(
    est: Estimator, events: Events, rows: np.ndarray, seed: int
) -> tuple[Estimator, Centring]:
    x, theta, weight = (np.asarray(part)[rows] for part in (events.x, events.theta, events.weight))
    return centre_score(est, x, theta, weight, seed=seed)


def _mean_score(est: Estimator, events: Events, rows: np.ndarray, seed: int) -> float:
    """As it is, with whatever is subtracted already."""
    x, theta, weight = (np.asarray(part)[rows] for part in (events.x, events.theta, events.weight))
    return centre_score(est, x, theta, weight, seed=seed, afresh=False)[1].before


def _mean_ratio(est: Estimator, events: Events, rows: np.ndarray) -> tuple[float, float]:
    x, theta = np.asarray(events.x)[rows], np.asarray(events.theta, np.float64)[rows]
    weight = np.asarray(events.weight, np.float64)[rows]
    low, high = theta.min(axis=0), theta.max(axis=0)
    # All steps go the same way, or those up and those down would hide each other's deviation.
    step = STEP * (high - low)
    inside = theta + step <= high
    ratio = np.exp(est.log_ratio(x, np.where(inside, theta + step, theta - step), theta))
    share = weight / weight.sum()
    mean = float(share @ ratio)
    return mean, float(np.sqrt(share**2 @ (ratio - mean) ** 2))
