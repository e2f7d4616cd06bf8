"""The depth of the default network, by a trial: a deep one where it is clearly better.

Most problems gain nothing by depth, which takes two to three times as long. Sharp modes whose
places depend on θ in a complicated way do: on the public task SLCP with 10,000 events six blocks in
place of two lower the validation loss by 0.16 nats.
"""

import dataclasses
import time

import numpy as np

from ...models.architecture import AbstractArchitecture, Potential
from ...models.networks.networks import Residual
from ..training.members import MemberSetting
from .features import FeatureChoice
from .trials import CLEARLY, Trials, describe_choice, describe_cost, find_first_within_error

#: Blocks of the deep network.
DEEP = 6
#: Training events from which it is tried: with fewer nothing was gained, and compiling it takes a
#: good part of the whole fit.
FEWEST_EVENTS = 5_000
#: Nats by which it must be better as well, for the time that it takes: 0.08 on SLCP, and 0.01 at
#: most on problems whose errors it did not lower.
WORTH = 0.03


def tries_depth(architecture: AbstractArchitecture, training_events: int) -> bool:
    """Whether a deep network is tried beside this one, for so many events."""
    if not isinstance(architecture, Potential) or not isinstance(architecture.network, Residual):
        return False
    return architecture.network.blocks < DEEP and training_events >= FEWEST_EVENTS


def choose_depth(trials: Trials, shallow: FeatureChoice) -> tuple[AbstractArchitecture, str]:
    """The network that the features were chosen with, or a deeper one; and why, in words."""
    began = time.perf_counter()
    network = dataclasses.replace(shallow.architecture.network, blocks=DEEP)
    deep = dataclasses.replace(shallow.architecture, network=network)
    setting = MemberSetting(deep.x_features, shallow.decay)
    (tried,) = trials.run(deep, shallow.training, [setting], "depth")
    losses = np.concatenate([shallow.event_losses, tried.event_losses])
    best = find_first_within_error(losses, CLEARLY, WORTH)
    names = [f"{one.network.blocks} blocks" for one in (shallow.architecture, deep)]
    reason = describe_choice("depth", names, losses, best)
    reason = f"{reason} {describe_cost(trials, shallow.training, began)}"
    return (shallow.architecture, deep)[best], reason
