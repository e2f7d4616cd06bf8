"""Events simulated at one θ as events of another: weights r(x; θ_to, θ_from).

A ratio is a logarithm until the last line. Far from θ_from few events carry most of the weight, and
then no number computed from them can be trusted, least of all their own standard errors: the
effective sample size and the tail of the weights say so, and a hopeless pair is refused. The mean
ratio is 1 for a true one, but its variance may be infinite, so it is judged only where the tail
allows it.
"""

import dataclasses

import numpy as np

from ...estimator.estimator import Estimator, RatioEstimator
from ...inputs import Input, as_flag, kind_of, warn_user
from ...summary import AbstractSummarised, Summary, tabulate_facts
from ...weights import effective_size
from ..arguments import as_events, as_weight
from .pareto_tail import find_tail_index

#: Part of the effective events that must be left, or the pair is refused.
REFUSED = 0.01
#: Part below which there is a warning.
FEW = 0.1
#: Tail index of the weights from which their mean converges too slowly to be used (Vehtari et al.,
#: arXiv:1507.02646).
HEAVY = 0.7
#: Tail index from which the variance of the weights is infinite.
INFINITE = 0.5
#: Standard errors by which the mean ratio may differ from 1.
TOLERATED = 4.0
#: Difference of the mean ratio from 1 that does not matter, however significant.
NEGLIGIBLE = 0.01
#: The outermost part of the events at each end of an observable.
EDGE = 0.001
#: Part of the weight that these may hold.
EDGE_SHARE = 0.1
#: Fewest events at each end for which that share is judged.
FEWEST_AT_EDGE = 5
#: Larger logarithms, of either sign, have no exponential in float64.
LARGEST_LOG = 700.0


class FarReweighting(ValueError):
    """Hardly any of the events are like those of the θ that they should stand for."""


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Reweighting(AbstractSummarised):
    """Events at one θ with weights that make them events of another.

    Attributes:
        weight: input weight times r̂, shape (n,).
        log_ratio: ln r̂(x; θ_to, θ_from), shape (n,).
        input_weight: the weight before, shape (n,).
        x: the events, shape (n, D).
        x_names: of the observables.
        effective_size: (Σw)²/Σw² of the new weights.
        input_effective_size: the same of the input weights.
        normalisation: mean of r̂ over the events, 1 for a true ratio.
        normalisation_error: its standard error, of no meaning if the tail index exceeds 1/2.
        tail_index: of the largest weights; above 1/2 their variance is infinite, above 0.7 their
            mean is of no use. NaN with too few events.
        largest_share: part of all weight that the heaviest event carries.
        edge_share: for each observable, the part of the weight that the outermost events in it
            carry, shape (D,): large where the events do not reach what θ_to asks for.
        remarks: what to mind; also given as warnings.
    """

    weight: np.ndarray
    log_ratio: np.ndarray
    input_weight: np.ndarray
    x: np.ndarray
    x_names: tuple[str, ...]
    effective_size: float
    input_effective_size: float
    normalisation: float
    normalisation_error: float
    tail_index: float
    largest_share: float
    edge_share: np.ndarray
    remarks: tuple[str, ...]

    @property
    def effective_fraction(self) -> float:
        """Part of the effective events that is left."""
        return self.effective_size / self.input_effective_size

    @property
    def normalised(self) -> np.ndarray:
        """The weights scaled to the sum of the input weights, shape (n,)."""
        return self.weight * (self.input_weight.sum() / self.weight.sum())

    def _summarise(self) -> Summary:
        worst = int(np.argmax(self.edge_share))
        rows = {
            "effective sample size": f"{self.effective_size:,.0f} of "
            f"{self.input_effective_size:,.0f} ({self.effective_fraction:.1%})",
            "mean ratio": f"{self.normalisation:.4f} ± {self.normalisation_error:.4f} "
            "(1 for a true ratio)",
            "tail index": f"{self.tail_index:.2f} (variance infinite above {INFINITE})",
            "heaviest event": f"{self.largest_share:.2%} of the weight",
            "outermost events": f"{self.edge_share[worst]:.1%} of the weight in "
            f"{self.x_names[worst]}",
        }
        title = f"{len(self.weight):,} events reweighted"
        remarks = (f"! {remark}" for remark in self.remarks)
        return Summary(title, (tabulate_facts(rows), *remarks))

    def __str__(self) -> str:
        """The lines of the summary."""
        return self.summary()

    def __repr__(self) -> str:
        """Size and mean, in a line."""
        return (
            f"Reweighting({len(self.weight):,} events, {self.effective_size:,.0f} effectively "
            f"({self.effective_fraction:.1%}); mean ratio {self.normalisation:.4f} ± "
            f"{self.normalisation_error:.4f}{'; see remarks' if self.remarks else ''})"
        )


