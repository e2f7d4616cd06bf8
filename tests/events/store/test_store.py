"""A store holds what a simulation in memory gives, however it was made."""

import json
import pickle
from pathlib import Path
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import pyarrow.dataset
import pytest

import inferostatic as ist
from inferostatic.events.store import cache, parts
from optional import OptionalPackage
from store_simulators import PRIOR, Counting, named, shifted_normal

pd = OptionalPackage("pandas")


def same(one: ist.Events, other: ist.Events) -> None:
    """Bit by bit."""
    for ours, theirs in ((one.x, other.x), (one.theta, other.theta), (one.weight, other.weight)):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert set(one.latent) == set(other.latent)
    for name in one.latent:
        np.testing.assert_array_equal(one.latent[name], other.latent[name])
    assert one.x_names == other.x_names
    assert one.theta_names == other.theta_names
    assert len(one) == len(other)


@pytest.mark.parametrize("n", [1, 200, 1999, 5000])
def test_a_store_is_a_simulation_in_memory(tmp_path: Path, n: int):
    store = ist.Store(tmp_path / "events", events_per_part=600)
    stored = ist.simulate(named, PRIOR, n, store=store, seed=4)
    memory = ist.simulate(named, PRIOR, n, seed=4)
    same(stored, memory)
    opened = ist.Store(tmp_path / "events").events()
    same(opened, memory)
    assert opened.mapped
    assert opened.x_names == ("u", "v")
    assert isinstance(opened.prior, ist.Uniform)
    np.testing.assert_array_equal(opened.prior.high, PRIOR.high)
    # Nobody can write into the files.
    with pytest.raises(ValueError, match="read-only"):
        opened.x[0] = 0.0


def test_what_is_missing_is_made_and_nothing_else(tmp_path: Path):
    path = tmp_path / "events"
    counting = Counting()
    ist.simulate(counting, PRIOR, 3000, store=ist.Store(path, events_per_part=1000), seed=1)
    first = {file.name: file.stat().st_mtime_ns for file in (path / "parts").iterdir()}
    counting.events = 0
    ist.simulate(counting, PRIOR, 3000, store=path, seed=1)
    ist.simulate(counting, PRIOR, 500, store=path, seed=1)
    assert counting.events == 0
    # A larger number appends.
    more = ist.simulate(counting, PRIOR, 4001, store=path, seed=1)
    assert counting.events == 2000
    same(more, ist.simulate(shifted_normal, PRIOR, 4001, seed=1))
    for name, changed in first.items():
        assert (path / "parts" / name).stat().st_mtime_ns == changed
    # What was removed is made again.
    parts.part_path(path, 2).unlink()
    assert ist.Store(path).status().missing == (2,)
    counting.events = 0
    again = ist.simulate(counting, PRIOR, 4001, store=path, seed=1)
    assert counting.events == 1000
    same(again, more)
    # A smaller number shows fewer of them, and the store keeps all.
    few = ist.simulate(counting, PRIOR, 1234, store=path, seed=1)
    assert len(few) == len(few.x) == 1234
    np.testing.assert_array_equal(few.x, more.x[:1234])
    assert len(ist.Store(path).events()) == 4001


