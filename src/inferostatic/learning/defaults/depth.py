"""The depth of the default network, by a trial: a deep one where it is clearly better.

Most problems gain nothing by depth, which takes two to three times as long, and with 1,000 events
many lose. Sharp modes whose places depend on θ in a complicated way gain: on the public tasks SLCP
with 10,000 events and two_moons with 1,000 six blocks in place of two lower the validation loss by
0.16 and 0.2 nats.
"""

import dataclasses
import time

import numpy as np

from ...models.architecture import AbstractArchitecture, Potential
from ...models.networks.networks import Residual
from .trials import CLEARLY, Trials, describe_choice, describe_cost, find_first_within_error
from .weight_decay import DEFAULT_SHRINK, PART, make_setting

#: Blocks of the deep network.
DEEP = 6
#: Training events from which it is tried: with fewer, too few validate.
FEWEST_EVENTS = 500
#: Nats by which it must be better as well, for the time that it takes: 0.08 on SLCP, and 0.01 at
#: most on problems whose errors it did not lower.
WORTH = 0.03
#: The same after the very short training, which only decides whether there is a longer one: on SLCP
#: with 10,000 events two of six leads were 0.02 and 0.03, and two blocks had threefold errors.
PROMISING = 0.01


def deepen(architecture: AbstractArchitecture, training_events: int) -> AbstractArchitecture | None:
    """The deep network to try beside this one, for so many events; None if none is tried."""
    if not isinstance(architecture, Potential) or not isinstance(architecture.network, Residual):
        return None
    if architecture.network.blocks >= DEEP or training_events < FEWEST_EVENTS:
        return None
    network = dataclasses.replace(architecture.network, blocks=DEEP)
    return dataclasses.replace(architecture, network=network)


def choose_depth(
    trials: Trials,
    shallow: AbstractArchitecture,
    deep: AbstractArchitecture,
    event_losses: np.ndarray,
) -> tuple[AbstractArchitecture, tuple[str, ...]]:
    """The deep network where it is clearly better; and why, in words.

    First by the losses of both after a very short training. Where the deep one is ahead there,
    which may only mean that it learns faster, a longer one decides.
    """
    best, reason = _decide(shallow, deep, event_losses, PROMISING)
    reasons = [f"{reason} (trained beside the features)"]
    if best is deep:
        began, training = time.perf_counter(), trials.shorten(PART)
        groups = [(one, [make_setting(trials, one, DEFAULT_SHRINK)]) for one in (shallow, deep)]
        tried = _hide_steps(trials).run(groups, training, "depth")
        losses = np.concatenate([one.event_losses for group in tried for one in group])
        best, reason = _decide(shallow, deep, losses, WORTH)
        reasons.append(f"{reason} {describe_cost(trials, training, began)}")
    return best, tuple(reasons)


def _decide(
    shallow: AbstractArchitecture,
    deep: AbstractArchitecture,
    event_losses: np.ndarray,
    worth: float,
) -> tuple[AbstractArchitecture, str]:
    both = (shallow, deep)
    best = find_first_within_error(event_losses, CLEARLY, worth)
    names = [f"{one.network.blocks} blocks" for one in both]
    return both[best], describe_choice("depth", names, event_losses, best)


def _hide_steps(trials: Trials) -> Trials:
    """The same trials, whose steps do not count in the display of the fit: few fits make them."""
    whole = trials.problem.advance
    if whole is None:
        return trials
    problem = dataclasses.replace(trials.problem, advance=lambda _, note="": whole(0, note))
    return dataclasses.replace(trials, problem=problem)
