"""`compare`: one yardstick, the same events, differences with errors."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import inferostatic as ist
from exact_estimators import exact_normal
from inferostatic.learning.compare import Comparison, _check_setting, _groups, _TestSets

PRIOR = ist.Uniform([-2.0], [2.0])
NETWORK = ist.MLP((8, 8), output_bias=False)
QUICK = ist.Training(epochs=6, batch_size=64, weight_decay=0.01, progress_bar=False)
LAZY = dataclasses.replace(QUICK, learning_rate=1e-6)
#: Weights that shrink faster than they grow; settings that differ in this alone form one batch.
SHRUNK = dataclasses.replace(QUICK, weight_decay=300.0)


def unit_gaussian(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.standard_normal(theta.shape)


@pytest.fixture(scope="module")
def events() -> ist.Events:
    return ist.simulate(unit_gaussian, PRIOR, 3000, seed=1)


@pytest.fixture(scope="module")
def comparison(events: ist.Events) -> Comparison:
    settings = [
        ist.Setting(network=NETWORK, training=SHRUNK, name="shrunk"),
        ist.Setting(network=NETWORK, training=QUICK, name="good"),
        ist.Setting(
            network=ist.Potential(NETWORK, ist.Quantile()), training=QUICK, name="quantile"
        ),
        ist.Setting(ist.CARL(), network=ist.DirectRatio(NETWORK), training=QUICK, name="direct"),
    ]
    return ist.compare(events, settings, seed=1)


def test_the_worst_is_found_beyond_its_error(comparison: Comparison) -> None:
    assert comparison.names[-1] == "shrunk"
    assert comparison.excess[-1] > 5 * comparison.error[-1] > 0
    assert comparison.excess[0] == comparison.error[0] == 0
    assert (np.diff(comparison.loss) >= 0).all()
    np.testing.assert_allclose(comparison.excess, comparison.loss - comparison.loss[0], atol=1e-12)
    assert comparison.best is comparison.estimators[0]


def test_the_table_can_be_read(comparison: Comparison) -> None:
    title, head, *lines = comparison.summary().splitlines()
    assert title == f"Comparison of {len(lines)} settings, the best first"
    assert len(lines) == 4
    assert "above the best" in head
    assert "\n" not in repr(comparison)
    assert "±" in lines[-1]


def test_settings_alike_but_for_features_and_decay_form_one_batch() -> None:
    other = dataclasses.replace(QUICK, weight_decay=0.3)
    settings = [
        _check_setting(s)
        for s in (
            ist.Setting(network=NETWORK, training=QUICK),
            ist.Setting(network=ist.Potential(NETWORK, ist.Quantile()), training=other),
            ist.Setting(network=NETWORK, training=LAZY),
            ist.Setting(ist.CARL(), network=NETWORK, training=QUICK),
            ist.Setting(ist.KCE(ist.Rectangular(0.1)), network=NETWORK, training=QUICK),
            ist.Setting(network=NETWORK, training=QUICK, members=2),
            ist.Setting(network=NETWORK),
        )
    ]
    assert _groups(settings, 3000) == [[0, 1], [2], [3], [4], [5], [6]]


@pytest.mark.slow
def test_a_batch_gives_what_each_setting_gives_alone(events: ist.Events) -> None:
    """Trained together or one by one: the same networks, up to rounding."""
    settings = [
        ist.Setting(
            network=ist.Potential(NETWORK, f), training=dataclasses.replace(QUICK, weight_decay=w)
        )
        for f, w in ((ist.Standardised(), 0.01), (ist.Quantile(), 0.01), (ist.Quantile(), 0.5))
    ]
    together = ist.compare(events, settings, seed=3)
    alone = [ist.compare(events, [setting], seed=3) for setting in settings]
    by_loss = sorted(alone, key=lambda one: one.loss[0])
    np.testing.assert_allclose(together.loss, [one.loss[0] for one in by_loss], rtol=1e-4)


def test_settings_of_a_batch_are_centred_and_measured_as_alone(events: ist.Events) -> None:
    """Whether a setting is trained beside others must not decide what is compared."""
    training = dataclasses.replace(QUICK, epochs=2, centre=True, test_fraction=0.1)
    settings = [
        ist.Setting(network=ist.Potential(NETWORK, features), training=training)
        for features in (ist.Standardised(), ist.Quantile())
    ]
    assert _groups([_check_setting(one) for one in settings], 2400) == [[0, 1]]
    together = ist.compare(events, settings, seed=3)
    alone: list[Any] = [ist.compare(events, [one], seed=3).best for one in settings]
    x = events.x[:20]
    for one in alone:
        assert one.model.centring is not None
        others: Any = together.estimators
        found = [each.score(x, 0.3 * x) for each in (one, *others)]
        distances = [np.abs(other - found[0]).max() for other in found[1:]]
        same: Any = together.estimators[int(np.argmin(distances))]
        assert min(distances) < 1e-3 < max(distances)
        bias = [each.score_bias(np.array([0.3])) for each in (one, same)]
        np.testing.assert_allclose(bias[0][0], bias[1][0], atol=1e-3)
        np.testing.assert_allclose(bias[0][1], bias[1][1], rtol=1e-2)


def test_the_yardstick_is_the_loss_of_multi_scale_candidates(events: ist.Events) -> None:
    """For the exact density it is lower than for anything else, and equals its own formula."""
    jury = _TestSets(events[:500], seed=1)
    losses = jury.losses(exact_normal())
    theta = jury.thetas[..., 0].astype(float)
    x = np.repeat(events.x[:500, 0], jury.times)[:, None]
    p = norm.pdf(x, theta)
    expected = -np.log(p[:, 0] / p.sum(axis=1))
    np.testing.assert_allclose(losses, expected.reshape(500, -1).mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(theta[:, 0], np.repeat(events.theta[:500, 0], jury.times), rtol=1e-6)


@pytest.mark.slow
def test_names_tell_settings_apart(events: ist.Events) -> None:
    training = dataclasses.replace(QUICK, epochs=1)
    settings = [
        ist.Setting(network=ist.MLP((4, 4)), training=training),
        ist.Setting(network=ist.Residual(4, 1), training=training),
        ist.Setting(network=ist.MLP((4, 4)), training=training),
    ]
    names = ist.compare(events[:300], settings, seed=1).names
    assert set(names) == {
        "KCE, MLP(4, 4), weight decay 0.01 (1)",
        "KCE, MLP(4, 4), weight decay 0.01 (2)",
        "KCE, Residual(4, 1), weight decay 0.01",
    }


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("KCE", "list of settings"),
        ([], "list of settings"),
        ([3], "network must be such as"),
        ([ist.KCE(), None], "a setting is None; write ist.Setting"),
        ([ist.Setting(ist.KSE(ist.Delta(0.1)), network=ist.DirectScore())], "gives no ratios"),
        ([ist.Setting(ist.KCE(), network=ist.DirectRatio())], "trains potential"),
    ],
)
def test_what_cannot_be_compared_gets_a_sentence(
    events: ist.Events, settings: Any, sentence: str
) -> None:
    with pytest.raises(TypeError, match=sentence):
        ist.compare(events, settings, seed=1)


def test_bad_settings_and_events_get_a_sentence(events: ist.Events) -> None:
    with pytest.raises(TypeError, match="compare takes ist.Events"):
        ist.compare(events.x, [ist.KCE()], seed=1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="training must be"):
        ist.Setting(training=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="too few"):
        ist.compare(events[:5], [ist.KCE()], seed=1)
