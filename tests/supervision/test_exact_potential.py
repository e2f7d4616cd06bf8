"""The exact potential is a stationary point of every classification method.

Whatever the prior, kernel, loss or set of parameter points, tilting ln p(x; θ) in any direction,
also in directions that live at the walls only, must not lower the expected loss to first order.
Supervision that ignores what it must not ignore fails the same test.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_problem import (
    BOX,
    FAILS,
    HIGH,
    LOW,
    PASSES,
    drawn_gradient_z,
    gradient_z,
    simulate,
)
from jaxtyping import Array, PRNGKeyArray

import inferostatic as ist
from inferostatic.learning.losses import SoftmaxCrossEntropy
from inferostatic.learning.methods import AbstractMethod, Method
from inferostatic.supervision.candidates import AbstractCandidates, CandidateSets
from inferostatic.supervision.pairs import AbstractPairs
from inferostatic.supervision.records import Row
from inferostatic.world.priors.prior import AbstractPrior

pytestmark = pytest.mark.usefixtures("strict")

N = 60_000

PRIORS: dict[str, AbstractPrior] = {
    "box": BOX,
    "normal": ist.Normal([0.2, 0.1], [0.8, 0.4]),
    "truncated normal": ist.TruncatedNormal([-0.5, 0.8], [1.0, 0.7], LOW, HIGH),
    "product": ist.Product([ist.Normal(0.0, 0.7), ist.Uniform(-0.6, 0.8)]),
    "custom": ist.CustomPrior(
        lambda key: jax.random.exponential(key, (2,)) * 0.5 + jnp.asarray(LOW, jnp.float32),
        lambda theta: -2 * jnp.sum(theta),
        low=LOW,
    ),
}


def largest(z: np.ndarray) -> float:
    return float(np.abs(z).max())


def stored(prior: AbstractPrior, seed: int = 1) -> ist.Events:
    return ist.simulate(simulate, prior, N, seed=seed)


STORED: dict[str, tuple[str, AbstractMethod]] = {
    "KCE, box": ("box", ist.KCE(number=7)),
    "KCE, normal": ("normal", ist.KCE(number=3)),
    "KCE, truncated normal": ("truncated normal", ist.KCE(number=4)),
    "KCE, custom": ("custom", ist.KCE(number=4)),
    "KCE fixed, box": ("box", ist.KCE(ist.Rectangular([0.8, 0.5]), number=5)),
    "KCE fixed delta, box": ("box", ist.KCE(ist.Delta([0.8, 0.5]), number=3)),
    "KCE fixed, width grows, custom": (
        "custom",
        ist.KCE(ist.Gaussian(lambda x, theta: 0.3 + 0.1 * jnp.abs(x) + 0.1 * theta**2), number=3),
    ),
    "KCE independent, truncated normal": (
        "truncated normal",
        ist.KCE(ist.Independent(), number=5),
    ),
    "KLRE, box": ("box", ist.KLRE(ist.Rectangular([0.8, 0.5]))),
    "KLRE, normal, savage": ("normal", ist.KLRE(ist.Delta(0.7), ist.Savage())),
    "KLRE, custom, square": ("custom", ist.KLRE(ist.Triangular(1.0), ist.Square())),
    "CARL, product, exponential": ("product", ist.CARL(loss=ist.Exponential())),
    "mixed, box": (
        "box",
        ist.Mix([(1.0, ist.KCE(number=2)), (0.5, ist.KLRE(ist.Epanechnikov(0.5)))]),
    ),
}


@pytest.mark.parametrize("name", STORED)
def test_stored_events(name):
    prior, method = STORED[name]
    assert largest(gradient_z(method, stored(PRIORS[prior]))) < PASSES


@pytest.mark.parametrize(
    "method",
    [
        ist.KLRE(ist.Rectangular([0.8, 0.5])),
        ist.KLRE(ist.Delta(0.5), ist.Square()),
        ist.CARL(loss=ist.Exponential()),
        ist.CARL(reference=[0.2, 0.1]),
        ist.KCE(number=4),
    ],
    ids=["KLRE", "KLRE square", "CARL exponential", "CARL reference", "KCE"],
)
def test_drawn_records(method):
    records = ist.draw(method, simulate, BOX, N, seed=2)
    assert largest(drawn_gradient_z(records)) < PASSES


def log_reference(x: Array) -> Array:
    return -jnp.sum((x / jnp.array([1.6, 1.3])) ** 2) / 2 - float(np.log(1.6 * 1.3 * 2 * np.pi))


def test_reference_sample():
    x = np.random.default_rng(3).normal(0.0, [1.6, 1.3], size=(N // 3, 2))
    method = ist.DCTR(ist.Events(x=x, theta=[0.0, 0.0]))
    z = gradient_z(method, stored(BOX), log_reference=log_reference)
    assert largest(z) < PASSES
    # The potential against another density is another potential.
    assert largest(gradient_z(method, stored(BOX))) > FAILS


# Wrong variants


class ClippedPartner(AbstractPairs):
    """Wrong: a partner outside the box is put on its wall."""

    def pair(self, prior: AbstractPrior, *, key: PRNGKeyArray) -> tuple[Array, Array]:
        raise NotImplementedError

    def partner(self, theta: Array, x: Array, prior: AbstractPrior, *, key: PRNGKeyArray) -> Array:
        step = jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0) * jnp.array([0.8, 0.5])
        return jnp.clip(theta + step, jnp.asarray(LOW, jnp.float32), jnp.asarray(HIGH, jnp.float32))


class EscapingPartner(AbstractPairs):
    """Wrong: a partner that leaves the support, from where no events ever come."""

    def pair(self, prior: AbstractPrior, *, key: PRNGKeyArray) -> tuple[Array, Array]:
        raise NotImplementedError

    def partner(self, theta: Array, x: Array, prior: AbstractPrior, *, key: PRNGKeyArray) -> Array:
        return theta + jax.random.uniform(key, (2,), minval=-0.5, maxval=0.5)


class NoCentre(AbstractCandidates):
    """Wrong: candidates around θ' itself."""

    def draw(self, row: Row, prior: AbstractPrior, number: int, *, key: PRNGKeyArray) -> Array:
        size = jnp.asarray(0.4, jnp.float32)
        keys = jax.random.split(key, number)
        return jax.vmap(lambda k: prior.step(row.theta, size, key=k))(keys)


