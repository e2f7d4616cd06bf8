"""Observed events from files, by the names of their columns."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from data_files import EVENTS, write_csv, write_parquet, write_root
from inferostatic.app.study.data import read_events

RNG = np.random.default_rng(8)
X, WEIGHT = RNG.normal(size=(EVENTS, 2)), RNG.uniform(0.5, 2, EVENTS)


@pytest.mark.parametrize(
    ("name", "write", "tree"),
    [
        ("observed.csv", write_csv, None),
        ("observed.parquet", write_parquet, None),
        ("observed.root", write_root, "new"),
        ("observed.root", write_root, "old"),
    ],
)
def test_columns_that_nobody_asked_for_may_hold_anything(
    tmp_path: Path, name: str, write: Callable[..., None], tree: str | None
) -> None:
    write(tmp_path / name, X, WEIGHT)
    found = read_events(tmp_path / name, ("m", "t"), tree=tree, weight="w")
    np.testing.assert_array_equal(found.x, X)
    np.testing.assert_array_equal(found.weight, WEIGHT)
    assert read_events(tmp_path / name, ("t",), tree=tree).x.shape == (EVENTS, 1)
    with pytest.raises(ValueError, match="lacks q; its columns are .*w"):
        read_events(tmp_path / name, ("m", "q"), tree=tree)


def test_several_trees(tmp_path: Path) -> None:
    write_root(tmp_path / "observed.root", X, WEIGHT)
    with pytest.raises(ValueError, match=r"2 trees, new, old; .* infer\.tree in study\.toml"):
        read_events(tmp_path / "observed.root", ("m", "t"))


def test_booleans_as_pandas_writes_them_and_text_that_is_no_number(tmp_path: Path) -> None:
    file = tmp_path / "observed.csv"
    file.write_text("m,tagged,channel\n1.5,True,e\n2.5,False,mu\n")
    np.testing.assert_array_equal(read_events(file, ("tagged", "m")).x, [[1, 1.5], [0, 2.5]])
    with pytest.raises(ValueError, match="'e' .*'channel'; text must be encoded as numbers"):
        read_events(file, ("m", "channel"))
    with pytest.raises(ValueError, match="lacks channel_e; .* those that the simulator returns"):
        read_events(file, ("m", "channel_e"))
