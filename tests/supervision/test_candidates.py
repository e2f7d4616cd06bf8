"""Candidate sets: θ' must be hidden among its candidates, at any width and near the walls.

Exchangeability says that, given the set of candidates, every one of them is equally likely to be
θ'. So the rank of θ' in the sorted set is uniform, also among sets that lie in one place or have
one size. Three wrong ways fail the same test.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_problem import FAILS, PASSES, rank_z
from jaxtyping import Array, Float, PRNGKeyArray

import inferostatic as ist
from inferostatic.supervision.candidates import (
    AbstractCandidates,
    AroundCentre,
    CandidateSets,
    FromPrior,
    MultiScale,
)
from inferostatic.supervision.records import Row
from inferostatic.world.priors.prior import AbstractPrior

pytestmark = pytest.mark.usefixtures("strict")

N = 50_000
OTHERS = 7


@eqx.filter_jit
def _sets(candidates: AbstractCandidates, prior: AbstractPrior, keys: Array) -> Array:
    def one(key: Array) -> Array:
        first, second = jax.random.split(key)
        theta = prior.draw(key=first)
        row = Row(x=jnp.zeros(1), theta=theta, is_reference=jnp.zeros(()))
        return jnp.concatenate([theta[None], candidates.draw(row, prior, OTHERS, key=second)])

    return jax.vmap(one)(keys)


def draw_sets(candidates: AbstractCandidates, prior: AbstractPrior, seed: int = 1) -> np.ndarray:
    """Candidate sets, shape (n, K+1, d), with θ' first."""
    return np.asarray(
        _sets(candidates, prior, jax.random.split(jax.random.key(seed), N)), np.float64
    )


def rank_of_first(values: np.ndarray, seed: int = 0) -> np.ndarray:
    """Rank of the first column in each row; ties, up to rounding, are broken at random."""
    first, others = values[:, :1], values[:, 1:]
    below = np.sum(others < first - 1e-5, axis=1)
    tied = np.sum(np.abs(others - first) <= 1e-5, axis=1)
    return below + np.random.default_rng(seed).integers(0, tied + 1)


def worst_z(sets: np.ndarray) -> float:
    """The largest |z| over components, everywhere and in groups by symmetric functions of sets."""
    worst = 0.0
    for i in range(sets.shape[2]):
        values = sets[:, :, i]
        ranks = rank_of_first(values)
        functions = [f(values, axis=1).round(4) for f in (np.mean, np.min, np.max, np.ptp)]
        groups = [np.ones(len(sets), bool)]
        for function in functions:
            edges = np.quantile(function, [0.05, 0.3, 0.7, 0.95])
            cells = np.searchsorted(edges, function)
            groups += [cells == cell for cell in range(5)]
        for group in groups:
            if group.sum() > 1000:
                worst = max(worst, float(np.abs(rank_z(ranks[group], values.shape[1])).max()))
    return worst


BOX = ist.Uniform([0.0, -1.0], [1.0, 4.0])
NORMAL = ist.Normal([0.0, 1.0], [1.0, 0.5])
HALF = ist.TruncatedNormal([0.0, 0.0], [1.0, 1.0], [0.0, -1.0], [np.inf, 2.0])
POINTS = ist.Discrete([[0.0, 1.0], [0.3, 0.2], [0.7, 0.5], [1.0, 0.0]], [5, 1, 3, 1])
FALLING = ist.CustomPrior(
    lambda key: jax.random.exponential(key, (2,)), lambda theta: -jnp.sum(theta), low=0.0
)

