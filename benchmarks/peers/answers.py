"""What workers that train an estimator say about it, in whichever environment they run.

The input of a worker holds stored events (`x`, `theta`), the box that their θ were drawn from
(`low`, `high`), and sets of points: `<set>/x` and `<set>/theta` where the score is asked for,
`<set>/x`, `<set>/theta0` and `<set>/theta1` for ln r; never the truth.
"""

import resource
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

Array = np.ndarray


class Estimator(Protocol):
    """What is asked of each."""

    def score(self, x: Array, theta: Array) -> Array:
        """∇θ ln p(x; θ), shape (n, d)."""
        ...

    def log_ratio(self, x: Array, theta0: Array, theta1: Array) -> Array:
        """ln p(x; θ0) − ln p(x; θ1), shape (n,)."""
        ...


def predict(estimator: Estimator, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The score or ln r = ln p(x; θ0) − ln p(x; θ1) of each set of points, in float64."""
    found = {}
    for name in dict.fromkeys(key.partition("/")[0] for key in inputs if "/" in key):
        if f"{name}/theta" in inputs:
            values = estimator.score(inputs[f"{name}/x"], inputs[f"{name}/theta"])
        else:
            points = (inputs[f"{name}/{part}"] for part in ("x", "theta0", "theta1"))
            values = estimator.log_ratio(*points)
        found[name] = np.asarray(values, np.float64)
    return found


def measure_time(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What `work` returns, and its wall and CPU seconds, those of all threads and processes."""
    began, used = time.perf_counter(), _cpu_seconds()
    result = work()
    seconds = time.perf_counter() - began
    return result, {"seconds": seconds, "cpu_seconds": _cpu_seconds() - used}


def _cpu_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, kinds))
