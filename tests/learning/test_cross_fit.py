"""Every event is unseen by one estimator."""

import numpy as np
import pytest

import inferostatic as ist


@pytest.fixture(scope="module")
def events() -> ist.Events:
    # Three folds of the same size compile once.
    return ist.simulate(ist.toys.Dirichlet(), ist.Uniform([1.0] * 3, [4.0] * 3), 999, seed=1)


def test_each_event_is_held_out_once(events) -> None:
    network, plan = ist.Potential(ist.MLP((4,))), ist.Training(epochs=1)
    estimators, held_out = ist.cross_fit(
        events, ist.KCE(), folds=3, network=network, training=plan, seed=2
    )
    assert len(estimators) == len(held_out) == 3
    together = np.concatenate([part.x for part in held_out])
    assert np.array_equal(
        together[np.lexsort(together.T)], np.asarray(events.x)[np.lexsort(np.asarray(events.x).T)]
    )
    # Trained on different events, with different seeds.
    scores = [est.score(events.x[:5], events.theta[:5]) for est in estimators]
    assert not np.allclose(scores[0], scores[1])


def test_bad_input_gets_a_sentence(events) -> None:
    with pytest.raises(TypeError, match="cross_fit takes ist.Events"):
        ist.cross_fit(events.x, seed=1)
    with pytest.raises(ValueError, match="two folds at least; got 1"):
        ist.cross_fit(events, folds=1, seed=1)
    with pytest.raises(ValueError, match="999 events are too few for 20 folds"):
        ist.cross_fit(events, folds=20, seed=1)
