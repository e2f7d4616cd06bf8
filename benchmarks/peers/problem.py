"""The work that every stack does: rows, initial weights and the loss, in plain NumPy.

Nothing here belongs to one stack. The parent draws the rows and writes them to a file, so that all
workers read the same numbers, and the loss below (float64, with the θ-gradient carried forward by
hand) is the independent answer that the stacks have to reproduce.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

KSE: Final = "KSE-ISN"
KLRE: Final = "KLRE-ISN"
TASKS: Final = (KSE, KLRE)

DIMENSIONS: Final = 3
PRIOR_LOW: Final = 0.5
PRIOR_HIGH: Final = 5.0
KSE_WIDTH: Final = 0.25
KLRE_WIDTH: Final = 0.4

# (inputs, outputs) of each layer; all but the last have a bias and a SELU.
LAYERS: Final = ((2 * DIMENSIONS, 8), (8, 16), (16, 8), (8, 1))
SELU_ALPHA: Final = 1.6732632423543772
SELU_SCALE: Final = 1.0507009873554805

LEARNING_RATE: Final = 1e-3
ADAM_BETAS: Final = (0.9, 0.999)
ADAM_EPSILON: Final = 1e-7

# Loss of a constant potential. A trained loss differs from it only by a little (3% for KSE, 1%
# for KLRE), so stacks are compared by how far below it they come, not by the loss itself.
UNTRAINED_LOSS: Final = {KSE: 1 / KSE_WIDTH**2, KLRE: math.log(2)}


@dataclass(frozen=True)
class Rows:
    """Supervised rows in the layout that suits all stacks.

    `inputs` holds (x, θ), shape (n, 6), for KSE, and the two points (x, θ0), (x, θ1), shape
    (n, 2, 6), for KLRE; `targets` holds u/λ, shape (n, 3), or the label y, shape (n,). Packing the
    network's input beforehand spares every stack two concatenations in each step.
    """

    inputs: Array
    targets: Array

    def first(self, count: int) -> "Rows":
        """Return the first `count` rows."""
        return Rows(self.inputs[:count], self.targets[:count])

    def __len__(self) -> int:
        return len(self.inputs)


def draw_rows(what: str, count: int, *, seed: int) -> Rows:
    """Draw `count` rows of the paper's task 1 (KSE) or task 2 (KLRE)."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform(PRIOR_LOW, PRIOR_HIGH, (count, DIMENSIONS))
    return _draw_kse(theta, rng) if what == KSE else _draw_klre(theta, rng)


def _draw_kse(theta: Array, rng: np.random.Generator) -> Rows:
    direction = rng.choice([-1.0, 1.0], theta.shape)
    x = _dirichlet(theta + KSE_WIDTH * direction, rng)
    return _single_precision(np.concatenate([x, theta], axis=1), direction / KSE_WIDTH)


def _draw_klre(theta: Array, rng: np.random.Generator) -> Rows:
    partner = theta + rng.uniform(-KLRE_WIDTH, KLRE_WIDTH, theta.shape)
    swap = rng.random((len(theta), 1)) < 0.5
    theta0, theta1 = np.where(swap, partner, theta), np.where(swap, theta, partner)
    label = rng.integers(0, 2, len(theta))
    x = _dirichlet(np.where(label[:, None] == 0, theta0, theta1), rng)
    points = [np.concatenate([x, theta0], axis=1), np.concatenate([x, theta1], axis=1)]
    return _single_precision(np.stack(points, axis=1), label)


def _dirichlet(theta: Array, rng: np.random.Generator) -> Array:
    gamma = rng.standard_gamma(theta)
    return gamma / gamma.sum(axis=1, keepdims=True)


def _single_precision(inputs: Array, targets: Array) -> Rows:
    return Rows(inputs.astype(np.float32), targets.astype(np.float32))


def save_rows(rows: Rows, path: Path) -> None:
    """Write the rows for the workers to read."""
    np.savez(path, inputs=rows.inputs, targets=rows.targets)


def load_rows(path: str | Path) -> Rows:
    """Read rows written by `save_rows`."""
    with np.load(path) as stored:
        return Rows(stored["inputs"], stored["targets"])


def glorot_weights(*, seed: int) -> list[Array]:
    """Return kernel, bias, kernel, bias, kernel, bias, kernel; kernels are (inputs, outputs)."""
    rng = np.random.default_rng(seed)
    weights: list[Array] = []
    for fan_in, fan_out in LAYERS:
        limit = math.sqrt(6 / (fan_in + fan_out))
        weights.append(rng.uniform(-limit, limit, (fan_in, fan_out)).astype(np.float32))
        weights.append(np.zeros(fan_out, np.float32))
    return weights[:-1]


def reference_loss(what: str, weights: list[Array], rows: Rows) -> float:
    """Return the mean loss in float64."""
    inputs, targets = rows.inputs.astype(np.float64), rows.targets.astype(np.float64)
    if what == KSE:
        _, slope = _potential_and_slope(weights, inputs)
        return squared_error(slope[:, DIMENSIONS:], targets)
    potential, _ = _potential_and_slope(weights, inputs.reshape(-1, 2 * DIMENSIONS))
    potential = potential.reshape(-1, 2)
    return logistic_loss(potential[:, 0] - potential[:, 1], targets)


def squared_error(score: Array, target: Array) -> float:
    """Return the squared error averaged over components and rows."""
    return float(np.mean((score - target) ** 2))


def logistic_loss(log_ratio: Array, label: Array) -> float:
    """Return the mean of y·softplus(l) + (1−y)·softplus(−l)."""
    signed = np.where(label == 1, log_ratio, -log_ratio)
    return float(np.mean(np.logaddexp(0.0, signed)))


def _potential_and_slope(weights: list[Array], inputs: Array) -> tuple[Array, Array]:
    """Return φ and ∂φ/∂input, carrying the Jacobian along with the activations."""
    exact = [weight.astype(np.float64) for weight in weights]
    activation = inputs
    jacobian = np.broadcast_to(np.eye(inputs.shape[1]), (len(inputs), *[inputs.shape[1]] * 2))
    for kernel, bias in zip(exact[0:-1:2], exact[1:-1:2], strict=True):
        before = activation @ kernel + bias
        rising = SELU_ALPHA * np.exp(np.minimum(before, 0))
        activation = SELU_SCALE * np.where(before > 0, before, rising - SELU_ALPHA)
        slope = SELU_SCALE * np.where(before > 0, 1.0, rising)
        jacobian = (jacobian @ kernel) * slope[:, None, :]
    return (activation @ exact[-1])[:, 0], (jacobian @ exact[-1])[:, :, 0]
