"""Targets with a fault of every class, which the campaign must find."""

import os
import signal
import time
from typing import Any

import numpy as np

from inferostatic.inputs import as_number

from .targets import Argument, Target, cases_of


def clear(value: object) -> float:
    return as_number(value, "value")


def same(value: Any) -> float:
    """Whatever it is."""
    del value
    return 1.0


def raw(value: Any) -> float:
    return {1.5: 1.0}[value]


def not_a_number(value: Any) -> float:
    del value
    return 1.0 if _plain() else np.nan


def wrong(value: Any) -> float:
    """Another answer, and no error."""
    return 1.0 if value == 1.5 else 2.0


def asserts(value: Any) -> float:
    assert value == 1.5, "the value must be 1.5, and it is not that number"
    return 1.0


def killed(value: Any) -> float:
    if value != 1.5:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1.0


def greedy(value: Any) -> float:
    if value == 1.5:
        return 1.0
    hoard = []
    while True:
        hoard.append(np.ones(10_000_000))
        time.sleep(0.01)


def endless(value: Any) -> float:
    while value != 1.5:
        time.sleep(0.01)
    return 1.0


_calls = []


def _plain() -> bool:
    """Whether this is the first call, with the plain value."""
    _calls.append(None)
    return len(_calls) == 1


#: The class that each is meant to be found in, for the text "no number".
PLANTED = {
    clear: "clear",
    raw: "raw",
    asserts: "raw",
    not_a_number: "silent",
    wrong: "silent",
    killed: "crash",
    greedy: "crash",
    endless: "crash",
}


def cases() -> list[Any]:
    targets = [
        Target(function.__name__, function, {"value": Argument(1.5, "number")})
        for function in PLANTED
    ]
    return [case for case in cases_of(targets) if case[0].endswith("= text")]
