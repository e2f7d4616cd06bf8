"""Readers of foreign files; those of MadMiner were written by it (tests/data/madminer/make.py)."""

import math
import re
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inferostatic.events.events import Events
from inferostatic.events.morphing.morphing import Morphing
from inferostatic.events.morphing.weighted_pool import WeightedPool
from inferostatic.events.readers.lhe import read_lhe, read_lhe_weights
from inferostatic.events.readers.madminer import read_madminer, read_madminer_samples
from inferostatic.events.readers.root import read_root
from inferostatic.world.priors.discrete import Discrete
from inferostatic.world.priors.prior import Normal, Uniform
from inferostatic.world.priors.product import Product

DATA = Path(__file__).parents[2] / "data" / "madminer"
NAMES = ("CWL2", "CPWL2")


def toy_weights(z: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The rate that the files were made with."""
    return (1 + theta[0] * z[:, 0] + theta[1] * (z[:, 1] - 0.5)) ** 2 + 0.1


def joint(pool: WeightedPool, events: Events, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ln p_lat and joint score at θ of the events of a set, found again in the part they are from.

    MadMiner draws training sets from the first 60% of a file and normalises by the rate of these.
    """
    part = pool[: round(0.6 * len(pool))]
    rows = np.array([np.flatnonzero((part.x == x).all(axis=1))[0] for x in events.x])
    assert part.morphing is not None
    morphing = part.morphing.with_sample(part.weights, part.nuisance)
    chosen = part[rows]
    latent = morphing.latent(chosen.weights, nuisance=chosen.nuisance)
    arrays = {k: jnp.asarray(v, jnp.float32) for k, v in latent.items()}
    log_prob, score = evaluate(morphing, arrays, jnp.asarray(theta, jnp.float32))
    return np.asarray(log_prob), np.asarray(score)


@eqx.filter_jit
def evaluate(morphing: Morphing, arrays: dict[str, jax.Array], theta: jax.Array) -> tuple:
    x = jnp.zeros((len(theta), 1))
    return tuple(jax.vmap(f)(x, arrays, theta) for f in (morphing.log_prob, morphing.score))


def test_a_madminer_file():
    pool = read_madminer(DATA / "toy.h5")
    assert (len(pool), pool.x_names, pool.theta_names) == (200, ("z0", "z1", "s"), NAMES)
    assert pool.weight_names == ("sm", "a", "b", "c", "d", "e")
    assert pool.nuisance is None
    assert repr(pool) == "WeightedPool(200 events, x: z0, z1, s; theta: CWL2, CPWL2; 6 weights)"
    # At any θ its weights are the toy's, here from those at the benchmark that made the events.
    theta = np.array([0.35, -0.2])
    assert pool.morphing is not None
    morphed = pool.weights @ pool.morphing.weights_at(theta)
    expected = toy_weights(pool.x, theta) / toy_weights(pool.x, np.zeros(2)) * 1.1 / 200
    np.testing.assert_allclose(morphed, expected, rtol=1e-10)


def test_samples_of_several_benchmarks_are_scaled_by_their_share():
    pool = read_madminer(DATA / "mixed.h5")
    background = np.ptp(pool.weights, axis=1) < 1e-12
    assert background.sum() == 20
    np.testing.assert_allclose(pool.weights[background], 0.2 / 20)
    # Each sample alone adds up to about the integral of the rate, and both together to no more.
    signal = pool.weights[~background]
    for i, (a, b) in enumerate([(0.0, 0.0), (0.8, 0.0), (-0.6, 0.3)]):
        error = 4.5 * np.sqrt(len(signal)) * signal[:, i].std()
        assert abs(signal[:, i].sum() - (1.1 + a + a**2 / 3 + b**2 / 12)) < error < 0.5


@pytest.mark.parametrize(
    ("file", "name"),
    [("toy", "ratio"), ("toy", "double"), ("mixed", "mixed"), ("nuisance", "nuisance")],
)
def test_joint_ratios_and_scores_are_those_of_madminer(file, name):
    pool = read_madminer(DATA / f"{file}.h5")
    if name == "double":
        events = read_madminer_samples(DATA, name)
    else:
        events = read_madminer_samples(DATA, name)
        assert "joint_score" not in events.latent
    here, score = joint(pool, events, events.theta)
    there, _ = joint(pool, events, events.latent["partner"])
    ratio = events.latent["log_joint_ratio"]
    assert np.abs(ratio).max() > 0.3
    np.testing.assert_allclose(here - there, ratio, atol=1e-5)
    if name == "double":
        np.testing.assert_allclose(score, events.latent["joint_score"], atol=3e-5)
        return
    from_0 = np.load(DATA / f"y_{name}.npy")[:, 0] == 0
    off_reference = events.latent["joint_score_off_reference"]
    np.testing.assert_allclose(score[from_0], off_reference[from_0], atol=3e-5)
    assert not off_reference[~from_0].any()
    scored = read_madminer_samples(DATA, name, scored=True)
    assert (len(scored), set(scored.latent)) == (30, {"joint_score"})
    score = joint(pool, scored, scored.theta)[1]
    np.testing.assert_allclose(score, scored.latent["joint_score"], atol=3e-5)
    if name == "nuisance":
        assert scored.theta.shape == (30, 4)
        assert np.abs(scored.latent["joint_score"][:, 2:]).min(axis=0).max() > 0


@pytest.mark.parametrize("name", ["local", "density"])
def test_sets_with_scores(name):
    events = read_madminer_samples(DATA, name, theta_names=NAMES, x_names=["z0", "z1", "s"])
    score = joint(read_madminer(DATA / "toy.h5"), events, events.theta)[1]
    np.testing.assert_allclose(score, events.latent["joint_score"], atol=3e-5)
    assert events.theta_names == NAMES
    assert (len(np.unique(events.theta, axis=0)) == 1) == (name == "local")


def test_sets_without_latent_information():
    events = read_madminer_samples(DATA, "test")
    assert (events.x.shape, len(events.latent)) == ((40, 3), 0)


def test_the_theta_of_an_event_is_the_one_that_made_it():
    y = np.load(DATA / "y_double.npy")[:, 0]
    theta = np.stack([np.load(DATA / f"theta{i}_double.npy") for i in (0, 1)])
    events = read_madminer_samples(DATA, "double")
    rows = np.arange(len(y))
    assert (events.theta == theta[y.astype(int), rows]).all()
    assert (events.latent["partner"] == theta[1 - y.astype(int), rows]).all()
    ln_r = np.log(np.load(DATA / "r_xz_double.npy")[:, 0])
    np.testing.assert_allclose(events.latent["log_joint_ratio"], np.where(y == 0, ln_r, -ln_r))


def test_scores_at_one_theta_of_pairs_without_a_reference_are_left_out(tmp_path):
    for name in ("x", "y", "theta0", "theta1", "r_xz"):
        np.save(tmp_path / f"{name}_a.npy", np.load(DATA / f"{name}_double.npy"))
    np.save(tmp_path / "t_xz_a.npy", np.load(DATA / "t_xz0_double.npy"))
    count = int(np.load(DATA / "y_double.npy").sum())
    with pytest.warns(UserWarning, match=f"{count} of 60 events were drawn at θ₁"):
        events = read_madminer_samples(tmp_path)
    assert set(events.latent) == {"partner", "log_joint_ratio"}


@pytest.mark.parametrize("name", ["toy", "nuisance"])
def test_events_at_a_reference_are_joined_to_others_of_the_pool(name):
    pool = read_madminer(DATA / f"{name}.h5")
    prior = Uniform([-0.3, -0.3], [0.3, 0.3], names=NAMES)
    if name == "nuisance":
        prior = Product([prior, Normal([0.0, 0.0], [1.0, 1.0], names=["scale", "pdf"])])
    events = pool.events(prior, 200, seed=1)
    point = np.zeros(prior.dim)
    morphing = events.latent.joint
    assert isinstance(morphing, Morphing)
    there = pool.events(point, 100, seed=2, morphing=morphing)
    both = Events.concatenate([events, there], prior=prior)
    assert (len(both), both.prior, both.latent.joint) == (300, prior, morphing)
    if name == "nuisance":  # of which the rate is fitted as far out as is asked for
        with pytest.raises(ValueError, match=r"same joint density.*morphing=events\.latent\.joint"):
            Events.concatenate([events, pool.events(point, 100, seed=2)], prior=prior)


def test_events_drawn_from_a_madminer_file():
    pool = read_madminer(DATA / "nuisance.h5")
    assert pool.theta_names == (*NAMES, "scale", "pdf")
    physics = Uniform([-0.3, -0.3], [0.3, 0.3], names=NAMES)
    prior = Product([physics, Normal([0.0, 0.0], [1.0, 1.0], names=["scale", "pdf"])])
    events = pool.events(prior, 500, seed=1)
    assert events.theta_names == pool.theta_names
    assert events.latent.joint is not None
    assert set(events.latent) == {"components", "nuisance_a", "nuisance_b"}
    swapped = Uniform([-0.3] * 2, [0.3] * 2, names=NAMES[::-1])
    with pytest.raises(ValueError, match="the columns of the prior are CPWL2, CWL2"):
        read_madminer(DATA / "toy.h5").events(swapped, 10, seed=1)
    one = read_madminer(DATA / "toy.h5")[:100].events([0.1, 0.1], 50, seed=1)
    assert one.theta_names == NAMES


def test_events_at_a_benchmark_by_its_name():
    pool = read_madminer(DATA / "nuisance.h5")
    assert pool.morphing is not None
    at = pool.weight_names.index("a")
    expected = [*pool.morphing.benchmarks[at], 0, 0]
    assert any(expected)
    events = pool.events("a", 20, seed=1)
    assert (events.theta == expected).all()
    np.testing.assert_array_equal(events.x, pool.events(expected, 20, seed=1).x)
    with pytest.raises(ValueError, match=r"these benchmarks, and 'SM' is not among them: a, .*sm"):
        pool.events("SM", 20, seed=1)
    few = Morphing.of_degree(1, [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="has 3 benchmarks and this pool 6 weights, sm, a"):
        pool.events("sm", 20, seed=1, morphing=few)


def test_names_of_the_prior_and_of_the_pool():
    pool, varied = read_madminer(DATA / "toy.h5"), read_madminer(DATA / "nuisance.h5")
    low, high = [-0.3, -0.3], [0.3, 0.3]
    with pytest.raises(ValueError, match=r"prior are a, b, and those of this pool CWL2, CPWL2; "):
        pool.events(Uniform(low, high, names=["a", "b"]), 10, seed=1)
    physics = Uniform(low, high, names=NAMES)
    words = (
        r"2 parameters \(CWL2, CPWL2\) and 2 nuisance parameters \(scale, pdf\), and the prior is "
        r"one of 2: CWL2, CPWL2; add them last: ist.Product\(\[prior, ist.Normal\(\[0, 0\], \[1, 1"
    )
    with pytest.raises(ValueError, match=words):
        varied.events(physics, 10, seed=1)
    with pytest.raises(ValueError, match=r"one of 3: theta0, theta1, theta2\.$"):
        varied.events(Uniform([0.0] * 3, [0.1] * 3), 10, seed=1)
    with pytest.raises(ValueError, match=r"4 finite numbers \(CWL2, CPWL2, scale, pdf\)"):
        varied.events([0.0, 0.0], 10, seed=1)
    # What the message proposes works, with names where there were none.
    events = varied.events(Product([physics, Normal([0, 0], [1, 1])]), 10, seed=1)
    assert events.prior is not None
    assert events.prior.names == events.theta_names == varied.theta_names
    swapped = Product([Uniform(low, high, names=NAMES[::-1]), Normal([0, 0], [1, 1])])
    with pytest.raises(ValueError, match="those expected here are CWL2, CPWL2, scale, pdf"):
        varied.events(swapped, 10, seed=1)
    # Not every prior is made from the fields that it keeps.
    points = Discrete([[0.0, 0.0], [0.1, 0.1]])
    assert pool.events(points, 10, seed=1).theta_names == NAMES
    assert points.names == ("theta0", "theta1")


def test_the_exponents_of_a_madminer_file():
    pool = read_madminer(DATA / "nuisance.h5")
    assert pool.nuisance is not None
    z = pool.x
    np.testing.assert_allclose(pool.nuisance.a[:, 0], 0.2 * z[:, 0] - 0.1, atol=1e-12)
    np.testing.assert_allclose(pool.nuisance.b[:, 0], 0.05 * (z[:, 1] - 0.3), atol=1e-12)
    np.testing.assert_allclose(pool.nuisance.a[:, 1], 0.15 * z[:, 1], atol=1e-12)
    assert not pool.nuisance.b[:, 1].any()


def test_incomplete_madminer_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_madminer(tmp_path / "none.h5")
    with h5py.File(tmp_path / "some.h5", "w") as file:
        file["samples/weights"] = np.ones((2, 3))
    with pytest.raises(ValueError, match="has no 'samples/observations'"):
        read_madminer(tmp_path / "some.h5")


def test_what_is_no_madminer_file(tmp_path):
    pytest.importorskip("h5py")
    with pytest.raises(ValueError, match=r"x_ratio.npy' is not an HDF5 file; .*madminer_samples"):
        read_madminer(DATA / "x_ratio.npy")
    with pytest.raises(ValueError, match=r"is a folder; for sets of .npy files use ist\.read_mad"):
        read_madminer(DATA)
    (tmp_path / "cut.h5").write_bytes((DATA / "toy.h5").read_bytes()[:3000])
    with pytest.raises(ValueError, match=r"cut.h5' cannot be opened, .* ends early"):
        read_madminer(tmp_path / "cut.h5")


def test_wrong_folders_of_sets(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder '.*none'; pass the one where x_<name>"):
        read_madminer_samples(tmp_path / "none")
    with pytest.raises(ValueError, match=r"is a file; pass the folder .*, such as '.*madminer', "):
        read_madminer_samples(DATA / "x_ratio.npy")
    with pytest.raises(ValueError, match=r"has 0 sets, no file x_….npy; say which"):
        read_madminer_samples(tmp_path)
    (tmp_path / "x_a.npy").write_bytes(b"no array")
    with pytest.raises(ValueError, match=r"x_a.npy' cannot be read as an array of NumPy \("):
        read_madminer_samples(tmp_path)


def test_wrong_sets(tmp_path):
    with pytest.raises(ValueError, match=r"has 7 sets, density, .*; say which one by name="):
        read_madminer_samples(DATA)
    with pytest.raises(FileNotFoundError, match=r"x_none.npy'; .* has 7 sets, density, .* name="):
        read_madminer_samples(DATA, "none")
    np.save(tmp_path / "x_a.npy", np.ones((4, 1)))
    np.save(tmp_path / "theta_a.npy", np.ones((3, 1)))
    with pytest.raises(ValueError, match="x_a.npy has 4 rows and theta_a.npy 3"):
        read_madminer_samples(tmp_path)
    (tmp_path / "theta_a.npy").unlink()
    with pytest.raises(ValueError, match="a set without y needs a file theta_"):
        read_madminer_samples(tmp_path)
    for name in ("y", "theta0", "theta1", "r_xz"):
        np.save(tmp_path / f"{name}_a.npy", np.ones((4, 1)))
    np.save(tmp_path / "r_xz_a.npy", np.array([1.0, -1, 1, 1]))
    with pytest.raises(ValueError, match="r_xz_a.npy is not positive in row 1"):
        read_madminer_samples(tmp_path)


def test_scores_of_nuisance_parameters_at_zero(tmp_path):
    np.save(tmp_path / "x_a.npy", np.ones((4, 1)))
    np.save(tmp_path / "theta_a.npy", np.ones((4, 1)))
    np.save(tmp_path / "t_xz_a.npy", np.arange(8.0).reshape(4, 2))
    with pytest.warns(UserWarning, match="have 2 components and θ has 1: the last 1"):
        events = read_madminer_samples(tmp_path)
    assert events.latent["joint_score"].tolist() == [[0], [2], [4], [6]]


# ROOT.


@pytest.fixture
def root_file(tmp_path) -> Path:
    uproot = pytest.importorskip("uproot")
    awkward = pytest.importorskip("awkward")
    rng = np.random.default_rng(1)
    path = tmp_path / "events.root"
    with uproot.recreate(path) as file:
        file["tree"] = {
            "met": rng.normal(size=5).astype(np.float32),
            "njet": np.arange(5),
            "p": rng.normal(size=(5, 3)),
            "mass": np.linspace(170, 175, 5),
            "w": np.array([1.0, -1.0, 1.0, 1.0, 1.0]),
            "pt": awkward.Array([[1.0], [], [2.0, 3.0], [], [1.0]]),
        }
    return path


def test_a_root_tree(root_file):
    events = read_root(root_file, "tree", x=["met", "njet", "p"], theta=["mass"], weight="w")
    assert events.x_names == ("met", "njet", "p[0]", "p[1]", "p[2]")
    assert events.theta_names == ("mass",)
    assert events.weight.tolist() == [1, -1, 1, 1, 1]
    assert events.x[:, 1].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(events.theta[:, 0], np.linspace(170, 175, 5))
    at_one = read_root(root_file, "tree", x="met", theta=[172.5, 0.1])
    assert (at_one.theta == [172.5, 0.1]).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(tree="t"), "has these objects, and 't' is not among them: tree"),
        (dict(x=["mot"]), "these branches, and 'mot' is not among them: mass, met"),
        (dict(x=["pt"]), "varying number of values for each event.*ist.pad_particles"),
        (dict(theta="nothing"), "'nothing' is not among them"),
    ],
)
def test_wrong_branches(root_file, change, words):
    arguments = {"tree": "tree", "x": ["met"], "theta": ["mass"]} | change
    with pytest.raises(ValueError, match=words):
        read_root(root_file, arguments.pop("tree"), **arguments)


