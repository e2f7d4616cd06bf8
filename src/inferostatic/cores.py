"""Work on all cores of this process: XLA uses one for networks of the usual size."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import jax

#: Threads at most: more of them wait for each other.
MOST_THREADS = 16

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def count_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def map_in_threads(
    function: Callable[[_Item], _Result], items: Sequence[_Item]
) -> Iterator[_Result]:
    """`function` of every item in order, several at a time on a CPU.

    The first is done alone, so that a program is compiled once and not by every thread.
    """
    yield from map(function, items[:1])
    threads = min(count_cores(), MOST_THREADS, len(items) - 1)
    if threads < 2 or jax.default_backend() != "cpu":
        yield from map(function, items[1:])
        return
    pool = ThreadPoolExecutor(threads)
    try:
        yield from pool.map(function, items[1:])
    finally:
        # After an error or an interruption what has not begun is left.
        pool.shutdown(cancel_futures=True)