RIGHT: dict[str, tuple[AbstractCandidates, AbstractPrior]] = {
    "multi-scale, box": (MultiScale(), BOX),
    "multi-scale, normal": (MultiScale(), NORMAL),
    "multi-scale, half normal": (MultiScale(0.1, 0.5), HALF),
    "multi-scale, custom": (MultiScale(0.2), FALLING),
    "multi-scale, points": (MultiScale(), POINTS),
    "fixed, box": (AroundCentre(ist.Rectangular([0.3, 1.5])), BOX),
    "fixed delta, box": (AroundCentre(ist.Delta([0.3, 1.5])), BOX),
    "fixed, normal": (AroundCentre(ist.Gaussian(0.5)), NORMAL),
    "width grows, box": (AroundCentre(ist.Rectangular(lambda theta: 0.1 + 0.2 * theta[0])), BOX),
    "fixed, points": (AroundCentre(ist.Rectangular(0.9)), POINTS),
    "independent, box": (FromPrior(), BOX),
    "independent, points": (FromPrior(), POINTS),
}


@pytest.mark.parametrize("name", RIGHT)
def test_candidates_hide_the_true_one(name):
    sets = draw_sets(*RIGHT[name])
    assert worst_z(sets) < PASSES
    assert np.mean(np.any(sets[:, 1:] != sets[:, :1], axis=(1, 2))) > 0.5


class NoCentre(AbstractCandidates):
    """Wrong: candidates around θ' itself."""

    def draw(self, row: Row, prior: AbstractPrior, number: int, *, key: PRNGKeyArray) -> Array:
        size = jnp.asarray(0.3, jnp.float32)
        keys = jax.random.split(key, number)
        return jax.vmap(lambda k: prior.step(row.theta, size, key=k))(keys)


class TwoWidths(AbstractCandidates):
    """Wrong: one width for the centre, another one for the candidates."""

    def draw(self, row: Row, prior: AbstractPrior, number: int, *, key: PRNGKeyArray) -> Array:
        first, second, move, rest = jax.random.split(key, 4)
        narrow, wide = (jnp.exp(-3 * jax.random.uniform(k)) for k in (first, second))
        centre = prior.step(row.theta, narrow, key=move)
        return jax.vmap(lambda k: prior.step(centre, wide, key=k))(jax.random.split(rest, number))


class WidthOfTheta(AbstractCandidates):
    """Wrong: a width that depends on θ'."""

    def draw(self, row: Row, prior: AbstractPrior, number: int, *, key: PRNGKeyArray) -> Array:
        move, rest = jax.random.split(key)
        size = 0.05 + 0.5 * row.theta[0]
        centre = prior.step(row.theta, size, key=move)
        return jax.vmap(lambda k: prior.step(centre, size, key=k))(jax.random.split(rest, number))


class Clipped(AbstractCandidates):
    """Wrong: steps that leave the box are put on its wall."""

    def draw(self, row: Row, prior: AbstractPrior, number: int, *, key: PRNGKeyArray) -> Array:
        low, high = (jnp.asarray(edge, jnp.float32) for edge in BOX.support)
        t = jax.random.uniform(key, (number + 1, len(low)), minval=-1.0, maxval=1.0)
        steps = 0.3 * t * (high - low)[None]
        centre = jnp.clip(row.theta + steps[0], low, high)
        return jnp.clip(centre[None] + steps[1:], low[None], high[None])


@pytest.mark.parametrize("wrong", [NoCentre(), TwoWidths(), WidthOfTheta(), Clipped()])
def test_the_test_sees_wrong_candidates(wrong):
    assert worst_z(draw_sets(wrong, BOX)) > FAILS


