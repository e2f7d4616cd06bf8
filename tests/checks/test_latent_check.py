"""The check of latent information passes the right and names what is wrong."""

import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist

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


def test_wrong_latent_information_is_told(events: ist.Events) -> None:
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


def test_events_without_any_are_told(events: ist.Events) -> None:
    with pytest.raises(ValueError, match="no joint density, joint scores or joint ratios"):
        ist.checks.latent(ist.Events(x=events.x, theta=events.theta))
    with pytest.raises(TypeError, match=r"takes ist\.Events"):
        ist.checks.latent(np.zeros(3))  # type: ignore[arg-type]
