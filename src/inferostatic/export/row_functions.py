"""What an estimator answers, as JAX functions of rows, for the exports that keep to JAX."""

from collections.abc import Callable

from jaxtyping import Array

from ..estimator.density import DensityEstimator
from ..estimator.estimator import AbstractEstimator
from ..estimator.matrix_element import MatrixElement
from ..models.members import evaluate, log_mean_exp, mean
from .parity import ExportError, questions_of


def list_questions(estimator: object) -> tuple[str, ...]:
    """As `questions_of`, and those of flows, whose layers JAX knows."""
    if type(estimator) is DensityEstimator:
        return ("log_prob", "potential", "score", "log_ratio")
    if isinstance(estimator, MatrixElement):
        raise ExportError(
            "a MatrixElement draws latent variables for every event and calls the functions that "
            "it was given, which no file holds. Train a density or a potential on the same events "
            "instead, ist.fit(events, ist.NDE(), seed=…) or ist.fit(events, seed=…)."
        )
    return questions_of(estimator)  # type: ignore[arg-type]  # refuses what is no estimator


def row_function(estimator: AbstractEstimator, question: str) -> Callable[..., Array]:
    """A function of x, shape (n, D), and θ, shapes (n, d), with the mean over members inside."""
    over = log_mean_exp if question == "log_prob" else mean

    def answer(*rows: Array) -> Array:
        return evaluate(question, over, estimator.model, *rows)

    return answer
