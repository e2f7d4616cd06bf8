r"""Asymptotic formulae for upper limits (Cowan, Cranmer, Gross, Vitells, arXiv:1007.1727).

\(\tilde q_\mu\) is −2 ln of the likelihood ratio of μ to the best fit with \(\hat\mu\) not below
the background's value, and 0 for \(\hat\mu>\mu\) (eq. 16). Its distribution follows from its value
\(q_A\) on the Asimov data set, in which everything is as the background predicts it (eqs. 63 to
66).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

#: Standard deviations of the background's fluctuations at which expected limits are given.
BANDS = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])


class Confidence(NamedTuple):
    """CLs+b and CLb, of equal shapes."""

    signal: np.ndarray
    background: np.ndarray


def asymptotic(q: np.ndarray, q_asimov: np.ndarray) -> Confidence:
    """Of the observed statistic, eq. 66; the distance is that of pyhf's calculator too."""
    root, scale = np.sqrt(q), np.sqrt(np.maximum(q_asimov, 1e-12))
    distance = np.where(q <= q_asimov, root - scale, (q - q_asimov) / (2 * scale))
    return Confidence(ndtr(-(distance + scale)), ndtr(-distance))


def asymptotic_expected(q_asimov: np.ndarray) -> Confidence:
    """For background that fluctuates by each of `BANDS`, shape (m, 5).

    An upward fluctuation has a smaller statistic, so a larger CLs and a larger limit.
    """
    scale = np.sqrt(np.maximum(q_asimov, 0.0))[:, None]
    return Confidence(ndtr(BANDS - scale), ndtr(np.broadcast_to(BANDS, (len(q_asimov), 5))))


def confidence_of_toys(
    signal: np.ndarray, background: np.ndarray, q: np.ndarray, tie: float
) -> Confidence:
    """Of statistics q among toys with and without signal."""
    return Confidence(_share_above(signal, q - tie), _share_above(background, q - tie))


def _share_above(toys: np.ndarray, q: np.ndarray) -> np.ndarray:
    return 1 - np.searchsorted(np.sort(toys), q, side="left") / len(toys)
