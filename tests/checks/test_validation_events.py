"""Selection of validation events, and other θ that stay within the trained region."""

import dataclasses

import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_dirichlet
from inferostatic.checks.pair_identities import pair_identities
from inferostatic.checks.validation_events import select_events
from inferostatic.estimator.history import Region
from inferostatic.streams import Purpose, Stream

EXACT = exact_dirichlet(low=0.5, high=5.0)


def test_events_and_partners_outside_the_region_are_left_out(events: ist.Events) -> None:
    low, high = np.full(3, 1.0), np.full(3, 4.0)
    inner = dataclasses.replace(EXACT, region=Region(low, high, np.zeros(3), np.ones(3)))
    kinds = (ist.Estimator,)
    selected = select_events(inner, events, check="this", kinds=kinds, most=10**6, seed=0)
    expected = np.all((events.theta >= 1) & (events.theta <= 4), axis=1)
    assert selected.dropped == np.sum(~expected)
    candidates = selected.draw_candidates(1000, Stream(3, Purpose.CANDIDATES))
    assert candidates.shape == (1000, 3)
    assert candidates.min() >= 1
    assert candidates.max() <= 4
    partner, distance = selected.draw_partners(3)
    assert inner.region.contains_theta(partner[distance >= 0]).all()
    assert (distance < 0).any()
    assert pair_identities(inner, events).findings[0].grade == "good"
    far = Region(high + 9, high + 9, np.zeros(3), np.ones(3))
    with pytest.raises(ValueError, match="hardly any θ of the events' prior"):
        dataclasses.replace(selected, region=far).draw_candidates(5, Stream(0, Purpose.CANDIDATES))


def test_some_of_the_selected_events_are_those_that_would_have_been_selected(
    events: ist.Events,
) -> None:
    kinds = (ist.Estimator,)
    many, few = (
        select_events(EXACT, events, check="this", kinds=kinds, most=most, seed=1)
        for most in (5000, 300)
    )
    first = many.first(300)
    for name in ("x", "theta", "weight"):
        np.testing.assert_array_equal(getattr(first, name), getattr(few, name))
    assert len(many.first(10**6).x) == 5000
    # A random choice: not the first rows of the file.
    assert not np.isin(few.x[:, 0], events.x[:300, 0]).all()
