"""Wherever a simulator is run, by however many workers, the numbers are the same, bit by bit."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.events.engines.engine import AbstractEngine, InProcess
from parameters import slow
from test_streams import PRIOR, SIMULATIONS

LATENT = ist.toys.GaussianChain()
LATENT_PRIOR = ist.Uniform([-1.0, -0.5], [1.0, 0.5])
#: What takes long for other reasons than simulation.
LONG = {"upper_limit", "upper_limit with a calibration", "upper_limit with toys"}


def noisy(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


class Compared(AbstractEngine):
    """Runs all tasks here and by the other engines, and compares the results."""

    failures = None

    def __init__(self, *others: AbstractEngine) -> None:
        self.others, self.compared = others, 0

    def run(
        self, function: Callable[[Any], Any], tasks: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        expected = dict(InProcess().run(function, tasks))
        for engine in self.others:
            found = dict(engine.run(function, tasks))
            assert found.keys() == expected.keys()
            for index, made in expected.items():
                assert found[index].names == made.names
                np.testing.assert_array_equal(found[index].x, made.x)
                assert found[index].x.dtype == made.x.dtype
                self.compared += 1
        yield from expected.items()


@pytest.fixture(scope="module")
def pool() -> Iterator[ist.ProcessPool]:
    with ist.ProcessPool(2) as pool:
        yield pool


@pytest.fixture(scope="module")
def dask() -> Iterator[ist.Dask]:
    """A cluster whose workers are threads of this process, which start at once."""
    distributed = pytest.importorskip("distributed")
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 1}
    with distributed.Client(**options, dashboard_address=":0", set_as_default=False) as client:
        yield ist.Dask(client)


@pytest.mark.filterwarnings("ignore")  # of small samples
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in SIMULATIONS]
)
def test_every_function_has_the_same_events(
    name: str, pool: ist.ProcessPool, dask: ist.Dask
) -> None:
    engine, run = Compared(pool, dask), SIMULATIONS[name]
    simulator: Any = engine(noisy)
    run(simulator)
    assert engine.compared > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SIMULATIONS)
def test_every_function_finds_the_same(name: str, pool: ist.ProcessPool) -> None:
    from campaign.outcomes import digest

    run: Any = SIMULATIONS[name]
    expected, found = (digest(run(simulator)) for simulator in (noisy, pool(noisy)))
    assert any(isinstance(value, np.ndarray) for value in expected.values())
    for place in [place for place in expected if "simulator" not in place]:
        np.testing.assert_array_equal(found[place], expected[place], err_msg=place)


@pytest.mark.parametrize("workers", [1, slow(4)])
def test_the_number_of_workers_changes_nothing(workers: int) -> None:
    expected = ist.simulate(noisy, PRIOR, 3_100, seed=5)
    with ist.ProcessPool(workers) as pool:
        found = ist.simulate(noisy, PRIOR, 3_100, engine=pool, seed=5)
    np.testing.assert_array_equal(found.x, expected.x)
    np.testing.assert_array_equal(found.theta, expected.theta)


def test_latent_variables_come_along(pool: ist.ProcessPool, dask: ist.Dask) -> None:
    expected = ist.simulate(LATENT, LATENT_PRIOR, 700, seed=5)
    assert expected.latent is not None
    for engine in (pool, dask):
        found = ist.simulate(LATENT, LATENT_PRIOR, 700, engine=engine, seed=5)
        assert found.latent is not None
        np.testing.assert_array_equal(found.x, expected.x)
        np.testing.assert_array_equal(found.latent.arrays["z"], expected.latent.arrays["z"])


def test_jax_computes_with_the_same_precision(pool: ist.ProcessPool) -> None:
    def wide(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        import jax.numpy as jnp

        return np.asarray(jnp.exp(jnp.asarray(theta + rng.normal(size=theta.shape))), float)

    narrow = ist.simulate(wide, PRIOR, 400, engine=pool, seed=5).x
    with jax.enable_x64(True):  # noqa: FBT003
        found = ist.simulate(wide, PRIOR, 400, engine=pool, seed=5).x
        theta = ist.simulate(noisy, PRIOR, 400, seed=5).x
    np.testing.assert_allclose(found, np.exp(theta), rtol=1e-13)
    assert np.abs(found / narrow - 1).max() > 1e-9
