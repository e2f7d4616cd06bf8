"""Training on memory-mapped events: every row once, nothing copied, the same result as in memory.

Files of the tests are small, so the size up to which a file is simply read into memory is set to
nothing; only `test_a_small_file_…` leaves it alone.
"""

import dataclasses
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inferostatic as ist
from inferostatic.estimator.estimator import AbstractEstimator
from inferostatic.learning.dataset import build
from inferostatic.learning.dataset import files as files_module
from inferostatic.learning.dataset.build import build_dataset
from inferostatic.learning.dataset.dataset import Split
from inferostatic.learning.dataset.examples import Epoch
from inferostatic.learning.dataset.files import (
    Chunks,
    FileDataset,
    FileExamples,
    FileRows,
    cut_into_chunks,
    read_ahead,
)
from inferostatic.learning.dataset.memory import split_rows
from inferostatic.learning.defaults import trials
from inferostatic.learning.losses import SquaredError
from inferostatic.learning.methods import Method
from inferostatic.learning.training.members import LearningProblem
from inferostatic.models.features.columns import odd_columns
from inferostatic.models.features.feature_map import Affine, IdentityMap
from inferostatic.streams import Purpose, Stream
from inferostatic.supervision.records import Capability, Row, ScoreTarget
from inferostatic.supervision.supervision import (
    AbstractSupervision,
    Supply,
    ThetaDistribution,
    plain_supply,
)

PRIOR = ist.Uniform([-2.0], [2.0])
NETWORK = ist.MLP((8,), activation=jnp.tanh, output_bias=False)
#: Of 1600 events 1440 are trained on, in six blocks of four batches.
N, BLOCK = 1600, 240
QUICK = ist.Training(epochs=2, batch_size=60, learning_rate=1e-2, schedule=ist.Constant())


def opposite(theta: jax.Array, key: jax.Array) -> jax.Array:
    del key
    return -theta


#: Symmetric, hence reversible for the prior above; its loss is softplus(−ln r(x; θ, −θ)), in which
#: nothing is random, and ln r = 2xθ.
MIRROR = ist.CARL(pairs=ist.CustomPairs(draw_partner=opposite))


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave even small files where they are."""
    monkeypatch.setattr(build, "READ_WHOLE", 0)
    monkeypatch.setattr(files_module, "BLOCK_ROWS", BLOCK)


def gaussian(n: int, *, seed: int = 1, ordered: bool = False) -> dict[str, Any]:
    """x = θ + noise, in the order of θ if so wished."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform(-2, 2, (n, 1)).astype(np.float32)
    theta = np.sort(theta, axis=0) if ordered else theta
    return {"x": theta + rng.standard_normal(theta.shape, np.float32), "theta": theta}


def in_file(folder: Path, **arrays: np.ndarray) -> dict[str, Any]:
    """The arrays written to files and mapped."""
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in arrays}


def weights_of(estimator: AbstractEstimator) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(estimator.model.network)]


def same(one: AbstractEstimator, two: AbstractEstimator) -> bool:
    pairs = zip(weights_of(one), weights_of(two), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs) and np.array_equal(
        one.history.validation_loss, two.history.validation_loss
    )


# --- Which rows when -----------------------------------------------------------------------------


@st.composite
def files(draw: st.DrawFn) -> Chunks:
    count = draw(st.integers(2, 600))
    size = draw(st.integers(1, 70))
    held = draw(st.sets(st.integers(0, count - 1), max_size=count - 1))
    return Chunks(count, size, np.array(sorted(held), int), draw(st.integers(0, 9)))


@settings(deadline=None, max_examples=200)
@given(chunks=files(), block=st.integers(1, 300), seed=st.integers(0, 99))
def test_an_epoch_visits_every_training_row_once_and_no_held_out_one(
    chunks: Chunks, block: int, seed: int
) -> None:
    order = chunks.order(np.random.default_rng(seed))
    count = len(chunks)
    parts = [order.rows(a, min(a + block, count)) for a in range(0, count, block)]
    assert all(len(part) == block for part in parts[:-1])
    expected = np.setdiff1d(np.arange(chunks.count), chunks.held)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), expected)


