"""How many members, how large a network, and how long a training, from the number of events.

Lengths are fitted by eye to the best of many trainings on problems with exact truth, from 1,000 to
1,000,000 events: ten times the events need 2.5 times the steps, in batches twice as large. With
many events fewer are made, for the sake of time.
"""

import dataclasses
import math

from ..training.options import Training, round_epochs

#: Effort from which several networks are trained and averaged.
ENSEMBLE_EFFORT = 3.0
#: Members of that ensemble.
ENSEMBLE = 4
#: Events up to which more effort trains more networks and none for longer, which made errors at
#: 1,000 events twice as large.
FEW_EVENTS = 15_000
#: Members of the ensemble for so few.
LARGE_ENSEMBLE = 6
#: Members of a default fit: each is trained on a core of its own, so the second takes little time.
PAIR = 2
#: Effort up to which a training becomes longer, as its root. With twice the steps in place of 1.5
#: times, errors of the score rose by a fifth to two fifths on smooth problems.
LONGEST_EFFORT = 2.25
#: Steps at 1,000 events.
STEPS = 2000
#: Power of the number of events by which steps grow.
STEPS_POWER = 0.4
#: Events from which they grow more slowly: at 100,000 a ninth fewer steps left errors as they were.
MANY_EVENTS = 30_000
#: Power from there on.
MANY_POWER = 0.3
#: Effort of a quick look.
QUICK_EFFORT = 0.1
#: Its steps, if the whole training has as many: with fewer, sharp modes are not found.
QUICK_STEPS = 3000
#: Events in a batch at 1,000 events.
BATCH = 64
#: Events in a batch, at least: smaller ones cost as much time.
SMALLEST_BATCH = 32
#: Events in a batch, at most: larger ones were not seen to pay.
LARGEST_BATCH = 1024


def choose_members(training: Training, events: int, *, tried: bool) -> int:
    """How many networks are trained and averaged; trials for few events may keep one more.

    One where settings were given or the effort is small, and nothing is `tried` out.
    """
    if training.effort >= ENSEMBLE_EFFORT:
        return LARGE_ENSEMBLE if events <= FEW_EVENTS else ENSEMBLE
    return PAIR if tried else 1


def choose_network_size(events: int) -> tuple[int, int]:
    """Width and blocks of the default network.

    With the right weight decay more depth was not seen to pay, from 1,000 to 100,000 events.
    """
    return 64 if events <= 300_000 else 96 if events <= 3_000_000 else 128, 2


def set_length(training: Training, events: int, training_events: int) -> Training:
    """The training with batch and epochs, where they are open, set for so many events."""
    batch, epochs = training.batch_size, training.epochs
    if batch is None:
        batch = round(BATCH * 2.0 ** round(math.log10(max(events, 1) / 1000)))
        batch = min(max(batch, SMALLEST_BATCH), LARGEST_BATCH)
    if epochs is None:
        few, many = min(max(events, 1), MANY_EVENTS), max(events, MANY_EVENTS)
        steps = STEPS * (few / 1000) ** STEPS_POWER * (many / MANY_EVENTS) ** MANY_POWER
        most = 1.0 if events <= FEW_EVENTS else LONGEST_EFFORT
        least = min(steps, QUICK_STEPS * min(training.effort / QUICK_EFFORT, 1.0))
        steps = max(steps * math.sqrt(min(training.effort, most)), least)
        open_ = dataclasses.replace(training, batch_size=batch)
        return round_epochs(open_, steps / math.ceil(training_events / batch), training_events)
    return dataclasses.replace(training, batch_size=batch, epochs=epochs)