class Remembering(AbstractPrior):
    """A uniform law of one number that carries along the place its last step came from."""

    names: tuple[str, ...] = eqx.field(static=True, default=("place", "before"))

    def draw(self, *, key: PRNGKeyArray) -> Float[Array, " theta_dim"]:
        return jnp.stack([jax.random.uniform(key), jnp.zeros(())])

    def log_density(self, theta: Float[Array, " theta_dim"]) -> Float[Array, ""]:
        return jnp.zeros(())

    def step(
        self, theta: Float[Array, " theta_dim"], fraction: Float[Array, ""], *, key: PRNGKeyArray
    ) -> Float[Array, " theta_dim"]:
        moved = ist.Uniform(0.0, 1.0).step(theta[:1], fraction, key=key)
        return jnp.concatenate([moved, theta[:1]])

    def describe_parameters(self) -> list[str]:
        return ["from 0 to 1"] * 2

    @property
    def support(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(2), np.ones(2)

    @property
    def centre_and_scale(self) -> tuple[np.ndarray, np.ndarray]:
        return np.full(2, 0.5), np.ones(2)


def test_given_the_centre_the_true_one_is_like_the_others():
    sets = draw_sets(MultiScale(), Remembering())
    places, centres = sets[:, :, 0], sets[:, 1:, 1]
    # One centre serves all candidates of an event.
    assert np.all(centres == centres[:, :1])
    assert np.mean(centres[:, 0] == places[:, 0]) < 0.01
    ranks = rank_of_first(places)
    near = rank_of_first(np.abs(places - centres[:, :1]))
    for low, high in [(0.0, 0.03), (0.03, 0.2), (0.2, 0.8), (0.8, 0.97), (0.97, 1.0)]:
        group = (centres[:, 0] >= low) & (centres[:, 0] < high)
        for rank in (ranks[group], near[group]):
            assert np.abs(rank_z(rank, OTHERS + 1)).max() < PASSES
    # Without a centre the true one would always be nearest to it.
    wrong = draw_sets(NoCentre(), Remembering())
    distance = np.abs(wrong[:, :, 0] - wrong[:, 1:2, 1])
    assert np.abs(rank_z(rank_of_first(distance), OTHERS + 1)).max() > FAILS


def test_multi_scale_is_log_uniform_and_shared_within_an_event():
    multi_scale = MultiScale(smallest=0.01, largest=0.1)
    # A box so large that steps are never folded, and starts in its middle.
    prior = ist.Uniform(0.0, 1.0)
    row = Row(x=jnp.zeros(1), theta=jnp.array([0.5]), is_reference=jnp.zeros(()))
    keys = jax.random.split(jax.random.key(2), 4000)
    draw = jax.jit(jax.vmap(lambda key: multi_scale.draw(row, prior, 200, key=key)))
    candidates = np.asarray(draw(keys), np.float64)[:, :, 0]
    # 200 uniform numbers on [c − f, c + f] span 2f·199/201 on average.
    fraction = np.ptp(candidates, axis=1) / 2 * 201 / 199
    level = np.log(fraction / 0.01) / np.log(10)
    frequencies, _ = np.histogram(level, bins=8, range=(0.0, 1.0))
    assert np.abs((frequencies - 500) / np.sqrt(500 * 7 / 8)).max() < PASSES
    assert fraction.max() < 0.1 * 1.02
    centre = (candidates.max(axis=1) + candidates.min(axis=1)) / 2
    assert np.all(np.abs(centre - 0.5) < fraction * 1.1)


def test_records_put_the_true_one_first():
    events = ist.Events(x=np.zeros((3, 1)), theta=[[0.1, 1.0], [0.5, 2.0], [0.9, 3.0]], prior=BOX)
    supervision = CandidateSets(MultiScale(), 4)
    supply = supervision.supply(events)
    for i in range(3):
        row = jax.tree.map(lambda leaf, i=i: leaf[i], supply.rows)
        record = supervision.supervise(row, supply.distribution, key=jax.random.key(i))
        assert record.thetas.shape == (5, 2)
        np.testing.assert_array_equal(record.thetas[0], row.theta)
        assert int(record.answer) == 0
        assert float(record.weight) == 1.0


def test_refusals():
    with pytest.raises(ValueError, match="number must be at least 1; got 0"):
        ist.KCE(number=0)
    with pytest.raises(ValueError, match="at least one candidate besides θ' is needed"):
        CandidateSets(MultiScale(), 0)
    for smallest, largest in [(0.0, 1.0), (0.5, 0.1), (0.1, 1.5)]:
        with pytest.raises(ValueError, match="fractions of the prior's width"):
            ist.MultiScale(smallest, largest)