@settings(deadline=None)
@given(chunks=files(), number=st.integers(0, 700))
def test_some_rows_are_different_training_rows(chunks: Chunks, number: int) -> None:
    rows = chunks.some(number)
    assert len(rows) == min(number, len(chunks))
    assert not np.isin(rows, chunks.held).any()
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, chunks.some(number))


def test_some_rows_are_spread_evenly() -> None:
    """Of 40,000 rows 20,000: each tenth of the file gets 2000 ± 30, by the hypergeometric law."""
    chunks = Chunks(40_000, 256, np.arange(0, 0), seed=1)
    found = np.bincount(chunks.some(20_000) // 4000, minlength=10)
    assert np.abs(found - 2000).max() < 5 * np.sqrt(4000 * 0.5 * 0.5 * 0.9)


def test_the_order_is_another_one_in_every_epoch() -> None:
    chunks = Chunks(5000, 8, np.arange(0, 5000, 7), seed=1)
    first, second = (chunks.order(np.random.default_rng(s)).rows(0, 1000) for s in (1, 2))
    # A thousand of 4286 rows twice: by chance 233 in common, in chunks of seven rows.
    assert np.isin(first, second).sum() < 233 + 6 * np.sqrt(7 * 233)


def test_chunks_suit_the_file() -> None:
    def size(rows: int, columns: int) -> int:
        return cut_into_chunks(
            np.broadcast_to(np.zeros(1), (rows, columns)), np.zeros(0, int), 0
        ).size

    assert size(10**7, 40) == files_module.CHUNK_ROWS
    assert size(10**7, 1000) == files_module.CHUNK_NUMBERS // 1000
    assert size(10**7, 10**6) == 1
    assert size(100_000, 40) == 100_000 // files_module.FEWEST_CHUNKS
    assert size(1000, 40) == 1


@pytest.mark.parametrize("orders", [None, 2])
def test_the_pieces_of_an_epoch_hold_every_training_event_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orders: int | None
) -> None:
    """The event, its θ and its weight all tell the row that they come from."""
    monkeypatch.setattr(files_module, "BLOCK_ROWS", 150)
    number = np.arange(1, 1001, dtype=np.float32)
    maps = in_file(tmp_path, x=number[:, None], theta=-number[:, None], weight=number)
    rows = FileRows(maps["x"], maps["theta"], with_x=False)
    mean = float(number.mean())
    examples = FileExamples(maps["x"], maps["weight"], mean, rows, (Affine([0.0], [2.0]),))
    held = np.arange(5, 1000, 11)
    chunks, this = Chunks(1000, 16, held, 0), Epoch(1, 0, 40, orders, numbers=10)
    pieces = list(examples.pieces(chunks, this))
    assert len(pieces) == 8  # 909 training events in blocks of three batches of 40
    for copy in range(orders or 1):
        seen = []
        for piece in pieces:
            order = piece.order if orders is None else piece.order[copy]
            assert order.shape == (len(piece.real), 40)
            np.testing.assert_array_equal((order >= 0).sum(axis=1), piece.real)
            taken = piece.examples.take(jnp.asarray(order[order >= 0]))
            assert taken.rows is not None
            x = 2 * np.asarray(taken.features)[:, 0]
            np.testing.assert_array_equal(-np.asarray(taken.rows.theta)[:, 0], x)
            np.testing.assert_allclose(np.asarray(taken.weight) * mean, x, rtol=1e-6)
            assert taken.rows.x.shape == (len(x), 0)
            seen.append(x - 1)
        in_order = np.concatenate(seen).astype(int)
        np.testing.assert_array_equal(np.sort(in_order), np.setdiff1d(np.arange(1000), held))
        # Neighbours in the file are none in training: by chance 2 of 909 follow each other.
        assert (np.diff(in_order) == 1).sum() < 40
    if orders is not None:
        assert not np.array_equal(pieces[0].order[0], pieces[0].order[1])
    for change in ({"seed": 2}, {"number": 1}):
        other = next(examples.pieces(chunks, dataclasses.replace(this, **change)))
        assert not np.array_equal(other.order, pieces[0].order)
        assert not np.array_equal(other.examples.weight, pieces[0].examples.weight)