def test_a_root_file_that_is_not_there(tmp_path):
    pytest.importorskip("uproot")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_root(tmp_path / "none.root", "tree", x=["a"], theta=["b"])


@pytest.mark.parametrize("content", [b"", b"text", bytes(range(256)) * 20])
def test_what_is_no_root_file(tmp_path, content):
    pytest.importorskip("uproot")
    path = tmp_path / "other.root"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"other.root is not a ROOT file, .* pass a .root file"):
        read_root(path, "tree", x=["a"], theta=["b"])


# Les Houches events.

EVENT = """<event>
 3 1 {weight} 91.2 0.0078 0.118
 2 -1 0 0 501 0 0.0 0.0 500.0 500.0 0.0 0.0 9.0
 -2 -1 0 0 0 501 0.0 0.0 -400.0 400.0 0.0 0.0 9.0
 23 1 1 2 0 0 {px} {py} 100.0 900.0 91.2 0.0 9.0
<rwgt>
<wgt id='sm'>{sm}</wgt>
<wgt id='up'>{up}</wgt>
</rwgt>
</event>
"""
HEAD = """<LesHouchesEvents version="3.0">
<header>
<initrwgt>
<weight id='sm'>standard model</weight>
<weight id='up'>coupling at 1</weight>
</initrwgt>
</header>
<init>
2212 2212 6500.0 6500.0 0 0 247000 247000 -4 1
1.0 0.1 1.0 1
</init>
"""
MOMENTA = [(3.0, 4.0), (5.0, 12.0), (8.0, 15.0)]


