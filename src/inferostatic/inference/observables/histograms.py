"""Bins with a bounded statistical error, and histograms of weighted events in them.

Bins hold equal shares of the events (quantiles) and are merged until the relative error
√Σw² / Σw of each is small enough, in every one of the samples that will be filled into them. In
more than one dimension each slice of the first column has its own bins of the others. The outermost
bins are open, so that every event is in one.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from ...inputs import Input, as_count, as_number, as_rows, require_finite
from ...summary import AbstractSummarised, Summary, list_parts, tabulate_first
from ..arguments import as_weight

#: A sample to be binned: values, shape (n, k), and weights, shape (n,).
Sample = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Bins(AbstractSummarised):
    """Bins of one column, or of several: slices of the first, with bins of the others in each.

    Attributes:
        inner_edges: between the bins or slices of the first column, shape (m − 1,).
        slices: the bins of the other columns in each slice; empty for one column.
    """

    inner_edges: np.ndarray
    slices: "tuple[Bins, ...]" = ()

    @property
    def columns(self) -> int:
        """Number of columns of the values."""
        return 1 + (self.slices[0].columns if self.slices else 0)

    def __len__(self) -> int:
        """Number of bins."""
        return sum(map(len, self.slices)) if self.slices else len(self.inner_edges) + 1

    @property
    def edges(self) -> np.ndarray:
        """All edges of the first column, with −∞ and ∞ at the ends."""
        return np.concatenate([[-np.inf], self.inner_edges, [np.inf]])

    def index(self, values: np.ndarray) -> np.ndarray:
        """The bin of each row of values, shape (n,)."""
        first_bin = np.searchsorted(self.inner_edges, values[:, 0], side="right")
        if not self.slices:
            return first_bin
        starts = np.cumsum([0, *map(len, self.slices)])
        result = np.empty(len(values), int)
        for number, inner in enumerate(self.slices):
            rows = first_bin == number
            result[rows] = starts[number] + inner.index(values[rows, 1:])
        return result

    def __repr__(self) -> str:
        """How many."""
        plural = "s" if self.columns > 1 else ""
        return f"Bins({len(self)} bins of {self.columns} column{plural})"

    def _summarise(self) -> Summary:
        edges = list_parts(f"{edge:.4g}" for edge in self.inner_edges)
        within = f", each with bins of {self.columns - 1} more" if self.slices else ""
        return Summary(repr(self), (f"edges of the first column: {edges or 'none'}{within}",))


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Histogram(AbstractSummarised):
    """Sums of weights and of their squares in bins.

    Attributes:
        bins: the bins.
        values: Σw in each, shape (m,).
        variances: Σw² in each, shape (m,).
    """

    bins: Bins
    values: np.ndarray
    variances: np.ndarray

    @property
    def relative_errors(self) -> np.ndarray:
        """√Σw² / Σw of each bin."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sqrt(self.variances) / self.values

    def scale_to(self, total: float) -> "Histogram":
        """The same shape with another sum."""
        factor = total / self.values.sum()
        return Histogram(self.bins, factor * self.values, factor**2 * self.variances)

    def __repr__(self) -> str:
        """Its size."""
        return (
            f"Histogram({len(self.values)} bins, sum {self.values.sum():.5g}, largest relative "
            f"error {np.max(np.abs(self.relative_errors)):.2g})"
        )

    def _summarise(self) -> Summary:
        columns = {
            "bin": [f"{number}" for number in range(len(self.values))],
            "sum of weights": [f"{value:.5g}" for value in self.values],
            "error": [f"{value:.2g}" for value in np.sqrt(self.variances)],
        }
        return Summary(repr(self), tabulate_first(columns))


def fill_histogram(bins: Bins, values: Input, weight: Input | None = None) -> Histogram:
    """The histogram of values, shape (n, k), with weights of either sign."""
    rows = as_rows(values, "values", columns=bins.columns, of="columns")
    require_finite(rows, "values", "Remove or repair these events.")
    weights = as_weight(weight, len(rows))
    index = bins.index(rows)
    sums = (np.bincount(index, w, minlength=len(bins)) for w in (weights, weights**2))
    return Histogram(bins, *sums)


