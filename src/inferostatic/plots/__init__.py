"""Figures, each one function that returns a `matplotlib.figure.Figure`."""

from .checks import contours as contours
from .checks import diagnosis as diagnosis
from .paper import dirichlet_triangles as dirichlet_triangles
from .paper import error_by_instance as error_by_instance
from .plots import training_history as training_history
from .plots import true_against_predicted as true_against_predicted
from .plots import width_choice as width_choice

__all__ = [
    "contours",
    "diagnosis",
    "dirichlet_triangles",
    "error_by_instance",
    "training_history",
    "true_against_predicted",
    "width_choice",
]
