"""Inference from simulators by learned scores and likelihood ratios.

One smooth potential φ(x, θ): its θ-gradient is the score, its differences are log likelihood
ratios. See https://arxiv.org/abs/2210.01680 for the method it is built on.

A public name is imported from its module on first use, so that a program waits only for what it
uses. Whoever adds one adds it twice below: for type checkers and editors, and to the table.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .compilation_cache import keep_compilations
from .compiler import avoid_wrong_sums
from .versions import __version__ as __version__

if TYPE_CHECKING:
    from . import checks as checks
    from . import export as export
    from . import plots as plots
    from .checkpoint import Checkpoint as Checkpoint
    from .checks.closure import closure as closure
    from .checks.diagnose import diagnose as diagnose
    from .estimator.card import ModelCard as ModelCard
    from .estimator.density import DensityEstimator as DensityEstimator
    from .estimator.estimator import CapabilityError as CapabilityError
    from .estimator.estimator import Estimator as Estimator
    from .estimator.estimator import RatioEstimator as RatioEstimator
    from .estimator.estimator import ScoreEstimator as ScoreEstimator
    from .estimator.history import History as History
    from .estimator.loading import load as load
    from .estimator.matrix_element import MatrixElement as MatrixElement
    from .events.engines.dask import Dask as Dask
    from .events.engines.engine import InProcess as InProcess
    from .events.engines.engine import TaskError as TaskError
    from .events.engines.failures import Drop as Drop
    from .events.engines.per_worker import PerWorker as PerWorker
    from .events.engines.process_pool import ProcessPool as ProcessPool
    from .events.events import Events as Events
    from .events.latent import JointDensity as JointDensity
    from .events.latent import Latent as Latent
    from .events.morphing.morphing import Morphing as Morphing
    from .events.morphing.nuisance import nuisance_exponents as nuisance_exponents
    from .events.morphing.weighted_pool import WeightedPool as WeightedPool
    from .events.readers.lhe import read_lhe as read_lhe
    from .events.readers.lhe import read_lhe_weights as read_lhe_weights
    from .events.readers.madminer import read_madminer as read_madminer
    from .events.readers.madminer import read_madminer_samples as read_madminer_samples
    from .events.readers.particle_table import pad_particles as pad_particles
    from .events.readers.root import read_root as read_root
    from .events.simulate import simulate as simulate
    from .events.store.replay import replay as replay
    from .events.store.store import Store as Store
    from .inference.calibrated.calibrated_fit import calibrated_fit as calibrated_fit
    from .inference.calibrated.nearby_simulation import NearbySimulation as NearbySimulation
    from .inference.calibrated.score_calibration import ScoreCalibration as ScoreCalibration
    from .inference.centre import centre as centre
    from .inference.centre import centring_report as centring_report
    from .inference.confidence.confidence_set import confidence_set as confidence_set
    from .inference.confidence.limit_methods import CLs as CLs
    from .inference.confidence.limit_methods import CLsb as CLsb
    from .inference.confidence.neyman import Neyman as Neyman
    from .inference.confidence.upper_limit import upper_limit as upper_limit
    from .inference.confidence.wilks import Wilks as Wilks
    from .inference.information.fisher import fisher as fisher
    from .inference.information.score_response import score_response as score_response
    from .inference.likelihood.cross_entropy import cross_entropy_fit as cross_entropy_fit
    from .inference.likelihood.likelihood import Likelihood as Likelihood
    from .inference.likelihood.maximum_likelihood import maximum_likelihood as maximum_likelihood
    from .inference.observables.observable import observable as observable
    from .inference.observables.pyhf_export import UncertainRate as UncertainRate
    from .inference.observables.pyhf_export import to_pyhf as to_pyhf
    from .inference.observables.reweight import FarReweighting as FarReweighting
    from .inference.observables.reweight import reweight as reweight
    from .inference.observables.template_events import Reweighted as Reweighted
    from .inference.observables.template_events import Simulated as Simulated
    from .inference.observables.templates import Templates as Templates
    from .inference.posterior.grid import Grid as Grid
    from .inference.posterior.importance import Importance as Importance
    from .inference.posterior.nuts import NUTS as NUTS
    from .inference.posterior.posterior import posterior as posterior
    from .learning.choose_width import choose_width as choose_width
    from .learning.compare import Setting as Setting
    from .learning.compare import compare as compare
    from .learning.cross_fit import cross_fit as cross_fit
    from .learning.density_methods import NDE as NDE
    from .learning.density_methods import SCANDAL as SCANDAL
    from .learning.draw import Records as Records
    from .learning.draw import draw as draw
    from .learning.fit import fit as fit
    from .learning.latent_methods import ALICE as ALICE
    from .learning.latent_methods import ALICES as ALICES
    from .learning.latent_methods import CASCAL as CASCAL
    from .learning.latent_methods import RASCAL as RASCAL
    from .learning.latent_methods import ROLR as ROLR
    from .learning.latent_methods import SALLINO as SALLINO
    from .learning.latent_methods import SALLY as SALLY
    from .learning.latent_methods import LatentLoss as LatentLoss
    from .learning.losses import Exponential as Exponential
    from .learning.losses import Logistic as Logistic
    from .learning.losses import ROLRLoss as ROLRLoss
    from .learning.losses import Savage as Savage
    from .learning.losses import Square as Square
    from .learning.measure_bias import measure_bias as measure_bias
    from .learning.methods import CARL as CARL
    from .learning.methods import DCTR as DCTR
    from .learning.methods import KCE as KCE
    from .learning.methods import KLRE as KLRE
    from .learning.methods import KSE as KSE
    from .learning.methods import Mix as Mix
    from .learning.training.checks import TrainingError as TrainingError
    from .learning.training.options import Constant as Constant
    from .learning.training.options import Cosine as Cosine
    from .learning.training.options import Training as Training
    from .models.architecture import DirectRatio as DirectRatio
    from .models.architecture import DirectScore as DirectScore
    from .models.architecture import Potential as Potential
    from .models.architecture import paper_network as paper_network
    from .models.architecture import paper_ratio_network as paper_ratio_network
    from .models.architecture import paper_score_network as paper_score_network
    from .models.features.features import Automatic as Automatic
    from .models.features.features import Natural as Natural
    from .models.features.features import Quantile as Quantile
    from .models.features.features import Raw as Raw
    from .models.features.features import Standardised as Standardised
    from .models.features.per_particle import PerParticle as PerParticle
    from .models.flows.flow import Flow as Flow
    from .models.flows.flow import MixtureFlow as MixtureFlow
    from .models.matrix_element import MEM as MEM
    from .models.networks.networks import MLP as MLP
    from .models.networks.networks import GlorotUniform as GlorotUniform
    from .models.networks.networks import LecunNormal as LecunNormal
    from .models.networks.networks import Residual as Residual
    from .models.networks.particle_set import ParticleSet as ParticleSet
    from .models.networks.two_tower import TwoTower as TwoTower
    from .models.potential import forward_score as forward_score
    from .report.report import report as report
    from .supervision.candidates import MultiScale as MultiScale
    from .supervision.difference import Factorised as Factorised
    from .supervision.difference import Linear as Linear
    from .supervision.difference import Sign as Sign
    from .supervision.kernels import CustomKernel as CustomKernel
    from .supervision.kernels import Delta as Delta
    from .supervision.kernels import Epanechnikov as Epanechnikov
    from .supervision.kernels import Gaussian as Gaussian
    from .supervision.kernels import Rectangular as Rectangular
    from .supervision.kernels import Triangular as Triangular
    from .supervision.pairs import CustomPairs as CustomPairs
    from .supervision.pairs import Independent as Independent
    from .world import toys as toys
    from .world.numpyro_model import NumpyroSimulator as NumpyroSimulator
    from .world.numpyro_model import from_numpyro as from_numpyro
    from .world.priors.custom import CustomPrior as CustomPrior
    from .world.priors.discrete import Discrete as Discrete
    from .world.priors.prior import Normal as Normal
    from .world.priors.prior import Uniform as Uniform
    from .world.priors.product import Product as Product
    from .world.priors.truncated_normal import TruncatedNormal as TruncatedNormal
    from .world.program import Program as Program
    from .world.simulator import JaxSimulator as JaxSimulator

#: Public names by the module that defines them.
_NAMES = {
    "checkpoint": "Checkpoint",
    "checks.closure": "closure",
    "checks.diagnose": "diagnose",
    "estimator.card": "ModelCard",
    "estimator.density": "DensityEstimator",
    "estimator.estimator": "CapabilityError Estimator RatioEstimator ScoreEstimator",
    "estimator.history": "History",
    "estimator.loading": "load",
    "estimator.matrix_element": "MatrixElement",
    "events.engines.dask": "Dask",
    "events.engines.engine": "InProcess TaskError",
    "events.engines.failures": "Drop",
    "events.engines.per_worker": "PerWorker",
    "events.engines.process_pool": "ProcessPool",
    "events.events": "Events",
    "events.latent": "JointDensity Latent",
    "events.morphing.morphing": "Morphing",
    "events.morphing.nuisance": "nuisance_exponents",
    "events.morphing.weighted_pool": "WeightedPool",
    "events.readers.lhe": "read_lhe read_lhe_weights",
    "events.readers.madminer": "read_madminer read_madminer_samples",
    "events.readers.particle_table": "pad_particles",
    "events.readers.root": "read_root",
    "events.simulate": "simulate",
    "events.store.replay": "replay",
    "events.store.store": "Store",
    "inference.calibrated.calibrated_fit": "calibrated_fit",
    "inference.calibrated.nearby_simulation": "NearbySimulation",
    "inference.calibrated.score_calibration": "ScoreCalibration",
    "inference.centre": "centre centring_report",
    "inference.confidence.confidence_set": "confidence_set",
    "inference.confidence.limit_methods": "CLs CLsb",
    "inference.confidence.neyman": "Neyman",
    "inference.confidence.upper_limit": "upper_limit",
    "inference.confidence.wilks": "Wilks",
    "inference.information.fisher": "fisher",
    "inference.information.score_response": "score_response",
    "inference.likelihood.cross_entropy": "cross_entropy_fit",
    "inference.likelihood.likelihood": "Likelihood",
    "inference.likelihood.maximum_likelihood": "maximum_likelihood",
    "inference.observables.observable": "observable",
    "inference.observables.pyhf_export": "UncertainRate to_pyhf",
    "inference.observables.reweight": "FarReweighting reweight",
    "inference.observables.template_events": "Reweighted Simulated",
    "inference.observables.templates": "Templates",
    "inference.posterior.grid": "Grid",
    "inference.posterior.importance": "Importance",
    "inference.posterior.nuts": "NUTS",
    "inference.posterior.posterior": "posterior",
    "learning.choose_width": "choose_width",
    "learning.compare": "Setting compare",
    "learning.cross_fit": "cross_fit",
    "learning.density_methods": "NDE SCANDAL",
    "learning.draw": "Records draw",
    "learning.fit": "fit",
    "learning.latent_methods": "ALICE ALICES CASCAL RASCAL ROLR SALLINO SALLY LatentLoss",
    "learning.losses": "Exponential Logistic ROLRLoss Savage Square",
    "learning.measure_bias": "measure_bias",
    "learning.methods": "CARL DCTR KCE KLRE KSE Mix",
    "learning.training.checks": "TrainingError",
    "learning.training.options": "Constant Cosine Training",
    "models.architecture": (
        "DirectRatio DirectScore Potential paper_network paper_ratio_network paper_score_network"
    ),
    "models.features.features": "Automatic Natural Quantile Raw Standardised",
    "models.features.per_particle": "PerParticle",
    "models.flows.flow": "Flow MixtureFlow",
    "models.matrix_element": "MEM",
    "models.networks.networks": "MLP GlorotUniform LecunNormal Residual",
    "models.networks.particle_set": "ParticleSet",
    "models.networks.two_tower": "TwoTower",
    "models.potential": "forward_score",
    "supervision.candidates": "MultiScale",
    "supervision.difference": "Factorised Linear Sign",
    "supervision.kernels": "CustomKernel Delta Epanechnikov Gaussian Rectangular Triangular",
    "supervision.pairs": "CustomPairs Independent",
    "world.numpyro_model": "NumpyroSimulator from_numpyro",
    "world.priors.custom": "CustomPrior",
    "world.priors.discrete": "Discrete",
    "world.priors.prior": "Normal Uniform",
    "world.priors.product": "Product",
    "world.priors.truncated_normal": "TruncatedNormal",
    "world.program": "Program",
    "world.simulator": "JaxSimulator",
}
#: Where each of them is.
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
#: Public modules; that of reports can be called.
_MODULES = {
    "checks": "checks",
    "export": "export",
    "plots": "plots",
    "report": "report",
    "toys": "world.toys",
}

__all__ = sorted([*_HOMES, *_MODULES])  # pyright: ignore[reportUnsupportedDunderAll]

avoid_wrong_sums()
keep_compilations()


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import a public name on its first use."""
    if name in _MODULES:
        value = import_module(f".{_MODULES[name]}", __name__)
    elif name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    else:
        raise AttributeError(f"module 'inferostatic' has no attribute {name!r}")
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    """The public names."""
    return __all__