def choose_bins(
    samples: Input | Sequence[Sample],
    *,
    weight: Input | None = None,
    max_relative_error: float = 0.1,
    most: int = 20,
) -> Bins:
    """Bins in which no sample has a relative statistical error above the bound.

    Args:
        samples: values, shape (n, k), or a list of pairs (values, weights) that shall all obey the
            bound, such as templates at several θ.
        weight: one weight for each event of a single sample, of either sign.
        max_relative_error: bound on √Σw² / Σw in each bin.
        most: number of bins at most.
    """
    as_number(max_relative_error, "max_relative_error", above=0)
    if isinstance(samples, list) and samples and isinstance(samples[0], tuple):
        pairs = [_as_sample(values, weights) for values, weights in samples]
    else:
        pairs = [_as_sample(samples, weight)]
    for values, weights in pairs:
        relative = np.sqrt(weights @ weights) / weights.sum()
        if relative > max_relative_error:
            raise ValueError(
                f"all {len(values)} events together have a relative error of {relative:.3g}, above "
                f"max_relative_error={max_relative_error}; simulate more events or raise the bound."
            )
    return _divide(pairs, max_relative_error, as_count(most, "most"))


def _as_sample(values: Input, weight: Input | None) -> Sample:
    rows = as_rows(values, "values", of="columns")
    if len(rows) == 0:
        raise ValueError("there are no events to choose bins from: values has no rows.")
    require_finite(rows, "values", "Remove or repair these events.")
    return rows, as_weight(weight, len(rows))


def _divide(samples: list[Sample], bound: float, most: int) -> Bins:
    columns = samples[0][0].shape[1]
    count = most if columns == 1 else max(1, int(most ** (1 / columns) + 1e-9))
    edges = _merge_bins(samples, _find_quantiles(samples, count), bound)
    if columns == 1:
        return Bins(edges)
    slices = []
    for number in range(len(edges) + 1):
        inside = []
        for values, weights in samples:
            rows = np.searchsorted(edges, values[:, 0], side="right") == number
            inside.append((values[rows, 1:], weights[rows]))
        slices.append(_divide(inside, bound, max(1, most // count)))
    return Bins(edges, tuple(slices))


def _find_quantiles(samples: list[Sample], count: int) -> np.ndarray:
    """Inner edges that divide the pooled sum of |w| into equal parts."""
    values = np.concatenate([v[:, 0] for v, _ in samples])
    # Each sample counts the same, whatever its number of events.
    sizes = np.concatenate([np.abs(w) / np.abs(w).sum() for _, w in samples])
    order = np.argsort(values, kind="stable")
    share = np.cumsum(sizes[order])
    ends = np.searchsorted(share, share[-1] * np.arange(1, count) / count)
    edges = np.unique(values[order][np.minimum(ends, len(values) - 1)])
    return edges[edges > values.min()]


def _merge_bins(samples: list[Sample], edges: np.ndarray, bound: float) -> np.ndarray:
    """The edges that are left when bins with too large an error are merged with the next."""
    sums = np.zeros((len(samples), 2, len(edges) + 1))
    for k, (values, weights) in enumerate(samples):
        index = np.searchsorted(edges, values[:, 0], side="right")
        for j, w in enumerate((weights, weights**2)):
            sums[k, j] = np.bincount(index, w, minlength=len(edges) + 1)

    def is_good(first: int, last: int) -> bool:
        total, squares = sums[:, :, first:last].sum(axis=2).T
        return bool(np.all((total > 0) & (np.sqrt(squares) <= bound * total)))

    ends = [0]
    for last in range(1, len(edges) + 2):
        if is_good(ends[-1], last):
            ends.append(last)
    # What is left over at the end joins the bins before it, until they are good together.
    while len(ends) > 1 and ends[-1] <= len(edges) and not is_good(ends[-2], len(edges) + 1):
        ends.pop()
    kept = [end for end in ends[1:] if end <= len(edges)]
    if ends[-1] <= len(edges):
        kept = kept[:-1]
    return edges[np.array(kept, int) - 1]
