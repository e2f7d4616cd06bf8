"""Toy simulators whose density and score are known exactly.

Each toy is called like any simulator, `toy(theta, rng) -> x`, and in addition answers with the
truth, `toy.log_prob(x, theta)` and `toy.score(x, theta)`, so that whatever was learned from its
events can be compared with the right answer. Everything is NumPy in float64. Latent toys also hand
over what happened inside, `toy.simulate_latent(theta, rng) -> (x, z)`, and know the joint density
of x and z, `toy.joint_log_prob(x, z, theta)`, in JAX and for one event.
"""

from inferostatic.world.toys.correlated_gaussian import CorrelatedGaussian as CorrelatedGaussian
from inferostatic.world.toys.dirichlet import Dirichlet as Dirichlet
from inferostatic.world.toys.falling_spectrum_with_peak import (
    FallingSpectrumWithPeak as FallingSpectrumWithPeak,
)
from inferostatic.world.toys.galton_board import GaltonBoard as GaltonBoard
from inferostatic.world.toys.gaussian_chain import GaussianChain as GaussianChain
from inferostatic.world.toys.gaussian_mixture import GaussianMixture as GaussianMixture
from inferostatic.world.toys.latent_toy import AbstractLatentToy as AbstractLatentToy
from inferostatic.world.toys.poisson_counts import PoissonCounts as PoissonCounts
from inferostatic.world.toys.smeared_spectrum import SmearedSpectrum as SmearedSpectrum
from inferostatic.world.toys.toy import AbstractToy as AbstractToy
from inferostatic.world.toys.two_couplings import TwoCouplings as TwoCouplings

__all__ = [
    "AbstractLatentToy",
    "AbstractToy",
    "CorrelatedGaussian",
    "Dirichlet",
    "FallingSpectrumWithPeak",
    "GaltonBoard",
    "GaussianChain",
    "GaussianMixture",
    "PoissonCounts",
    "SmearedSpectrum",
    "TwoCouplings",
]
