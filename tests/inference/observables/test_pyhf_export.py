"""Workspaces for pyhf: their content, and intervals against exact likelihoods and our own."""

import json
import math
import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import inferostatic as ist
from exact_estimators import exact_dirichlet, exact_normal
from inferostatic.inference.observables.observable import observable
from inferostatic.inference.observables.pyhf_export import UncertainRate, to_pyhf
from inferostatic.inference.observables.template_events import Reweighted, Simulated
from inferostatic.inference.observables.templates import Templates

pyhf: Any = pytest.importorskip("pyhf")
pytest.importorskip("pyhf.infer.mle")
# pyhf validates through a part of jsonschema that is going to be replaced.
pytestmark = pytest.mark.filterwarnings("ignore:jsonschema.RefResolver:DeprecationWarning")

TOY = ist.toys.Dirichlet(3)
DIRICHLET, NORMAL = exact_dirichlet(), exact_normal()
REF, N = 0.3, 1000
SCORE = observable(NORMAL, [REF])


def fine_bins(x) -> Templates:
    return Templates(Reweighted(x), most_bins=60, mc_errors=False)


def normal(theta, rng):
    return rng.normal(theta, 1.0)


def normal_events(theta, n, seed):
    return np.random.default_rng(seed).normal(theta, 1.0, (n, 1))


# Quantiles rather than random numbers, so that templates are exact.
REFERENCE = REF + stats.norm.ppf((np.arange(200_000)[:, None] + 0.5) / 200_000)
OBSERVED = normal_events(0.35, N, 3)


@pytest.fixture(scope="module")
def fine():
    return to_pyhf(SCORE, fine_bins(REFERENCE), observed=OBSERVED)


def content(ws, theta: float) -> np.ndarray:
    """Exact probabilities of the bins of the normal variable."""
    edges = ws.templates.nominal.bins.edges + REF  # the score is x − θ_ref
    return np.diff(stats.norm.cdf(edges - theta))


def binned_interval(ws, level: float = 0.6826895) -> np.ndarray:
    """Of the exact likelihood of the bins."""
    n = np.array(ws.workspace["observations"][0]["data"])

    def minus(theta):
        return -2 * float(n @ np.log(content(ws, theta)))

    best: Any = optimize.minimize_scalar(
        minus, bounds=(0, 0.7), method="bounded", options={"xatol": 1e-7}
    )
    target = best.fun + stats.chi2.ppf(level, 1)
    ends = [
        optimize.brentq(lambda t: minus(t) - target, *sorted((best.x, best.x + side)))
        for side in (-0.2, 0.2)
    ]
    return np.array(ends)


def test_the_content_of_the_bins_follows_the_parameter(fine):
    model = fine.model()
    assert model.config.poi_name == "theta0"
    at_ref = np.array(model.expected_actualdata(model.config.suggested_init()))
    low, high = fine.validity["theta0"]
    # Against the exact content relative to that at the reference, which has its own fluctuation.
    for theta in np.linspace(low, high, 5):
        parameters = np.array(model.config.suggested_init())
        parameters[model.config.poi_index] = fine.alpha(theta)
        ratio = np.array(model.expected_actualdata(parameters)) / at_ref
        exact = content(fine, theta) / content(fine, REF)
        np.testing.assert_allclose(ratio, exact, rtol=0.01)
        # The curvature alone moves the ratio by up to 4%, so half of it would show.
        assert np.abs(ratio - exact).max() < 0.005
    assert fine.theta(fine.alpha(0.41)) == pytest.approx(0.41)


def test_the_interval_is_that_of_the_exact_likelihood_of_the_bins(fine):
    for level in (0.6826895, 0.95):
        exact = binned_interval(fine, level)
        np.testing.assert_allclose(fine.interval(level), exact, atol=0.01 * np.ptp(exact))


def test_the_interval_is_our_own_up_to_the_loss_by_binning(fine):
    ours = ist.maximum_likelihood(NORMAL, OBSERVED).interval()[0]
    theirs = fine.interval()
    kept = fine.templates.kept["theta0"]
    assert 0.99 < kept < 1
    assert np.ptp(theirs) / np.ptp(ours) == pytest.approx(kept**-0.5, rel=0.02)
    # The two estimates differ by the variance that binning adds.
    scatter = np.ptp(ours) / 2 * np.sqrt(1 / kept - 1)
    assert abs(theirs.mean() - ours.mean()) < 3 * scatter


def test_pyhf_reads_the_file_and_its_own_inference_agrees(fine, tmp_path):
    fine.save(tmp_path / "workspace.json")
    workspace = pyhf.Workspace(json.loads((tmp_path / "workspace.json").read_text()))
    model = workspace.model()
    data = workspace.data(model)
    best, least = pyhf.infer.mle.fit(data, model, return_fitted_val=True)
    for end in fine.interval():
        _, value = pyhf.infer.mle.fixed_poi_fit(
            fine.alpha(end), data, model, return_fitted_val=True
        )
        assert float(value - least) == pytest.approx(1, abs=0.01)
    centre = fine.theta(best[model.config.poi_index])
    assert centre == pytest.approx(binned_interval(fine).mean(), abs=0.001)
    assert list(data) == fine.data()


