"""Figures, each one function that returns a `matplotlib.figure.Figure`.

Colours stay distinct for colour-blind readers, and names are set as mathematics between dollars.
"""

from .contours import contours as contours
from .corner import corner as corner
from .diagnosis import calibration as calibration
from .diagnosis import coverage as coverage
from .diagnosis import diagnosis as diagnosis
from .diagnosis import mean_score as mean_score
from .diagnosis import ranks as ranks
from .dirichlet import dirichlet_triangles as dirichlet_triangles
from .estimates import intervals as intervals
from .estimates import pulls as pulls
from .instance_errors import error_by_instance as error_by_instance
from .learned_bias import learned_bias as learned_bias
from .observables import data_against_simulation as data_against_simulation
from .observables import reweighting as reweighting
from .observables import score_by_observable as score_by_observable
from .predictions import true_against_predicted as true_against_predicted
from .scans import confidence_region as confidence_region
from .scans import likelihood_scan as likelihood_scan
from .scans import limit_scan as limit_scan
from .training import training_history as training_history
from .widths import width_choice as width_choice

__all__ = [
    "calibration",
    "confidence_region",
    "contours",
    "corner",
    "coverage",
    "data_against_simulation",
    "diagnosis",
    "dirichlet_triangles",
    "error_by_instance",
    "intervals",
    "learned_bias",
    "likelihood_scan",
    "limit_scan",
    "mean_score",
    "pulls",
    "ranks",
    "reweighting",
    "score_by_observable",
    "training_history",
    "true_against_predicted",
    "width_choice",
]


def __dir__() -> list[str]:
    """The figures."""
    return __all__