@pytest.fixture
def lhe_file(tmp_path) -> Path:
    pytest.importorskip("pylhe")
    events = [
        EVENT.format(weight=(-1) ** i * 2.0, px=px, py=py, sm=1.0 + i, up=2.5 + i)
        for i, (px, py) in enumerate(MOMENTA)
    ]
    path = tmp_path / "events.lhe"
    path.write_text(HEAD + "".join(events) + "</LesHouchesEvents>\n")
    return path


def pt(event) -> float:
    return math.hypot(event.particles[2].px, event.particles[2].py)


OBSERVABLES = {"pt": pt, "pz": lambda event: event.particles[2].pz}


def test_an_lhe_file(lhe_file):
    events = read_lhe(lhe_file, OBSERVABLES, theta=[0.5], theta_names=["g"])
    assert events.x.tolist() == [[5, 100], [13, 100], [17, 100]]
    assert events.weight.tolist() == [2, -2, 2]
    assert (events.x_names, events.theta_names) == (("pt", "pz"), ("g",))
    assert (events.theta == 0.5).all()


def test_the_named_weights_of_an_lhe_file(lhe_file):
    pool = read_lhe_weights(lhe_file, OBSERVABLES)
    assert pool.weight_names == ("sm", "up")
    assert pool.weights.tolist() == [[1, 2.5], [2, 3.5], [3, 4.5]]
    turned = read_lhe_weights(lhe_file, OBSERVABLES, weights=["up", "sm"])
    assert turned.weights.tolist() == [[2.5, 1], [3.5, 2], [4.5, 3]]
    with pytest.raises(ValueError, match="give morphing=.* in the order of sm, up"):
        pool.events([0.5], 10, seed=1)
    linear = Morphing.of_degree(1, [[0.0], [1.0]])
    with pytest.raises(ValueError, match="only 2.* effective events"):
        pool.events([0.5], 10, seed=1, morphing=linear)
    with pytest.raises(ValueError, match="'down' is not among them: sm, up"):
        read_lhe_weights(lhe_file, OBSERVABLES, weights=["down"])


