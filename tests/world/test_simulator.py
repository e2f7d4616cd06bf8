"""Simulators: what is handed to them, what they may return, and sentences for everything else."""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from scipy import stats

import inferostatic as ist
from inferostatic.world.simulator import run_simulator

THETA = np.linspace(1.0, 3.0, 12).reshape(6, 2)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def shifted_normal(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


def jax_normal(theta: jax.Array, key: jax.Array) -> jax.Array:
    return theta + jax.random.normal(key, theta.shape)


@pytest.fixture(autouse=True)
def _as_a_user() -> Iterator[None]:
    """Without the type checks of these tests, so that the library's own sentences answer."""
    jaxtyping.config.update("jaxtyping_disable", "1")
    yield
    jaxtyping.config.update("jaxtyping_disable", "0")


def test_a_plain_function_is_called_with_theta_and_its_generator() -> None:
    x = run_simulator(shifted_normal, THETA, rng(3)).x
    np.testing.assert_array_equal(x, THETA + rng(3).normal(size=THETA.shape))


def test_a_toy_is_a_simulator() -> None:
    toy = ist.toys.Dirichlet(2)
    np.testing.assert_array_equal(run_simulator(toy, THETA, rng(3)).x, toy(THETA, rng(3)))


def test_lists_jax_arrays_and_integers_are_accepted() -> None:
    assert run_simulator(lambda t, _: t.tolist(), THETA, rng()).x.tolist() == THETA.tolist()
    assert run_simulator(lambda t, _: jnp.asarray(t), THETA, rng()).x.shape == (6, 2)
    counts = run_simulator(lambda t, r: r.poisson(t), THETA, rng()).x
    assert counts.dtype == np.float64
    np.testing.assert_array_equal(counts, rng().poisson(THETA))


def test_a_simulator_cannot_change_the_stored_theta() -> None:
    theta = THETA.copy()

    def careless(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        theta += rng.normal(size=theta.shape)
        return theta

    run_simulator(careless, theta, rng())
    np.testing.assert_array_equal(theta, THETA)


def test_a_jax_simulator_has_its_own_key_for_every_event_and_call() -> None:
    simulator = ist.JaxSimulator(jax_normal)
    theta = np.zeros((2000, 1))
    generator = rng(5)
    first, second = simulator(theta, generator), simulator(theta, generator)
    assert len(np.unique(np.concatenate([first, second]))) > 3990
    np.testing.assert_array_equal(first, simulator(theta, rng(5)))
    assert abs(np.corrcoef(first[:, 0], second[:, 0])[0, 1]) < 4 / np.sqrt(2000)
    assert stats.kstest(first[:, 0], stats.norm.cdf).pvalue > 1e-3


MISUSES: dict[str, tuple[Callable[..., object], type[Exception], list[str]]] = {
    "too few rows": (
        lambda t, r: t[:-1],
        ValueError,
        ["5 rows for 6 parameter points", "exactly one row of x for each row of theta"],
    ),
    "one row for all": (lambda t, r: t[:1], ValueError, ["1 rows for 6 parameter points"]),
    "one-dimensional x": (
        lambda t, r: t[:, 0],
        ValueError,
        ["(n, observables)", "got shape (6,)", "return x[:, None]"],
    ),
    "three axes": (lambda t, r: t[None], ValueError, ["(n, observables)", "got shape (1, 6, 2)"]),
    "nothing": (lambda t, r: None, ValueError, ["must return x with two axes", "got shape ()"]),
    "x with its latent variables": (
        lambda t, r: (t, t),
        ValueError,
        ["must return x with two axes", "got shape (2, 6, 2)"],
    ),
    "no columns": (lambda t, r: t[:, :0], ValueError, ["without columns", "at least one"]),
    "text": (lambda t, r: [["a"]] * 6, TypeError, ["the simulator's x must hold numbers"]),
    "ragged rows": (
        lambda t, r: [[1.0, 2.0], [3.0]],
        TypeError,
        ["the simulator's x could not be read", "rectangular array"],
    ),
    "NaN rows": (
        lambda t, r: np.where(t > 2.5, np.nan, t),
        ValueError,
        ["NaN or infinite x in rows 4, 5", "θ = [[2.4545, 2.6364], [2.8182, 3.0]]", "narrow"],
    ),
    "infinite rows": (
        lambda t, r: np.where(t > 2.9, np.inf, t),
        ValueError,
        ["NaN or infinite x in row 5", "θ = [[2.8182, 3.0]]"],
    ),
    "an exception": (
        lambda t, r: r.standard_gamma(-t),
        RuntimeError,
        ["θ between [1.0, 1.1818] and [2.8182, 3.0]", "ValueError: shape < 0. Mend"],
    ),
    "one argument": (
        lambda t: t,
        RuntimeError,
        ["takes 1 positional argument", "(theta (n, d), rng) -> x (n, D)"],
    ),
    "a JAX function that was not wrapped": (
        jax_normal,
        RuntimeError,
        ["(theta (n, d), rng)", "ist.JaxSimulator(function)"],
    ),
    "a NumPy function that was wrapped": (
        ist.JaxSimulator(lambda t, r: t + r.normal(size=2)),
        RuntimeError,
        ["AttributeError", "must be JAX-traceable"],
    ),
    "a JAX function with a Python branch": (
        ist.JaxSimulator(lambda t, k: t if t[0] > 0 else -t),
        RuntimeError,
        ["TracerBoolConversionError", "must be JAX-traceable"],
    ),
    "a JAX function of one number": (
        ist.JaxSimulator(lambda t, k: t[0]),
        ValueError,
        ["(n, observables)", "got shape (6,)"],
    ),
}


@pytest.mark.parametrize(("simulator", "kind", "fragments"), MISUSES.values(), ids=MISUSES)
def test_a_bad_simulator_is_answered_by_a_sentence(
    simulator: Callable[..., object], kind: type[Exception], fragments: list[str]
) -> None:
    with pytest.raises(kind) as caught:
        run_simulator(simulator, THETA, rng())  # pyright: ignore[reportArgumentType]
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_rows_are_counted_from_the_beginning_of_all_calls() -> None:
    with pytest.raises(ValueError, match=r"in row 10_?005, at θ = \[\[2\.8182, 3\.0\]\]"):
        run_simulator(lambda t, _: np.where(t > 2.9, np.nan, t), THETA, rng(), first_row=10_000)


def test_the_reason_for_theta_outside_the_prior_is_told() -> None:
    because = "Kernels reach outside."
    with pytest.raises(ValueError, match=because):
        run_simulator(lambda t, _: t * np.nan, THETA, rng(), asked_because=because)
    with pytest.raises(RuntimeError, match=r"shape < 0\. " + because) as caught:
        run_simulator(lambda t, r: r.gamma(-t), THETA, rng(), asked_because=because)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_sentence_that_ends_in_a_full_stop_keeps_one() -> None:
    def fails(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise ValueError("It broke.")

    with pytest.raises(RuntimeError, match=r"It broke\. Mend"):
        run_simulator(fails, THETA, rng())


def test_a_jax_simulator_needs_a_function() -> None:
    with pytest.raises(TypeError, match=r"JAX function \(theta, key\) -> x of one event; got int"):
        ist.JaxSimulator(3)  # pyright: ignore[reportArgumentType]
