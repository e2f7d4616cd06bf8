"""Exports are compared with the estimator, at events inside and at the edge of its region.

An export that differs is never kept. What computes in another way than the estimator is compared
with its model in float64, so that the estimator's own rounding does not count.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ..estimator.estimator import AbstractEstimator, Estimator, RatioEstimator, ScoreEstimator
from ..estimator.history import Region
from ..estimator.matrix_element import MatrixElement
from ..estimator.soundness import require_estimator
from ..inference.likelihood.float64 import float64, in_float64
from ..inputs import in_short, kind_of
from ..models.features.per_particle import PerParticleMap
from ..models.members import each_member, evaluate, mean
from ..models.potential import AbstractScoreModel, PotentialModel
from ..streams import Purpose, Stream

#: Largest difference that is accepted, relative to the value, or to 1 where that is larger.
TOLERANCE = 1e-5
#: Events at which an export is compared before it is kept.
POINTS = 1000
#: Fraction of the events that have some coordinates at an edge of the region.
AT_EDGE = 0.25
#: Where a region has no edge: so many units around the centre of the θ that were trained on.
UNBOUNDED = 3.0
#: Where an observable has no edge: so far from the other one, or from 0 where there is none.
UNBOUNDED_X = 10.0


class ExportError(ValueError):
    """An estimator that cannot be exported, or an export that does not agree with it."""


@dataclasses.dataclass(frozen=True)
class Points:
    """Events and parameters in float32, as models see them: shapes (n, D), (n, d) and (n, d)."""

    x: np.ndarray
    theta0: np.ndarray
    theta1: np.ndarray

    def inputs(self, question: str) -> dict[str, np.ndarray]:
        """What a question takes, by name."""
        if question == "log_ratio":
            return {"x": self.x, "theta0": self.theta0, "theta1": self.theta1}
        return {"x": self.x, "theta": self.theta0}


def questions_of(estimator: object) -> tuple[str, ...]:
    """Which of potential, score and log ratio an estimator offers; refuses what is none."""
    if isinstance(estimator, AbstractEstimator):
        try:
            require_estimator(estimator)
        except (ValueError, TypeError) as error:
            raise ExportError(f"this estimator cannot be exported: {error}.") from error
        _require_fitting_weights(estimator)
    if type(estimator) is Estimator:
        return ("potential", "score", "log_ratio")
    if type(estimator) is ScoreEstimator:
        return ("score",)
    if type(estimator) is RatioEstimator:
        return ("log_ratio",)
    if isinstance(estimator, AbstractEstimator):
        raise ExportError(
            f"a {type(estimator).__name__} is a normalising flow, whose layers this export does "
            "not know. ist.export.stablehlo(est, path) writes it for JAX; or train a potential on "
            "the same events, ist.fit(events, seed=…): its score and log ratio can be exported."
        )
    if isinstance(estimator, MatrixElement):
        raise ExportError(
            "the matrix element method integrates the simulator's own density, which is no network "
            "and cannot be exported. Train a potential on events instead, ist.fit(events, seed=…)."
        )
    raise TypeError(
        "what is exported is a trained estimator, such as ist.fit(…) or ist.load(…) gives; "
        f"got {kind_of(estimator)}."
    )


def _require_fitting_weights(estimator: AbstractEstimator) -> None:
    """Refuse weights of other shapes than the features give, which no training leaves behind."""
    model = estimator.model
    question = "log_ratio"
    if isinstance(model, AbstractScoreModel):
        question = "potential" if isinstance(model, PotentialModel) else "score"
    x_dim, theta_dim = len(estimator.x_names), len(estimator.theta_names)
    lengths = (x_dim, theta_dim, theta_dim)[: 3 if question == "log_ratio" else 2]
    rows = [jax.ShapeDtypeStruct((1, length), jnp.float32) for length in lengths]
    try:
        jax.eval_shape(
            lambda *rows: each_member(model, lambda one: jax.vmap(getattr(one, question))(*rows)),
            *rows,
        )
    except Exception as error:  # whatever JAX, or a user's network, says
        raise ExportError(
            f"this estimator cannot be exported: its {question} cannot be evaluated for "
            f"{x_dim} observables and {theta_dim} parameters ({in_short(error)})."
        ) from error


def choose_points(estimator: AbstractEstimator, count: int = POINTS, *, seed: int = 0) -> Points:
    """Events and parameters all over the trained region, a quarter of them at its edges."""
    rng = Stream(seed, Purpose.EXPORT_POINTS).generator()
    region = estimator.region
    centre = np.asarray(estimator.shapes.theta_centre, np.float64)
    reach = UNBOUNDED * np.asarray(estimator.shapes.theta_scale, np.float64)
    low = np.where(np.isfinite(region.theta_low), region.theta_low, centre - reach)
    high = np.where(np.isfinite(region.theta_high), region.theta_high, centre + reach)
    x = _fill_box(rng, count, *_bound_observables(region))
    features = estimator.shapes.x_features
    if isinstance(features, PerParticleMap):
        _remove_particles(rng, x, features)
    theta0, theta1 = (_fill_box(rng, count, low, high) for _ in range(2))
    return Points(x, theta0, theta1)


def _bound_observables(region: Region) -> tuple[np.ndarray, np.ndarray]:
    """The range of x, finite; a fit measures it, and only a file from elsewhere leaves it open."""
    low, high = (np.asarray(edge, np.float64) for edge in (region.x_low, region.x_high))
    middle = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
    return (
        np.where(np.isfinite(low), low, middle - UNBOUNDED_X),
        np.where(np.isfinite(high), high, middle + UNBOUNDED_X),
    )


def reference_values(estimator: AbstractEstimator, question: str, points: Points) -> np.ndarray:
    """What the estimator itself answers, in float32."""
    return getattr(estimator, question)(*points.inputs(question).values())


def exact_values(estimator: AbstractEstimator, question: str, points: Points) -> np.ndarray:
    """What the estimator would answer if it did not round: the same model in float64."""
    with float64():
        model = in_float64(estimator.model)
        rows = [jnp.asarray(part, jnp.float64) for part in points.inputs(question).values()]
        return np.asarray(evaluate(question, mean, model, *rows), np.float64)


def worst_error(values: np.ndarray, reference: np.ndarray) -> float:
    """The largest difference, relative to max(1, |reference|); infinite where a value is none."""
    values = np.asarray(values, np.float64).reshape(reference.shape)
    error = np.abs(values - reference) / np.maximum(1.0, np.abs(reference))
    return float(np.where(np.isfinite(error), error, np.inf).max())


def require_parity(question: str, values: np.ndarray, reference: np.ndarray, form: str) -> float:
    """The largest error of an export, called `form` in messages; raises where it is too large."""
    shape = np.shape(values)
    if shape != reference.shape:
        raise ExportError(
            f"{form} gives the {question} with shape {shape}, expected {reference.shape}; no file "
            "was written."
        )
    error = worst_error(values, reference)
    if not error <= TOLERANCE:
        raise ExportError(
            f"{form} does not agree with the estimator: its {question} is off by {error:.1e} "
            f"relative to max(1, |value|), {TOLERANCE:.0e} is accepted; no file was written."
        )
    return error


def _fill_box(
    rng: np.random.Generator, count: int, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    rows = low + rng.random((count, len(low))) * (high - low)
    edge = np.where(rng.random(rows.shape) < 0.5, low, high)
    at_edge = (rng.random((count, 1)) < AT_EDGE) & (rng.random(rows.shape) < 0.5)
    return np.where(at_edge, edge, rows).astype(np.float32)


def _remove_particles(rng: np.random.Generator, x: np.ndarray, features: PerParticleMap) -> None:
    """Leave a random number of particles in each event, none and all of them included."""
    layout = features.layout
    slots = x[:, : layout.columns].reshape(len(x), layout.particles, layout.features)
    if layout.mask is not None:
        slots[..., layout.mask] = 1
    left = rng.integers(0, layout.particles + 1, size=(len(x), 1))
    slots[np.arange(layout.particles) >= left] = 0 if layout.mask is not None else layout.padding
    x[:, : layout.columns] = slots.reshape(len(x), -1)
