"""Events of Les Houches files: observables computed by the user's functions, and their weights."""

import contextlib
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...inputs import Input, as_path, describe_missing, in_short, kind_of
from ...packages import import_package
from ...world.priors.prior import AbstractPrior
from ..events import Events
from ..morphing.weighted_pool import WeightedPool
from ..origin import Origin

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
        prior: the distribution that `theta` was drawn from.
        theta_names: names of the parameters.
    """
    _require_functions(observables)
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
    ).with_origin(Origin(source=f"the LHE file {Path(path).name}"))


def read_lhe_weights(
    path: str | Path, observables: Observables, weights: Sequence[str] | None = None
) -> WeightedPool:
    """The reweighting weights of an LHE file, one for each benchmark, for a morphing.

    Args:
        path: the file.
        observables: as in `read_lhe`.
        weights: names (ids) of the weights, in the order of the benchmarks of the morphing;
            default all, in the order of the first event.
    """
    _require_functions(observables)
    listed = [weights] if isinstance(weights, str) else () if weights is None else weights
    if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
        raise TypeError(f"weights must be a list of names of weights; got {weights!r}.")
    x, table, names = [], [], list(listed)
    with contextlib.closing(_events(path)) as events:
        for event in events:
            x.append(_observe(event, observables, len(x)))
            if not event.weights:
                raise ValueError(
                    f"event {len(table)} of {path} has no named weights (<rwgt>); use "
                    "ist.read_lhe, which reads the one weight that every event has."
                )
            names = names or list(event.weights)
            absent = [name for name in names if name not in event.weights]
            if absent:
                wanted = describe_missing(absent[0], list(event.weights))
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
    pylhe = import_package("pylhe", "reading LHE files uses pylhe", "readers")
    path = as_path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    try:
        with _strict():
            file = pylhe.LHEFile.fromfile(str(path))
    except Exception as error:  # of XML, of gzip, or where numbers were expected
        raise ValueError(
            f"{path} cannot be read as an LHE file ({in_short(error)}); pass a Les Houches file, "
            "which may be compressed by gzip."
        ) from error
    with contextlib.closing(file.events) as events:
        while True:
            try:
                with _strict():
                    event = next(events, None)
            except Exception as error:
                raise ValueError(
                    f"{path} is damaged or ends early ({in_short(error)}); repair it or generate "
                    "it again."
                ) from error
            if event is None:
                return
            yield event


@contextlib.contextmanager
def _strict() -> Generator[None, None, None]:
    """Make errors of pylhe's warnings: where a file ends early it only warns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Parse Error", RuntimeWarning)
        yield


def _require_functions(observables: object) -> None:
    if not isinstance(observables, Mapping):
        raise TypeError(
            "observables must be a dictionary of functions of one event by name, "
            f"{{'pt': function}}; got {kind_of(observables)}."
        )
    for name, function in observables.items():
        if not callable(function):
            raise TypeError(
                f"the observable {name!r} must be a function of one event that gives a number; "
                f"got {kind_of(function)}."
            )


def _observe(event: Any, observables: Observables, row: int) -> list[float]:  # noqa: ANN401
    values = []
    for name, function in observables.items():
        try:
            value: Any = function(event)
        except Exception as error:  # whatever a user's function raises
            raise RuntimeError(
                f"the observable {name!r} failed in event {row}: {in_short(error)}. It must be a "
                "function of one event of pylhe that gives a number, for every event of the file."
            ) from error
        values.append(_number(value, name, row))
    return values


def _number(value: Any, name: str, row: int) -> float:  # noqa: ANN401
    try:
        shape = np.shape(value)
        number = float(value) if shape == () else None
    except (TypeError, ValueError):
        shape, number = (), None
    if number is None:
        got = f"shape {shape}" if shape else kind_of(value)
        raise ValueError(
            f"the observable {name!r} must be one number for each event; got {got} in event {row}."
        )
    return number


def _rows(x: list[list[float]], path: str | Path) -> np.ndarray:
    if not x:
        raise ValueError(f"{path} holds no events.")
    if not x[0]:
        raise ValueError("observables is empty; name at least one, {'pt': function}.")
    return np.asarray(x, np.float64)
