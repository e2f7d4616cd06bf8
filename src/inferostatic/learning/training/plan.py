"""How long to train, in which batches and with how many members, from the number of events.

Fitted by eye to the best of many trainings on problems with exact truth, from 1,000 to 1,000,000
events: ten times the events want 2.6 times the steps, in batches twice as large. What weight decay
does is measured by how far it would shrink an idle weight in the whole training, so that one value
serves trainings of any length.
"""

import dataclasses
import math

from .options import Training

#: Steps at 1,000 events, and the power of the number of events by which they grow.
STEPS, STEPS_POWER = 2000, 0.42
SMALLEST_BATCH, BATCH, LARGEST_BATCH = 32, 64, 1024
#: e-folds by which an idle weight shrinks during training: the settings that are tried, from the
#: weakest to the strongest, and the one taken where nothing is tried.
SHRINKS = (0.15, 1.3, 4.0)
USUAL_SHRINK = 1.3
LARGEST_DECAY = 1.0
#: The strongest decay that is taken without having been tried.
UNTRIED_DECAY = 0.1
#: Events up to which an ensemble is affordable enough to be the default, and its size.
ENSEMBLE_EVENTS, ENSEMBLE = 15_000, 3
#: Events up to which the deeper network is affordable enough to be the default.
DEEP_EVENTS = 30_000
#: Events up to which the score is not centred on the events of the training unless told: a network
#: knows its own events too well where they are few.
UNCENTRED_EVENTS = 30_000


def planned(training: Training, events: int, training_events: int) -> Training:
    """The training with its open fields set for this number of events."""
    batch = training.batch_size
    if batch is None:
        batch = round(BATCH * 2.0 ** round(math.log10(max(events, 1) / 1000)))
        batch = min(max(batch, SMALLEST_BATCH), LARGEST_BATCH)
    epochs = training.epochs
    if epochs is None:
        steps = STEPS * (max(events, 1) / 1000) ** STEPS_POWER
        epochs = max(1, round(steps / math.ceil(training_events / batch)))
    training = dataclasses.replace(training, batch_size=batch, epochs=epochs)
    if training.weight_decay is None:
        training = with_shrink(training, USUAL_SHRINK, training_events)
        return dataclasses.replace(
            training, weight_decay=min(training.weight_decay or 0.0, UNTRIED_DECAY)
        )
    return training


def total_steps(training: Training, training_events: int) -> int:
    """Steps of a planned training."""
    assert training.batch_size is not None
    assert training.epochs is not None
    batch = min(training.batch_size, training_events)
    return training.epochs * math.ceil(training_events / batch)


def with_shrink(training: Training, shrink: float, training_events: int) -> Training:
    """The training with the weight decay that shrinks an idle weight by this many e-folds."""
    # The mean of a cosine schedule is half its peak.
    travelled = 0.5 * training.learning_rate * total_steps(training, training_events)
    return dataclasses.replace(training, weight_decay=min(shrink / travelled, LARGEST_DECAY))


def tries_out(training: Training) -> bool:
    """Whether open settings are chosen by trying them out."""
    return training.epochs is None if training.choose is None else training.choose


def usual_members(events: int, training: Training) -> int:
    """Members unless told: an ensemble where events are few and nothing is in a hurry."""
    return ENSEMBLE if events <= ENSEMBLE_EVENTS and tries_out(training) else 1


def usual_size(events: int) -> tuple[int, int]:
    """Width and blocks of the default network.

    Depth pays most where events are few, and there it costs little. Beyond that it was not seen to
    pay (100,000 events of the Dirichlet distribution), and it takes its time.
    """
    width = 64 if events <= 300_000 else 96 if events <= 3_000_000 else 128
    return width, 6 if events <= DEEP_EVENTS else 2
