"""Which values lie between two edges."""

import numpy as np

from inferostatic.bounds import within
from inferostatic.estimator.history import Region


def test_edges_belong_and_rounding_is_forgiven() -> None:
    low, high = np.array([0.0, -2.0]), np.array([1.0, 5.0])
    values = np.array([[0.0, 5.0], [-1e-7, 5.000001], [-1e-4, 0.0], [0.5, 5.001], [np.nan, 0.0]])
    expected = [[True, True], [True, True], [False, True], [True, False], [False, True]]
    assert within(values, low, high).tolist() == expected


def test_an_infinite_edge_does_not_open_the_other() -> None:
    low, high = np.array([-np.inf, 0.0]), np.array([1.0, np.inf])
    values = np.array([[-1e30, 1e30], [2.0, -1.0]])
    assert within(values, low, high).tolist() == [[True, True], [False, False]]


def test_regions_judge_whole_rows() -> None:
    region = Region(np.zeros(2), np.ones(2), np.zeros(1), np.full(1, 3.0))
    assert region.contains_theta(np.array([[0.5, 0.5], [0.5, 1.5]])).tolist() == [True, False]
    assert bool(region.contains_theta(np.array([1.0, 1.0])))
    assert region.contains_x(np.array([[3.0], [3.1]])).tolist() == [True, False]