def test_simulated_and_stored_templates_serve_too():
    options: dict[str, Any] = {"shift": {"theta0": 0.15}, "mc_errors": False}
    source = Simulated(normal, seed=5, events=100_000)
    simulated = to_pyhf(SCORE, Templates(source, **options), observed=OBSERVED)
    assert simulated.templates.noise["theta0"] < 0.01
    theta = np.repeat([[REF], [REF - 0.15], [REF + 0.15]], 50_000, axis=0)
    stored = ist.Events(
        x=normal(theta, np.random.default_rng(6)), theta=theta, weight=np.full(len(theta), 2.0)
    )
    from_events = to_pyhf(SCORE, Templates(stored, **options), observed=OBSERVED)
    assert from_events.templates.shift["theta0"] == pytest.approx(0.15)
    for ws in (simulated, from_events):
        exact = binned_interval(ws)
        ends = ws.interval()
        # Slopes and curvatures have the noise of independent samples.
        assert np.ptp(ends) == pytest.approx(np.ptp(exact), rel=0.06)
        assert ends.mean() == pytest.approx(exact.mean(), abs=0.35 * np.ptp(exact) / 2)


def test_few_simulated_events_widen_the_interval():
    few = Reweighted(REFERENCE[::50])
    widths = []
    for mc_errors in (False, True):
        ws = to_pyhf(SCORE, Templates(few, most_bins=12, mc_errors=mc_errors), expected=N)
        widths.append(np.ptp(ws.interval()))
    # Asimov data: the templates' variance of 1/4000 adds to that of the data, 1/1000.
    assert widths[1] / widths[0] == pytest.approx(math.sqrt(1 + 1000 / 4000), rel=0.02)


def rate(theta):
    return N * jnp.exp(0.8 * (theta[0] - REF))


@pytest.mark.parametrize("luminosity", [None, 0.05])
def test_a_rate_and_its_uncertainty_enter(luminosity):
    expected = rate if luminosity is None else UncertainRate(rate, luminosity)
    ws = to_pyhf(SCORE, fine_bins(REFERENCE), expected=expected)
    assert ws.expected == pytest.approx(N)
    spread = 1 / N + (luminosity or 0.0) ** 2
    information = N * ws.templates.kept["theta0"] + 0.8**2 / spread
    assert np.ptp(ws.interval()) / 2 == pytest.approx(information**-0.5, rel=0.015)
    if luminosity is None:
        ours = ist.maximum_likelihood(ist.Likelihood(NORMAL, OBSERVED, rate=rate))
        seen = to_pyhf(SCORE, fine_bins(REFERENCE), observed=OBSERVED, expected=rate)
        ends = seen.interval()
        assert np.ptp(ends) == pytest.approx(np.ptp(ours.interval()[0]), rel=0.02)
        assert ends.mean() == pytest.approx(ours.theta[0], abs=0.3 * ours.errors[0])


# Several parameters.

POINT = np.array([1.5, 3.0, 4.0])
DIRICHLET_N = 2000
X_REF = TOY(np.tile(POINT, (100_000, 1)), np.random.default_rng(7))
X_SEEN = TOY(np.tile(POINT + [0.02, -0.05, 0.05], (DIRICHLET_N, 1)), np.random.default_rng(8))


def test_an_efficient_score_gives_the_profile_interval_of_its_parameter():
    ours = ist.maximum_likelihood(DIRICHLET, X_SEEN)
    # At the estimate the other parameters need no shift.
    x_ref = TOY(np.tile(ours.theta, (100_000, 1)), np.random.default_rng(9))
    information = observable(DIRICHLET, ours.theta).information(x_ref)
    efficient = observable(DIRICHLET, ours.theta, direction="a", information=information)
    ws = to_pyhf(efficient, fine_bins(x_ref), observed=X_SEEN)
    assert ws.poi == "a"
    ends, expected = ws.interval(), ours.interval()[0]
    kept = ws.templates.kept["a"]
    assert np.ptp(ends) / np.ptp(expected) == pytest.approx(kept**-0.5, rel=0.03)
    scatter = ours.errors[0] * np.sqrt(1 / kept - 1 + DIRICHLET_N / len(x_ref))
    assert abs(ends.mean() - expected.mean()) < 3 * scatter


