"""Trainings in a checkpoint: the last epoch of one under way, or the result of one that ended.

A fit makes several trainings, always the same ones in the same order. Each has a key of its place
in that order, so that a repeated fit finds what the one before has left.
"""

import dataclasses
import itertools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...checkpoint import AbstractSavedWork, NotSaved, Step
from ...estimator.history import HISTORY, History
from ...fingerprint import digest
from .best_epoch import BestEpoch
from .options import Training
from .run import Run, TrainingResult
from .steps import State

#: Arrays of a training that ended, besides those of its history.
RESULT = ("weights", "event_losses")
#: Arrays of one under way, besides those of the optimiser.
RUN = ("train_loss", "validation_loss", "seconds")


class Story:
    """The trainings of a fit in their order; stages are begun one after the other."""

    saved: AbstractSavedWork
    numbers: "itertools.count[int]"

    def __init__(self, saved: AbstractSavedWork) -> None:
        self.saved, self.numbers = saved, itertools.count()

    def begin_stage(self, title: str) -> "Stage":
        """The next trainings, which are made together."""
        name = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")
        return Stage(self.saved, f"{next(self.numbers):02d}-{name}")


@dataclasses.dataclass(frozen=True)
class Stage:
    """Trainings that are made together, all members in one or each in its own."""

    saved: AbstractSavedWork
    key: str

    def place(self, rows: slice) -> "Place":
        """That of the training of these members."""
        return Place(self.saved, self.key if rows.start is None else f"{self.key}-{rows.start}")


@dataclasses.dataclass(frozen=True)
class Place:
    """Where one training is kept."""

    saved: AbstractSavedWork
    key: str

    def begin(self, of: str) -> "SavedTraining":
        """What is kept there; `of` is the digest of all that the training depends on."""
        found = self.saved.recall(self.key)
        if found is not None and found.values.get("of") != of:
            raise ValueError(
                f"the checkpoint has another training as {self.key}: it was made by another "
                "version of this library, or settings changed in a way that its manifest does not "
                "show. Give another folder."
            )
        return SavedTraining(self.saved, self.key, of, found)


#: That of a training which is not kept.
NOWHERE = Place(NotSaved(), "nowhere")


def identify_training(training: Training, weights: np.ndarray, *more: object) -> str:
    """A digest of all that a training depends on besides the events."""
    shown = dataclasses.replace(training, progress_bar=None)
    return digest((shown, np.asarray(weights), *more))


@dataclasses.dataclass(frozen=True)
class SavedTraining:
    """One training, as far as it was kept."""

    saved: AbstractSavedWork
    key: str
    of: str
    found: Step | None

    @property
    def result(self) -> TrainingResult | None:
        """That of a training which ended."""
        if self.found is None or not self.found.values["ended"]:
            return None
        values, arrays = self.found.values, self.found.arrays
        kept: dict[str, Any] = {name: arrays[name] for name in HISTORY}
        kept |= {"stopped": values["stopped"], "warnings": tuple(values["warnings"])}
        history = History(**kept)
        return TrainingResult(arrays["weights"], history, arrays["event_losses"])

    def continue_run(self, fresh: Run) -> Run:
        """The run as far as it came, or the fresh one."""
        if self.found is None:
            return fresh
        arrays = self.found.arrays
        leaves, structure = jax.tree.flatten(fresh.state)
        state: State = jax.tree.unflatten(
            structure, [jnp.asarray(arrays[f"state-{i}"]) for i in range(len(leaves))]
        )
        best = BestEpoch(arrays["best-weights"], arrays["best-loss"], arrays["best-epoch"])
        return Run(state, best, **{name: arrays[name] for name in RUN})

    def keep_run(self, run: Run, added: int = 1) -> None:
        """Keep the last of the epochs that were added, where it is time to."""
        every = self.saved.epochs
        now = every is not None and run.epochs % every < added
        self.saved.keep(self.key, lambda: self._pack_run(run), now=now)

    def keep_result(self, result: TrainingResult) -> None:
        """Keep the end, at once."""
        self.saved.keep(self.key, lambda: self._pack_result(result), now=True)

    def _pack_run(self, run: Run) -> Step:
        leaves = jax.tree.leaves(run.state)
        arrays = {f"state-{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        arrays |= {f"best-{name}": np.asarray(value) for name, value in vars(run.best).items()}
        arrays |= {name: getattr(run, name) for name in RUN}
        return Step({"of": self.of, "ended": False}, arrays)

    def _pack_result(self, result: TrainingResult) -> Step:
        history = result.history
        arrays = {name: np.asarray(getattr(history, name)) for name in HISTORY}
        arrays |= {name: np.asarray(getattr(result, name)) for name in RESULT}
        values = {"stopped": history.stopped, "warnings": list(history.warnings)}
        return Step({"of": self.of, "ended": True, **values}, arrays)
