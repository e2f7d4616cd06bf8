"""Fixed values, bounds and names of a likelihood: what may be changed, and what is refused."""

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_estimator, exact_normal, gaussian
from inferostatic.inference.confidence.toys import make_toy_maker
from optional import OptionalPackage

pd = OptionalPackage("pandas")

X = np.random.default_rng(1).normal([0.3, -0.2], 1.0, (60, 2))
LIKELIHOOD = ist.Likelihood(exact_normal(dim=2), X)


def test_a_fixed_parameter_can_be_fixed_elsewhere_and_bounded_around_its_value() -> None:
    again = LIKELIHOOD.fix(theta0=1.0).fix(theta0=2.0)
    assert again.low[0] == again.high[0] == 2.0
    bounded = again.bound(theta0=(1.5, 2.5))
    assert bounded.low[0] == bounded.high[0] == 2.0
    assert bounded.fix(theta0=1.5).low[0] == 1.5
    with pytest.raises(ValueError, match="trained region, 1.5 to 2.5; got 1.0"):
        bounded.fix(theta0=1.0)
    with pytest.raises(ValueError, match="fixed at 2, outside its bounds"):
        again.bound(theta0=(0.0, 1.0))


def test_bounds_can_be_set_again_within_the_region() -> None:
    wider = LIKELIHOOD.bound(theta1=(0.0, 1.0)).bound(theta1=(-1.0, 2.0))
    np.testing.assert_array_equal([wider.low[1], wider.high[1]], [-1.0, 2.0])
    assert "bounds: theta1 from -1 to 2" in repr(wider)
    assert "bounds: theta1 from -1 to 2" in ist.maximum_likelihood(wider).notes


def test_columns_in_another_order_are_refused() -> None:
    thetas = pd.DataFrame({"theta1": [0.0, 0.1], "theta0": [0.2, 0.3]})
    with pytest.raises(ValueError, match="the order here is theta0, theta1"):
        LIKELIHOOD.values(thetas)
    ordered = thetas[["theta0", "theta1"]]
    np.testing.assert_array_equal(LIKELIHOOD.values(ordered), LIKELIHOOD.values(ordered.to_numpy()))
    assert LIKELIHOOD.values(np.zeros((0, 2))).shape == (0,)


def test_the_likelihood_may_be_named() -> None:
    by_name = ist.maximum_likelihood(likelihood=LIKELIHOOD)  # pyright: ignore[reportCallIssue]
    np.testing.assert_array_equal(by_name.theta, ist.maximum_likelihood(LIKELIHOOD).theta)


def test_stored_events_share_more_and_must_have_the_estimators_columns() -> None:
    rng = np.random.default_rng(2)
    theta = rng.uniform(-3, 3, (5000, 2))
    events = ist.Events(x=theta + rng.standard_normal(theta.shape), theta=theta)
    maker = make_toy_maker(LIKELIHOOD, LIKELIHOOD.model, events, 1000, None, 1)
    # The nearest thousand events serve toys of 60, however large a pool is asked for.
    assert maker.shared == pytest.approx(60 / 1000)
    toys = maker.at(np.zeros(2))
    assert len(toys.channels[0].pool) == 1000
    swapped = ist.Events(
        x=events.x, theta=theta, x_names=["x1", "x0"], theta_names=["theta0", "theta1"]
    )
    with pytest.raises(ValueError, match="the stored events' x are x1, x0"):
        make_toy_maker(LIKELIHOOD, LIKELIHOOD.model, swapped, 1000, None, 1)


def test_a_prior_is_taken_from_the_channels_only_where_they_agree() -> None:
    def estimator(width: float) -> ist.Estimator:
        prior = ist.Uniform([-width], [width], names=["mu"])
        return exact_estimator(gaussian, prior, np.array([-9.0]), np.array([9.0]))

    one, same, other = (ist.Likelihood(estimator(w), X[:, :1]) for w in (2.0, 2.0, 3.0))
    found = ist.posterior(one + same, seed=1)
    assert found.std[0] == pytest.approx(120**-0.5, rel=0.01)
    with pytest.raises(ValueError, match="trained under different priors"):
        ist.posterior(one + other, seed=1)
    prior = ist.Uniform([-3.0, -3.0], [3.0, 3.0], names=["theta1", "nu"])
    with pytest.raises(ValueError, match="give the prior in that order"):
        ist.posterior(LIKELIHOOD, prior, seed=1)


def test_weights_that_add_up_to_their_effective_size_need_no_warning() -> None:
    weight = np.random.default_rng(3).uniform(0.2, 1.8, len(X))
    with pytest.warns(UserWarning, match="the events have weights"):
        ist.posterior(ist.Likelihood(exact_normal(dim=2), X, weight=weight), seed=1)
    scaled = weight * weight.sum() / (weight @ weight)
    ist.posterior(ist.Likelihood(exact_normal(dim=2), X, weight=scaled), seed=1)