@pytest.mark.slow
def test_a_constrained_parameter_is_profiled():
    plain = observable(DIRICHLET, POINT, direction="a")
    for sd in (0.05, 0.3):  # narrow, modelled at its own ±1, and wider than what the data say
        ws = to_pyhf(plain, fine_bins(X_REF), expected=DIRICHLET_N, constraints={"b": (3.0, sd)})
        binned = plain.binned_information(X_REF, ws.templates.nominal.bins)[:2, :2]
        total = DIRICHLET_N * binned + np.diag([0, sd**-2])
        exact = np.sqrt(np.linalg.inv(total)[0, 0])
        assert np.ptp(ws.interval()) / 2 == pytest.approx(exact, rel=0.03)


@pytest.mark.slow
def test_all_components_measure_one_parameter_with_the_others_free():
    full = observable(DIRICHLET, POINT)
    templates = Templates(Reweighted(X_REF), most_bins=216, max_relative_error=0.2, mc_errors=False)
    ws = to_pyhf(full, templates, expected=DIRICHLET_N, poi="a")
    binned = full.binned_information(X_REF, ws.templates.nominal.bins)
    exact = np.sqrt(np.linalg.inv(DIRICHLET_N * binned)[0, 0])
    assert np.ptp(ws.interval()) / 2 == pytest.approx(exact, rel=0.04)
    text = ws.summary()
    assert "a of interest, parameters a, b, c" in text
    assert "kept by bins" in text


def test_a_projection_measures_its_strength():
    direction = np.array([0.1, 0.0, -0.1])
    ws = to_pyhf(
        observable(DIRICHLET, POINT, direction=direction), fine_bins(X_REF), expected=DIRICHLET_N
    )
    assert ws.poi == "strength"
    exact = (
        DIRICHLET_N * ws.templates.kept["strength"] * direction @ TOY.fisher(POINT) @ direction
    ) ** -0.5
    assert np.ptp(ws.interval()) / 2 == pytest.approx(exact, rel=0.02)


# Misuse.


def refused(kind, match, *arguments, **options):
    with pytest.raises(kind, match=match):
        to_pyhf(*arguments, **options)


def test_misuse_is_answered_by_a_sentence(monkeypatch):
    some = Reweighted(REFERENCE[::40])
    full = observable(DIRICHLET, POINT)
    refused(TypeError, "needs an observable", NORMAL, some, expected=10)
    refused(TypeError, "templates are made from a simulator", SCORE, REFERENCE, expected=10)
    refused(TypeError, r"needs a seed: ist.Simulated", SCORE, normal, expected=10)
    refused(ValueError, "how many events are expected", SCORE, some)
    refused(ValueError, "must be positive and finite", SCORE, some, expected=-1)
    with pytest.raises(TypeError, match="rate must be a function.*the normalisation is free"):
        UncertainRate(10, 0.1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="between 0 and 1"):
        UncertainRate(rate, luminosity=2.0)
    with pytest.raises(TypeError, match="simulator must be a function"):
        Simulated(3, seed=1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="events must be at least 1"):
        Simulated(normal, seed=1, events=0)
    with pytest.raises(ValueError, match="most_bins must be at least 1"):
        Templates(some, most_bins=0)
    refused(ValueError, "one of a, b, c; got None", full, Reweighted(X_REF), expected=10)
    refused(ValueError, "observed has NaN", SCORE, some, observed=[[np.nan]])
    refused(
        ValueError,
        "says too little to measure theta0, theta1 at once",
        observable(exact_normal(dim=2), [0.0, 0.0], direction="theta0"),
        Reweighted(np.random.default_rng(1).normal(size=(20_000, 2))),
        expected=N,
        constraints={"theta1": (0.0, 1e6)},
    )
    apart = ist.Events(x=REFERENCE[::200], theta=np.full((1000, 1), 1.0))
    refused(ValueError, r"no events were made at θ = \[0.3\]", SCORE, apart, expected=N)
    alone = ist.Events(x=REFERENCE[::200], theta=np.full((1000, 1), REF))
    refused(ValueError, "two points theta_ref ± shift along theta0", SCORE, alone, expected=N)
    wide = Templates(some, shift={"theta0": 9.0})
    refused(ValueError, "trained region, so at most 2.7", SCORE, wide, expected=N)
    far = Templates(some, shift={"theta0": 2.5})
    refused(ValueError, "of the events effective", SCORE, far, expected=N)
    edge = observable(NORMAL, [2.999])
    refused(ValueError, "so near to the edge", edge, some, expected=N)
    direct = observable(ist.ScoreEstimator(**vars(exact_normal())), [REF])
    refused(TypeError, "Reweighted needs the log ratios", direct, some, expected=N)
    monkeypatch.setitem(sys.modules, "pyhf", None)
    refused(ImportError, r"pip install 'inferostatic\[inference\]'", SCORE, some, expected=N)


def test_noisy_templates_are_warned_about():
    theta = np.repeat([[REF], [REF - 0.1], [REF + 0.1]], 3000, axis=0)
    events = ist.Events(x=normal(theta, np.random.default_rng(6)), theta=theta)
    with pytest.warns(UserWarning, match="noise of the templates adds .* to the information"):
        to_pyhf(SCORE, events, expected=N)
