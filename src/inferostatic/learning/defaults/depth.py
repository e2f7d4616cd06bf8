"""The depth of the default network, by a trial: a deep one where it is clearly better.

Most problems gain nothing by depth, which takes two to three times as long. Sharp modes whose
places depend on θ in a complicated way do: on the public task SLCP with 10,000 events six blocks in
place of two lower the validation loss by 0.16 nats.
"""

import dataclasses

import numpy as np

from ...models.architecture import AbstractArchitecture, Potential
from ...models.networks.networks import Residual
from .trials import CLEARLY, describe_choice, find_first_within_error

#: Blocks of the deep network.
DEEP = 6
#: Training events from which it is tried: with fewer nothing was gained, and compiling it takes a
#: good part of the whole fit.
FEWEST_EVENTS = 5_000
#: Nats by which it must be better as well, for the time that it takes: 0.08 on SLCP, and 0.01 at
#: most on problems whose errors it did not lower.
WORTH = 0.03


def deepen(architecture: AbstractArchitecture, training_events: int) -> AbstractArchitecture | None:
    """The deep network to try beside this one, for so many events; None if none is tried."""
    if not isinstance(architecture, Potential) or not isinstance(architecture.network, Residual):
        return None
    if architecture.network.blocks >= DEEP or training_events < FEWEST_EVENTS:
        return None
    network = dataclasses.replace(architecture.network, blocks=DEEP)
    return dataclasses.replace(architecture, network=network)


def choose_depth(
    shallow: AbstractArchitecture, deep: AbstractArchitecture, event_losses: np.ndarray
) -> tuple[AbstractArchitecture, str]:
    """The deep network where it is clearly better by the losses of both; and why, in words."""
    both = (shallow, deep)
    best = find_first_within_error(event_losses, CLEARLY, WORTH)
    names = [f"{one.network.blocks} blocks" for one in both]
    reason = describe_choice("depth", names, event_losses, best)
    return both[best], f"{reason} (trained beside the features)"
