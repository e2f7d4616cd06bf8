"""How many members, and how large a network, from the number of events."""

from ..training.options import Training
from .trials import wants_trials

#: Events up to which an ensemble is affordable enough to be the default.
ENSEMBLE_EVENTS = 15_000
#: Members of the default ensemble.
ENSEMBLE = 3
#: Events up to which the deeper network is affordable enough to be the default.
DEEP_EVENTS = 30_000


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
