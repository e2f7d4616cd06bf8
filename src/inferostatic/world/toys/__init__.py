"""Toy simulators whose density and score are known exactly.

Each toy is called like any simulator, `toy(theta, rng) -> x`, and in addition answers with the
truth, `toy.log_prob(x, theta)` and `toy.score(x, theta)`, so that whatever was learned from its
events can be compared with the right answer. Everything is NumPy in float64. Latent toys also hand
over what happened inside, `toy.simulate_latent(theta, rng) -> (x, z)`, and know the joint density
of x and z, `toy.joint_log_prob(x, z, theta)`, in JAX and for one event.
"""

from .correlated_gaussian import CorrelatedGaussian as CorrelatedGaussian
from .dirichlet import Dirichlet as Dirichlet
from .falling_spectrum_with_peak import FallingSpectrumWithPeak as FallingSpectrumWithPeak
from .galton_board import GaltonBoard as GaltonBoard
from .gaussian_chain import GaussianChain as GaussianChain
from .gaussian_mixture import GaussianMixture as GaussianMixture
from .latent_toy import AbstractLatentToy as AbstractLatentToy
from .many_parameters import ManyParameters as ManyParameters
from .poisson_counts import PoissonCounts as PoissonCounts
from .ring import Ring as Ring
from .smeared_spectrum import SmearedSpectrum as SmearedSpectrum
from .toy import AbstractToy as AbstractToy
from .two_couplings import TwoCouplings as TwoCouplings

__all__ = [
    "AbstractLatentToy",
    "AbstractToy",
    "CorrelatedGaussian",
    "Dirichlet",
    "FallingSpectrumWithPeak",
    "GaltonBoard",
    "GaussianChain",
    "GaussianMixture",
    "ManyParameters",
    "PoissonCounts",
    "Ring",
    "SmearedSpectrum",
    "TwoCouplings",
]


def __dir__() -> list[str]:
    """The toys."""
    return __all__