def reweight(
    estimator: Estimator | RatioEstimator,
    x: Input,
    theta_from: Input,
    theta_to: Input,
    *,
    weight: Input | None = None,
    throw: bool = True,
) -> Reweighting:
    """Weights r̂(x; θ_to, θ_from) that turn events of `theta_from` into events of `theta_to`.

    Args:
        estimator: a trained potential, or a direct ratio network.
        x: events simulated at `theta_from`, shape (n, D).
        theta_from: where they were simulated, shape (d,), or (n, d) with a θ for each event.
        theta_to: what they should stand for, likewise.
        weight: of the events, of either sign; multiplied by the ratio.
        throw: refuse a pair that leaves fewer than 1% of the effective events; otherwise warn.
    """
    if not isinstance(estimator, Estimator | RatioEstimator):
        raise TypeError(
            "reweight needs a log ratio: a potential (ist.Estimator), which ist.fit(events, "
            f"seed=…) trains by default, or an ist.RatioEstimator; got {kind_of(estimator)}."
        )
    rows = as_events(estimator, x)
    before = as_weight(weight, len(rows))
    log_ratio = estimator.log_ratio(rows, theta_to, theta_from)
    if len(log_ratio) != len(rows):
        raise ValueError(
            f"there is 1 event and {len(log_ratio)} θ; repeat the event for each of them."
        )
    # In logarithms until they are known to have exponentials.
    left = effective_size(before * np.exp(log_ratio - log_ratio.max()))
    sizes = effective_size(before), left
    share = f"{left / sizes[0]:.2%}"
    far = f"only {left:.1f} effective events are left of {sizes[0]:,.0f} ({share})"
    if abs(log_ratio.max()) > LARGEST_LOG:
        raise FarReweighting(
            f"the largest weight is exp({log_ratio.max():.0f}), which float64 does not hold, and "
            f"{far}; simulate closer to theta_to."
        )
    if as_flag(throw, "throw") and left < REFUSED * sizes[0]:
        raise FarReweighting(
            f"{far}: theta_to is too far from theta_from for these events. Simulate closer to it, "
            "go in smaller steps, or pass throw=False to see the weights."
        )
    result = _assess_weights(rows, before, log_ratio, sizes, estimator.x_names)
    for remark in result.remarks:
        warn_user(remark)
    return result


def _assess_weights(
    rows: np.ndarray,
    before: np.ndarray,
    log_ratio: np.ndarray,
    sizes: tuple[float, float],
    names: tuple[str, ...],
) -> Reweighting:
    ratio = np.exp(log_ratio)
    after = before * ratio
    if after.sum() <= 0:
        raise ValueError(
            f"the new weights add up to {after.sum():.4g}: events of negative weight prevail near "
            "theta_to. Simulate more events, or closer to it."
        )
    mean = after.sum() / before.sum()
    # Shares rather than weights, whose squares may be too large.
    error = float(np.sqrt(((before / before.sum()) ** 2 * (ratio - mean) ** 2).sum()))
    result = Reweighting(
        weight=after,
        log_ratio=log_ratio,
        input_weight=before,
        x=rows,
        x_names=names,
        effective_size=sizes[1],
        input_effective_size=sizes[0],
        normalisation=float(mean),
        normalisation_error=error,
        tail_index=find_tail_index(np.abs(after)),
        largest_share=float(np.abs(after).max() / np.abs(after).sum()),
        edge_share=_find_edge_share(rows, before, after),
        remarks=(),
    )
    return dataclasses.replace(result, remarks=tuple(_list_remarks(result)))


def _find_edge_share(rows: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The larger part of the weight that the outermost events at either end carry.

    Less what they carried before, so that an observable with a few values at its end, each of
    which many events share, is not blamed.
    """
    count = max(1, int(EDGE * len(rows)))
    shares = np.zeros(rows.shape[1])
    for column, values in enumerate(rows.T):
        low, high = np.partition(values, [count - 1, -count])[[count - 1, -count]]
        for edge in (values <= low, values >= high):
            gain = after[edge].sum() / after.sum() - before[edge].sum() / before.sum()
            shares[column] = max(shares[column], gain)
    return shares


def _list_remarks(result: Reweighting) -> list[str]:
    remarks = []
    fraction, index = result.effective_fraction, result.tail_index
    if fraction < FEW:
        remarks.append(
            f"{result.effective_size:,.0f} effective events are left of "
            f"{result.input_effective_size:,.0f} ({fraction:.1%}); simulate closer to theta_to."
        )
    if index > HEAVY:
        remarks.append(
            f"the weights have a heavy tail (index {index:.2f}): the effective sample size, "
            f"{result.effective_size:,.0f}, is itself an overestimate, and means of these events "
            "are not reliable."
        )
    wide = EDGE * len(result.x) >= FEWEST_AT_EDGE
    worst = int(np.argmax(result.edge_share))
    if wide and result.edge_share[worst] > EDGE_SHARE:
        remarks.append(
            f"{result.edge_share[worst]:.0%} of the weight lies on the outermost "
            f"{EDGE:.1%} of the events in {result.x_names[worst]}: theta_to populates a region "
            "that these events hardly reach."
        )
    away, error = abs(result.normalisation - 1), result.normalisation_error
    # Without a finite variance the error means nothing, and a true ratio would fail.
    known = fraction >= FEW and not index > INFINITE
    if known and away > max(TOLERATED * error, NEGLIGIBLE):
        remarks.append(
            f"the mean of the ratio is {result.normalisation:.4f} ± {error:.4f} and should be 1: "
            "the ratio is biased, or the events do not cover theta_to. For shapes alone use "
            ".normalised."
        )
    return remarks
