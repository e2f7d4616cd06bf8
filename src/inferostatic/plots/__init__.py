"""Figures, each one function that returns a `matplotlib.figure.Figure`."""

from .contours import contours as contours
from .diagnosis import diagnosis as diagnosis
from .dirichlet import dirichlet_triangles as dirichlet_triangles
from .instance_errors import error_by_instance as error_by_instance
from .predictions import true_against_predicted as true_against_predicted
from .training import training_history as training_history
from .widths import width_choice as width_choice