def test_wrong_lhe_files(lhe_file, tmp_path):
    whole = lhe_file.read_text()
    cut = tmp_path / "cut.lhe"
    cut.write_text(whole[: whole.rindex("<event>") + 40])
    with pytest.raises(ValueError, match="is damaged or ends early"):
        read_lhe(cut, OBSERVABLES, theta=[0.5])
    with pytest.raises(ValueError, match=r"'p' must be one number .* got shape \(2,\) in event 0"):
        read_lhe(lhe_file, {"p": lambda event: np.ones(2)}, theta=[0.5])  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="observables is empty"):
        read_lhe(lhe_file, {}, theta=[0.5])
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_lhe(tmp_path / "none.lhe", OBSERVABLES, theta=[0.5])
    cut.write_text(HEAD + "</LesHouchesEvents>\n")
    with pytest.raises(ValueError, match="holds no events"):
        read_lhe(cut, OBSERVABLES, theta=[0.5])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        bytes(range(256)),
        b"\x1f\x8bno gzip",
        b"<a><b/></a>",
        b"<LesHouchesEvents><init>\n1 2\n</init></LesHouchesEvents>",
    ],
)
def test_what_is_no_lhe_file(tmp_path, content):
    pytest.importorskip("pylhe")
    path = tmp_path / "other.lhe"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"other.lhe cannot be read as an LHE file \("):
        read_lhe(path, OBSERVABLES, theta=[0.5])