WRONG: dict[str, tuple[str, AbstractMethod]] = {
    "clipping": ("box", ist.CARL(pairs=ClippedPartner())),
    "escaping": ("box", ist.CARL(pairs=EscapingPartner())),
    "no centre": (
        "normal",
        Method("KCE", CandidateSets(NoCentre(), 7), SoftmaxCrossEntropy()),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_test_sees_wrong_supervision(name):
    prior, method = WRONG[name]
    assert largest(gradient_z(method, stored(PRIORS[prior]))) > FAILS


def test_the_test_sees_a_prior_that_is_not_the_law_of_the_events():
    events = stored(PRIORS["truncated normal"])
    claimed = ist.Events(x=events.x, theta=events.theta, prior=BOX)
    assert largest(gradient_z(ist.CARL(), claimed)) > FAILS


# A finite set of parameter points, in unequal numbers and without a prior

POINTS = np.array([[-0.8, -0.4], [-0.3, 0.1], [0.2, 0.6], [0.4, -0.2], [1.1, 0.4]])
COUNTS = np.array([20_000, 4_000, 12_000, 8_000, 16_000])


def design(weight: Any = None, prior: AbstractPrior | None = None) -> ist.Events:
    theta = np.repeat(POINTS, COUNTS, axis=0)
    x = simulate(theta, np.random.default_rng(4))
    return ist.Events(x=x, theta=theta, weight=weight, prior=prior)


ON_POINTS: dict[str, AbstractMethod] = {
    "KCE independent": ist.KCE(ist.Independent(), number=4),
    "KCE kernel": ist.KCE(ist.Rectangular(0.9), number=4),
    "KCE kernel, width differs": ist.KCE(ist.Gaussian(lambda theta: 0.8 + 0.3 * theta), number=3),
    "CARL": ist.CARL(),
    "KLRE": ist.KLRE(ist.Gaussian(0.7)),
    "CARL to a point": ist.CARL(reference=[0.4, -0.2]),
}


@pytest.mark.parametrize("name", ON_POINTS)
def test_unequal_numbers_at_parameter_points(name):
    assert largest(gradient_z(ON_POINTS[name], design())) < PASSES


@pytest.mark.parametrize("name", ["KCE independent", "KCE kernel", "CARL", "KLRE"])
def test_ignoring_the_unequal_numbers_fails(name):
    # Equal probabilities for all points, although the events do not follow them.
    assert largest(gradient_z(ON_POINTS[name], design(prior=ist.Discrete(POINTS)))) > FAILS


@pytest.mark.parametrize("name", ["KCE independent", "KCE kernel", "CARL to a point"])
def test_weights_count_as_numbers_of_events(name):
    # Weights that depend on θ change the law of θ, not the likelihood; some are negative.
    rng = np.random.default_rng(5)
    weight = np.repeat([1.0, 3.0, 0.5, 2.0, 1.5], COUNTS) * rng.choice(
        [-1, 1], 60_000, p=[0.1, 0.9]
    )
    events = design(weight)
    assert largest(gradient_z(ON_POINTS[name], events)) < PASSES
    if name != "CARL to a point":
        wrong = design(weight, prior=ist.Discrete(POINTS, COUNTS))
        with pytest.warns(UserWarning, match="the weights depend on θ"):
            assert largest(gradient_z(ON_POINTS[name], wrong)) > FAILS


def test_many_stored_points_of_an_unknown_law():
    rng = np.random.default_rng(6)
    theta = LOW + (HIGH - LOW) * rng.beta(0.7, 2.0, size=(N, 2))
    events = ist.Events(x=simulate(theta, rng), theta=theta)
    with pytest.warns(UserWarning, match="exact but never local"):
        z = gradient_z(ist.CARL(), events)
    assert largest(z) < PASSES
    with (
        pytest.warns(UserWarning, match="these events have no prior="),
        pytest.raises(ValueError, match="stored parameter points is not possible"),
    ):
        gradient_z(ist.KLRE(ist.Rectangular(0.2)), events)


def test_weights_that_depend_on_theta_are_told() -> None:
    prior = ist.Uniform([0.0], [2.0])
    theta = prior.sample(4000, seed=1)
    x = theta + np.random.default_rng(2).normal(size=theta.shape)
    rng = np.random.default_rng(3)
    flat = ist.Events(x=x, theta=theta, prior=prior, weight=rng.uniform(-0.5, 2, len(x)))
    ist.CARL().supply(flat)
    tilted = ist.Events(x=x, theta=theta, prior=prior, weight=np.exp(theta[:, 0]))
    with pytest.warns(UserWarning, match="the weights depend on θ"):
        ist.CARL().supply(tilted)
