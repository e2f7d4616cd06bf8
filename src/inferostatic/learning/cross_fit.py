"""Train several estimators so that every event is unseen by one of them."""

from typing import Any

import numpy as np

from ..checkpoint import CheckpointChoice, as_checkpoint, make_folder
from ..events.events import Events
from ..inputs import as_count, as_seed, kind_of
from ..streams import Purpose, Stream
from .fit import fit
from .measure_bias import measure_on_rows

FEWEST_IN_A_FOLD = 100


def cross_fit(
    events: Events,
    method: Any = None,  # noqa: ANN401
    *,
    folds: int = 4,
    checkpoint: CheckpointChoice = None,
    seed: int,
    **options: Any,  # noqa: ANN401
) -> tuple[list[Any], list[Events]]:
    """Train on all events but a part, for each part in turn.

    Where simulation is expensive, no event need be set aside: `calibrated_fit(estimators, x,
    events=parts)` uses each event to train all estimators but one, and to calibrate that one.

    Args:
        events: to be used for both.
        method: of `fit`.
        folds: number of parts and estimators.
        checkpoint: that of `fit`, with a folder for each estimator inside.
        seed: of the parts and of the training.
        **options: further arguments of `fit`.

    Returns:
        The estimators, and for each the events that it was not trained on.
    """
    if not isinstance(events, Events):
        raise TypeError(f"cross_fit takes ist.Events; got {kind_of(events)}.")
    if as_count(folds, "folds") < 2:
        raise ValueError(f"cross_fit needs two folds at least; got {folds}.")
    if len(events) < FEWEST_IN_A_FOLD * folds:
        raise ValueError(
            f"{len(events)} events are too few for {folds} folds; give {FEWEST_IN_A_FOLD * folds} "
            "or more, or fewer folds."
        )
    stream = Stream(as_seed(seed), Purpose.CROSS_FIT)
    order = stream.generator(0).permutation(len(events))
    parts = [np.sort(part) for part in np.array_split(order, folds)]
    kept = as_checkpoint(checkpoint)
    if kept is not None:
        make_folder(kept.path)
    estimators, held_out = [], []
    for number, (part, own) in enumerate(zip(parts, stream.block(1).seeds(folds), strict=True)):
        others = np.sort(np.concatenate(parts[:number] + parts[number + 1 :]))
        inside = None if kept is None else kept.part(f"fold-{number}")
        estimator = fit(events[others], method, checkpoint=inside, seed=own, **options)
        # The events that are left out tell more of its bias than those that `fit` keeps back.
        estimators.append(measure_on_rows(estimator, events, part))
        held_out.append(events[part])
    return estimators, held_out
