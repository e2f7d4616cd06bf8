"""Tables of ln L beside the exact sums that they stand for."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_estimator, exact_normal
from inferostatic.inference.confidence.observed_fit import fit_observed
from inferostatic.inference.likelihood.float64 import float64
from inferostatic.inference.likelihood.log_likelihood import value_and_derivatives
from inferostatic.inference.posterior import tabulated_target
from inferostatic.inference.tables import event_table, likelihood_table
from parameters import slow_but

SIMULATE = ist.toys.Dirichlet()


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables wherever they hold, whatever they cost."""
    set_price(monkeypatch, 0)


def set_price(monkeypatch: pytest.MonkeyPatch, evaluations: float) -> None:
    for module in (likelihood_table, tabulated_target):
        monkeypatch.setattr(module, "PAYS", evaluations)


def with_and_without(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> tuple[Any, Any]:
    """The same result from tables and from exact sums."""
    set_price(monkeypatch, 0)
    tabulated = work()
    set_price(monkeypatch, np.inf)
    return tabulated, work()


def dirichlet_events(n: int, theta: tuple[float, ...] = (1.5, 3.0, 4.0)) -> np.ndarray:
    return SIMULATE(np.tile(theta, (n, 1)), np.random.default_rng(3))


def normal_events(n: int, *theta: float, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(theta, 1.0, (n, len(theta)))


def rate_of(theta: Any) -> Any:
    return 300.0 * (1.0 + 0.3 * theta[0] + 0.05 * theta[1] ** 2)


def restricted() -> dict[str, ist.Likelihood]:
    normal, x = exact_normal(dim=2), normal_events(300, 0.5, -0.3)
    names = normal.theta_names
    weight = np.random.default_rng(4).uniform(0.2, 2.0, len(x))
    prior = ist.Uniform([-3.0], [3.0], names=names[:1])
    other = exact_estimator(
        lambda x, theta: -jnp.sum((x - theta**3) ** 2) / 2, prior, np.full(1, -30), np.full(1, 30)
    )
    dirichlet = exact_dirichlet()
    return {
        "plain": ist.Likelihood(dirichlet, dirichlet_events(400)),
        "rate": ist.Likelihood(normal, x, rate=rate_of),
        "rate that is not traced": ist.Likelihood(
            normal, x, rate=lambda theta: float(rate_of(np.asarray(theta)))
        ),
        "weights": ist.Likelihood(normal, x, weight=weight),
        "constraint": ist.Likelihood(normal, x, constraints={names[1]: (0.1, 0.05)}),
        "fixed": ist.Likelihood(dirichlet, dirichlet_events(400), fixed={"b": 3.1}),
        "bounds": ist.Likelihood(normal, x, bounds={names[0]: (0.55, 1.0)}),
        "channels": ist.Likelihood(normal, x) + ist.Likelihood(other, normal_events(50, 0.125)),
    }


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "name", slow_but(restricted(), "plain", "rate that is not traced", "bounds", "channels")
)
def test_a_table_is_ln_l_with_its_derivatives(name: str) -> None:
    likelihood = restricted()[name]
    observed = fit_observed(likelihood, likelihood.model).with_table(100, show=False)
    assert observed.table is not None
    free = likelihood.free
    root = np.linalg.cholesky(observed.covariance[np.ix_(free, free)])
    away = np.random.default_rng(5).standard_normal((50, int(free.sum()))) @ root.T
    thetas = np.repeat(observed.theta[None], 50, axis=0)
    thetas[:, free] = np.clip(observed.theta[free] + 1.5 * away, *likelihood_box(likelihood))
    exact, table = likelihood.values(thetas), observed.table.function.values(thetas)
    error = np.abs(table - exact)[exact > exact.max() - 10]
    assert error.max() < event_table.TOLERANCE * 5
    assert np.median(error) < event_table.TOLERANCE
    with float64():
        found = value_and_derivatives(observed.table.function, jnp.asarray(thetas[0]))
        wanted = value_and_derivatives(likelihood.function, jnp.asarray(thetas[0]))
    # In units of the standard errors.
    ours, theirs = (np.asarray(one.gradient)[free] @ root for one in (found, wanted))
    np.testing.assert_allclose(ours, theirs, atol=0.02)
    ours, theirs = (
        root.T @ np.asarray(one.hessian)[np.ix_(free, free)] @ root for one in (found, wanted)
    )
    np.testing.assert_allclose(ours, theirs, atol=0.05)


def likelihood_box(likelihood: ist.Likelihood) -> tuple[np.ndarray, np.ndarray]:
    return likelihood.low[likelihood.free], likelihood.high[likelihood.free]


def tabulate(likelihood: ist.Likelihood) -> Any:
    return fit_observed(likelihood, likelihood.model).with_table(100, show=False).table


@pytest.mark.usefixtures("always")
def test_too_low_a_degree_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    likelihood = ist.Likelihood(exact_dirichlet(), dirichlet_events(60), fixed={"b": 3.0})
    assert tabulate(likelihood) is not None
    monkeypatch.setattr(event_table, "DEGREES", {2: (2,)})
    assert tabulate(likelihood) is None


@pytest.mark.usefixtures("always")
def test_wide_posteriors_of_three_parameters_are_tabulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of some hundred events, which bend: the degrees of narrow ones do not do."""

    def sum_events(points: np.ndarray) -> np.ndarray:
        return np.sum(np.cos(points) - points**2 / 2, axis=1)

    far = np.full(3, np.inf)
    problem = event_table.TableProblem(
        sum_events,
        lambda points: np.zeros(len(points)),
        tabulated_target.DEPTH,
        tabulated_target.MOST_NODES,
    )
    guess = event_table.Ellipsoid(np.zeros(3), 7 * np.eye(3), -far, far)
    found = event_table.tabulate_sums(problem, guess)
    assert found is not None
    points = np.random.default_rng(1).normal(size=(500, 3))
    with float64():
        values = np.array([found.table(point) for point in jnp.asarray(points)])
    errors = values - sum_events(points)
    assert np.ptp(errors) < 4 * event_table.TOLERANCE
    monkeypatch.setitem(event_table.DEGREES, 3, (4, 6, 8, 10, 12))
    assert event_table.tabulate_sums(problem, guess) is None


def test_a_kink_is_left_to_exact_sums() -> None:
    prior = ist.Uniform([-3.0], [3.0])
    kinked = exact_estimator(
        lambda x, theta: -jnp.sum(jnp.abs(x - theta)), prior, np.full(1, -9.0), np.full(1, 9.0)
    )
    x = np.random.default_rng(6).laplace(0.4, 1.0, (7, 1))
    assert tabulate(ist.Likelihood(kinked, x)) is None


def mirrored() -> ist.Estimator:
    """x ~ Normal(|θ|, 1), rounded off at 0: the sign of θ is not known."""
    prior = ist.Uniform([-2.0, -2.0], [2.0, 2.0], names=["a", "b"])
    return exact_estimator(
        lambda x, theta: -((x[0] - jnp.hypot(theta[0], 0.05)) ** 2 + (x[1] - theta[1]) ** 2) / 2,
        prior,
        np.full(2, -9.0),
        np.full(2, 9.0),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("events", [40, 300])
def test_several_modes_are_left_to_exact_sums(events: int) -> None:
    likelihood = ist.Likelihood(mirrored(), normal_events(events, 1.2, 0.3))
    assert tabulate(likelihood) is None
    found = ist.posterior(likelihood, method=ist.Grid(), seed=1)
    assert not any("table" in note for note in found.notes)
    assert abs(found.mean[0]) < 1e-6
    assert np.mean(np.sign(found.samples[:, 0])) == pytest.approx(0.0, abs=0.05)


@pytest.mark.slow
def test_posteriors_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    likelihood = ist.Likelihood(exact_dirichlet(), dirichlet_events(150), fixed={"c": 4.0})
    for method in (ist.Grid(), ist.Importance()):
        table, exact = with_and_without(
            monkeypatch, lambda method=method: ist.posterior(likelihood, method=method, seed=2)
        )
        assert any("ln L from a table of" in note for note in table.notes)
        assert not any("table" in note for note in exact.notes)
        free = likelihood.free
        np.testing.assert_allclose(
            table.mean[free], exact.mean[free], atol=0.02 * exact.std[free].min()
        )
        np.testing.assert_allclose(table.std[free], exact.std[free], rtol=0.02)
        # ln of the density itself, with its constant.
        assert table.log_prob.max() == pytest.approx(exact.log_prob.max(), abs=0.05)


def tilt_tables(monkeypatch: pytest.MonkeyPatch, slope: float) -> None:
    """Make every table wrong by so much at the surface of its ellipsoid."""
    fitted = event_table._Fit.table

    def tilted(fit: Any) -> event_table.EventTable:
        table = fitted(fit)
        with float64():
            wrong = table.coefficients.at[(1,) + (0,) * (table.coefficients.ndim - 1)].add(slope)
        return event_table.EventTable(
            table.centre, table.to_ball, table.middle, table.to_cube, wrong, table.fall
        )

    monkeypatch.setattr(event_table._Fit, "table", tilted)


def test_intervals_are_exact_though_a_table_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    likelihood = ist.Likelihood(
        exact_dirichlet(), dirichlet_events(200), fixed={"b": 3.0, "c": 4.0}
    )
    tilt_tables(monkeypatch, 0.12)
    table, exact = with_and_without(
        monkeypatch, lambda: ist.maximum_likelihood(likelihood).interval(0.9)[0]
    )
    np.testing.assert_allclose(table, exact, atol=0.005 * (exact[1] - exact[0]) / 2)


@pytest.mark.slow
def test_limits_are_exact_though_tables_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    likelihood = ist.Likelihood(exact_normal(), normal_events(100, 0.1), bounds={"theta0": (0, 3)})
    method = ist.CLs(asimov=np.zeros((1, 1)))
    tilt_tables(monkeypatch, 0.03)
    table, exact = with_and_without(
        monkeypatch, lambda: ist.upper_limit(likelihood, "theta0", method)
    )
    assert any("ln L from tables of" in note for note in table.notes)
    limits = np.array([[one.observed, *one.expected] for one in (table, exact)])
    np.testing.assert_allclose(*limits, atol=3e-4)


def test_a_table_that_is_wrong_at_the_draws_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    set_price(monkeypatch, 0)
    likelihood = ist.Likelihood(exact_dirichlet(), dirichlet_events(150), fixed={"c": 4.0})
    right = ist.posterior(likelihood, seed=2)
    tilt_tables(monkeypatch, 3.0)
    found = ist.posterior(likelihood, seed=2)
    assert not any("table" in note for note in found.notes)
    np.testing.assert_allclose(found.mean, right.mean, atol=1e-3)


@pytest.mark.slow
def test_limits_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    normal = exact_normal(dim=2)
    first = normal.theta_names[0]
    likelihood = ist.Likelihood(
        normal, normal_events(100, 0.1, -0.3), rate=rate_of, bounds={first: (0.0, 3.0)}
    )

    def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(theta, 1.0)

    method = ist.CLs(simulator=simulate)
    table, exact = with_and_without(
        monkeypatch, lambda: ist.upper_limit(likelihood, first, method, seed=1)
    )
    assert any("ln L from tables of" in note for note in table.notes)
    assert table.observed == pytest.approx(exact.observed, abs=2e-4)
    np.testing.assert_allclose(table.expected, exact.expected, atol=2e-4)
    near = exact.scan > 1e-4
    np.testing.assert_allclose(table.scan[near], exact.scan[near], rtol=0.02)


def test_sets_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    likelihood = ist.Likelihood(exact_dirichlet(), dirichlet_events(200), fixed={"c": 4.0})
    table, exact = with_and_without(
        monkeypatch, lambda: ist.confidence_set(likelihood, parameters="a")
    )
    assert any("ln L from a table of" in note for note in table.notes)
    np.testing.assert_allclose(table.interval(), exact.interval(), atol=1e-3)
    np.testing.assert_allclose(table.statistic, exact.statistic, atol=0.03, rtol=0.02)


def test_profiles_intervals_and_contours_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    likelihood = ist.Likelihood(exact_dirichlet(), dirichlet_events(200))
    values = np.linspace(1.2, 2.0, 5)

    def work() -> tuple[np.ndarray, ...]:
        fit = ist.maximum_likelihood(likelihood)
        return fit.profile("a", values).q, fit.interval(0.9), fit.contour("a", "c", points=5)

    table, exact = with_and_without(monkeypatch, work)
    np.testing.assert_allclose(table[0], exact[0], atol=1e-3, rtol=1e-3)
    np.testing.assert_allclose(table[1], exact[1], atol=2e-3)
    np.testing.assert_allclose(table[2], exact[2], atol=3e-3)


@pytest.mark.usefixtures("always")
def test_a_single_fit_needs_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("tabulated")

    monkeypatch.setattr(likelihood_table, "tabulate_sums", refuse)
    likelihood = ist.Likelihood(exact_dirichlet(), dirichlet_events(100))
    assert ist.maximum_likelihood(likelihood).valid