def test_shares_make_the_whole_in_any_order(tmp_path: Path):
    path = tmp_path / "events"
    memory = ist.simulate(shifted_normal, PRIOR, 4900, seed=2)
    for i in (2, 0, 3, 1):
        if i == 1:
            with pytest.raises(ValueError, match=r"of 9 parts, 1, 5 missing\. Run the same"):
                ist.Store(path).events()
        store = ist.Store(path, events_per_part=600)
        share = ist.simulate(shifted_normal, PRIOR, 4900, store=store, parts=(i, 4), seed=2)
        rows = np.flatnonzero(np.arange(4900) // 600 % 4 == i)
        assert len(share) == len(rows)
        np.testing.assert_array_equal(share.x, memory.x[rows])
    same(ist.Store(path).events(), memory)
    # More jobs than parts: the last ones have nothing to do.
    idle = ist.simulate(shifted_normal, PRIOR, 4900, store=path, parts=(11, 12), seed=2)
    assert len(idle) == 0
    assert idle.x.shape == (0, 2)
    assert "0 events" in repr(idle)


def test_a_share_looks_at_its_own_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A thousand jobs that each open all files are too many for the disks of a cluster."""
    path, looked = tmp_path / "events", []
    ist.simulate(shifted_normal, PRIOR, 4000, store=ist.Store(path, events_per_part=400), seed=2)
    real = parts._is_whole

    def watched(file: str, size: int) -> bool:
        looked.append(Path(file).name)
        return real(file, size)

    monkeypatch.setattr(parts, "_is_whole", watched)
    ist.simulate(shifted_normal, PRIOR, 4000, store=path, parts=(1, 5), seed=2)
    assert sorted(looked) == ["part-000001.parquet", "part-000006.parquet"]


def test_opening_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "events"
    ist.simulate(
        named, PRIOR, 2000, store=ist.Store(path, block_size=10, events_per_part=20), seed=1
    )
    read: list[int] = []
    real = cache.read_part

    def watched(folder: Any, manifest: Any, part: int) -> Any:
        read.append(part)
        return real(folder, manifest, part)

    monkeypatch.setattr(cache, "read_part", watched)
    events = ist.Store(path).events()
    assert len(events) == 2000
    assert repr(events) == "Events(2,000 events, x: u, v; theta: a, b; Uniform)"
    assert events.theta_names == ("a", "b")
    copied = pickle.loads(pickle.dumps(events))
    assert len(copied) == 2000
    assert read == []
    assert events.x.shape == (2000, 2)
    assert read == list(range(100))
    # From now on nobody reads the parts again, in this process or another.
    same(copied, events)
    assert len(pickle.dumps(events)) < 5000
    assert len(read) == 100


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seed": 2}, "seed: 1 in the store, 2 here"),
        (
            {"prior": ist.Uniform([0.0, -1.0], [1.0, 4.0], names=["a", "b"])},
            "prior high: [1.0, 3.0] in the store, [1.0, 4.0] here",
        ),
        (
            {"prior": ist.Normal([0.0, -1.0], [1.0, 3.0], names=["a", "b"])},
            "prior type: Uniform in the store, Normal here",
        ),
        (
            {"simulator": named},
            "simulator: shifted_normal in the store, named here; if it is the same one, give it a "
            "name",
        ),
        ({"name": "pythia"}, "name: toy in the store, pythia here"),
        ({"version": "2"}, "version: 1 in the store, 2 here"),
        ({"block_size": 100}, "block_size: 200 in the store, 100 here"),
        ({"events_per_part": 800}, "events_per_part: 400 in the store, 800 here"),
    ],
)
def test_another_store_is_refused(tmp_path: Path, changed: dict[str, Any], said: str):
    def run(name=None, version=None, simulator=shifted_normal, prior=PRIOR, seed=1, **options):
        store = ist.Store(tmp_path, name=name, version=version, **options)
        ist.simulate(simulator, prior, 1000, store=store, seed=seed)

    run(name="toy", version="1", events_per_part=400)
    before = sorted((file, file.stat().st_mtime_ns) for file in tmp_path.rglob("*"))
    run()
    run(name="toy", simulator=named)  # a name that is given decides, and nothing is missing
    with pytest.raises(ValueError, match="was made otherwise") as caught:
        run(**changed)
    assert said in str(caught.value)
    assert sorted((file, file.stat().st_mtime_ns) for file in tmp_path.rglob("*")) == before


def test_other_columns_are_refused(tmp_path: Path):
    store = ist.Store(tmp_path, name="toy", events_per_part=400)
    ist.simulate(shifted_normal, PRIOR, 400, store=store, seed=1)
    with pytest.raises(RuntimeError, match=r"other columns than those of the store: u, v"):
        ist.simulate(named, PRIOR, 800, store=store, seed=1)

    def single(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return shifted_normal(theta, rng).astype(np.float32)

    with pytest.raises(RuntimeError, match=r"x0, x1 \(float32\).*not x0, x1 \(float64\)"):
        ist.simulate(single, PRIOR, 800, store=store, seed=1)
    assert ist.Store(tmp_path).status().missing == (1,)
    assert ist.Store(tmp_path).status().present == 400


def test_latent_variables_are_columns(tmp_path: Path):
    toy, prior = ist.toys.GaussianChain(), ist.Uniform([-1.0, -0.5], [1.0, 0.5])
    store = ist.Store(tmp_path, events_per_part=400)
    stored = ist.simulate(toy, prior, 1000, store=store, seed=4)
    memory = ist.simulate(toy, prior, 1000, seed=4)
    same(stored, memory)
    assert stored.latent.joint == memory.latent.joint
    opened = store.events()
    assert opened.latent.joint is None
    np.testing.assert_array_equal(opened.latent["z"], memory.latent["z"])
    given = store.events(joint=memory.latent.joint)
    assert given.latent.joint == memory.latent.joint
    frame = pd.read_parquet(tmp_path / "parts")
    np.testing.assert_array_equal(frame["z.1"][:1000], memory.latent["z"][:, 1])


def test_other_tools_read_the_same_files(tmp_path: Path):
    memory = ist.simulate(named, PRIOR, 1200, seed=4)
    ist.simulate(named, PRIOR, 1200, store=ist.Store(tmp_path, events_per_part=400), seed=4)
    files = sorted((tmp_path / "parts").iterdir())
    assert [file.name for file in files] == [f"part-00000{i}.parquet" for i in range(3)]
    columns = ["a", "b", "u", "v", "weight"]
    frames = {
        "pandas": pd.read_parquet(tmp_path / "parts"),
        "pyarrow": pyarrow.dataset.dataset(tmp_path / "parts").to_table().to_pandas(),
    }
    for frame in frames.values():
        assert list(frame.columns) == columns
        np.testing.assert_array_equal(frame[["u", "v"]], memory.x)
        np.testing.assert_array_equal(frame[["a", "b"]], memory.theta)
        assert (frame["weight"] == 1).all()


@pytest.mark.parametrize("tool", ["polars", "duckdb"])
def test_more_tools_read_the_same_files(tmp_path: Path, tool: str):
    package = pytest.importorskip(tool)
    memory = ist.simulate(named, PRIOR, 1200, seed=4)
    ist.simulate(named, PRIOR, 1200, store=ist.Store(tmp_path, events_per_part=400), seed=4)
    pattern = str(tmp_path / "parts" / "*.parquet")
    if tool == "polars":
        found = package.read_parquet(pattern).select("u", "v").to_numpy()
    else:
        rows = package.sql(f"SELECT u, v FROM '{pattern}'").fetchnumpy()
        found = np.stack([rows["u"], rows["v"]], axis=1)
    np.testing.assert_array_equal(found, memory.x)


def test_events_from_elsewhere_are_shuffled(tmp_path: Path):
    theta = np.sort(PRIOR.sample(5000, seed=1), axis=0)
    x = np.arange(10_000.0).reshape(5000, 2).astype(np.float32)
    weight = np.linspace(-1, 2, 5000)
    latent = {"joint_score": theta**2, "tower": np.arange(30_000.0).reshape(5000, 3, 2)}
    events = ist.Events(x=x, theta=theta, weight=weight, latent=latent, prior=PRIOR)
    store = ist.Store(tmp_path, events_per_part=600)
    opened = store.write(events, seed=3)
    assert opened.mapped
    assert "weighted" in repr(opened)
    order = (opened.x[:, 0] / 2).astype(int)
    assert sorted(order) == list(range(5000))
    same(opened, events[order])
    # Every part is a fair sample of all.
    for part in range(8):
        mean = order[part * 600 : (part + 1) * 600].mean()
        assert abs(mean - 2500) < 5 * 5000 / np.sqrt(12 * 600)
    # The same call changes nothing, and makes what is missing.
    changed = {file: file.stat().st_mtime_ns for file in (tmp_path / "parts").iterdir()}
    parts.part_path(tmp_path, 3).unlink()
    with pytest.raises(ValueError, match="3 missing"):
        store.events()
    again = store.write(events, seed=3)
    same(again, opened)
    now = {file: file.stat().st_mtime_ns for file in (tmp_path / "parts").iterdir()}
    assert [file.name for file in now if now[file] != changed[file]] == ["part-000003.parquet"]
    with pytest.raises(ValueError, match="made otherwise: seed: 3 in the store, 4 here"):
        store.write(events, seed=4)
    with pytest.raises(ValueError, match=r"made otherwise: events: \w+ in the store"):
        store.write(events[::-1], seed=3)
    with pytest.raises(ValueError, match="come from elsewhere, to which none can be simulated"):
        ist.simulate(shifted_normal, PRIOR, 10, store=tmp_path, seed=3)
    with pytest.raises(TypeError, match=r"a set of ist\.Events; got ndarray"):
        store.write(x, seed=3)  # pyright: ignore[reportArgumentType]


def test_morphing_weights_come_back_with_their_morphing(tmp_path: Path):
    morphing = ist.Morphing.of_degree(2, [[0.0], [1.0], [2.0]])
    rng = np.random.default_rng(1)
    weights = 1 + np.abs(rng.normal(size=(4000, 1))) * np.array([1.0, 1.5, 3.0])
    pool = ist.WeightedPool(rng.normal(size=(4000, 2)), weights, morphing)
    events = pool.events(ist.Uniform([0.5], [1.5]), 300, seed=1)
    opened = ist.Store(tmp_path).write(events, seed=1)
    fresh = ist.Store(tmp_path).events()
    same(fresh, opened)
    order = np.argsort(events.theta[:, 0])[np.argsort(np.argsort(fresh.theta[:, 0]))]
    same(fresh, events[order])
    joint, ours = fresh.latent.joint, events.latent.joint
    assert joint is not None
    assert ours is not None
    for event in (fresh[:3], events[order][:3]):
        rows = {name: jnp.asarray(values[0]) for name, values in event.latent.items()}
        x, theta = jnp.asarray(event.x[0]), jnp.array([0.7])
        np.testing.assert_array_equal(joint.score(x, rows, theta), ours.score(x, rows, theta))


def test_columns_of_one_name_are_told_apart(tmp_path: Path):
    def echo(theta: np.ndarray, rng: np.random.Generator) -> Any:
        return pd.DataFrame(theta + rng.normal(size=theta.shape), columns=["a", "weight"])

    stored = ist.simulate(echo, PRIOR, 300, store=tmp_path, seed=1)
    same(stored, ist.simulate(echo, PRIOR, 300, seed=1))
    frame = pd.read_parquet(tmp_path / "parts")
    assert list(frame.columns) == ["a", "b", "x.a", "weight", "weight.weight"]
    np.testing.assert_array_equal(frame["x.a"][:300], stored.x[:, 0])


@pytest.mark.slow
def test_a_store_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from inferostatic.learning.dataset import build

    monkeypatch.setattr(build, "READ_WHOLE", 0)
    stored = ist.simulate(named, PRIOR, 3000, store=tmp_path, seed=1)
    options = {"training": ist.Training(epochs=2), "members": 1, "seed": 5}
    method, network = ist.KLRE(ist.Rectangular(0.4)), ist.MLP((8,))
    trained = ist.fit(ist.Store(tmp_path).events(), method, network=network, **options)
    # The same as from files that somebody else wrote.
    memory = ist.simulate(named, PRIOR, 3000, seed=1)
    np.save(tmp_path / "x.npy", memory.x)
    np.save(tmp_path / "theta.npy", memory.theta)
    mapped = ist.Events(
        x=np.load(tmp_path / "x.npy", mmap_mode="r"),
        theta=np.load(tmp_path / "theta.npy", mmap_mode="r"),
        prior=PRIOR,
        x_names=["u", "v"],
    )
    other = ist.fit(mapped, method, network=network, **options)
    x, theta = memory.x[:5], memory.theta[:5]
    np.testing.assert_array_equal(trained.score(x, theta), other.score(x, theta))
    assert "x" in stored.__dict__ or len(stored) == 3000


def test_a_users_prior_is_given_again(tmp_path: Path):
    import jax

    prior = ist.CustomPrior(
        lambda key: jax.random.uniform(key, (2,)), lambda theta: 0.0, [0, 0], [1, 1]
    )
    ist.simulate(shifted_normal, prior, 300, store=tmp_path, seed=1)
    again = ist.Store(tmp_path).events(prior=prior)
    assert again.prior is prior
    with pytest.raises(ValueError, match="not the prior that the events were drawn from; prior"):
        ist.Store(tmp_path).events(prior=PRIOR)
    with pytest.raises(ValueError, match="contains functions that a user wrote"):
        ist.replay(tmp_path, 0, simulator=shifted_normal)
    played = ist.replay(tmp_path, 0, simulator=shifted_normal, prior=prior)
    np.testing.assert_array_equal(played.x[:300], again.x)


MISUSES: dict[str, tuple[Any, type[Exception], str]] = {
    "no store": (lambda p: ist.Store(p / "none").events(), FileNotFoundError, "there is no store"),
    "status of none": (lambda p: ist.Store(p / "none").status(), FileNotFoundError, "no store"),
    "events per part": (
        lambda p: ist.Store(p, events_per_part=300),
        ValueError,
        "must be a multiple of the block size, 200; got 300",
    ),
    "parts without store": (
        lambda p: ist.simulate(shifted_normal, PRIOR, 5, parts=(0, 2), seed=1),
        ValueError,
        "give store=, the folder",
    ),
    "a share beyond the last": (
        lambda p: ist.simulate(shifted_normal, PRIOR, 5, store=p, parts=(2, 2), seed=1),
        ValueError,
        r"i in parts=\(i, N\) must be at most 1",
    ),
    "a share as text": (
        lambda p: ist.simulate(shifted_normal, PRIOR, 5, store=p, parts="0/2", seed=1),  # pyright: ignore[reportArgumentType]
        TypeError,
        r"parts must be \(i, N\)",
    ),
    "a number for a path": (
        lambda p: ist.simulate(shifted_normal, PRIOR, 5, store=3, seed=1),  # pyright: ignore[reportArgumentType]
        TypeError,
        "path must be",
    ),
    "seconds": (lambda p: ist.Store(p, part_seconds=0), ValueError, "part_seconds"),
    "a name that is a number": (
        lambda p: ist.Store(p, name=cast("Any", 3)),
        TypeError,
        "name must be",
    ),
}


@pytest.mark.parametrize(("misuse", "kind", "said"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_refused(tmp_path: Path, misuse: Any, kind: type[Exception], said: str):
    with pytest.raises(kind, match=said):
        misuse(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_says_how_the_store_was_made(tmp_path: Path):
    store = ist.Store(tmp_path, name="toy", version="3.1", events_per_part=400)
    ist.simulate(named, PRIOR, 1000, store=store, seed=7)
    said = json.loads((tmp_path / "manifest.json").read_text())
    assert said["format"] == 1
    assert said["simulator"] == {"name": "toy", "version": "3.1", "function": "named"}
    assert (said["seed"], said["block_size"], said["blocks_per_part"]) == (7, 200, 2)
    assert said["layout"]["x"] == {"names": ["u", "v"], "dtype": "float64"}
    assert said["prior"]["type"] == "Uniform"
    assert said["events"] == 1000
    assert set(said["versions"]) >= {"python", "numpy", "jax", "pyarrow", "inferostatic"}
    status = store.status(verify=True)
    assert status.complete
    assert status.summary() == (
        f"store of toy in {tmp_path}\n1,000 of 1,000 events, in 3 of 3 parts, all verified"
    )
