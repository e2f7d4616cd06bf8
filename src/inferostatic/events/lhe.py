"""Events of Les Houches files: observables computed by the user's functions, and their weights."""

import contextlib
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..inputs import Input
from ..world.prior import AbstractPrior
from .events import Events
from .pool import WeightedPool, closest, import_reader

#: A function of one event, as pylhe gives it, with `particles` and their id, status, px, py, pz, e.
Observables = Mapping[str, Callable[[Any], float]]


def read_lhe(
    path: str | Path,
    observables: Observables,
    *,
    theta: Input,
    prior: AbstractPrior | None = None,
    theta_names: Sequence[str] | None = None,
) -> Events:
    """Events of an LHE file, with the weight of each (negative ones included).

    Needs pylhe: `pip install 'inferostatic[readers]'`.

    Args:
        path: the file, which may be compressed by gzip.
        observables: by name, a function of one event of pylhe that gives a number, such as
            `{"pt": lambda event: math.hypot(event.particles[2].px, event.particles[2].py)}`.
        theta: the parameters the file was generated at, shape (d,).
        prior: the law that `theta` was drawn from.
        theta_names: names of the parameters.
    """
    x, weight = [], []
    with contextlib.closing(_events(path)) as events:
        for event in events:
            x.append(_observe(event, observables, len(x)))
            weight.append(event.eventinfo.weight)
    return Events(
        x=_rows(x, path),
        theta=theta,
        weight=weight,
        prior=prior,
        x_names=list(observables),
        theta_names=theta_names,
    )


def read_lhe_weights(
    path: str | Path, observables: Observables, weights: Sequence[str] | None = None
) -> WeightedPool:
    """The reweighting weights of an LHE file, one for each benchmark, for a morphing.

    Args:
        path: the file.
        observables: as in `read_lhe`.
        weights: names (ids) of the weights, in the order of the benchmarks of the morphing; all,
            in the order of the first event, when omitted.
    """
    x, table, names = [], [], list(weights or ())
    with contextlib.closing(_events(path)) as events:
        for event in events:
            x.append(_observe(event, observables, len(x)))
            names = names or list(event.weights)
            absent = [name for name in names if name not in event.weights]
            if absent or not names:
                wanted = closest(absent[0] if absent else "any weight", list(event.weights))
                raise ValueError(f"event {len(table)} of {path} has named weights, and {wanted}.")
            table.append([event.weights[name] for name in names])
    return WeightedPool(
        x=_rows(x, path),
        weights=np.asarray(table, np.float64),
        x_names=tuple(observables),
        weight_names=tuple(names),
    )


def _events(path: str | Path) -> Generator[Any, None, None]:
    """The events one by one; closing it closes the file."""
    pylhe = import_reader("pylhe", "LHE files")
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    with contextlib.closing(pylhe.LHEFile.fromfile(str(path)).events) as events:
        while True:
            try:
                # pylhe only warns where a file ends early, and gives the events before.
                with warnings.catch_warnings():
                    warnings.filterwarnings("error", "Parse Error", RuntimeWarning)
                    event = next(events, None)
            except RuntimeWarning as warning:
                raise ValueError(
                    f"{path} is damaged or ends early ({warning}); repair it or generate it again."
                ) from warning
            if event is None:
                return
            yield event


def _observe(event: Any, observables: Observables, row: int) -> list[float]:  # noqa: ANN401
    values = []
    for name, function in observables.items():
        value = function(event)
        if np.ndim(value) != 0:
            raise ValueError(
                f"the observable {name!r} must be one number for each event; got shape "
                f"{np.shape(value)} in event {row}."
            )
        values.append(float(value))
    return values


def _rows(x: list[list[float]], path: str | Path) -> np.ndarray:
    if not x:
        raise ValueError(f"{path} holds no events.")
    if not x[0]:
        raise ValueError("observables is empty; name at least one, {'pt': function}.")
    return np.asarray(x, np.float64)
