"""How alike two weighted samples are: area under the ROC curve, and the Kolmogorov-Smirnov test."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Area:
    """An area under a ROC curve with its standard error."""

    value: float
    error: float


def area_under_curve(
    score0: np.ndarray, weight0: np.ndarray, score1: np.ndarray, weight1: np.ndarray
) -> Area:
    """P(score of class 1 > score of class 0), ties by half, for weights of either sign.

    The error is DeLong's: the area is a mean over the events of either class, of how much of the
    other class each of them exceeds.
    """
    count = len(score0)
    values, level = np.unique(np.concatenate([score0, score1]), return_inverse=True)
    below0 = _part_below(level[:count], weight0, len(values))[level[count:]]
    below1 = _part_below(level[count:], weight1, len(values))[level[:count]]
    area = float(weight1 @ below0 / weight1.sum())
    variances = [
        (weight**2 @ (part - at) ** 2) / weight.sum() ** 2
        for weight, part, at in ((weight1, below0, area), (weight0, below1, 1 - area))
    ]
    return Area(area, float(np.sqrt(sum(variances))))


def _part_below(level: np.ndarray, weight: np.ndarray, levels: int) -> np.ndarray:
    """The part of a sample's weight below each level, with half of that at it."""
    at = np.bincount(level, weight, levels)
    return (at.cumsum() - at / 2) / weight.sum()


@dataclasses.dataclass(frozen=True)
class KolmogorovSmirnov:
    """The largest difference of two distribution functions, and the p-value of so large a one."""

    distance: float
    p_value: float


def kolmogorov_smirnov(
    values0: np.ndarray, weight0: np.ndarray, values1: np.ndarray, weight1: np.ndarray
) -> KolmogorovSmirnov:
    """The two-sample test with weights of either sign, by effective sample sizes.

    Kolmogorov's limit with Stephens' correction for small samples, for as many events as would know
    the two distribution functions equally well where they are known worst. (Σw)²/Σw² serves only
    where weights have nothing to do with the observable: where heavy weights gather at one end of
    it, as in reweighting they do, tests by that number reject true ratios two to four times too
    often.
    """
    from scipy.special import kolmogorov

    values = np.concatenate([values0, values1])
    order = np.argsort(values, kind="stable")
    # Among equal values only the last step is a value of the distribution functions.
    last = np.append(np.diff(values[order]) > 0, True)
    nothing0, nothing1 = np.zeros(len(values0)), np.zeros(len(values1))
    function0, variance0 = _distribution(np.concatenate([weight0, nothing1])[order])
    function1, variance1 = _distribution(np.concatenate([nothing0, weight1])[order])
    distance = float(np.abs(function0 - function1)[last].max())
    # n events know a distribution function worst at its median, with the variance 1/4n.
    largest = (variance0 + variance1)[last].max()
    if largest <= 0:  # a single value in both samples
        return KolmogorovSmirnov(distance, 1.0 if distance < 0.5 else 0.0)
    root = 1 / np.sqrt(4 * largest)
    p_value = float(kolmogorov((root + 0.12 + 0.11 / root) * distance))
    return KolmogorovSmirnov(distance, p_value)


def _distribution(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distribution function after each of the sorted events, and its variance."""
    total, square = weight.sum(), weight**2
    function = weight.cumsum() / total
    # Σw²(1[x ≤ t] − F)²/(Σw)², the square multiplied out.
    variance = (square.cumsum() * (1 - 2 * function) + function**2 * square.sum()) / total**2
    return function, variance
