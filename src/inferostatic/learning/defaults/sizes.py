"""How many members, how large a network, and how long a training, from the number of events.

Lengths are fitted by eye to the best of many trainings on problems with exact truth, from 1,000 to
1,000,000 events: ten times the events need 2.6 times the steps, in batches twice as large.
"""

import dataclasses
import math

from ..training.options import Training
from .trials import wants_trials

#: Events up to which an ensemble is affordable enough to be the default.
ENSEMBLE_EVENTS = 15_000
#: Members of the default ensemble.
ENSEMBLE = 3
#: Events up to which the deeper network is affordable enough to be the default.
DEEP_EVENTS = 30_000
#: Steps at 1,000 events.
STEPS = 2000
#: Power of the number of events by which steps grow.
STEPS_POWER = 0.42
#: Events in a batch at 1,000 events.
BATCH = 64
#: Events in a batch, at least: smaller ones cost as much time.
SMALLEST_BATCH = 32
#: Events in a batch, at most: larger ones were not seen to pay.
LARGEST_BATCH = 1024


def choose_members(events: int, training: Training) -> int:
    """An ensemble where events are few and nothing is in a hurry."""
    return ENSEMBLE if events <= ENSEMBLE_EVENTS and wants_trials(training) else 1


def choose_network_size(events: int) -> tuple[int, int]:
    """Width and blocks of the default network.

    Depth pays most where events are few, and there it costs little. Beyond that it was not seen to
    pay (100,000 events of the Dirichlet distribution), and it takes its time.
    """
    width = 64 if events <= 300_000 else 96 if events <= 3_000_000 else 128
    return width, 6 if events <= DEEP_EVENTS else 2


def set_length(training: Training, events: int, training_events: int) -> Training:
    """The training with batch and epochs, where they are open, set for so many events."""
    batch, epochs = training.batch_size, training.epochs
    if batch is None:
        batch = round(BATCH * 2.0 ** round(math.log10(max(events, 1) / 1000)))
        batch = min(max(batch, SMALLEST_BATCH), LARGEST_BATCH)
    if epochs is None:
        steps = STEPS * (max(events, 1) / 1000) ** STEPS_POWER
        epochs = max(1, round(steps / math.ceil(training_events / batch)))
    return dataclasses.replace(training, batch_size=batch, epochs=epochs)
