import numpy as np

from inferostatic.models.features.columns import odd_columns

NAMES = ("a", "b", "c", "d")


def test_ordinary_columns_need_no_remark() -> None:
    assert odd_columns(np.random.default_rng(1).normal(size=(3000, 4)), NAMES) == []


def test_constant_columns_are_named() -> None:
    x = np.random.default_rng(1).normal(size=(3000, 4))
    x[:, 1] = 5.0
    assert odd_columns(x, NAMES) == [
        "the observable b has the same value in every event and can be left out."
    ]
    x[:, 3] = -1.0
    assert odd_columns(x, NAMES)[0].startswith("the observables b, d each have the same value")


def test_a_column_that_changes_late_is_not_constant() -> None:
    x = np.random.default_rng(1).normal(size=(3000, 4))
    x[:, 1] = 5.0
    x[-1, 1] = 5.1
    assert odd_columns(x, NAMES) == []


def test_duplicates_are_named_and_late_differences_seen() -> None:
    x = np.random.default_rng(1).normal(size=(3000, 4))
    x[:, 2] = x[:, 0]
    assert odd_columns(x, NAMES) == [
        "the observable c equals a in every event and can be left out."
    ]
    x[-1, 2] += 1
    assert odd_columns(x, NAMES) == []
