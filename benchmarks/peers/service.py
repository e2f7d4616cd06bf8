"""What the parent and the workers say to each other: one JSON object per line, over pipes.

A worker lives through the whole benchmark, so that imports and compilation are paid before the
clock starts, and computes only while it is asked to.
"""

import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TextIO

import numpy as np

from peers.problem import Array


@dataclass(frozen=True)
class Job:
    """A piece of training: `epochs` passes over the first `row_count` rows of the file `rows`.

    Where the trained loss is asked for, it is taken on the rows of the file `held_out`.
    """

    what: str
    batch: int
    row_count: int
    epochs: int
    rows: str
    held_out: str = ""
    seed: int = 0

    @property
    def steps(self) -> int:
        """Optimiser steps in one epoch."""
        return self.row_count // self.batch


class Stack(Protocol):
    """What a worker has to offer."""

    def describe(self) -> dict[str, dict[str, str]]:
        """Return versions and settings."""
        ...

    def warm_up(self, job: Job) -> None:
        """Compile and run once whatever `epoch_seconds` needs."""
        ...

    def epoch_seconds(self, job: Job) -> list[float]:
        """Train, and return the wall seconds of each epoch."""
        ...

    def trained_loss(self, job: Job, weights: list[Array]) -> float:
        """Train from given weights, and return the loss on the held-out rows."""
        ...

    def loss_at(self, what: str, rows: str, weights: list[Array]) -> float:
        """Return the loss of given weights on the rows of a file."""
        ...


def serve(stack: Stack) -> None:
    """Answer requests from standard input until it closes."""
    with _private_stdout() as answers:
        for line in sys.stdin:
            try:
                answer = {"result": _answer(stack, json.loads(line))}
            except Exception:
                answer = {"error": traceback.format_exc()}
            print(json.dumps(answer), file=answers, flush=True)


def _answer(stack: Stack, request: dict[str, Any]) -> object:
    match request:
        case {"ask": "describe"}:
            return stack.describe()
        case {"ask": "warm_up", "job": job}:
            return stack.warm_up(Job(**job))
        case {"ask": "epoch_seconds", "job": job}:
            return stack.epoch_seconds(Job(**job))
        case {"ask": "trained_loss", "job": job, "weights": weights}:
            return stack.trained_loss(Job(**job), _arrays(weights))
        case {"ask": "loss_at", "what": what, "rows": rows, "weights": weights}:
            return stack.loss_at(what, rows, _arrays(weights))
    raise ValueError(f"unknown request: {request}")


def request_for(ask: str, job: Job, **more: object) -> dict[str, object]:
    """Return the message that asks for a job."""
    return {"ask": ask, "job": asdict(job), **more}


def _arrays(weights: list[Any]) -> list[Array]:
    return [np.asarray(weight, np.float32) for weight in weights]


@contextmanager
def _private_stdout() -> Iterator[TextIO]:
    """Keep the pipe for answers; whatever a framework prints goes to standard error."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        yield answers
