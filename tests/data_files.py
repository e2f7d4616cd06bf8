"""Files of events with columns that hold no numbers beside those that do."""

from pathlib import Path

import numpy as np
import pytest

#: Events in every file.
EVENTS = 30
RUNS = [f"run {number}" for number in range(EVENTS)]


def write_csv(path: Path, x: np.ndarray, weight: np.ndarray) -> None:
    pairs = zip(x.tolist(), weight.tolist(), RUNS, strict=True)
    rows = [f"{b!r},{name},{w!r},{a!r}" for (a, b), w, name in pairs]
    path.write_text("\n".join(["t,run,w,m", *rows]))


def write_parquet(path: Path, x: np.ndarray, weight: np.ndarray) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"t": x[:, 1], "run": RUNS, "w": weight, "m": x[:, 0]}), path)


def write_root(path: Path, x: np.ndarray, weight: np.ndarray) -> None:
    uproot = pytest.importorskip("uproot")
    jets = pytest.importorskip("awkward").Array([[1.0] * (len(name) % 3) for name in RUNS])
    with uproot.recreate(path) as file:
        # An RNTuple and a TTree.
        columns = {"t": x[:, 1], "jets": jets, "w": weight, "m": x[:, 0]}
        file.mkrntuple("new", columns)
        file.mktree("old", columns)
