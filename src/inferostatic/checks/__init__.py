"""Whether a trained estimator can be trusted; records only, figures are drawn by `plots`."""

from .calibration import Calibration as Calibration
from .calibration import Recalibration as Recalibration
from .calibration import calibration as calibration
from .calibration import recalibrate as recalibrate
from .coverage import Coverage as Coverage
from .coverage import coverage as coverage
from .finding import Finding as Finding
from .identities import MeanScore as MeanScore
from .identities import PairIdentities as PairIdentities
from .identities import mean_score as mean_score
from .identities import pair_identities as pair_identities
from .latent import LatentCheck as LatentCheck
from .latent import latent as latent
from .predictive import PosteriorPredictive as PosteriorPredictive
from .predictive import posterior_predictive as posterior_predictive
