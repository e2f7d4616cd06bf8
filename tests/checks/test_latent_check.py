"""The check of latent information passes the right and names what is wrong."""

import re
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.checks.latent import LatentCheck
from inferostatic.supervision.joint_identities import Identity, joint_scores

TOY, PRIOR = ist.toys.GaussianChain(), ist.Uniform([-1.0, -0.5], [1.0, 0.5], names=["m", "w"])


@pytest.fixture(scope="module")
def events() -> ist.Events:
    return ist.simulate(TOY, PRIOR, 20_000, seed=3, progress_bar=False)


def test_right_latent_information_passes(events: ist.Events) -> None:
    check = ist.checks.latent(events)
    assert check.passed
    assert check.p_value > 1e-3
    names = [one.name for one in check.identities]
    assert any("Cov(t_m" in name for name in names)
    assert any("E[r]" in name for name in names)
    assert "E[t_m]" in check.summary()
    assert "passed" in repr(check)


def test_wrong_latent_information_is_reported(events: ist.Events) -> None:
    """A rate that was not divided out: the density is not normalised at every θ."""

    def density(x, z, theta):
        return TOY.joint_log_prob(x, z, theta) + 0.5 * jnp.sum(theta)

    latent = ist.Latent({"z": events.latent["z"]}, ist.JointDensity(density))
    wrong = ist.Events(x=events.x, theta=events.theta, prior=PRIOR, latent=latent)
    check = ist.checks.latent(wrong)
    assert not check.passed
    assert check.p_value < 1e-10
    assert "normalised" in check.summary()
    assert "violated" in repr(check)


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda t: t * [1.0, -1.0], "score of w seems to have the wrong sign"),
        (lambda t: t * [1.0, 10.0], r"score of w would have to be multiplied by (\S+) ± (\S+):"),
        (lambda t: t[:, ::-1], "No factor repairs the joint score"),
        (lambda t: np.roll(t, 1, axis=0), "The joint score of"),
    ],
)
def test_a_wrong_score_is_seen_also_of_a_parameter_that_moves_only_widths(
    events: ist.Events, change: Any, hint: str
) -> None:
    scores = joint_scores(events)
    latent = {"joint_score": scores}
    right = ist.Events(x=events.x, theta=events.theta, prior=PRIOR, latent=latent)
    assert ist.checks.latent(right).passed
    latent = {"joint_score": change(scores)}
    wrong = ist.Events(x=events.x, theta=events.theta, prior=PRIOR, latent=latent)
    found = re.search(hint, ist.checks.latent(wrong).summary())
    assert found
    if found.groups():
        factor, error = map(float, found.groups())
        assert abs(factor - 0.1) < 4 * error < 0.04
    with pytest.raises(ValueError, match="violates an identity"):
        ist.SALLY().supply(wrong)


def test_a_wrong_sign_is_seen_also_of_a_correlation() -> None:
    """No mean and no width of x depends on ρ; the score is exact, without latent variables."""
    prior = ist.Uniform([-0.6], [0.6], names=["rho"])
    theta = prior.sample(20_000, seed=6)
    u = np.random.default_rng(7).standard_normal((20_000, 2))
    rest = 1 - np.square(theta[:, 0])
    x = np.stack([u[:, 0], theta[:, 0] * u[:, 0] + np.sqrt(rest) * u[:, 1]], axis=1)
    rho, product, squares = theta[:, 0], x.prod(axis=1), np.square(x).sum(axis=1)
    score = (rho * rest + (1 + rho**2) * product - rho * squares) / rest**2
    right, wrong = (
        ist.Events(x=x, theta=theta, prior=prior, latent={"joint_score": sign * score[:, None]})
        for sign in (1, -1)
    )
    assert ist.checks.latent(right).passed
    assert "untested" not in ist.checks.latent(right).summary()
    assert "score of rho seems to have the wrong sign" in ist.checks.latent(wrong).summary()


def test_the_worst_of_many_means_counts_as_many_tests() -> None:
    one, of_many = (LatentCheck((Identity("E", 3.0, tried=n),), 100).p_value for n in (1, 20))
    np.testing.assert_allclose([one, of_many], [0.0026998, 0.053996], rtol=1e-4)


def test_what_x_does_not_show_is_called_untested() -> None:
    """x does not depend on w at all, so that no sign of its score could be wrong."""
    rng = np.random.default_rng(4)
    theta = PRIOR.sample(5000, seed=5)
    z = rng.standard_normal((5000, 2))
    x = theta[:, :1] + z[:, :1]
    scores = np.stack([z[:, 0], np.square(z[:, 1]) - 1], axis=1)
    made = ist.Events(x=x, theta=theta, prior=PRIOR, latent={"joint_score": scores})
    lines = [one.name for one in ist.checks.latent(made).identities if "Cov" in one.name]
    assert ["untested" in line for line in lines] == [False, True]


def test_events_without_any_raise(events: ist.Events) -> None:
    with pytest.raises(ValueError, match="no joint density, joint scores or joint ratios"):
        ist.checks.latent(ist.Events(x=events.x, theta=events.theta))
    with pytest.raises(TypeError, match=r"takes ist\.Events"):
        ist.checks.latent(np.zeros(3))  # type: ignore[arg-type]