def test_each_member_may_have_features_of_its_own(tmp_path: Path) -> None:
    maps = in_file(tmp_path, **gaussian(50))
    x, theta = maps["x"], maps["theta"]
    rows = FileRows(x, theta, with_x=True)
    kinds = (IdentityMap(), Affine([1.0], [2.0]))
    taken = FileExamples(x, np.ones(50), 1.0, rows, kinds).take(np.array([40, 3, 3]))
    assert taken.rows is not None
    np.testing.assert_array_equal(np.asarray(taken.rows.x), x[[40, 3, 3]])
    np.testing.assert_array_equal(np.asarray(taken.features[0]), x[[40, 3, 3]])
    np.testing.assert_allclose(np.asarray(taken.features[1]), (x[[40, 3, 3]] - 1) / 2, rtol=1e-6)


def test_what_goes_wrong_in_reading_comes_out() -> None:
    def read(number: int) -> Any:
        if number == 2:
            raise OSError("the disk is gone")
        return number

    coming = read_ahead(read, 5)
    assert [next(coming), next(coming)] == [0, 1]
    with pytest.raises(OSError, match="the disk is gone"):
        next(coming)


# --- Held-out events -----------------------------------------------------------------------------


def stored(x: np.ndarray, theta: np.ndarray) -> FileDataset:
    edges = np.full(1, -2.0), np.full(1, 2.0)
    rows = FileRows(x, theta, with_x=False)
    return FileDataset(x, np.ones(len(x)), PRIOR, None, *edges, rows)


def test_at_most_100_000_events_are_held_out() -> None:
    assert len(split_rows(900_000, 0.1, 1).validation) == 90_000
    assert len(split_rows(1_100_000, 0.1, 1).validation) == 100_000
    many = np.broadcast_to(np.zeros(1), (1_100_000, 1))
    split = stored(many, many).split(0.1, 1)
    assert len(split.validation) == len(np.unique(split.validation)) == 100_000
    assert len(split.train) == 1_000_000


