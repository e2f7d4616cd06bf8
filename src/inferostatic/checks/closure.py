"""Closure of a reweighting: are reweighted events like events simulated where they should be?

A classifier is trained to separate them on half of the events and tested on the other half, and
the reverse. If the weights are right it can only guess: the area under its ROC curve is 1/2. The
same with the weights before shows how different the samples were. One observable at a time,
distribution functions are compared.
"""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np

from ..checkpoint import AbstractSavedWork, CheckpointChoice, Step, open_checkpoint
from ..fingerprint import identify
from ..inference.arguments import as_weight
from ..inference.observables.reweight import Reweighting
from ..inputs import Input, as_rows, as_seed, column_names, kind_of, require_finite, require_order
from ..progress import Advance, progress
from ..streams import Purpose, Stream
from ..summary import AbstractSummarised, Summary, SummaryTable
from ..weights import effective_size
from .boosted_trees import TREES, train_trees
from .two_samples import Area, area_under_curve, kolmogorov_smirnov

#: Effective events of either sample in each half, at least: fewer cannot train a classifier.
FEWEST_EVENTS = 100
#: Standard errors by which the area may exceed 1/2: 0.1% of right weights do by chance.
TOLERATED_PULL = 3.0
#: Rounding of an area whose exact value is 1/2.
ROUNDING = 1e-9
#: p-value over all observables below which closure fails, as rare as that pull on both sides.
SMALLEST_P_VALUE = 0.003


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Closure(AbstractSummarised):
    """How well reweighted and directly simulated events can be distinguished.

    Attributes:
        auc: area under the ROC curve with the new weights, on events not trained on; 1/2 if the
            weights are right.
        auc_error: its standard error.
        unweighted_auc: the same with the weights before reweighting.
        unweighted_auc_error: its standard error.
        distance: for each observable the largest difference of the two distribution functions.
        p_value: of so large a distance, for each observable.
        x_names: of the observables.
        effective_size: of the reweighted events.
        direct_effective_size: of the directly simulated ones.
    """

    auc: float
    auc_error: float
    unweighted_auc: float
    unweighted_auc_error: float
    distance: np.ndarray
    p_value: np.ndarray
    x_names: tuple[str, ...]
    effective_size: float
    direct_effective_size: float

    @property
    def closes(self) -> bool:
        """Whether nothing was found that chance does not explain.

        The area lies within 3 standard errors of 1/2, or below, and the smallest p-value, times
        the number of observables, is not below 0.003.
        """
        # Without a division: of equal samples the area is 1/2 without any error.
        excess = self.auc - 0.5 - TOLERATED_PULL * self.auc_error
        p_value = self.p_value.min() * len(self.p_value)
        return bool(excess <= ROUNDING and p_value >= SMALLEST_P_VALUE)

    def _summarise(self) -> Summary:
        table = {
            "observable": list(self.x_names),
            "distance": [f"{distance:.4f}" for distance in self.distance],
            "p": [f"{p:.2g}" for p in self.p_value],
        }
        return Summary(
            f"Closure: {'yes' if self.closes else 'NO'}, from {self.effective_size:,.0f} effective "
            f"reweighted and {self.direct_effective_size:,.0f} direct events",
            (
                f"  AUC reweighted  {self.auc:.4f} ± {self.auc_error:.4f} (0.5 if the weights are "
                "right)",
                f"  AUC before      {self.unweighted_auc:.4f} ± {self.unweighted_auc_error:.4f}",
                SummaryTable(table, indent=2),
            ),
        )

    def __str__(self) -> str:
        """The lines of the summary."""
        return self.summary()

    def __repr__(self) -> str:
        """The areas, in a line."""
        return (
            f"Closure({'closes' if self.closes else 'DOES NOT CLOSE'}; AUC {self.auc:.4f} ± "
            f"{self.auc_error:.4f}, before {self.unweighted_auc:.4f} ± "
            f"{self.unweighted_auc_error:.4f}; smallest p of {len(self.x_names)} observables "
            f"{self.p_value.min():.2g})"
        )


