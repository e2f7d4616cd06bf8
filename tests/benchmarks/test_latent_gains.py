"""How many times fewer events a method needs, on curves that can be read by eye."""

import importlib
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # of benchmarks, not of the package

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def gains_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)  # where the script finds its neighbours
    return importlib.import_module("latent").gains_of


def test_ten_times_fewer_events_for_the_same_errors(gains_of: Any) -> None:
    carl = {1000: 0.1, 10_000: 0.01}
    method = {100: 0.1, 1000: 0.01}
    (first, second) = gains_of(carl, method)
    assert first == (0.1, 10.0, True)  # no fewer events were tried
    assert second == (0.01, pytest.approx(10.0), False)


def test_the_events_count_beyond_which_an_error_stays_below(gains_of: Any) -> None:
    """An early lucky error is no gain, and an error that is never reached is left out."""
    carl = {1000: 0.05, 10_000: 0.001}
    method = {100: 0.01, 1000: 0.1, 10_000: 0.025}
    ((error, gain, bound),) = gains_of(carl, method)
    assert (error, bound) == (0.05, False)
    assert gain == pytest.approx(1000 / 10**3.5)
    assert gains_of(carl, {}) == []
