"""A small classifier of weighted events: gradient-boosted trees on binned observables.

Checks need one that finds differences of any shape without tuning, accepts weights of either sign,
and comes with the package.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from ..progress import Advance

#: Bins of each observable, at quantiles: fine enough for any difference that events could show.
BINS = 64
#: Trees: more do not lower the loss at this learning rate.
TREES = 60
#: Cuts from root to leaf, so that up to four observables interact.
DEPTH = 4
#: Part of each tree's step that is taken (the learning rate of boosting).
RATE = 0.15
#: Events in a leaf, at least, so that its value is more than noise.
FEWEST_IN_LEAF = 40
#: Added to the curvature of a leaf, as in ridge regression: draws its value towards zero.
RIDGE = 1.0
#: Largest step of a leaf in the log odds: negative weights can leave next to nothing to divide by.
LARGEST_STEP = 2.0


@dataclasses.dataclass(frozen=True)
class Tree:
    """Which observable is cut where at each node, level by level, and the values of the leaves."""

    features: tuple[np.ndarray, ...]
    cuts: tuple[np.ndarray, ...]
    values: np.ndarray

    def leaves(self, codes: np.ndarray) -> np.ndarray:
        """The leaf of every event."""
        node = np.zeros(codes.shape[1], np.int64)
        for feature, cut in zip(self.features, self.cuts, strict=True):
            node = _descend(codes, node, feature, cut)
        return node


@dataclasses.dataclass(frozen=True)
class BoostedTrees:
    """A trained classifier."""

    edges: tuple[np.ndarray, ...]
    trees: tuple[Tree, ...]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Log odds of class 1, shape (n,)."""
        codes = _bin(x, self.edges)
        total = np.zeros(len(x))
        for tree in self.trees:
            total += tree.values[tree.leaves(codes)]
        return total


def train_trees(
    x: np.ndarray, label: np.ndarray, weight: np.ndarray, advance: Advance
) -> BoostedTrees:
    """Trees that separate class 1 from class 0; each class counts as much as the other.

    Weights may have either sign, with a positive sum in each class.
    """
    of_class = np.array([weight[label == k].sum() for k in (0, 1)])
    weight = weight / of_class[label.astype(int)] * (len(x) / 2)
    edges = tuple(
        np.unique(np.quantile(column, np.arange(1, BINS) / BINS, method="lower")) for column in x.T
    )
    codes = _bin(x, edges)
    total, trees = np.zeros(len(x)), []
    for _ in range(TREES):
        probability = 1 / (1 + np.exp(-total))
        slope, curvature = weight * (label - probability), weight * probability * (1 - probability)
        tree, leaf = _grow(codes, slope, curvature)
        total += tree.values[leaf]
        trees.append(tree)
        advance(1)
    return BoostedTrees(edges, tuple(trees))


def _bin(x: np.ndarray, edges: Sequence[np.ndarray]) -> np.ndarray:
    """The number of the bin of each value, shape (D, n): one observable is read at a time."""
    return np.stack([np.searchsorted(*pair) for pair in zip(edges, x.T, strict=True)])


def _descend(
    codes: np.ndarray, node: np.ndarray, feature: np.ndarray, cut: np.ndarray
) -> np.ndarray:
    right = codes[feature[node], np.arange(len(node))] > cut[node]
    return 2 * node + right


def _grow(codes: np.ndarray, slope: np.ndarray, curvature: np.ndarray) -> tuple[Tree, np.ndarray]:
    """A tree that lowers the loss most, and the leaf of every event."""
    node = np.zeros(len(slope), np.int64)
    features, cuts = [], []
    for level in range(DEPTH):
        feature, cut = _best_cuts(codes, node, 2**level, slope, curvature)
        features.append(feature)
        cuts.append(cut)
        node = _descend(codes, node, feature, cut)
    slopes, curvatures = (np.bincount(node, value, 2**DEPTH) for value in (slope, curvature))
    steps = RATE * slopes / (np.maximum(curvatures, 0) + RIDGE)
    values = np.clip(steps, -LARGEST_STEP, LARGEST_STEP)
    return Tree(tuple(features), tuple(cuts), values), node


def _best_cuts(
    codes: np.ndarray, node: np.ndarray, nodes: int, slope: np.ndarray, curvature: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each node the observable and bin after which to cut; BINS where no cut helps."""
    best = np.zeros(nodes)
    feature, cut = np.zeros(nodes, np.int64), np.full(nodes, BINS)
    for column, code in enumerate(codes):
        bin_index = node * BINS + code

        def left_and_right(value: np.ndarray | None, at: np.ndarray = bin_index) -> np.ndarray:
            sums = np.bincount(at, value, nodes * BINS).reshape(nodes, BINS).cumsum(axis=1)
            return np.stack([sums[:, :-1], sums[:, -1:] - sums[:, :-1]])

        slopes, curvatures = left_and_right(slope), left_and_right(curvature)
        enough = (left_and_right(None) >= FEWEST_IN_LEAF).all(axis=0)
        allowed = enough & (curvatures > 0).all(axis=0)
        parts = slopes**2 / (np.maximum(curvatures, 0) + RIDGE)
        whole = slopes.sum(axis=0) ** 2 / (np.maximum(curvatures.sum(axis=0), 0) + RIDGE)
        gain = np.where(allowed, parts.sum(axis=0) - whole, 0)
        where = gain.argmax(axis=1)
        found = gain[np.arange(nodes), where]
        better = found > best
        best = np.where(better, found, best)
        feature, cut = np.where(better, column, feature), np.where(better, where, cut)
    return feature, cut