def closure(
    reweighting: Reweighting,
    x: Input,
    *,
    weight: Input | None = None,
    checkpoint: CheckpointChoice = None,
    seed: int,
) -> Closure:
    """Compare reweighted events with events simulated directly at the θ they should stand for.

    Args:
        reweighting: what `reweight` returned.
        x: events simulated at its θ_to, shape (m, D).
        weight: of these events, of either sign.
        checkpoint: a folder, or `ist.Checkpoint(path, minutes=…)`, in which the areas of the
            classifiers are kept: the same call goes on where it stopped, to the same numbers.
        seed: of the division into halves.
    """
    if not isinstance(reweighting, Reweighting):
        raise TypeError(
            "closure needs the result of reweight(est, x, theta_from, theta_to); got "
            f"{kind_of(reweighting)}."
        )
    names = reweighting.x_names
    require_order(column_names(x), names, "x")
    direct = as_rows(x, "x", columns=len(names), of="observables")
    if len(direct) == 0:
        raise ValueError("there are no directly simulated events: x has no rows.")
    require_finite(direct, "x", "Remove or repair these events.")
    direct_weight = as_weight(weight, len(direct))
    sizes = [effective_size(w) for w in (reweighting.weight, direct_weight)]
    if min(sizes) < 2 * FEWEST_EVENTS:
        raise ValueError(
            f"closure needs at least {2 * FEWEST_EVENTS} effective events on either side; got "
            f"{sizes[0]:.0f} reweighted and {sizes[1]:.0f} direct ones."
        )
    both = np.concatenate([reweighting.x, direct])
    label = np.repeat([0.0, 1.0], [len(reweighting.x), len(direct)])
    half = _assign_halves(label, as_seed(seed))
    parts = {
        "reweighted events": (reweighting.x, reweighting.weight, reweighting.input_weight),
        "direct events": (direct, direct_weight),
        "seed": seed,
    }
    opened = open_checkpoint(checkpoint, "closure test", lambda: identify(parts))
    with opened as saved, progress("closure", 4 * TREES) as advance:
        weights = {"after": reweighting.weight, "before": reweighting.input_weight}
        after, before = (
            _combine(
                _recall_area(
                    saved,
                    f"{name}-{number}",
                    lambda number=number, own=own: _test_half(
                        both, label, np.concatenate([own, direct_weight]), half == number, advance
                    ),
                )
                for number in (0, 1)
            )
            for name, own in weights.items()
        )
    tests = [
        kolmogorov_smirnov(one, reweighting.weight, other, direct_weight)
        for one, other in zip(reweighting.x.T, direct.T, strict=True)
    ]
    return Closure(
        auc=after.value,
        auc_error=after.error,
        unweighted_auc=before.value,
        unweighted_auc_error=before.error,
        distance=np.array([test.distance for test in tests]),
        p_value=np.array([test.p_value for test in tests]),
        x_names=names,
        effective_size=sizes[0],
        direct_effective_size=sizes[1],
    )


def _assign_halves(label: np.ndarray, seed: int) -> np.ndarray:
    """0 or 1 for every event, as many of each in either class."""
    rng = Stream(seed, Purpose.CLOSURE).generator()
    half = np.zeros(len(label), np.int64)
    for k in (0.0, 1.0):
        own = np.flatnonzero(label == k)
        half[rng.permutation(own)[: len(own) // 2]] = 1
    return half


def _recall_area(saved: AbstractSavedWork, key: str, find: Callable[[], Area]) -> Area:
    """The area that an earlier process found, or a new one."""
    found = saved.recall(key)
    if found is not None:
        return Area(**found.values)
    area = find()
    saved.keep(key, lambda: Step(dataclasses.asdict(area), {}))
    return area


def _test_half(
    x: np.ndarray, label: np.ndarray, weight: np.ndarray, training: np.ndarray, advance: Advance
) -> Area:
    """The area on one half, by a classifier trained on the other."""
    if any(weight[training & (label == k)].sum() <= 0 for k in (0.0, 1.0)):
        raise ValueError("negative weights prevail in half of the events; give more events.")
    trees = train_trees(x[training], label[training], weight[training], advance)
    test = ~training
    score, own = trees(x[test]), weight[test]
    zero, one = label[test] == 0, label[test] == 1
    return area_under_curve(score[zero], own[zero], score[one], own[one])


def _combine(areas: Iterable[Area]) -> Area:
    """The mean of the areas on each half."""
    first, second = areas
    # Not √(e₁² + e₂²)/2. Where there is nothing to learn, each classifier learns the noise d of its
    # own half, and both areas measure the same product d₁·d₂: their errors add up.
    return Area((first.value + second.value) / 2, (first.error + second.error) / 2)
