"""Names of columns: kept with the events, and compared wherever a table comes in again."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_estimator, gaussian
from inferostatic.events import watch as watch_module
from optional import OptionalPackage

pd = OptionalPackage("pandas")

PRIOR = ist.Uniform([-3.0, -3.0], [3.0, 3.0], names=["a", "b"])
NAMES = ("u", "v")
ESTIMATOR = exact_estimator(gaussian, PRIOR, np.full(2, -9.0), np.full(2, 9.0), x_names=NAMES)
THETA = np.array([0.3, -0.2])
X = THETA + np.random.default_rng(5).normal(size=(40, 2))


def framed(theta: np.ndarray, rng: np.random.Generator) -> Any:
    return pd.DataFrame(theta + rng.normal(size=theta.shape), columns=list(NAMES))


def swapped(theta: np.ndarray, rng: np.random.Generator) -> Any:
    return framed(theta, rng).reindex(columns=["v", "u"])


def foreign(theta: np.ndarray, rng: np.random.Generator) -> Any:
    return framed(theta, rng).set_axis(["u", "w"], axis=1)


Simulator = Callable[[np.ndarray, np.random.Generator], Any]


def predict(simulator: Simulator) -> object:
    found = ist.posterior(ESTIMATOR, X, seed=1)
    return ist.checks.posterior_predictive(found, X, simulator, draws=20, seed=1)


def limit(simulator: Simulator, toys: int | None) -> object:
    likelihood = ist.Likelihood(ESTIMATOR, X, rate=lambda t: 40 + 2 * t[0])
    method = ist.CLs(simulator=simulator, toys=toys)
    scan = None if toys is None else [1.0, 2.0]
    return ist.upper_limit(likelihood, "a", method, background=-2.0, scan=scan, seed=1)


def calibrate(simulator: Simulator) -> object:
    nearby = ist.NearbySimulation(simulator, most_events=20_000)
    return ist.calibrated_fit(ESTIMATOR, np.tile(X, (10, 1)), simulator=nearby, seed=1)


def calibrate_limit(simulator: Simulator) -> object:
    method = ist.CLs(calibration=ist.NearbySimulation(simulator, most_events=20_000))
    x = np.tile(X, (10, 1))
    return ist.upper_limit(ESTIMATOR, x, "a", method, background=-2.0, seed=1)


def export(simulator: Simulator) -> object:
    templates = ist.Templates(ist.Simulated(simulator, seed=1, events=3000))
    return ist.to_pyhf(ist.observable(ESTIMATOR, THETA), templates, expected=100.0, poi="a")


LATER: dict[str, Callable[[Simulator], object]] = {
    "fisher": lambda s: ist.fisher(ESTIMATOR, s, THETA, n=2000, seed=1),
    "score_response": lambda s: ist.score_response(ESTIMATOR, THETA, s, n=2000, seed=1),
    "posterior_predictive": predict,
    "Neyman": lambda s: ist.confidence_set(
        ESTIMATOR, X, ist.Neyman(s, toys=20), grid={"a": [0.0, 0.5], "b": [0.0]}, seed=1
    ),
    "upper_limit": lambda s: limit(s, None),
    "upper_limit with toys": lambda s: limit(s, 20),
    "to_pyhf": export,
    "calibrated_fit": calibrate,
    "upper_limit with a calibration": calibrate_limit,
}


def test_names_of_a_simulators_columns_are_kept() -> None:
    events = ist.simulate(framed, PRIOR, 100, seed=1)
    assert events.x_names == NAMES
    for method in (ist.KSE(ist.Delta(0.2)), ist.CARL(), ist.KCE(number=2)):
        assert ist.draw(method, framed, PRIOR, 20, seed=1).x_names == NAMES
    reference = ist.Events(x=events.x, theta=events.theta, x_names=["v", "u"])
    with pytest.raises(ValueError, match=r"reference events' x are v, u, but the order here is u"):
        ist.draw(ist.DCTR(reference=reference), framed, PRIOR, 20, seed=1)
    with pytest.raises(ValueError, match=r"reference events' x are v, u, but the order here is u"):
        ist.fit(events, ist.DCTR(reference=reference), seed=1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n.startswith("upper") else n for n in LATER],
)
def test_columns_are_compared_whenever_events_are_simulated_again(name: str) -> None:
    LATER[name](framed)
    with pytest.raises(ValueError, match=r"simulator's x are v, u, but the order here is u, v"):
        LATER[name](swapped)
    with pytest.raises(ValueError, match=r"simulator's x are u, w, but those expected here are u"):
        LATER[name](foreign)


def test_columns_must_not_change_between_calls() -> None:
    calls = itertools.count()

    def fickle(theta: np.ndarray, rng: np.random.Generator) -> Any:
        return (swapped if next(calls) else framed)(theta, rng)

    with pytest.raises(ValueError, match=r"x changed between calls.*at row 200"):
        ist.simulate(fickle, PRIOR, 10_001, seed=1)


def test_categories_that_a_sample_lacks_are_named() -> None:
    """As `pandas.get_dummies` leaves them out where text has no list of categories."""
    calls = itertools.count()

    def text(theta: np.ndarray, rng: np.random.Generator) -> Any:
        channel = ["e", "mu"] * (len(theta) // 2) if next(calls) else ["e"] * len(theta)
        frame = pd.DataFrame({"m": rng.normal(theta[:, 0]), "channel": channel})
        return pd.get_dummies(frame, columns=["channel"])

    with pytest.raises(ValueError, match=r"Not in both: channel_mu\. pandas\.get_dummies makes"):
        ist.simulate(text, PRIOR, 400, seed=1)
    with pytest.raises(ValueError, match=r"^x lacks v; its columns are u, .*pandas\.Categorical"):
        ESTIMATOR.score(pd.DataFrame(X[:, :1], columns=["u"]), THETA)


def test_a_simulator_that_says_its_names_must_keep_to_them() -> None:
    class Named:
        x_names = ("v", "u")

        def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> Any:
            return framed(theta, rng)

    with pytest.raises(ValueError, match="but the order here is v, u"):
        ist.simulate(Named(), PRIOR, 10, seed=1)
    with pytest.raises(ValueError, match="but the order here is u, v"):
        ist.fisher(ESTIMATOR, Named(), THETA, n=10, seed=1)


def test_swapped_columns_are_refused_where_theta_and_x_come_in() -> None:
    theta = pd.DataFrame([[0.0, 1.0], [1.0, 2.0]], columns=["b", "a"])
    with pytest.raises(ValueError, match=r"theta are b, a, but the order here is a, b"):
        PRIOR.log_prob(theta)
    np.testing.assert_array_equal(PRIOR.log_prob(theta[["a", "b"]]), PRIOR.log_prob(theta.values))
    for name in ("joint_score", "partner"):
        latent = {name: theta, "log_joint_ratio": np.zeros(2)}
        with pytest.raises(ValueError, match=rf"latent '{name}' are b, a, but the order here is a"):
            ist.Events(x=X[:2], theta=X[:2], theta_names=["a", "b"], latent=latent)
        latent[name] = theta[["a", "b"]]
        ist.Events(x=X[:2], theta=X[:2], theta_names=["a", "b"], latent=latent)
    found = ist.posterior(ESTIMATOR, X, seed=1)
    with pytest.raises(ValueError, match=r"columns of x are v, u, but the order here is u, v"):
        ist.checks.posterior_predictive(
            found, pd.DataFrame(X, columns=["v", "u"]), framed, draws=5, seed=1
        )
    frame = pd.DataFrame(X, columns=["v", "u"])
    likelihood = ist.Likelihood(ESTIMATOR, X, rate=lambda t: 40 + 2 * t[0])
    with pytest.raises(ValueError, match=r"asimov are v, u, but the order here is u, v"):
        ist.upper_limit(likelihood, "a", ist.CLs(asimov=frame), background=-2.0, seed=1)
    events = ist.simulate(swapped, PRIOR, 2000, seed=1)
    with pytest.raises(ValueError, match=r"calibration events' x are v, u, but the order here"):
        ist.calibrated_fit(ESTIMATOR, X, events=events)
    at_one = ist.Events(x=events.x, theta=THETA, x_names=["v", "u"])
    with pytest.raises(ValueError, match=r"reference.x are v, u, but the order here is u, v"):
        ist.cross_entropy_fit(ESTIMATOR, X, reference=at_one)


COLUMNS = {
    "categories": pd.Categorical(["e", "mu", "e"]),
    "categories that are numbers": pd.Categorical([1, 2, 1]),
    "text": ["e", "mu", "e"],
    "dates": pd.to_datetime(["2020-01-01"] * 3),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_that_are_no_numbers_are_refused_by_name(kind: str) -> None:
    frame = pd.DataFrame({"mass": [1.0, 2.0, 3.0], "lepton": COLUMNS[kind]})
    with pytest.raises(TypeError, match=r"column 'lepton' of x holds .*x\['lepton'\]\.cat\.codes"):
        ist.Events(x=frame, theta=np.zeros((3, 1)))
    with pytest.raises(TypeError, match=r"column 'lepton' of the simulator's x holds "):
        ist.simulate(lambda t, _: frame, ist.Uniform(0, 1), 3, seed=1)


def test_missing_values_are_refused_by_their_rows() -> None:
    frame = pd.DataFrame({"mass": [1.0, 2.0, 3.0], "jets": pd.array([1, None, 2], dtype="Int64")})
    with pytest.raises(ValueError, match="x has NaN or infinite values in row 1"):
        ist.Events(x=frame, theta=np.zeros((3, 1)))


def test_booleans_are_zero_and_one() -> None:
    frame = pd.DataFrame({"mass": [1.0, 2.0, 3.0], "isolated": [True, False, True]})
    events = ist.Events(x=frame, theta=np.zeros((3, 1)))
    assert events.x.tolist() == [[1, 1], [2, 0], [3, 1]]
    assert events.x_names == ("mass", "isolated")


class Clock:
    """Time that passes with the events that are simulated."""

    def __init__(self, *, start: float, each: float) -> None:
        self.now, self.start, self.each, self.calls = 0.0, start, each, []

    def perf_counter(self) -> float:
        return self.now

    def simulate(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        self.now += self.each * len(theta) + (0.0 if self.calls else self.start)
        self.calls.append(len(theta))
        return theta + rng.normal(size=theta.shape)


@pytest.mark.parametrize(
    ("each", "show", "said"),
    [
        (0.01, None, "simulating 60,000 events will take about 10 min, "),
        (0.01, False, ""),
        (1e-5, None, ""),
        (1e-5, True, "simulating 60,000 events will take about 1 s, "),
    ],
)
def test_the_cost_of_a_long_simulation_is_announced(
    each: float,
    show: bool | None,  # noqa: FBT001
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("INFEROSTATIC_PROGRESS")
    # What the first call compiles is not paid again.
    clock = Clock(start=100.0, each=each)
    monkeypatch.setattr(watch_module, "time", clock)
    ist.simulate(clock.simulate, PRIOR, 60_000, seed=1, progress_bar=show)
    first = capsys.readouterr().err.splitlines()[:1]
    assert first[0].startswith(said) if said else not any("will take" in line for line in first)
    assert clock.calls == [200] * 300


def test_a_calibrated_fit_announces_its_cost_before_it_is_spent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("INFEROSTATIC_PROGRESS")
    clock = Clock(start=0.0, each=0.01)
    monkeypatch.setattr(watch_module, "time", clock)
    ist.calibrated_fit(ESTIMATOR, np.tile(X, (10, 1)), simulator=clock.simulate, seed=1)
    said = capsys.readouterr().err
    assert "events will take about 32 min" in said, said


@pytest.mark.filterwarnings("ignore")  # what one event is worth is not the question
def test_one_observed_event_needs_no_axis() -> None:
    one = X[0]
    for result in (
        lambda x: ist.maximum_likelihood(ESTIMATOR, x).theta,
        lambda x: ist.Likelihood(ESTIMATOR, x).value(THETA),
        lambda x: ist.posterior(ESTIMATOR, x, seed=1).mean,
        lambda x: ist.confidence_set(ESTIMATOR, x).best,
        lambda x: ist.observable(ESTIMATOR, THETA)(x),
        lambda x: ist.reweight(ESTIMATOR, x, THETA, THETA + 0.01).log_ratio,
    ):
        np.testing.assert_array_equal(result(one), result(one[None]))
