"""What a newcomer gets wrong, and the sentence that comes back.

Every case goes through public functions only. A message tells what was expected, what came, and
what to change; no error of JAX or NumPy comes through bare.
"""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import as_direct, dirichlet, exact_estimator
from random_estimators import random_estimator

TOY = ist.toys.Dirichlet(3)
PRIOR = ist.Uniform([0.5] * 3, [5.0] * 3, names=["a", "b", "c"])
EVENTS = ist.simulate(TOY, PRIOR, 300, seed=1)
X, THETA = EVENTS.x, EVENTS.theta
KSE, KLRE = ist.KSE(ist.Delta(0.25)), ist.KLRE(ist.Rectangular(0.4))


def with_nan(table: np.ndarray, row: int = 7) -> np.ndarray:
    table = table.copy()
    table[row, 1] = np.nan
    return table


def fit(events: Any, method: Any = None, **options: Any) -> Any:
    """As `ist.fit`, small and short unless told otherwise."""
    defaults: dict[str, Any] = {
        "network": ist.MLP((4,)),
        "training": ist.Training(epochs=1, batch_size=100),
        "seed": 1,
    }
    return ist.fit(events, method, **(defaults | options))


def refused(kind: type[Exception], misuse: Callable[[], object], *fragments: str) -> None:
    """The misuse is refused with this kind of error, and the message has all the fragments."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(kind) as caught:
            misuse()
    for fragment in fragments:
        assert fragment in str(caught.value)


@pytest.fixture(scope="module")
def potential() -> ist.Estimator:
    return exact_estimator(dirichlet, PRIOR, X.min(axis=0), X.max(axis=0), x_names=EVENTS.x_names)


@pytest.fixture(scope="module")
def direct_ratio(potential: ist.Estimator) -> ist.RatioEstimator:
    return as_direct(ist.RatioEstimator, potential)


@pytest.fixture(scope="module")
def direct_score(potential: ist.Estimator) -> ist.ScoreEstimator:
    return as_direct(ist.ScoreEstimator, potential)


# Wrong shapes.


def test_shapes_of_events() -> None:
    refused(ValueError, lambda: ist.Events(x=X, theta=THETA[:-1]), "x has 300 rows and theta 299")
    refused(ValueError, lambda: ist.Events(x=X[None], theta=THETA), "two axes", "(1, 300, 3)")
    refused(
        ValueError,
        lambda: ist.Events(x=X, theta=THETA[:, :2], prior=PRIOR),
        "theta has shape (300, 2)",
        "3 parameters (a, b, c)",
    )


def test_shapes_of_an_evaluation(potential: ist.Estimator) -> None:
    refused(
        ValueError,
        lambda: potential.score(X[:5], THETA[:4]),
        "x has 5 rows and theta [4]",
        "one θ for each event, one θ for all events",
    )
    refused(
        ValueError,
        lambda: potential.score(X[:, :2], THETA),
        "expected x with 3 columns (x_1, x_2, x_3) and theta with 3 (a, b, c)",
        "got x of shape (300, 2)",
    )
    refused(ValueError, lambda: potential.score(X, 1.0), "theta must have two axes", "shape ()")
    refused(ValueError, lambda: potential.log_ratio(X, THETA, [1.0, 2.0]), "shape (1, 2)")
    refused(
        ValueError,
        lambda: ist.maximum_likelihood(potential, X[:, :2]),
        "x must have 3 observables",
        "(300, 2)",
    )


# x and θ swapped.


def test_swapped_events() -> None:
    swapped = "Were x and theta swapped?"
    refused(ValueError, lambda: ist.Events(x=THETA, theta=X, prior=PRIOR), "outside", swapped)
    refused(
        ValueError,
        lambda: ist.Events(x=THETA, theta=X[:, :2], prior=PRIOR),
        "theta has shape (300, 2)",
        swapped,
    )


def test_swapped_arguments_of_an_estimator(potential: ist.Estimator) -> None:
    # With equally many columns only the values can tell.
    outside = pytest.warns(UserWarning, match="theta lies outside the trained region")
    with outside, pytest.warns(UserWarning, match="Are x and theta in the right order and units?"):
        potential.score(THETA, X)


def test_swapped_arguments_with_other_numbers_of_columns() -> None:
    narrow = random_estimator(ist.Potential(ist.MLP((4,))))
    refused(
        ValueError,
        lambda: narrow.score(THETA[:, :2], X),
        "got x of shape (300, 2) and theta of shape (300, 3)",
        "They look swapped: the order is (x, theta).",
    )


# NaN.


def test_nan(potential: ist.Estimator) -> None:
    remove = "Remove or repair these events"
    refused(
        ValueError, lambda: ist.Events(x=with_nan(X), theta=THETA), "x has NaN", "row 7", remove
    )
    refused(ValueError, lambda: ist.Events(x=X, theta=with_nan(THETA)), "theta has NaN", "row 7")
    refused(ValueError, lambda: potential.score(with_nan(X), THETA), "x has NaN", "row 7", remove)
    refused(ValueError, lambda: potential.potential(X, with_nan(THETA)), "theta has NaN", "row 7")
    refused(
        ValueError,
        lambda: ist.maximum_likelihood(potential, with_nan(X)),
        "x has NaN",
        "row 7",
        remove,
    )


def test_a_simulator_that_returns_nan() -> None:
    def breaks_at_large_a(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.where(theta[:, :1] > 4.5, np.nan, rng.normal(size=theta.shape))

    theta = ist.simulate(lambda t, _: t, PRIOR, 50, seed=1).theta
    first = theta[theta[:, 0] > 4.5][0]
    refused(
        ValueError,
        lambda: ist.simulate(breaks_at_large_a, PRIOR, 50, seed=1),
        "the simulator returned NaN or infinite x in rows",
        f"at θ = [{np.round(first, 4).tolist()}",
        "narrow the prior",
    )


# A prior that the simulator cannot serve at θ + ε.


WIDE = ist.Uniform([0.1] * 3, [5.0] * 3)
OUTSIDE = (
    "simulates at θ + ε, up to [0.25, 0.25, 0.25] outside the prior",
    "the simulator's valid domain must cover that",
    "Narrow the prior, reduce the kernel's width, or use stored events",
)


def numpy_dirichlet(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    g = rng.standard_gamma(theta)
    return g / g.sum(axis=1, keepdims=True)


@ist.JaxSimulator
def jax_fractions(theta: jax.Array, key: jax.Array) -> jax.Array:
    noise = jax.random.uniform(key, theta.shape)
    positive = jnp.log(theta) + noise
    return positive / positive.sum()


def test_a_prior_that_the_simulator_cannot_serve_at_displaced_theta() -> None:
    refused(RuntimeError, lambda: ist.draw(KSE, TOY, WIDE, 200, seed=1), "0 < theta_1 <", *OUTSIDE)
    refused(
        RuntimeError,
        lambda: ist.draw(KSE, numpy_dirichlet, WIDE, 200, seed=1),
        "the simulator failed for θ between [-0.1",
        "ValueError: shape < 0.",
        *OUTSIDE,
    )
    refused(
        ValueError,
        lambda: ist.draw(KSE, jax_fractions, WIDE, 200, seed=1),
        "the simulator returned NaN or infinite x in rows",
        "at θ = [[",
        *OUTSIDE,
    )
    refused(
        RuntimeError,
        lambda: ist.draw(KLRE, numpy_dirichlet, WIDE, 2000, seed=1),
        "of the pairs have the simulated θ outside the prior",
        "valid domain must cover that",
    )


# Asking a model for what it does not model.


def test_a_direct_ratio_has_no_score(direct_ratio: ist.RatioEstimator) -> None:
    anything: Any = direct_ratio
    for question in ("score", "potential"):
        refused(
            ist.CapabilityError,
            lambda question=question: getattr(anything, question)(X, THETA),
            "RatioEstimator, which offers only log_ratio",
            f"it has no {question}",
            "Train a potential instead",
        )
    refused(
        TypeError,
        lambda: ist.maximum_likelihood(anything, X),
        "needs a potential (ist.Estimator)",
        "got RatioEstimator",
    )


def test_a_direct_score_has_no_ratio(direct_score: ist.ScoreEstimator) -> None:
    anything: Any = direct_score
    refused(
        ist.CapabilityError,
        lambda: anything.log_ratio(X, THETA, THETA),
        "ScoreEstimator, which offers only score",
        "it has no log_ratio",
    )


def test_a_network_of_the_wrong_kind() -> None:
    small = ist.MLP((4,))
    refused(
        TypeError,
        lambda: fit(EVENTS, KLRE, network=ist.DirectScore(small)),
        "KLRE trains log_ratio, but this network offers only score",
        "Use a potential",
    )
    refused(
        TypeError,
        lambda: fit(EVENTS, KSE, network=ist.DirectRatio(small)),
        "KSE trains score, but this network offers only log_ratio",
    )
    refused(
        TypeError,
        lambda: fit(EVENTS, network=ist.DirectRatio(small)),
        "KCE trains potential, but this network offers only log_ratio",
    )


# Integers, one dimension, nothing at all.


def test_integers_work(potential: ist.Estimator) -> None:
    with pytest.warns(UserWarning, match="outside the range of x seen in training"):
        whole = potential.score(np.array([[1, 0, 0]]), [1, 2, 2])
    with pytest.warns(UserWarning, match="outside the range of x seen in training"):
        decimal = potential.score(np.array([[1.0, 0.0, 0.0]]), [1.0, 2.0, 2.0])
    np.testing.assert_array_equal(whole, decimal)
    counts = ist.simulate(lambda t, rng: rng.poisson(t), PRIOR, 300, seed=1)
    assert np.isfinite(fit(counts, ist.CARL()).score(counts.x, counts.theta)).all()


def test_one_dimensional_input(potential: ist.Estimator) -> None:
    hint = "For one column of many events use x[:, None], for one event x[None, :]"
    for misuse in (
        lambda: ist.Events(x=X[:, 0], theta=THETA),
        lambda: ist.Events(x=np.arange(300), theta=THETA),
        lambda: potential.score(X[0, :2], THETA[0]),
        lambda: ist.maximum_likelihood(potential, X[0, :2]),
    ):
        refused(ValueError, misuse, "x must have two axes, (events, observables)", hint)
    refused(
        ValueError,
        lambda: ist.Events(x=X, theta=np.arange(300)),
        "theta must have two axes",
        "got shape (300,)",
        "theta[:, None]",
    )
    refused(
        ValueError,
        lambda: ist.simulate(lambda t, rng: rng.normal(size=len(t)), PRIOR, 9, seed=1),
        "the simulator must return x with two axes",
        "got shape (200,)",
        "return x[:, None]",
    )


def test_an_empty_set(potential: ist.Estimator) -> None:
    refused(ValueError, lambda: ist.Events(x=X[:0], theta=THETA[:0]), "x holds no events")
    refused(ValueError, lambda: ist.Events(x=[], theta=[]), "x is empty")
    refused(ValueError, lambda: EVENTS[:0], "x holds no events")
    refused(ValueError, lambda: ist.simulate(TOY, PRIOR, 0, seed=1), "n must be at least 1; got 0")
    refused(ValueError, lambda: potential.score(X[:0], THETA[:0]), "no events to evaluate")
    refused(ValueError, lambda: ist.maximum_likelihood(potential, X[:0]), "no observed events")
    refused(ValueError, lambda: fit(EVENTS[:3]), "3 events are too few", "validation_fraction=0")


# x exactly 0, or below what float32 can hold.


def test_a_toy_at_zero() -> None:
    refused(
        ValueError,
        lambda: TOY.log_prob([[0.5, 0.3, 0.2], [0.0, 0.5, 0.5]], [1, 2, 2]),
        "at x = 0 the score is infinite",
        "x[1] = [0.0, 0.5, 0.5]",
        "remove them",
    )


def test_events_with_zeros_train_to_finite_results() -> None:
    x = X.copy()
    x[::7, 0] = 0
    events = ist.Events(x=x, theta=THETA, prior=PRIOR)
    est = fit(events, ist.CARL())
    assert np.isfinite(est.history.train_loss).all()
    assert np.isfinite(est.score(x, THETA)).all()
    assert np.isfinite(est.potential(x, THETA)).all()


def test_events_below_float32_are_warned_about_and_train_to_finite_results() -> None:
    x = X.copy()
    x[::7, 0] = 1e-50
    below = "x column 'x0' has values below float32's smallest normal number.*models read them as 0"
    with pytest.warns(UserWarning, match=below):
        events = ist.Events(x=x, theta=THETA, prior=PRIOR)
    with pytest.warns(UserWarning, match=below):
        assert np.isfinite(fit(events, ist.CARL()).score(x, THETA)).all()
    refused(
        ValueError,
        lambda: ist.Events(x=X * 1e39, theta=THETA),
        "x exceeds float32's largest number",
        "rescale the column or take its logarithm",
    )


# Simulators.


def test_a_simulator_with_the_wrong_number_of_rows() -> None:
    for run, rows in (
        (lambda simulator: ist.simulate(simulator, PRIOR, 10, seed=1), 200),  # a whole block
        (lambda simulator: ist.draw(KSE, simulator, PRIOR, 10, seed=1), 10),
    ):
        refused(
            ValueError,
            lambda run=run: run(lambda t, rng: t[:-1]),
            f"returned {rows - 1} rows for {rows} parameter points",
            "exactly one row of x for each row of theta",
        )


@pytest.mark.parametrize(
    ("simulator", "name"),
    [(None, "None"), ("dirichlet", "str"), (ist.toys.Dirichlet, "the class Dirichlet itself")],
)
def test_something_that_is_no_simulator(simulator: Any, name: str) -> None:
    refused(
        TypeError,
        lambda: ist.draw(KSE, simulator, PRIOR, 5, seed=1),
        "simulator must be a function (theta, rng) -> x, a toy such as ist.toys.Dirichlet()",
        f"got {name}",
    )


# Seeds.


@pytest.mark.parametrize("seed", [1.5, "1", None, True])
def test_seeds_that_are_no_integers(seed: Any) -> None:
    for misuse in (
        lambda: PRIOR.sample(3, seed=seed),
        lambda: ist.simulate(TOY, PRIOR, 3, seed=seed),
        lambda: ist.draw(KSE, TOY, PRIOR, 3, seed=seed),
        lambda: fit(EVENTS, seed=seed),
    ):
        got = f"got {type(seed).__name__}"
        refused(TypeError, misuse, "seed must be an int, for example seed=1", got)


def test_a_seed_out_of_range() -> None:
    refused(ValueError, lambda: fit(EVENTS, seed=-1), "seed must lie in [0, 2**32)", "got -1")


# Names and classes in place of objects.


def test_a_method_that_is_none() -> None:
    expected = "method must be such as ist.KCE() or ist.CARL()"
    refused(TypeError, lambda: fit(EVENTS, "KSE"), expected, "got 'KSE'")
    refused(TypeError, lambda: fit(EVENTS, ist.Delta(0.25)), expected, "got Delta")
    refused(TypeError, lambda: fit(EVENTS, ist.KCE), expected)
    anything: Any = "KSE"
    refused(
        TypeError,
        lambda: ist.draw(anything, TOY, PRIOR, 5, seed=1),
        "draw takes one method, such as ist.KSE(ist.Delta(0.25))",
        "got str",
    )


def test_a_kernel_that_is_none() -> None:
    anything: Any = "delta"
    expected = "a kernel such as ist.Delta(0.25) was expected"
    refused(TypeError, lambda: ist.KSE(anything), expected, "got 'delta'")
    refused(TypeError, lambda: ist.KLRE(anything), expected, "got 'delta'")
    refused(TypeError, lambda: ist.KCE(anything), "KCE takes a kernel such as", "got 'delta'")
    anything = 0.25
    refused(TypeError, lambda: ist.KSE(anything), expected, "got 0.25")
    refused(ValueError, lambda: ist.Delta(-0.25), "width must be a positive number", "got -0.25")


def test_a_network_that_is_none() -> None:
    expected = "network must be such as ist.MLP((64, 64))"
    refused(TypeError, lambda: fit(EVENTS, network="mlp"), expected, "got 'mlp'")
    refused(TypeError, lambda: fit(EVENTS, network=(8, 8)), expected, "got (8, 8)")


def test_a_prior_that_is_none() -> None:
    anything: Any = "uniform"
    for misuse in (
        lambda: ist.simulate(TOY, anything, 5, seed=1),
        lambda: ist.draw(KSE, TOY, anything, 5, seed=1),
        lambda: ist.Events(x=X, theta=THETA, prior=anything),
    ):
        refused(TypeError, misuse, "prior must be", "ist.Uniform", "got str")
    anything = TOY
    refused(
        TypeError,
        lambda: ist.simulate(anything, anything, 5, seed=1),
        "The order is ist.simulate(simulator, prior, n, seed=…)",
    )


def test_events_that_are_none(potential: ist.Estimator) -> None:
    anything: Any = X
    refused(TypeError, lambda: fit(anything), "fit takes ist.Events", "got ndarray")
    anything = EVENTS
    refused(TypeError, lambda: potential.score(anything, THETA), "set of Events", ".x or .theta")


# Methods that do not fit the data.


def test_score_estimation_on_a_finite_design() -> None:
    design = ist.Events(x=X, theta=np.round(THETA))
    refused(
        ValueError,
        lambda: fit(design, KSE),
        "needs the density of θ at every point",
        "finite set of parameter points",
        "use CARL or KCE(ist.Independent())",
    )


def test_drawing_a_mix() -> None:
    mixed: Any = ist.Mix([(1.0, ist.KCE()), (0.1, KSE)])
    refused(
        TypeError,
        lambda: ist.draw(mixed, TOY, PRIOR, 5, seed=1),
        "draw takes one method",
        "got a Mix",
        "ist.fit(ist.simulate(…), ist.Mix(…))",
    )


def test_records_with_another_method() -> None:
    records = ist.draw(KSE, TOY, PRIOR, 20, seed=1)
    for method in (KLRE, ist.KSE(ist.Delta(0.5)), "KSE"):
        refused(
            ValueError,
            lambda method=method: fit(records, method),
            "these records were drawn for KSE",
            "fit them without a method, or draw new ones",
        )


def test_a_start_with_other_dimensions(potential: ist.Estimator) -> None:
    other = ist.Events(x=X[:, :2], theta=THETA, prior=PRIOR)
    refused(
        ValueError,
        lambda: fit(other, start=potential, network=None),
        "has 3 observables and 3 parameters, the events 2 and 3",
    )
    refused(ValueError, lambda: fit(EVENTS, start=potential), "give either start= or network=")
    refused(
        ValueError,
        lambda: ist.maximum_likelihood(potential, X, start=[1.0, 2.0]),
        "start must be one point with a value for each of a, b, c",
        "(2,)",
    )


def test_continuous_events_without_a_prior_are_warned_about() -> None:
    theta = PRIOR.sample(1200, seed=5)
    events = ist.Events(x=TOY(theta, np.random.default_rng(1)), theta=theta)
    with pytest.warns(UserWarning, match="these events have no prior=") as caught:
        fit(events, ist.CARL())
    message = str(caught[0].message)
    assert "exact but never local" in message
    assert "Give Events(..., prior=ist.Uniform(low, high))" in message
