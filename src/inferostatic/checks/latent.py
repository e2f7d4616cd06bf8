"""Whether the latent information of events is what it claims to be, before anything is trained."""

import dataclasses

import numpy as np

from ..events.events import Events
from ..inputs import as_seed, kind_of
from ..summary import AbstractSummarised, Summary, SummaryTable
from ..supervision.joint_identities import SUSPICIOUS, Identity, joint_identities
from .finding import combine_p_values, two_sided_p_value


@dataclasses.dataclass(frozen=True, repr=False)
class LatentCheck(AbstractSummarised):
    """Means that must vanish if joint scores and ratios are right.

    Attributes:
        identities: each with its name, its z value and what would explain a deviation.
        events: how many there are.
    """

    identities: tuple[Identity, ...]
    events: int

    @property
    def p_value(self) -> float:
        """Probability of so large a deviation of any of them, were all right."""
        each = two_sided_p_value(np.array([one.z for one in self.identities]))
        tried = np.array([one.tried for one in self.identities])
        return combine_p_values(np.minimum(each * tried, 1.0))

    @property
    def passed(self) -> bool:
        """Whether training would accept these events without a warning."""
        return all(abs(one.z) < SUSPICIOUS for one in self.identities)

    def _summarise(self) -> Summary:
        table = {
            "identity": [one.name for one in self.identities],
            "z": [f"{one.z:+.2f}" for one in self.identities],
            "": [one.hint if abs(one.z) >= SUSPICIOUS else "" for one in self.identities],
        }
        head = f"Latent information of {self.events:,} events"
        return Summary(head, (SummaryTable(table, left=("identity", "")),))

    def __repr__(self) -> str:
        """The verdict and the largest deviation, in a line."""
        worst = max(self.identities, key=lambda one: abs(one.z))
        verdict = "passed" if self.passed else "violated"
        return f"LatentCheck({verdict}; largest: {worst.name}, z = {worst.z:+.1f})"


def latent(events: Events, *, seed: int = 0) -> LatentCheck:
    """Test E[t] = 0, Cov(t, x) = dE[x]/dθ and E[r] = 1 on the events' joint scores and ratios.

    `fit` does the same by itself, warns where an identity seems to be violated and refuses where it
    is for certain. Slopes can only be tested with a `prior` that has a density.

    Args:
        events: with latent information.
        seed: of the pairs of θ that joint ratios are asked about.
    """
    if not isinstance(events, Events):
        raise TypeError(f"checks.latent takes ist.Events; got {kind_of(events)}.")
    found = tuple(joint_identities(events, seed=as_seed(seed)))
    if not found:
        raise ValueError(
            "these events have no joint density, joint scores or joint ratios to be checked; their "
            f"latent arrays are {sorted(events.latent) or 'none'}."
        )
    return LatentCheck(found, len(events))
