"""Events that a simulator could not make: an error, or left out with a warning and a record."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.events.engines.failures import find_successes
from inferostatic.events.store import production

PRIOR = ist.Uniform([0.0], [1.0])
ENGINE = ist.InProcess(failures=ist.Drop())


def fragile(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Fails for large θ, and then more often for the second column."""
    x = np.hstack([theta, theta]) + rng.normal(size=(len(theta), 2))
    x[theta[:, 0] > 0.9] = [1.0, np.nan]
    x[theta[:, 0] > 0.95] = [np.inf, 1.0]
    return x


def whole(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.hstack([theta, theta]) + rng.normal(size=(len(theta), 2))


def test_they_raise_by_default() -> None:
    with pytest.raises(ValueError, match="returned NaN or infinite x in rows"):
        ist.simulate(fragile, PRIOR, 500, seed=1)


def test_they_are_left_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="events were dropped") as caught:
        events = ist.simulate(fragile, PRIOR, 500, engine=ENGINE, seed=1)
    (warning,) = caught
    everything = ist.simulate(whole, PRIOR, 500, seed=1)
    kept = everything.theta[:, 0] <= 0.9
    np.testing.assert_array_equal(events.theta, everything.theta[kept])
    np.testing.assert_array_equal(events.x, everything.x[kept])
    said, lost = str(warning.message), np.flatnonzero(~kept)
    assert f"{len(lost)} of 500 events were dropped" in said
    assert f"in rows {lost[0]}, {lost[1]}, " in said
    assert "biased where its failures depend on θ" in said
    assert warning.filename == __file__


def test_the_surplus_of_the_last_block_is_not_counted() -> None:
    theta = np.array([[0.1], [0.2], [0.3]])
    x = np.array([[1.0], [2.0], [3.0]])
    assert find_successes(x, np.vstack([theta, [[0.99]]])).tolist() == [0, 1, 2]
    with pytest.warns(UserWarning, match=r"1 of 3 .* row 1, with θ between \[0.2\] and \[0.2\]"):
        assert find_successes(np.array([[1.0], [np.nan], [3.0]]), theta).tolist() == [0, 2]


def test_somebody_must_succeed() -> None:
    with pytest.raises(ValueError, match="NaN or infinite x for every event: rows 0, 1"):
        ist.simulate(lambda t, r: t * np.nan, PRIOR, 300, engine=ENGINE, seed=1)


def test_shapes_are_wrong_nevertheless() -> None:
    with pytest.raises(ValueError, match="returned 199 rows for 200 parameter points"):
        ist.simulate(lambda t, r: t[1:], PRIOR, 300, engine=ENGINE, seed=1)


def test_where_every_event_is_needed_they_raise() -> None:
    with pytest.raises(ValueError, match="returned NaN or infinite x in row"):
        ist.draw(ist.KSE(ist.Delta(0.1)), ENGINE(fragile), PRIOR, 500, seed=1)


def test_latent_variables_are_left_out_as_well() -> None:
    class Fragile:
        def simulate_latent(self, theta: np.ndarray, rng: np.random.Generator) -> Any:
            z = rng.normal(size=theta.shape)
            return np.where(theta > 0.9, np.nan, theta + z), z

        def joint_log_prob(self, x: Any, z: Any, theta: Any) -> Any:
            return -((x - theta - z) ** 2).sum()

    with pytest.warns(UserWarning, match="events were dropped"):
        events = ist.simulate(Fragile(), PRIOR, 500, engine=ENGINE, seed=1)
    assert events.latent is not None
    np.testing.assert_allclose(events.x, events.theta + events.latent.arrays["z"], rtol=1e-6)


def test_a_store_knows_which_were_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "store"
    monkeypatch.setattr(production, "REPLAYED_EVERY", 1)  # all is compared with a second run
    store = ist.Store(folder, events_per_part=400)
    with pytest.warns(UserWarning, match=f"(?s)dropped, .* in parts .*{folder}/dropped has their"):
        events = ist.simulate(fragile, PRIOR, 1000, store=store, engine=ENGINE, seed=1)
    with pytest.warns(UserWarning, match="events were dropped"):
        expected = ist.simulate(fragile, PRIOR, 1000, engine=ENGINE, seed=1)
    np.testing.assert_array_equal(events.x, expected.x)
    np.testing.assert_array_equal(events.theta, expected.theta)
    note = json.loads((folder / "dropped" / "part-000000.json").read_bytes())
    assert (np.array(note["theta"]) > 0.9).all()
    status = store.status(verify=True)
    assert status.complete
    assert status.dropped >= 1000 - len(expected)
    assert "events were dropped" in status.summary()
    from pyarrow import parquet

    part = parquet.read_table(folder / "parts" / "part-000000.parquet")
    assert part.num_rows == 400 - len(note["rows"])
    assert np.isfinite(part.column("x1").to_numpy()).all()
    # Nothing is missing, so nothing is made and nobody is warned again.
    again = ist.simulate(fragile, PRIOR, 1000, store=store, engine=ENGINE, seed=1)
    np.testing.assert_array_equal(again.x, expected.x)


@pytest.mark.parametrize("wrong", ["drop", 0, False, ist.Drop])
def test_other_wishes_are_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"failures must be ist.Drop\(\)"):
        ist.InProcess(failures=wrong)
