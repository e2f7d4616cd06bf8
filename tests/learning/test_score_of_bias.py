"""The score whose bias is measured is that of the estimator, with what centring subtracts."""

import dataclasses

import numpy as np

import inferostatic as ist
from inferostatic.learning.measure_bias import _find_score
from inferostatic.models.members import with_centring
from inferostatic.models.theta_potential import ThetaPotential


def test_the_score_by_parts_is_the_whole_score() -> None:
    prior = ist.Uniform([-1.0], [1.0])
    events = ist.simulate(lambda t, rng: t + rng.normal(size=t.shape), prior, 500, seed=1)
    training = ist.Training(epochs=1, batch_size=100, progress_bar=False)
    plain = ist.fit(events, network=ist.MLP((8,)), training=training, seed=1)
    x, theta = events.x[:50], np.asarray(events.theta[:50], np.float64)
    np.testing.assert_array_equal(_find_score(plain, x, theta), plain.score(x, theta))
    function = ThetaPotential(
        np.array([-1.0]), np.array([1.0]), degrees=((1,), (2,)), coefficients=np.array([0.7, 0.3])
    )
    centred = dataclasses.replace(plain, model=with_centring(plain.model, function))
    assert np.abs(centred.score(x, theta) - plain.score(x, theta)).max() > 0.5
    np.testing.assert_allclose(
        _find_score(centred, x, theta), centred.score(x, theta), rtol=1e-4, atol=1e-5
    )
