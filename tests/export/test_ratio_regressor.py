"""`ist.fit` behind the interface of scikit-learn, which checks it."""

import pickle
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import inferostatic as ist
from exact_estimators import exact_estimator, gaussian
from random_estimators import random_estimator

pytestmark = pytest.mark.filterwarnings("ignore")

#: Checks that do not apply, with the reason.
EXPECTED_FAILED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "training goes through batches of random events, so an event of weight 2 is not seen "
        "exactly like two events"
    ),
    "check_regressors_train": (
        "two epochs are too few for R² > 0.5; a test of its own gives the default training"
    ),
}


def make_regressor(**options: Any) -> Any:
    small: dict[str, Any] = {
        "network": ist.MLP((8,)),
        "members": 1,
        "training": ist.Training(epochs=2),
        "points": 100,
    }
    return ist.export.RatioRegressor(**(small | options))


def fitted(estimator: Any, theta: np.ndarray, *, flat: bool = False, **options: Any) -> Any:
    """As if it had been trained: an exact potential in the place of the network's."""
    regressor = make_regressor(**options)
    regressor.estimator_, regressor.n_features_in_ = estimator, len(estimator.x_names)
    regressor._theta, regressor._weight, regressor._flat = theta, np.ones(len(theta)), flat
    return regressor


@pytest.fixture(scope="module")
def exact() -> Any:
    """x ~ Normal(θ, 1), for θ uniform between −3 and 3."""
    prior = ist.Uniform([-3.0], [3.0], names=["shift"])
    estimator = exact_estimator(gaussian, prior, np.array([-8.0]), np.array([8.0]))
    return fitted(estimator, np.arange(-2.9925, 3, 0.015)[:, None], flat=True)


def test_the_prediction_is_the_mean_of_the_posterior(exact: Any) -> None:
    """Of a truncated Gaussian, whose mean is known."""
    from scipy.stats import truncnorm

    x = np.linspace(-4, 4, 9)
    mean = truncnorm.mean(-3 - x, 3 - x, loc=x)
    np.testing.assert_allclose(exact.predict(x[:, None]), mean, atol=1e-4)


def test_weighted_points_count_by_their_weight(exact: Any) -> None:
    theta = np.array([[0.0], [1.0]])
    regressor = fitted(exact.estimator_, theta, flat=True)
    regressor._weight = np.array([3.0, 1.0])
    np.testing.assert_allclose(regressor.predict([[0.5]]), [0.25], rtol=1e-6)


def test_many_events_are_predicted_like_few(exact: Any) -> None:
    x = np.linspace(-2, 2, 5000)[:, None]
    np.testing.assert_allclose(exact.predict(x)[4500:], exact.predict(x[4500:]), rtol=1e-5)


def test_ratios_probabilities_and_scores_are_exact(exact: Any) -> None:
    x, theta0, theta1 = np.array([[0.3], [-1.2]]), 1.0, -0.5
    log_r = -((x[:, 0] - theta0) ** 2 - (x[:, 0] - theta1) ** 2) / 2
    np.testing.assert_allclose(exact.log_ratio(x, theta0, theta1), log_r, rtol=1e-5)
    probability = exact.predict_probability(x, theta0, theta1)
    np.testing.assert_allclose(probability[:, 0], 1 / (1 + np.exp(-log_r)), rtol=1e-5)
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(exact.score_function(x, theta0), x[:, 0] - theta0, rtol=1e-5)
    each = exact.score_function(x, [1.0, 2.0])
    np.testing.assert_allclose(each, x[:, 0] - [1.0, 2.0], rtol=1e-5)


def test_several_parameters_have_a_column_each() -> None:
    estimator = random_estimator(ist.Potential(ist.MLP((8,))))
    theta = np.random.default_rng(0).uniform([0, -3], [4, 3], size=(50, 2))
    regressor = fitted(estimator, theta)
    x = np.zeros((7, 3))
    assert regressor.predict(x).shape == (7, 2)
    np.testing.assert_array_equal(
        regressor.score_function(x, theta[:7]), estimator.score(x, theta[:7])
    )
    ratio = regressor.log_ratio(x, theta[0], theta[1])
    np.testing.assert_array_equal(ratio, estimator.log_ratio(x, theta[0], theta[1]))


def test_probabilities_survive_large_ratios(exact: Any) -> None:
    probability = exact.predict_probability([[8.0]], 3.0, -3.0)
    assert 0 < probability[0, 1] < 1e-20
    assert np.isfinite(probability).all()


