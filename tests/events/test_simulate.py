"""Simulating: the seed decides everything, the grouping into tasks nothing."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import inferostatic as ist
from inferostatic.events.blocks import BLOCK_SIZE
from inferostatic.events.engines.engine import InProcess
from inferostatic.events.simulate import simulate_at
from inferostatic.learning.methods import Method
from inferostatic.streams import Purpose, Stream

PRIOR = ist.Uniform([0.0, -1.0], [1.0, 3.0], names=["a", "b"])


def shifted_normal(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


JAX_NORMAL = ist.JaxSimulator(lambda theta, key: theta + jax.random.normal(key, theta.shape))


@pytest.mark.parametrize("simulator", [shifted_normal, JAX_NORMAL], ids=["NumPy", "JAX"])
def test_theta_follows_the_prior_and_x_the_simulator(simulator: Callable[..., np.ndarray]) -> None:
    n = 13_000
    events = ist.simulate(simulator, PRIOR, n, seed=4)
    assert len(events) == n
    assert events.prior is PRIOR
    assert events.theta_names == ("a", "b")
    noise = events.x - events.theta
    for i, law in enumerate([stats.uniform(0, 1), stats.uniform(-1, 4)]):
        assert stats.kstest(events.theta[:, i], law.cdf).pvalue > 1e-3
        assert stats.kstest(noise[:, i], stats.norm.cdf).pvalue > 1e-3
    # θ and the noise come from the same seed, and must not know of each other.
    together = np.corrcoef(np.hstack([events.theta, noise]).T)
    assert np.abs(together[~np.eye(4, dtype=bool)]).max() < 4.5 / np.sqrt(n)
    # Nor must blocks know of each other.
    assert n % BLOCK_SIZE == 0
    for values in (events.theta[:, 0], noise[:, 0]):
        blocks = np.corrcoef(values.reshape(-1, BLOCK_SIZE))
        assert np.abs(blocks[~np.eye(len(blocks), dtype=bool)]).max() < 5 / np.sqrt(BLOCK_SIZE)


@pytest.mark.parametrize("simulator", [shifted_normal, JAX_NORMAL], ids=["NumPy", "JAX"])
def test_the_seed_decides(simulator: Callable[..., np.ndarray]) -> None:
    one, same = (ist.simulate(simulator, PRIOR, 40, seed=1) for _ in range(2))
    other = ist.simulate(simulator, PRIOR, 40, seed=2)
    np.testing.assert_array_equal(one.x, same.x)
    np.testing.assert_array_equal(one.theta, same.theta)
    assert (one.x != other.x).all()
    assert (one.theta != other.theta).all()


def test_the_first_events_do_not_depend_on_their_number() -> None:
    # 130 blocks have their θ drawn in three groups, and are run in tasks of two.
    many = ist.simulate(shifted_normal, PRIOR, 130 * BLOCK_SIZE + 30, seed=1)
    for n in (1, BLOCK_SIZE, BLOCK_SIZE + 1, 64 * BLOCK_SIZE - 1, 65 * BLOCK_SIZE):
        few = ist.simulate(shifted_normal, PRIOR, n, seed=1)
        assert len(few) == n
        np.testing.assert_array_equal(few.x, many.x[:n])
        np.testing.assert_array_equal(few.theta, many.theta[:n])


class Backwards(InProcess):
    """An engine whose tasks end in another order."""

    def run(self, function: Any, tasks: Any) -> Any:
        for index in reversed(range(len(tasks))):
            yield index, function(tasks[index])


def test_every_function_takes_a_simulator_on_an_engine() -> None:
    toy, prior = ist.toys.GaussianChain(), ist.Uniform([-1.0, -0.5], [1.0, 0.5])
    here = ist.simulate(toy, prior, 30_000, seed=4)
    there = ist.simulate(toy, prior, 30_000, engine=Backwards(), seed=4)
    bound = ist.simulate(Backwards()(toy), prior, 30_000, seed=4)
    for other in (there, bound):
        np.testing.assert_array_equal(other.x, here.x)
        np.testing.assert_array_equal(other.latent["z"], here.latent["z"])
        assert other.latent.joint == here.latent.joint
        assert other.x_names == here.x_names
    one, other = (
        ist.draw(ist.KSE(ist.Delta(0.1)), simulator, prior, 1000, seed=2)
        for simulator in (toy, Backwards()(toy))
    )
    np.testing.assert_array_equal(one.x, other.x)
    with pytest.raises(TypeError, match="run by an engine already, Backwards"):
        ist.simulate(Backwards()(toy), prior, 10, engine=InProcess(), seed=4)
    with pytest.raises(TypeError, match=r"an engine such as ist\.ProcessPool\(4\); got int"):
        ist.simulate(toy, prior, 10, engine=4, seed=4)  # pyright: ignore[reportArgumentType]


def test_the_result_does_not_depend_on_who_runs_which_block() -> None:
    theta = PRIOR.sample(2 * BLOCK_SIZE + 50, seed=3)
    stream = Stream(9, Purpose.SIMULATE)
    whole = simulate_at(shifted_normal, theta, stream, x_names=["u", "v"])
    # Other workers, in another order.
    for number in (2, 0, 1):
        rows = slice(number * BLOCK_SIZE, (number + 1) * BLOCK_SIZE)
        made = shifted_normal(theta[rows], stream.generator(number))
        np.testing.assert_array_equal(whole[rows], made)
    # More events in a later call leave the earlier ones as they were.
    fewer = simulate_at(shifted_normal, theta[:-50], stream, x_names=["u", "v"])
    np.testing.assert_array_equal(fewer, whole[:-50])


@pytest.mark.parametrize(
    "method",
    [ist.KSE(ist.Delta(0.25)), ist.KLRE(ist.Rectangular(0.4)), ist.KCE(number=3)],
    ids=str,
)
def test_drawn_records_follow_from_the_seed(method: Method) -> None:
    one, same = (ist.draw(method, shifted_normal, PRIOR, 30, seed=1) for _ in range(2))
    other = ist.draw(method, shifted_normal, PRIOR, 30, seed=2)
    np.testing.assert_array_equal(one.x, same.x)
    for ours, theirs in zip(*(jax.tree.leaves(r.record) for r in (one, same)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (one.x != other.x).all()
    assert len(one) == 30
    assert one.x_names == ("x0", "x1")
    assert one.theta_names == ("a", "b")


def test_names_of_the_observables_come_from_the_simulator() -> None:
    toy = ist.toys.Dirichlet(2)
    prior = ist.Uniform([1, 1], [2, 2])
    assert ist.simulate(toy, prior, 5, seed=1).x_names == toy.x_names
    assert ist.draw(ist.CARL(), toy, prior, 5, seed=1).x_names == toy.x_names
    assert ist.simulate(shifted_normal, prior, 5, seed=1).x_names == ("x0", "x1")


def test_a_changing_number_of_observables_is_refused() -> None:
    calls = []

    def growing(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        calls.append(len(theta))
        return rng.normal(size=(len(theta), len(calls)))

    with pytest.raises(ValueError, match=r"changed between calls, from 1 to 2 at row 200") as e:
        ist.simulate(growing, PRIOR, BLOCK_SIZE + 1, seed=1)
    assert "same columns for every θ" in str(e.value)


def test_changing_observables_are_refused_between_tasks() -> None:
    def growing(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(size=(len(theta), 1 if rng.bit_generator.state == before else 2))

    before = Stream(1, Purpose.SIMULATE).generator(0).bit_generator.state
    with pytest.raises(ValueError, match=r"changed between calls, from 2 to 1 at row 0"):
        ist.simulate(growing, PRIOR, 2 * BLOCK_SIZE, engine=Backwards(), seed=1)


def test_bad_rows_are_numbered_through_all_blocks() -> None:
    calls = []

    def breaks_late(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        x = rng.normal(size=theta.shape)
        calls.append(len(theta))
        x[7] = np.nan if len(calls) == 52 else 0.0
        return x

    theta = ist.simulate(shifted_normal, PRIOR, 52 * BLOCK_SIZE, seed=1).theta
    shown = np.round(theta[51 * BLOCK_SIZE + 7], 4).tolist()
    with pytest.raises(ValueError, match="in row 10207, at θ = ") as caught:
        ist.simulate(breaks_late, PRIOR, 52 * BLOCK_SIZE, seed=1)
    assert str([shown]) in str(caught.value)


MISUSES: dict[str, tuple[Callable[[], object], type[Exception], list[str]]] = {
    "prior and simulator swapped": (
        lambda: ist.simulate(PRIOR, shifted_normal, 5, seed=1),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["ist.Uniform(low, high)", "got function", "ist.simulate(simulator, prior, n, seed=…)"],
    ),
    "the class of a prior": (
        lambda: ist.simulate(shifted_normal, ist.Uniform, 5, seed=1),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["got the class Uniform itself; call it"],
    ),
    "the class of a toy": (
        lambda: ist.simulate(ist.toys.Dirichlet, PRIOR, 5, seed=1),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["ist.toys.Dirichlet()", "got the class Dirichlet itself; call it"],
    ),
    "a name": (
        lambda: ist.simulate("dirichlet", PRIOR, 5, seed=1),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["a function (theta, rng) -> x", "got str"],
    ),
    "nothing": (
        lambda: ist.simulate(None, PRIOR, 5, seed=1),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["a function (theta, rng) -> x", "got None"],
    ),
    "no events": (
        lambda: ist.simulate(shifted_normal, PRIOR, 0, seed=1),
        ValueError,
        ["n must be at least 1", "got 0"],
    ),
    "a number of events with a decimal point": (
        lambda: ist.simulate(shifted_normal, PRIOR, 1e3, seed=1),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["n must be a whole number", "1000.0"],
    ),
    "a toy with another number of parameters": (
        lambda: ist.simulate(ist.toys.Dirichlet(3), PRIOR, 5, seed=1),
        RuntimeError,
        ["theta must have shape (n, 3)", "got shape (200, 2)"],
    ),
}


@pytest.mark.parametrize(("misuse", "kind", "fragments"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_answered_by_a_sentence(
    misuse: Callable[[], object], kind: type[Exception], fragments: list[str]
) -> None:
    with pytest.raises(kind) as caught:
        misuse()
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_a_latent_aware_simulator_gives_latent_information() -> None:
    prior = ist.Uniform([-1.0, -0.5], [1.0, 0.5])
    toy = ist.toys.GaussianChain()
    events = ist.simulate(toy, prior, 12_000, seed=4, progress_bar=False)
    assert events.latent["z"].shape == (12_000, 3)
    plain = ist.simulate(lambda theta, rng: toy(theta, rng), prior, 12_000, seed=4)
    np.testing.assert_array_equal(events.x, plain.x)
    assert len(plain.latent) == 0
    # Those of an equal simulator can be joined.
    more = ist.simulate(ist.toys.GaussianChain(), prior, 100, seed=5, progress_bar=False)
    joined = ist.Events.concatenate([events, more], prior=prior)
    assert len(joined) == 12_100
    assert joined.latent.joint == events.latent.joint
    other = ist.simulate(ist.toys.GaussianChain(length=2), prior, 100, seed=5, progress_bar=False)
    with pytest.raises(ValueError, match="same latent information"):
        ist.Events.concatenate([events, other])


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda theta: theta, "must return events and latent variables"),
        (lambda theta: (theta, theta[:3]), "one row of latent variables for each of the 200"),
        (lambda theta: (theta, theta[:, : 1 + (theta[0, 0] > 0.5)]), "of one event changed"),
    ],
)
def test_wrong_latent_variables_are_told(made, told) -> None:
    class Simulator:
        def simulate_latent(self, theta, rng):
            return made(theta)

        def joint_log_prob(self, x, z, theta):
            return 0.0

    with pytest.raises((TypeError, ValueError), match=told):
        ist.simulate(Simulator(), ist.Uniform([0.0, 0], [1.0, 1]), 4000, seed=1)


class _Half:
    def simulate_latent(self, theta: np.ndarray, rng: np.random.Generator) -> Any:
        return theta, theta


class _CallableHalf(_Half):
    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return theta


@pytest.mark.parametrize("simulator", [_Half(), _CallableHalf()])
def test_latent_variables_without_their_density_are_told(simulator: Any) -> None:
    with pytest.raises(TypeError, match=r"simulate_latent but not joint_log_prob\(x, z, theta\)"):
        ist.simulate(simulator, ist.Uniform([0.0], [1.0]), 20, seed=1, progress_bar=False)