def test_held_out_events_follow_from_the_seed_and_are_not_trained_on() -> None:
    many = np.broadcast_to(np.zeros(1), (10_000, 1))
    first, again, other = (stored(many, many).split(0.1, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.validation, again.validation)
    assert not np.array_equal(np.sort(first.validation), np.sort(other.validation))
    assert isinstance(first.train, Chunks)
    assert not np.isin(first.validation, first.train.some(10_000)).any()
    assert len(stored(many, many).split(0.0, 1).validation) == 0
    with pytest.raises(ValueError, match="too few to hold out 10%"):
        stored(many[:2], many[:2]).split(0.1, 1)


@pytest.mark.parametrize("test", [[], [0], [9_999], [0, 1, 2, 7, 5_000, 9_998]])
def test_held_out_events_are_drawn_from_those_not_for_tests(test: list[int]) -> None:
    many, rows = np.broadcast_to(np.zeros(1), (10_000, 1)), np.array(test, np.int64)
    split = stored(many, many).split(0.5, 3, rows)
    rest = np.delete(np.arange(10_000), rows)
    drawn = Stream(3, Purpose.SPLIT).generator().choice(rest, round(len(rest) / 2), replace=False)
    np.testing.assert_array_equal(split.validation, drawn)
    assert not np.isin(split.train.some(10_000), np.concatenate([rows, drawn])).any()
    assert len(split.train) == len(rest) - len(drawn)


def test_a_split_makes_no_list_of_all_rows() -> None:
    many = np.broadcast_to(np.zeros(1), (100_000_000, 1))
    dataset = FileDataset(
        many, many[:, 0], PRIOR, None, np.zeros(1), np.ones(1), FileRows(many, many, with_x=False)
    )
    tracemalloc.start()
    dataset.split(1e-5, 1, np.array([5]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


@pytest.mark.parametrize("count", [40_000, 80_000])
def test_choices_are_made_on_a_part_in_memory(count: int) -> None:
    number = np.arange(count, dtype=np.float64)[:, None]
    supply = stored(number, -number)
    split = supply.split(0.1, 1)
    problem, to_the_end = trials.plan_trials(LearningProblem(ist.KCE(), supply, split, 1))
    assert not to_the_end
    part, within = problem.dataset, problem.split
    assert part.x.dtype == np.float32
    assert len(within.train) == trials.TRY_ON
    assert part.in_memory
    taken = part.examples([IdentityMap()]).take(np.arange(len(part)))
    assert taken.rows is not None
    np.testing.assert_array_equal(np.asarray(taken.rows.theta), -part.x)
    np.testing.assert_array_equal(part.x[within.validation, 0], split.validation)
    assert not np.isin(part.x[within.train.some(count), 0], split.validation).any()


# --- Training ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("in_files")
def test_the_same_seed_gives_the_same_weights_however_long_reading_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = ist.Events(**in_file(tmp_path, **gaussian(N)), prior=PRIOR)

    def trained(seed: int, **more: Any) -> ist.Estimator:
        return ist.fit(events, MIRROR, training=QUICK, seed=seed, **more)

    first = trained(1, network=NETWORK)
    read = files_module.read_rows

    def slowly(array: np.ndarray, index: np.ndarray) -> np.ndarray:
        time.sleep(0.01)
        return read(array, index)

    monkeypatch.setattr(files_module, "read_rows", slowly)
    assert same(first, trained(1, network=NETWORK))
    assert not same(first, trained(2, network=NETWORK))
    continued = trained(2, start=first)
    assert continued.shapes is first.shapes
    assert continued.history.train_loss[0, 0] < first.history.train_loss[0, 0]


@pytest.mark.usefixtures("in_files")
@pytest.mark.slow
def test_training_from_a_sorted_file_is_as_good_as_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fifth of the events is in memory at a time.

    With the same seed, and hence the same initial weights, errors of ln r differ by the order of
    the events alone. How much, is told by the same events in memory in another order: the mean of
    ten differences must lie within 4.8 standard errors (99.9% of a Student variable with 9 degrees
    of freedom).
    """
    monkeypatch.setattr(files_module, "BLOCK_ROWS", 3600)
    arrays = gaussian(20_000, ordered=True)
    shuffled = np.random.default_rng(4).permutation(20_000)
    ways = {
        "file": in_file(tmp_path, **arrays),
        "memory": arrays,
        "another order": {name: array[shuffled] for name, array in arrays.items()},
    }
    training = ist.Training(epochs=3, batch_size=100, learning_rate=2e-2, weight_decay=0.0)
    test = gaussian(2000, seed=2)
    exact = 2 * (test["x"] * test["theta"])[:, 0]
    errors = {way: np.zeros(10) for way in ways}
    for way, table in ways.items():
        events = ist.Events(**table, prior=PRIOR)
        assert events.mapped == (way == "file")
        for seed in range(10):
            found = ist.fit(
                events, MIRROR, network=NETWORK, members=1, training=training, seed=seed
            ).log_ratio(test["x"], test["theta"], -test["theta"])
            errors[way][seed] = np.mean((found - exact) ** 2)
    assert errors["memory"].mean() < 0.3 * np.var(exact)
    usual = (errors["another order"] - errors["memory"]).std(ddof=1) / np.sqrt(10)
    assert usual < 0.02 * errors["memory"].mean()
    assert abs((errors["file"] - errors["memory"]).mean()) < 4.8 * usual


@pytest.mark.usefixtures("in_files")
def test_losses_are_weighted_means_over_the_trained_and_the_held_out_events(
    tmp_path: Path,
) -> None:
    """Steps too small to change anything leave the losses of one model, known from outside."""
    weight = np.random.default_rng(2).exponential(size=N)
    weight[::7] *= -0.3
    events = ist.Events(**in_file(tmp_path, **gaussian(N), weight=weight), prior=PRIOR)
    frozen = dataclasses.replace(QUICK, learning_rate=1e-30, keep_best=False)
    estimator = ist.fit(events, MIRROR, network=NETWORK, training=frozen, seed=1)
    log_r = estimator.log_ratio(events.x, events.theta, -events.theta)
    losses = np.logaddexp(0, -log_r) * weight / weight.mean()
    held = build_dataset(events, MIRROR).split(0.1, 1).validation
    train = np.setdiff1d(np.arange(N), held)
    history = estimator.history
    np.testing.assert_allclose(history.train_loss, losses[train].mean(), rtol=1e-5)
    np.testing.assert_allclose(history.validation_loss, losses[held].mean(), rtol=1e-5)


METHODS = {
    "KCE": ist.KCE(),
    "KLRE": ist.KLRE(ist.Rectangular(0.4)),
    "KSE": ist.KSE(ist.Delta(0.25)),
    "Mix": ist.Mix([(1.0, ist.KCE()), (0.1, ist.KSE(ist.Delta(0.5)))]),
    "CARL": ist.CARL(),
}


@pytest.mark.usefixtures("in_files")
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_files_supply_what_memory_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: Any
) -> None:
    monkeypatch.setattr(build, "SHOWN_EVENTS", 200)
    arrays = {name: a.astype(np.float64) for name, a in gaussian(500).items()}
    arrays["weight"] = np.random.default_rng(1).exponential(size=500)
    for prior in (PRIOR, ist.Normal(0.0, 1.0)):
        file, memory = (
            build_dataset(ist.Events(**way, prior=prior), method)
            for way in (in_file(tmp_path, **arrays), arrays)
        )
        assert isinstance(file, FileDataset)
        assert not file.rows.with_x
        for name, value in vars(memory.region()).items():
            np.testing.assert_allclose(getattr(file.region(), name), value, rtol=1e-6)
        assert file.distribution is not None
        assert memory.distribution is not None
        np.testing.assert_allclose(file.distribution.low, memory.distribution.low, rtol=1e-6)
        np.testing.assert_allclose(file.distribution.high, memory.distribution.high, rtol=1e-6)
        index = np.array([400, 3, 77])
        ours, theirs = (
            s.subset(index).examples([IdentityMap()]).take(np.arange(3)) for s in (file, memory)
        )
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)


@pytest.mark.usefixtures("in_files")
def test_a_finite_set_of_theta_needs_no_prior(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    theta = rng.choice([-1.0, 0.5, 1.0], (3000, 1), p=[0.2, 0.3, 0.5])
    arrays: dict[str, Any] = {"x": theta + 1, "theta": theta}
    arrays["weight"] = np.where(theta[:, 0] > 0, 3.0, 1.0)
    file, memory = (
        build_dataset(ist.Events(**way), ist.CARL()).prior
        for way in (in_file(tmp_path, **arrays), arrays)
    )
    assert isinstance(file, ist.Discrete)
    assert isinstance(memory, ist.Discrete)
    np.testing.assert_array_equal(file.points, memory.points)
    np.testing.assert_allclose(file.probability, memory.probability, rtol=1e-6)


def test_a_small_file_is_read_into_memory(tmp_path: Path) -> None:
    """Nothing then tells it from arrays in memory, and methods that need all events work."""
    arrays = {**gaussian(300), "weight": np.random.default_rng(1).exponential(size=300)}
    reference = ist.Events(x=gaussian(200, seed=2)["x"], theta=[0.0])
    for method in (ist.KCE(), ist.DCTR(reference)):
        file, memory = (
            build_dataset(ist.Events(**way, prior=PRIOR), method)
            for way in (in_file(tmp_path, **arrays), arrays)
        )
        ours, theirs = (vars(s) | {"region": vars(s.region())} for s in (file, memory))
        assert jax.tree.structure(ours) == jax.tree.structure(theirs)
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
            assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(
            file.split(0.1, 1).train.some(300), memory.split(0.1, 1).train.some(300)
        )


# --- What does not work, and says so -------------------------------------------------------------

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a reference point": (
        lambda: ist.CARL(reference=[0.5]),
        "CARL must see all events at once before training",
    ),
    "reference events": (
        lambda: ist.DCTR(ist.Events(x=[[0.0], [1.0]], theta=[0.0])),
        r"ReferenceSample says .* load the events into memory .* such as KCE, KLRE, CARL and KSE",
    ),
    "a width that depends on θ": (
        lambda: ist.KLRE(ist.Rectangular(lambda theta: 0.1 + 0 * theta)),
        r"a width that is a function of x or θ .* load the events into memory",
    ),
}


@pytest.mark.usefixtures("in_files")
@pytest.mark.parametrize(("method", "message"), REFUSED.values(), ids=REFUSED)
def test_methods_that_need_all_events_are_refused(
    tmp_path: Path, method: Callable[[], Any], message: str
) -> None:
    events = ist.Events(**in_file(tmp_path, **gaussian(100)), prior=PRIOR)
    with pytest.raises(ValueError, match=message):
        ist.fit(events, method(), network=NETWORK, training=QUICK, seed=1)


class ScaledScore(AbstractSupervision):
    """A user's own supervision: the score of x = θ + noise is x − θ."""

    all_events: bool

    @property
    def capability(self) -> Capability:
        return Capability.SCORE

    @property
    def needs_all_events(self) -> bool:
        return self.all_events

    @property
    def reads_x(self) -> bool:
        return True

    def supply(self, events: ist.Events) -> Supply:
        return plain_supply(events)

    def supervise(self, row: Row, distribution: ThetaDistribution, *, key: jax.Array) -> Any:
        del distribution, key
        return ScoreTarget(row.theta, row.x - row.theta, jnp.ones(()))

    def draw(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


@pytest.mark.usefixtures("in_files")
def test_a_supervision_of_ones_own_says_whether_it_trains_from_files(tmp_path: Path) -> None:
    events = ist.Events(**in_file(tmp_path, **gaussian(N)), prior=PRIOR)
    refused, accepted = (
        Method("my method", ScaledScore(needs), SquaredError()) for needs in (True, False)
    )
    message = r"my method must see all events at once .*ScaledScore says that it needs them"
    with pytest.raises(ValueError, match=message):
        ist.fit(events, refused, network=NETWORK, training=QUICK, seed=1)
    longer = dataclasses.replace(QUICK, epochs=6)
    found = ist.fit(events, accepted, network=NETWORK, training=longer, seed=1)
    exact = (events.x - events.theta)[:, 0]
    error = np.mean((found.score(events.x, events.theta)[:, 0] - exact) ** 2)
    assert error < 0.1 * np.var(exact)


@pytest.mark.usefixtures("in_files")
def test_many_theta_need_a_prior(tmp_path: Path) -> None:
    events = ist.Events(**in_file(tmp_path, **gaussian(2000)))
    with pytest.raises(ValueError, match=r"more than 1000 different θ and no prior=.* Give it, or"):
        ist.fit(events, network=NETWORK, training=QUICK, seed=1)


@pytest.mark.usefixtures("in_files")
def test_a_file_that_was_cut_short_is_told(tmp_path: Path) -> None:
    """Reading beyond its end would end the process with no message."""
    maps = in_file(tmp_path, **gaussian(20_000))
    events = ist.Events(**maps, prior=PRIOR)
    supply = build_dataset(events, ist.KCE())
    os.truncate(tmp_path / "x.npy", 10_000)
    message = r"the file of x, .*x\.npy, is too short: it has 10,000 bytes, and 80,128 were mapped"
    with pytest.raises(OSError, match=message):
        ist.fit(events, network=NETWORK, training=QUICK, seed=1)
    with pytest.raises(OSError, match=message):
        ist.Events(**maps, prior=PRIOR)
    with pytest.raises(OSError, match=message):
        supply.region()
    with pytest.raises(OSError, match=message):
        supply.examples([IdentityMap()]).take(np.arange(5))


# --- Memory --------------------------------------------------------------------------------------


def test_nothing_of_the_size_of_the_file_is_allocated(tmp_path: Path) -> None:
    """Checks, ranges and samples of a 64 MB file take less than a quarter of it."""
    count = 400_000
    shape = (count, 40)
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, shape)
    rng = np.random.default_rng(1)
    for start in range(0, count, 20_000):
        x[start : start + 20_000] = rng.standard_normal((20_000, 40), np.float32)
    x[:, 3], x[:, 7] = 1.0, x[:, 8]
    theta = in_file(tmp_path, theta=gaussian(count)["theta"])["theta"]
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    tracemalloc.start()
    try:
        events = ist.Events(x=x, theta=theta, prior=PRIOR)
        supply = build_dataset(events, ist.KCE())
        remarks = odd_columns(supply.x, events.x_names)
        region = supply.region()
        split = supply.split(0.001, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < x.nbytes / 4
    assert isinstance(split, Split)
    assert remarks == [
        "the observable x3 has the same value in every event and can be left out.",
        "the observable x8 equals x7 in every event and can be left out.",
    ]
    np.testing.assert_array_equal(region.x_low, x.min(axis=0))