@pytest.mark.parametrize("network", [ist.DirectScore(ist.MLP((4,))), ist.DirectRatio()])
def test_what_offers_only_one_question_is_refused_before_training(network: Any) -> None:
    regressor = make_regressor(network=network)
    with pytest.raises(TypeError, match="needs a potential or a flow.*got Direct"):
        regressor.fit(np.zeros((5, 1)), np.arange(5.0))


def test_clones_have_the_same_settings_and_names_that_files_know() -> None:
    regressor = make_regressor(method=ist.KCE(), random_state=3)
    other: Any = clone(regressor)
    assert other.get_params() == regressor.get_params()
    assert other.network.activation is regressor.network.activation
    assert other.set_params(members=2).members == 2


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(vars(ist.export), "RatioRegressor", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'inferostatic\[sklearn\]'"):
        _ = ist.export.RatioRegressor


def test_names_that_are_not_there_are_refused() -> None:
    with pytest.raises(AttributeError, match="'inferostatic.export' has no attribute 'tensorflow'"):
        _ = ist.export.tensorflow  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(1)
    theta = rng.uniform([-1, 0.5], [1, 1.5], size=(300, 2))
    x = rng.normal(theta[:, :1], theta[:, 1:], size=(300, 2))
    return pd.DataFrame(x, columns=["pt", "eta"]), pd.DataFrame(theta, columns=["mu", "sigma"])


@pytest.mark.slow
def test_names_of_data_frames_arrive(frames: Any) -> None:
    x, y = frames
    regressor = make_regressor(random_state=0).fit(x, y, sample_weight=np.ones(len(x)))
    assert regressor.feature_names_in_.tolist() == ["pt", "eta"]
    assert regressor.n_features_in_ == 2
    assert regressor.estimator_.x_names == ("pt", "eta")
    assert regressor.estimator_.theta_names == ("mu", "sigma")
    again = pickle.loads(pickle.dumps(regressor))
    np.testing.assert_array_equal(again.predict(x), regressor.predict(x))
    copied: Any = clone(regressor)
    same = copied.fit(x, y, sample_weight=np.ones(len(x)))
    np.testing.assert_array_equal(same.predict(x), regressor.predict(x))
    with pytest.raises(ValueError, match="feature names"):
        regressor.predict(x[["eta", "pt"]])


@pytest.mark.slow
def test_pipelines_and_grid_searches_work(frames: Any) -> None:
    x, y = frames[0].to_numpy(), frames[1]["mu"].to_numpy()
    model = make_pipeline(StandardScaler(), make_regressor(random_state=0))
    grid = {"ratioregressor__method": [ist.KCE(), ist.CARL()]}
    search = GridSearchCV(model, grid, cv=2).fit(x, y)
    assert search.predict(x[:3]).shape == (3,)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_[-1]
    np.testing.assert_allclose(
        best.score_function(search.best_estimator_[:-1].transform(x[:3]), 0.5),
        best.estimator_.score(search.best_estimator_[:-1].transform(x[:3]), [0.5])[:, 0],
    )


@pytest.mark.slow
def test_a_saved_model_of_a_clone_loads(frames: Any, tmp_path: Any) -> None:
    x, y = frames
    copied: Any = clone(make_regressor(random_state=0))
    estimator = copied.fit(x, y).estimator_
    estimator.save(tmp_path / "model.isn")
    np.testing.assert_array_equal(
        ist.load(tmp_path / "model.isn").score(x[:5], y[:5]), estimator.score(x[:5], y[:5])
    )


def list_checks() -> list[Any]:
    checks: Any = estimator_checks_generator(make_regressor(), mark=None)
    return [
        pytest.param(regressor, check, id=check_name(check))
        for regressor, check in checks
        if check_name(check) not in EXPECTED_FAILED
    ]


def check_name(check: Any) -> str:
    return check.func.__name__


@pytest.mark.slow
@pytest.mark.parametrize(("regressor", "check"), list_checks())
def test_the_checks_of_scikit_learn(
    regressor: Any, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # one of them permutes rows by NumPy's global generator
    check(regressor)


@pytest.mark.slow
def test_the_checks_that_do_not_apply_still_fail() -> None:
    """Else they should be taken off the list."""
    left = set(EXPECTED_FAILED)
    checks: Any = estimator_checks_generator(make_regressor(), mark=None)
    for regressor, check in checks:
        if check_name(check) in left:
            left.remove(check_name(check))
            with pytest.raises(AssertionError):
                check(regressor)
    assert not left


@pytest.mark.slow
def test_the_default_training_passes_the_check_of_accuracy() -> None:
    from sklearn.utils.estimator_checks import check_regressors_train

    train: Any = check_regressors_train
    train("RatioRegressor", ist.export.RatioRegressor())
