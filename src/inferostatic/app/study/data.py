"""Observed events of a study: from a file, or simulated at a known θ."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..config.infer_tables import InferTable
from .folder import Study, take_digest

if TYPE_CHECKING:
    from .workshop import Workshop


class ObservedEvents(NamedTuple):
    """Events with the columns of an estimator, and their weights where there are any."""

    x: np.ndarray
    weight: np.ndarray | None


def describe_data(study: Study, table: InferTable) -> dict[str, Any]:
    """What tells these data from others, without running the user's code."""
    if table.simulated is not None:
        return {
            "simulator": study.simulator_identity,
            "theta": {name: table.simulated.theta[name] for name in study.table.prior},
            "events": table.simulated.events,
            "seed": study.seeds["data"],
        }
    assert table.data is not None
    return {
        "sha256": study.hash_file(table.data, ("infer", "data")),
        "tree": table.tree,
        "weight": table.weight,
    }


def observe(workshop: "Workshop", table: InferTable, x_names: tuple[str, ...]) -> ObservedEvents:
    """The events; simulated ones are kept, so that a slow program runs once."""
    if table.simulated is None:
        assert table.data is not None
        path = workshop.study.folder / table.data
        return read_events(path, x_names, tree=table.tree, weight=table.weight)
    folder = workshop.study.run / "data" / take_digest(describe_data(workshop.study, table))
    theta = [table.simulated.theta[name] for name in workshop.study.table.prior]
    seed = workshop.study.seeds["data"]
    x = simulate_once(workshop, folder / "x.npy", theta, table.simulated.events, seed, x_names)
    return ObservedEvents(x, None)


def simulate_once(
    workshop: "Workshop",
    file: Path,
    theta: list[float],
    n: int,
    seed: int,
    x_names: tuple[str, ...],
) -> np.ndarray:
    """Events at one θ, read from the file if they were simulated before."""
    from ...events.simulate import simulate_at
    from ...streams import Purpose, Stream
    from .workshop import save_array

    try:
        x = np.load(file, allow_pickle=False)
        if x.shape == (n, len(x_names)):
            return x
    except (OSError, ValueError, EOFError):
        pass
    points = np.tile(np.asarray(theta, np.float64), (n, 1))
    stream = Stream(seed, Purpose.STUDY_DATA)
    x = simulate_at(workshop.simulator, points, stream, x_names=x_names)
    file.parent.mkdir(parents=True, exist_ok=True)
    save_array(file, x)
    return x


def read_events(
    path: Path, x_names: tuple[str, ...], *, tree: str | None = None, weight: str | None = None
) -> ObservedEvents:
    """Events of a .csv, .npy, .parquet or .root file, by the names of their columns."""
    from ...inputs import in_short, require_finite
    from ...world.program_files import READERS

    wanted = [*x_names, *([weight] if weight is not None else [])]
    try:
        found = READERS[path.suffix](path, tree or "", wanted)
    except ImportError:
        raise
    except Exception as error:  # readers raise kinds of their own
        raise ValueError(f"the data file {path} cannot be read: {in_short(error)}.") from error
    names = found.names
    if names is None:
        if weight is not None:
            raise ValueError(f"{path} has no names of columns, so none can be the weight.")
        if found.values.ndim != 2 or found.values.shape[1] != len(x_names):
            raise ValueError(
                f"{path} has shape {found.values.shape} without names of columns; one column for "
                f"each observable was expected: {', '.join(x_names)}."
            )
        x = found.values
    else:
        missing = [name for name in wanted if name not in names]
        if missing:
            raise ValueError(
                f"{path} lacks {', '.join(missing)}; its columns are {', '.join(names[:20])}. It "
                "needs those that the simulator returns, encoded in the same way."
            )
        x = found.values[:, [names.index(name) for name in x_names]]
    if len(x) == 0:
        raise ValueError(f"{path} has no events.")
    x = np.asarray(x, np.float64)
    require_finite(x, f"the data file {path}", "Remove or repair these events.")
    weights = None if weight is None or names is None else found.values[:, names.index(weight)]
    return ObservedEvents(x, weights)
