"""Four tasks of sbibm 1.1.0 (arXiv:2101.04653), written from their definitions.

Each has a prior, a simulator and its exact log likelihood, which is written once, in JAX, for one
event and one θ: `Task.log_likelihood` and `Task.score` evaluate it and its gradient in float64, and
`Task.at` hands it to a sampler. The ten observations and the 10,000 reference draws of each
posterior come from the published wheel, which is downloaded once and not installed.
"""

import bz2
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

import inferostatic as ist
from inferostatic.world.priors.prior import AbstractPrior

REQUIREMENT: Final = "sbibm==1.1.0"
CACHE: Final = Path(__file__).parents[1] / ".cache" / "sbibm"
OBSERVATIONS: Final = range(1, 11)

#: One event and one θ give ln p(x; θ).
LogDensity = Callable[[Array, Array], Array]


class DownloadError(RuntimeError):
    """The published observations are not here and could not be downloaded."""


@dataclass(frozen=True)
class Observation:
    """One published observation.

    Attributes:
        x: the observed event, shape (D,).
        theta: the parameters it was simulated at, shape (d,).
        reference: draws from its exact posterior, shape (10000, d).
    """

    x: np.ndarray
    theta: np.ndarray
    reference: np.ndarray


@dataclass(frozen=True)
class Task:
    """A simulator with a prior, whose likelihood is known.

    Attributes:
        name: the name that sbibm gives it.
        prior: law of θ.
        simulate: `(theta (n, d), rng) -> x (n, D)`, as `ist.simulate` takes it.
        log_density: normalised ln p(x; θ) of one event and one θ, in JAX.
    """

    name: str
    prior: AbstractPrior
    simulate: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    log_density: LogDensity

    def log_likelihood(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """ln p(x; θ) in float64, shape (n,), of x with shape (n, D) and θ with shape (n, d)."""
        return _in_float64(_log_densities, self.log_density, x, theta)

    def score(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """∇θ ln p(x; θ) in float64, shape (n, d); NaN or meaningless where p(x; θ) = 0."""
        return _in_float64(_scores, self.log_density, x, theta)

    def at(self, x: np.ndarray) -> Callable[[Array], Array]:
        """The JAX function of θ, (m, d) -> (m,), that is ln p(x; θ) of one event (D,)."""
        return Partial(_log_density_of_many, self.log_density, jnp.asarray(x, jnp.float32))

    def observation(self, number: int, *, cache: Path = CACHE) -> Observation:
        """The published observation `number`, from 1 to 10, downloaded if need be."""
        if number not in OBSERVATIONS:
            raise ValueError(f"the observations are numbered from 1 to 10; got {number}.")
        x, theta, reference = (cache / path for path in _paths(self.name, number))
        if not (x.exists() and theta.exists() and reference.exists()):
            download(cache)
        return Observation(x=_read(x)[0], theta=_read(theta)[0], reference=_read(reference))


def _log_density_of_many(log_density: LogDensity, x: Array, thetas: Array) -> Array:
    return jax.vmap(log_density, in_axes=(None, 0))(x, thetas)


@jax.jit(static_argnums=0)
def _log_densities(log_density: LogDensity, x: Array, theta: Array) -> Array:
    return jax.vmap(log_density)(x, theta)


@jax.jit(static_argnums=0)
def _scores(log_density: LogDensity, x: Array, theta: Array) -> Array:
    return jax.vmap(jax.grad(log_density, argnums=1))(x, theta)


def _in_float64(
    function: Callable[[LogDensity, Array, Array], Array],
    log_density: LogDensity,
    x: np.ndarray,
    theta: np.ndarray,
) -> np.ndarray:
    with jax.enable_x64(True):  # noqa: FBT003
        events, parameters = (jnp.asarray(rows, jnp.float64) for rows in (x, theta))
        return np.asarray(function(log_density, events, parameters))


# Two moons: a crescent of radius 0.1, moved by a linear map of θ up to one sign.
MOON_OFFSET: Final = 0.25
MOON_RADIUS: Final = 0.1
MOON_WIDTH: Final = 0.01


def simulate_two_moons(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """x = (r cos a + 1/4 − |θ1 + θ2|/√2, r sin a + (θ2 − θ1)/√2), a uniform, r normal."""
    angle = rng.uniform(-math.pi / 2, math.pi / 2, len(theta))
    radius = rng.normal(MOON_RADIUS, MOON_WIDTH, len(theta))
    along = np.abs(theta[:, 0] + theta[:, 1]) / math.sqrt(2)
    across = (theta[:, 1] - theta[:, 0]) / math.sqrt(2)
    moon = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return moon + np.stack([MOON_OFFSET - along, across], axis=1)


def log_density_two_moons(x: Array, theta: Array) -> Array:
    """ln p(x; θ), −inf behind the crescent.

    The likelihood in sbibm's code is that of the radius; the density of x has the Jacobian
    1/(π r) as well, and so have the published reference draws.
    """
    along = jnp.abs(theta[0] + theta[1]) / math.sqrt(2)
    across = (theta[1] - theta[0]) / math.sqrt(2)
    u, v = x[0] - MOON_OFFSET + along, x[1] - across
    radius = jnp.sqrt(u**2 + v**2)
    pull = (radius - MOON_RADIUS) / MOON_WIDTH
    inside = -(pull**2) / 2 - jnp.log(math.sqrt(2 * math.pi) * MOON_WIDTH * math.pi * radius)
    return jnp.where(u > 0, inside, -jnp.inf)


# SLCP, simple likelihood and complex posterior: four draws from a Gaussian in the plane.
SLCP_DRAWS: Final = 4
SLCP_EPSILON: Final = 1e-6


def simulate_slcp(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Four draws with mean (θ1, θ2), scales θ3² and θ4², correlation tanh θ5."""
    scale_1, scale_2 = theta[:, 2] ** 2, theta[:, 3] ** 2
    variance_1 = scale_1**2 + SLCP_EPSILON
    covariance = np.tanh(theta[:, 4]) * scale_1 * scale_2
    slope = covariance / variance_1
    rest = np.sqrt(_slcp_determinant(scale_1, scale_2, np.cosh(theta[:, 4])) / variance_1)
    z = rng.standard_normal((len(theta), SLCP_DRAWS, 2))
    first = np.sqrt(variance_1)[:, None] * z[:, :, 0]
    second = slope[:, None] * first + rest[:, None] * z[:, :, 1]
    points = theta[:, None, :2] + np.stack([first, second], axis=2)
    return points.reshape(len(theta), 2 * SLCP_DRAWS)


def log_density_slcp(x: Array, theta: Array) -> Array:
    """ln p(x; θ): the first coordinate, then the second given the first."""
    points = x.reshape(SLCP_DRAWS, 2)
    scale_1, scale_2 = theta[2] ** 2, theta[3] ** 2
    variance_1 = scale_1**2 + SLCP_EPSILON
    determinant = _slcp_determinant(scale_1, scale_2, jnp.cosh(theta[4]))
    first, second = points[:, 0] - theta[0], points[:, 1] - theta[1]
    rest = second - jnp.tanh(theta[4]) * scale_1 * scale_2 / variance_1 * first
    square_distances = first**2 / variance_1 + rest**2 * variance_1 / determinant
    log_normalisation = jnp.log(determinant) / 2 + math.log(2 * math.pi)
    return -jnp.sum(square_distances) / 2 - SLCP_DRAWS * log_normalisation


def _slcp_determinant(scale_1: Any, scale_2: Any, cosh: Any) -> Any:  # noqa: ANN401
    # 1 − tanh² = 1/cosh², written so because the difference would cancel in float32.
    product = (scale_1 * scale_2 / cosh) ** 2
    return product + SLCP_EPSILON * (scale_1**2 + scale_2**2) + SLCP_EPSILON**2


# Gaussian linear: what sbibm calls a scale of 0.1 is a variance, of the noise and of the prior.
LINEAR_DIM: Final = 10
LINEAR_VARIANCE: Final = 0.1


def simulate_linear(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """x = θ plus Gaussian noise of variance 0.1."""
    return theta + math.sqrt(LINEAR_VARIANCE) * rng.standard_normal(theta.shape)


def log_density_linear(x: Array, theta: Array) -> Array:
    """ln p(x; θ)."""
    log_normalisation = len(theta) / 2 * math.log(2 * math.pi * LINEAR_VARIANCE)
    return -jnp.sum((x - theta) ** 2) / (2 * LINEAR_VARIANCE) - log_normalisation


TASKS: Final = {
    task.name: task
    for task in (
        Task(
            name="two_moons",
            prior=ist.Uniform([-1.0] * 2, [1.0] * 2),
            simulate=simulate_two_moons,
            log_density=log_density_two_moons,
        ),
        Task(
            name="slcp",
            prior=ist.Uniform([-3.0] * 5, [3.0] * 5),
            simulate=simulate_slcp,
            log_density=log_density_slcp,
        ),
        Task(
            name="gaussian_linear",
            prior=ist.Normal([0.0] * LINEAR_DIM, math.sqrt(LINEAR_VARIANCE)),
            simulate=simulate_linear,
            log_density=log_density_linear,
        ),
        Task(
            name="gaussian_linear_uniform",
            prior=ist.Uniform([-1.0] * LINEAR_DIM, [1.0] * LINEAR_DIM),
            simulate=simulate_linear,
            log_density=log_density_linear,
        ),
    )
}


def download(cache: Path = CACHE) -> None:
    """Put the observations and reference draws of all tasks into the folder `cache`.

    A wheel that already lies there is used instead of downloading it.

    Raises:
        DownloadError: if pip cannot download the wheel, or it lacks a file.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as name:
        folder = Path(name)
        wheel = next(cache.glob("sbibm-1.1.0-*.whl"), None) or _download_wheel(folder, cache)
        with zipfile.ZipFile(wheel) as archive:
            for path in (path for task in TASKS for n in OBSERVATIONS for path in _paths(task, n)):
                try:
                    archived = archive.read(f"sbibm/tasks/{path}")
                except KeyError as error:
                    raise DownloadError(f"{wheel} does not hold {path}; remove it.") from error
                # Written whole, so that a file that exists is complete.
                part = folder / "part"
                part.write_bytes(archived)
                (cache / path).parent.mkdir(parents=True, exist_ok=True)
                os.replace(part, cache / path)


def _download_wheel(folder: Path, cache: Path) -> Path:
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
    options = ("--no-deps", "--only-binary", ":all:", "--dest", str(folder), REQUIREMENT)
    done = subprocess.run([*pip, *options], capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        raise DownloadError(
            f"pip could not download {REQUIREMENT}, whose observations and reference posteriors "
            f"are needed:\n{done.stderr.strip()}\nOn a connected machine, `pip download --no-deps "
            f"{REQUIREMENT}` gives a wheel; put it into {cache}."
        )
    return wheels[0]


def _paths(task: str, number: int) -> tuple[Path, Path, Path]:
    folder = Path(task) / "files" / f"num_observation_{number}"
    return (
        folder / "observation.csv",
        folder / "true_parameters.csv",
        folder / "reference_posterior_samples.csv.bz2",
    )


def _read(path: Path) -> np.ndarray:
    open_text = bz2.open if path.suffix == ".bz2" else open
    with open_text(path, "rt") as lines:
        return np.loadtxt(lines, delimiter=",", skiprows=1, ndmin=2)
