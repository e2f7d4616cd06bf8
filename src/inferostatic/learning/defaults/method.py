"""The default method: multi-scale KCE, with the latent information that the events carry.

- A joint density (or morphing) gives every candidate its probability given the latent variables,
  whose mean given x is that of the label: `KCE(latent=True)` has the same minimiser as `KCE()`, and
  a gradient of the same mean with a fraction of the variance.
- A stored joint score says nothing of other θ, so candidates keep their labels. Its mean given x is
  the score at the event's own θ: as a second term it leaves the minimiser of `KCE()` where it is.
  It is a regression, though, so its variance must be finite.

Latent information that violates an identity is left out, with a warning.
"""

import dataclasses

import numpy as np

from ...events.events import Events
from ...events.latent import JOINT_SCORE
from ...inputs import warn_user
from ...supervision.joint_identities import joint_scores, require_identities, some_events
from ..latent_methods import SALLY
from ..methods import KCE, AbstractMethod, Mix

#: Weight of the score term, with θ in units of the prior's standard deviation, as in `CASCAL`.
ALPHA = 1.0
#: Effective part of the events, (Σt²)²/(n Σt⁴), below which a few joint scores rule all others: a
#: third for a Gaussian, and next to nothing where the variance is infinite.
LEAST_EFFECTIVE_PART = 0.01


@dataclasses.dataclass(frozen=True)
class MethodChoice:
    """The method, and in words why, where there was something to choose."""

    method: AbstractMethod
    reasons: tuple[str, ...] = ()


def choose_method(events: Events) -> MethodChoice:
    """The default method for these events."""
    latent = events.latent
    if latent.joint is None and JOINT_SCORE not in latent:
        return MethodChoice(KCE())
    try:
        require_identities(_keep_what_is_learned_from(events))
    except ValueError as error:
        warn_user(f"latent information is not used. {error}")
        return MethodChoice(KCE(), (f"method: KCE; latent information is not used: {error}",))
    if latent.joint is not None:
        reason = (
            f"method: latent KCE, because the events carry a joint density "
            f"({type(latent.joint).__name__}); ist.KCE() does without"
        )
        return MethodChoice(KCE(latent=True), (reason,))
    part = _find_effective_part(joint_scores(some_events(events)))
    if part < LEAST_EFFECTIVE_PART:
        reason = (
            "method: KCE; the stored joint scores are not used, because a few of them rule the "
            f"mean square of all others ({part:.2%} of the events count, effectively)"
        )
        return MethodChoice(KCE(), (reason,))
    reason = (
        "method: KCE with the stored joint scores as a second teacher, because the events carry "
        "them; ist.KCE() does without"
    )
    return MethodChoice(Mix([(1.0, KCE()), (ALPHA, SALLY())]), (reason,))


def _keep_what_is_learned_from(events: Events) -> Events:
    """Some of the events, without stored ratios, which the default method does not read."""
    events = some_events(events)
    if events.latent.joint is not None:
        return events
    return dataclasses.replace(events, latent={JOINT_SCORE: events.latent[JOINT_SCORE]})


def _find_effective_part(scores: np.ndarray) -> float:
    """(Σt²)²/(n Σt⁴) of the worst component."""
    squares = np.square(scores)
    total, quartic = squares.sum(axis=0), np.square(squares).sum(axis=0)
    part = np.divide(total**2, len(scores) * quartic, out=np.ones_like(total), where=quartic > 0)
    return float(part.min())
