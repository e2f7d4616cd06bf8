"""Whether a trained estimator can be trusted; records only, figures are drawn by `plots`."""

from .calibration import CalibrationCurve as CalibrationCurve
from .calibration import calibration as calibration
from .coverage import Coverage as Coverage
from .coverage import coverage as coverage
from .finding import Finding as Finding
from .latent import LatentCheck as LatentCheck
from .latent import latent as latent
from .mean_score import MeanScore as MeanScore
from .mean_score import mean_score as mean_score
from .pair_identities import PairIdentities as PairIdentities
from .pair_identities import pair_identities as pair_identities
from .predictive import PosteriorPredictive as PosteriorPredictive
from .predictive import posterior_predictive as posterior_predictive
from .recalibration import HistogramBins as HistogramBins
from .recalibration import Isotonic as Isotonic
from .recalibration import Recalibration as Recalibration
from .recalibration import recalibrate as recalibrate

__all__ = [
    "CalibrationCurve",
    "Coverage",
    "Finding",
    "HistogramBins",
    "Isotonic",
    "LatentCheck",
    "MeanScore",
    "PairIdentities",
    "PosteriorPredictive",
    "Recalibration",
    "calibration",
    "coverage",
    "latent",
    "mean_score",
    "pair_identities",
    "posterior_predictive",
    "recalibrate",
]


def __dir__() -> list[str]:
    """The checks and their records."""
    return __all__