def test_an_event_with_text_among_its_numbers(lhe_file):
    lhe_file.write_text(lhe_file.read_text().replace("5.0 12.0", "5.0 x"))
    with pytest.raises(ValueError, match=r"events.lhe is damaged or ends early \(ValueError"):
        read_lhe(lhe_file, OBSERVABLES, theta=[0.5])


def broken(event) -> float:
    return event.particles[2 if event.particles[2].px < 5 else 7].px


@pytest.mark.parametrize("read", [lambda f, o: read_lhe(f, o, theta=[0.5]), read_lhe_weights])
def test_wrong_observables(lhe_file, read):
    with pytest.raises(TypeError, match=r"dictionary of functions .* by name, .*; got list\."):
        read(lhe_file, ["pt"])
    with pytest.raises(TypeError, match="'pt' must be a function of one event .*; got str"):
        read(lhe_file, {"pt": "pt"})
    with pytest.raises(RuntimeError, match="'px' failed in event 1: IndexError: list") as caught:
        read(lhe_file, {"pt": pt, "px": broken})
    assert isinstance(caught.value.__cause__, IndexError)
    with pytest.raises(ValueError, match="'p' must be one number .* got None in event 0"):
        read(lhe_file, {"p": lambda event: None})


def test_an_lhe_file_without_named_weights(lhe_file):
    text = re.sub(r"<rwgt>.*?</rwgt>\n", "", lhe_file.read_text(), flags=re.DOTALL)
    lhe_file.write_text(text)
    for weights in (None, ["sm"]):
        with pytest.raises(ValueError, match=r"no named weights \(<rwgt>\); use ist.read_lhe"):
            read_lhe_weights(lhe_file, OBSERVABLES, weights)
    assert len(read_lhe(lhe_file, OBSERVABLES, theta=[0.5])) == 3


# Optional packages.


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("h5py", lambda: read_madminer(DATA / "toy.h5")),
        ("uproot", lambda: read_root("a.root", "tree", x=["a"], theta=["b"])),
        ("pylhe", lambda: read_lhe("a.lhe", {}, theta=[0.0])),
    ],
)
def test_a_missing_package_is_named(monkeypatch, package, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ImportError, match=rf"uses {package}: pip install 'inferostatic\[readers\]'"
    ):
        call()
