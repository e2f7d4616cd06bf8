"""Saved models: exact round trips, sentences for bad files, and nothing ever executed."""

import dataclasses
import hashlib
import io
import json
import os
import pickle
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.archive import checksum_of, pack, read_archive, write_archive
from inferostatic.estimator.estimator import AbstractEstimator
from inferostatic.estimator.history import Region
from inferostatic.estimator.loading import KINDS
from inferostatic.models.architecture import AbstractArchitecture
from inferostatic.models.members import with_network
from inferostatic.serial import describe
from inferostatic.world.priors.prior import AbstractPrior

Array = jax.Array

LOW, HIGH = np.array([0.5, 0.5]), np.array([5.0, 4.0])
BOX = ist.Uniform(LOW, HIGH, names=["a", "b"])
SMALL = ist.MLP((4,))


def build(
    architecture: AbstractArchitecture,
    method: Any = None,
    prior: AbstractPrior | None = BOX,
    members: int = 2,
) -> Any:
    """An estimator of two observables and two parameters with random weights."""
    rng = np.random.default_rng(1)
    x = rng.lognormal(size=(300, 2))
    shapes = architecture.shapes(x, (LOW + HIGH) / 2, (HIGH - LOW) / np.sqrt(12))
    model = architecture.build(shapes, key=jax.random.key(1))
    arrays, static = eqx.partition(model.network, eqx.is_array)
    stacked = jax.tree.map(lambda leaf: _several(leaf, members, rng), arrays)
    kind = {"Potential": "Estimator", "DirectScore": "ScoreEstimator"}.get(
        type(architecture).__name__, "RatioEstimator"
    )
    history = ist.History(
        train_loss=rng.normal(size=(3, members)),
        validation_loss=np.array([[0.1] * members, [np.nan] * members, [np.inf] * members]),
        seconds=rng.uniform(size=3),
        best_epoch=np.arange(members) + 1,
        stopped="no better validation loss in 2 epochs, at epoch 3 of 9",
        warnings=("a remark with an umlaut: ü",),
    )
    return KINDS[kind](
        model=with_network(model, eqx.combine(stacked, static)),
        architecture=architecture,
        shapes=shapes,
        method=ist.KCE() if method is None else method,
        prior=prior,
        region=Region(LOW, HIGH, x.min(axis=0), x.max(axis=0)),
        x_names=("first", "second"),
        theta_names=("a", "b"),
        history=history,
    )


def _several(leaf: Array, members: int, rng: np.random.Generator) -> Array:
    if not eqx.is_inexact_array(leaf):
        return jnp.asarray(np.stack([np.asarray(leaf)] * members))
    return jnp.asarray(rng.normal(size=(members, *leaf.shape)).astype(np.float32))


def outputs(estimator: AbstractEstimator) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    x = rng.uniform(0.5, 1.5, size=(16, 2))
    theta0, theta1 = rng.uniform(LOW, HIGH, size=(2, 16, 2))
    offered = {"potential": (x, theta0), "score": (x, theta0), "log_ratio": (x, theta0, theta1)}
    return {
        name: getattr(estimator, name)(*arguments)
        for name, arguments in offered.items()
        if hasattr(estimator, name)
    }


def assert_same(one: AbstractEstimator, two: AbstractEstimator) -> None:
    assert type(one) is type(two)
    ours, theirs = outputs(one), outputs(two)
    assert ours.keys() == theirs.keys()
    for name, values in ours.items():
        np.testing.assert_array_equal(values, theirs[name], err_msg=name)
    for field in ("train_loss", "validation_loss", "seconds", "best_epoch", "stopped", "warnings"):
        np.testing.assert_array_equal(getattr(one.history, field), getattr(two.history, field))
    for field in ("theta_low", "theta_high", "x_low", "x_high"):
        np.testing.assert_array_equal(getattr(one.region, field), getattr(two.region, field))
    assert (one.x_names, one.theta_names) == (two.x_names, two.theta_names)
    assert one.members == two.members
    assert str(one.method) == str(two.method)
    assert repr(one) == repr(two)


class Shuffled(eqx.Module):
    """A user's network, with an array of integers beside its weights."""

    order: Array
    last: eqx.nn.Linear

    def __call__(self, a: Array) -> Array:
        return self.last(jnp.sin(a[self.order]))


def users_network(in_size: int, out_size: int, *, key: Array) -> Shuffled:
    one, two = jax.random.split(key)
    return Shuffled(jax.random.permutation(one, in_size), eqx.nn.Linear(in_size, out_size, key=two))


def wave(z: Array) -> Array:
    return jnp.sin(2 * z)


def width_by_theta(theta: Array) -> Array:
    return 0.1 + 0.01 * theta


ARCHITECTURES: dict[str, AbstractArchitecture] = {
    "default": ist.Potential(SMALL),
    "standardised": ist.Potential(ist.MLP((4, 3), activation=jnp.tanh), ist.Standardised()),
    "raw": ist.Potential(SMALL, ist.Raw(), ist.Raw()),
    "few_segments": ist.Potential(SMALL, ist.Quantile(3)),
    "score": ist.DirectScore(SMALL),
    "ratio": ist.DirectRatio(SMALL, ist.Standardised()),
    "paper": ist.paper_network,
    "paper_score": ist.paper_score_network,
    "paper_ratio": ist.paper_ratio_network,
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_survives(name: str, tmp_path: Path) -> None:
    estimator = build(ARCHITECTURES[name], members=1 if name == "paper" else 2)
    estimator.save(tmp_path / "model.isn")
    loaded = ist.load(tmp_path / "model.isn")
    assert_same(loaded, estimator)
    assert bool(eqx.tree_equal(loaded.architecture, estimator.architecture))
    assert bool(eqx.tree_equal(loaded.prior, estimator.prior))
    loaded.save(tmp_path / "again.isn")
    assert_same(ist.load(str(tmp_path / "again.isn")), estimator)


METHODS: list[Any] = [
    ist.KSE(ist.Delta([0.25, 0.1]), ist.Sign()),
    ist.KLRE(ist.Gaussian(0.4, truncation=2.0), ist.Exponential()),
    ist.CARL(reference=[1.0, 2.0], loss=ist.Savage()),
    ist.KCE(ist.MultiScale(0.1, 0.9), number=4),
    ist.Mix([(1.0, ist.KCE()), (0.25, ist.KSE(ist.Epanechnikov(0.1)))]),
]
PRIORS: list[AbstractPrior | None] = [
    None,
    ist.Normal([1.0, 2.0], [0.5, 0.5], names=["a", "b"]),
    ist.TruncatedNormal([1.0, 2.0], [0.5, 0.5], low=[0.5, -np.inf], names=["a", "b"]),
    ist.Product([ist.Uniform(0.5, 5.0), ist.Normal(2.0, 1.0)], names=["a", "b"]),
    ist.Discrete([[1.0, 2.0], [3.0, 3.0]], [0.9, 0.1], names=["a", "b"]),
]


@pytest.mark.parametrize(("method", "prior"), list(zip(METHODS, PRIORS, strict=True)))
def test_methods_and_priors_survive(
    method: Any, prior: AbstractPrior | None, tmp_path: Path
) -> None:
    build(ist.Potential(SMALL), method, prior).save(tmp_path / "model.isn")
    loaded = ist.load(tmp_path / "model.isn")
    assert bool(eqx.tree_equal(loaded.method, method))
    assert describe(loaded.prior) == describe(prior)
    if prior is not None:
        np.testing.assert_array_equal(loaded.prior.sample(5, seed=1), prior.sample(5, seed=1))


def test_training_goes_on_from_a_loaded_model(tmp_path: Path) -> None:
    """The continued fit is the same, to the bit, as one that was never saved."""
    events = ist.simulate(lambda theta, rng: theta + rng.normal(size=theta.shape), BOX, 60, seed=1)
    events = ist.Events(x=events.x, theta=events.theta, prior=BOX, x_names=["first", "second"])
    training = ist.Training(epochs=1, batch_size=32)
    estimator = build(ist.Potential(SMALL), members=1)
    estimator.save(tmp_path / "model.isn")
    loaded = ist.load(tmp_path / "model.isn")
    one, two = (
        ist.fit(events, ist.CARL(), start=start, training=training, seed=1)
        for start in (estimator, loaded)
    )
    np.testing.assert_array_equal(
        one.potential(events.x, events.theta), two.potential(events.x, events.theta)
    )
    np.testing.assert_array_equal(one.history.train_loss, two.history.train_loss)


# --- What a user wrote ---------------------------------------------------------------------------


def test_a_users_network_is_supplied_again(tmp_path: Path) -> None:
    estimator = build(ist.Potential(users_network))
    path = tmp_path / "model.isn"
    estimator.save(path)
    with pytest.raises(ValueError, match=r"user-written 'users_network'.*load\(path, network=…\)"):
        ist.load(path)
    assert_same(ist.load(path, network=users_network), estimator)
    assert_same(ist.load(path, supplied={"users_network": users_network}), estimator)
    with pytest.raises(ValueError, match="do not fit the network that was described or supplied"):
        ist.load(path, network=ist.MLP((4,)))


def test_a_users_activation_is_supplied_again(tmp_path: Path) -> None:
    """In the place where it was: the whole network, or the function by its name."""
    network = ist.MLP((4,), activation=wave)
    estimator = build(ist.Potential(network))
    path = tmp_path / "model.isn"
    estimator.save(path)
    with pytest.raises(ValueError, match=r"user-written 'wave'.*supplied=\{'wave': …\}"):
        ist.load(path)
    assert_same(ist.load(path, network=network), estimator)
    assert_same(ist.load(path, supplied={"wave": wave}), estimator)


def test_a_width_function_is_supplied_again_or_missed_on_use(tmp_path: Path) -> None:
    estimator = build(ist.Potential(SMALL), ist.KLRE(ist.Rectangular(width_by_theta)))
    path = tmp_path / "model.isn"
    estimator.save(path)
    assert_same(ist.load(path), estimator)
    kernel = ist.load(
        path, supplied={"width_by_theta": width_by_theta}
    ).method.supervision.pairs.kernel
    assert kernel.width is width_by_theta
    kernel = ist.load(path).method.supervision.pairs.kernel
    with pytest.raises(ValueError, match="user-written object, 'width_by_theta'"):
        kernel.width(jnp.zeros(2))


def draw_theta(key: Array) -> Array:
    return jax.random.uniform(key, (2,), minval=jnp.asarray(LOW), maxval=jnp.asarray(HIGH))


def flat(theta: Array) -> Array:
    return jnp.zeros(()) * theta[0]


def test_a_users_prior_is_supplied_again_or_missed_on_use(tmp_path: Path) -> None:
    prior = ist.CustomPrior(draw_theta, flat, LOW, HIGH, names=["a", "b"])
    estimator = build(ist.Potential(SMALL), prior=prior)
    path = tmp_path / "model.isn"
    estimator.save(path)
    functions = {"draw_theta": draw_theta, "flat": flat}
    loaded = ist.load(path, supplied=functions)
    assert_same(loaded, estimator)
    np.testing.assert_array_equal(loaded.prior.sample(4, seed=1), prior.sample(4, seed=1))
    without = ist.load(path)
    assert_same(without, estimator)
    with pytest.raises(ValueError, match="user-written object, 'draw_theta'"):
        without.prior.sample(4, seed=1)


# --- Bad files -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "model.isn"
    build(ist.Potential(SMALL), members=1).save(path)
    return path.read_bytes()


def test_a_file_cut_at_any_length_is_refused(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.isn"
    lengths = [*range(0, len(good), 97), *range(len(good) - 60, len(good))]
    for length in lengths:
        path.write_bytes(good[:length])
        with pytest.raises(ValueError, match="cut.isn"):
            ist.load(path)


def test_a_flipped_byte_is_refused_or_harmless(good: bytes, tmp_path: Path) -> None:
    """Every file either gives the same model as before, or a ValueError that names it."""
    path = tmp_path / "flipped.isn"
    path.write_bytes(good)
    header, arrays = read_archive(path)
    sentences, altered = [], []
    for position in range(0, len(good), 3):
        damaged = bytearray(good)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            found_header, found = read_archive(path)
        except ValueError as error:
            sentences.append(str(error))
            continue
        same = found_header == header and found.keys() == arrays.keys()
        if not same or any(found[k].tobytes() != arrays[k].tobytes() for k in arrays):
            altered.append(bytes(damaged))
    assert len(sentences) > 0.7 * len(good) / 3
    assert all("flipped.isn" in sentence for sentence in sentences)
    for damaged in altered[:30]:
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"flipped\.isn"):
            ist.load(path)


def foreign(name: str, path: Path) -> None:
    """Files of other kinds."""
    if name == "text":
        path.write_text("x,y\n1,2\n")
    elif name == "empty":
        path.write_bytes(b"")
    elif name == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("readme.txt", "hello")
    elif name == "npz":
        with path.open("wb") as stream:
            np.savez(stream, weights=np.ones(3))
    elif name == "pickle":
        path.write_bytes(pickle.dumps({"weights": np.ones(3)}))


@pytest.mark.parametrize("name", ["text", "empty", "zip", "npz", "pickle"])
def test_files_of_other_kinds_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "foreign.isn"
    foreign(name, path)
    with pytest.raises(ValueError, match=r"foreign\.isn is (not a complete|a zip archive but not)"):
        ist.load(path)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing\.isn"):
        ist.load(tmp_path / "nothing.isn")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        ist.load(tmp_path)
    estimator = build(ist.Potential(SMALL))
    with pytest.raises(FileNotFoundError, match=r"the folder .*no_such_folder does not exist"):
        estimator.save(tmp_path / "no_such_folder" / "model.isn")


def rewrite(
    good: bytes,
    path: Path,
    header: Callable[[dict[str, Any]], Any] | None = None,
    members: dict[str, bytes] | None = None,
) -> None:
    """A copy of a good file, its header changed, or arrays replaced or added, with a new checksum.

    A mistake or a trick of whoever wrote the file, not damage.
    """
    with zipfile.ZipFile(io.BytesIO(good)) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    if header is not None:
        parts["header.json"] = json.dumps(header(json.loads(parts["header.json"]))).encode()
    parts |= {f"arrays/{name}.npy": data for name, data in (members or {}).items()}
    path.write_bytes(pack(parts | {"checksum.txt": checksum_of(parts).encode()}))


def without(*keys: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda header: {k: v for k, v in header.items() if k not in keys}


def changed(**entries: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda header: {**header, **entries}


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        (changed(version=3), r"format version 3; this inferostatic reads up to 2\. Update"),
        (changed(version="1"), "format version 1"),
        (changed(version=0), "format version 0"),
        (changed(version=True), "format version True"),
        (changed(format="other"), "is not an inferostatic model file"),
        (lambda header: [header], "is not an inferostatic model file"),
        (
            changed(architecture={"type": "Transformer9", "fields": {}}),
            "'Transformer9', which this",
        ),
        (changed(prior={"type": "Cauchy9", "fields": {}}), "'Cauchy9', which this version"),
        (changed(prior={"type": "Uniform", "fields": {"nonsense": 1}}), "missing or malformed"),
        (changed(kind="Emulator"), "missing or malformed"),
        (without("architecture"), "missing or malformed"),
        (without("x_names"), "missing or malformed"),
        (changed(shapes=None), "missing or malformed"),
        (changed(architecture="Potential"), "missing or malformed"),
    ],
)
def test_headers_that_make_no_sense_are_refused(
    good: bytes, header: Any, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "odd.isn"
    rewrite(good, path, header)
    with pytest.raises(ValueError, match=sentence):
        ist.load(path)


def test_an_unreadable_header_is_refused(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.isn"
    for text in (b"{", b"\xff\xfe\x00", b"[" * 100_000):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("header.json", text)
        with pytest.raises(ValueError, match=r"odd\.isn"):
            ist.load(path)


def as_npy(array: np.ndarray, *, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [as_npy(np.ones((1, 2))), as_npy(np.array(["a"])), as_npy(np.ones(())), b"", b"noise"],
    ids=["shape", "text", "scalar", "empty", "noise"],
)
def test_weights_that_do_not_fit_are_refused(good: bytes, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.isn"
    rewrite(good, path, members={"network/0": data})
    with pytest.raises(ValueError, match=r"odd\.isn"):
        ist.load(path)


def test_superfluous_weights_are_refused(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.isn"
    rewrite(good, path, members={"network/99": as_npy(np.ones(3))})
    with pytest.raises(ValueError, match=r"odd\.isn.*'network/99' belongs to no part"):
        ist.load(path)
    rewrite(good, path, members={"network/4": as_npy(np.ones((1, 3), np.float32))})
    with pytest.raises(ValueError, match=r"odd\.isn do not fit the network"):
        ist.load(path)


def scaled(field: str, value: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A header with another number in the scales of the features or the parameters."""

    def change(header: dict[str, Any]) -> dict[str, Any]:
        shapes = header["shapes"]["fields"]
        (shapes if field in shapes else shapes["x_features"]["fields"])[field]["array"][0] = value
        return header

    return change


def centred(**fields: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    ones = {"array": [1.0, 1.0], "dtype": "float32", "shape": [2]}
    zeros = {"array": [0.0, 0.0], "dtype": "float32", "shape": [2]}
    degrees = {"tuple": [{"tuple": [1, 0]}, {"tuple": [0, 1]}]}
    given = {"low": zeros, "high": ones, "degrees": degrees, "coefficients": ones} | fields
    return changed(centring={"type": "ThetaPotential", "fields": given})


BAD_HEADERS: dict[str, tuple[Any, str]] = {
    "scale of x is 0": (scaled("scale", 0.0), "scale of its features has numbers that are not"),
    "scale of x is NaN": (scaled("scale", float("nan")), "scale of its features has NaN"),
    "centre of x is infinite": (scaled("centre", float("inf")), "centre of its features has NaN"),
    "scale of θ is negative": (scaled("theta_scale", -1.0), "scale of its parameters has numbers"),
    "another kind": (changed(kind="ScoreEstimator"), "a ScoreEstimator cannot have a Potential"),
    "a density": (changed(kind="DensityEstimator"), "a DensityEstimator cannot have a Potential"),
    "a name too many": (changed(x_names=["a", "b", "c"]), "range of observables must be numbers"),
    "the same name twice": (changed(x_names=["a", "a"]), "not a list of different names"),
    "a name that is none": (changed(theta_names=["a", 1]), "not a list of different names"),
    "a parameter too many": (changed(theta_names=["a", "b", "c"]), "the centre of its parameters"),
    "a prior as method": (lambda h: {**h, "method": h["prior"]}, "its method is Uniform"),
    "no method": (changed(method=None), "its method is None"),
    "a method as prior": (lambda h: {**h, "prior": h["method"]}, "its prior is Method"),
    "a prior of three": (
        changed(prior=describe(ist.Uniform([0.0] * 3, [1.0] * 3))),
        "a prior of another number",
    ),
    "training": (lambda h: {**h, "training": h["prior"]}, "its training is Uniform"),
    "centring": (lambda h: {**h, "centring": h["prior"]}, "its centring is Uniform"),
    "a degree": (centred(degrees={"tuple": [{"tuple": [0, 10**9]}]}), "degree of its centring"),
    "degrees": (centred(degrees={"tuple": [{"tuple": [1]}]}), "degrees of its centring do not fit"),
    "a text as remarks": (changed(choices="x"), "remarks of its history are str"),
    "a number as name": (
        lambda h: {**h, "method": {**h["method"], "fields": {**h["method"]["fields"], "name": 1}}},
        "name of Method is int",
    ),
    "a number as features": (
        changed(architecture={"type": "Potential", "fields": {"x_features": 3}}),
        "x_features of Potential is int",
    ),
    "remarks": (changed(warnings=[1]), "remarks of its history are no texts"),
}


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_headers_that_do_not_fit_are_refused(name: str, good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.isn"
    header, sentence = BAD_HEADERS[name]
    rewrite(good, path, header)
    with pytest.raises(ValueError, match=rf"odd\.isn.*{sentence}"):
        ist.load(path)


BAD_ARRAYS: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "NaN weight": ({"network/1": np.full((1, 4), np.nan, np.float32)}, "weights hold NaN"),
    "infinite weight": ({"network/1": np.full((1, 4), np.inf, np.float32)}, "weights hold NaN"),
    "whole weights": ({"network/1": np.zeros((1, 4), np.int32)}, "do not fit the network"),
    "another member": ({"network/1": np.zeros((2, 4), np.float32)}, "same number of members"),
    "no θ": ({"region/theta_low": np.array([np.nan, 0.5])}, "trained region has NaN"),
    "no x": ({"region/x_high": np.array([np.nan, 0.5])}, "range of observables has NaN"),
    "crossed edges": ({"region/theta_low": np.array([9.0, 0.5])}, "lower edges above the upper"),
    "one edge": ({"region/theta_low": np.array([0.5])}, "trained region must be numbers of shape"),
    "members of losses": ({"history/train_loss": np.zeros((3, 2))}, "train_loss of its history"),
    "members of epochs": ({"history/best_epoch": np.array([1, 1])}, "best_epoch of its history"),
    "epochs": ({"history/seconds": np.zeros(2)}, "of its history does not fit"),
    "unused": ({"history/more": np.zeros(2)}, "'history/more' belongs to no part"),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_arrays_that_do_not_fit_are_refused(name: str, good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.isn"
    arrays, sentence = BAD_ARRAYS[name]
    rewrite(good, path, members={key: as_npy(array) for key, array in arrays.items()})
    with pytest.raises(ValueError, match=rf"odd\.isn.*{sentence}"):
        ist.load(path)


def test_an_estimator_that_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    estimator = build(ist.Potential(SMALL))
    spoilt = jax.tree.map(
        lambda leaf: leaf * jnp.nan if eqx.is_inexact_array(leaf) else leaf, estimator.model.network
    )
    estimator = dataclasses.replace(estimator, model=with_network(estimator.model, spoilt))
    with pytest.raises(ValueError, match=r"cannot save .*model\.isn: its weights hold NaN"):
        estimator.save(tmp_path / "model.isn")
    assert os.listdir(tmp_path) == []


def test_the_checksum_is_over_header_and_arrays_in_any_order(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.isn"
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    listing = "".join(
        f"{hashlib.sha256(members[name]).hexdigest()}  {name}\n"
        for name in sorted(members.keys() - {"checksum.txt"})
    )
    assert members["checksum.txt"].decode() == hashlib.sha256(listing.encode()).hexdigest()
    path.write_bytes(pack(dict(reversed(members.items()))))
    assert ist.load(path).members == 1
    theta = as_npy(np.array([0.25, 0.25]))
    changes: list[dict[str, bytes]] = [
        {"header.json": members["header.json"].replace(b'"first"', b'"other"')},
        {"arrays/region/theta_low.npy": theta},
        {"checksum.txt": b"0" * 64},
    ]
    for change in changes:
        path.write_bytes(pack(members | change))
        with pytest.raises(ValueError, match=r"model\.isn was changed or damaged"):
            ist.load(path)
    for left_out in ("checksum.txt", "arrays/history/seconds.npy"):
        path.write_bytes(pack({name: members[name] for name in members if name != left_out}))
        with pytest.raises(ValueError, match=r"model\.isn was changed or damaged"):
            ist.load(path)


def test_members_that_belong_to_no_model_are_refused(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.isn"
    for name in ("readme.txt", "arrays/", "arrays/network/0", "/etc/passwd", "../up.npy"):
        path.write_bytes(good)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(name, b"")
        with pytest.raises(ValueError, match=r"odd\.isn.*belongs to no model"):
            ist.load(path)
    path.write_bytes(good)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("arrays/network/0.npy", archive.read("arrays/network/0.npy"))
    with pytest.raises(ValueError, match=r"odd\.isn.*same name"):
        ist.load(path)


class Payload:
    """Pickled, it creates a file when it is read."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.target,))


def test_a_pickle_inside_is_never_run(good: bytes, tmp_path: Path) -> None:
    target = tmp_path / "executed"
    hostile = as_npy(np.array([Payload(target)], dtype=object), allow_pickle=True)
    np.load(io.BytesIO(hostile), allow_pickle=True)
    assert target.exists(), "the payload must be able to work for this test to mean anything"
    target.unlink()
    path = tmp_path / "hostile.isn"
    for name in ("network/0", "extra", "region/x_low"):
        rewrite(good, path, members={name: hostile})
        with pytest.raises(ValueError, match=r"hostile\.isn"):
            ist.load(path)
    path.write_bytes(pickle.dumps(Payload(target)))
    with pytest.raises(ValueError, match=r"hostile\.isn"):
        ist.load(path)
    assert not target.exists()


# --- Writing -------------------------------------------------------------------------------------


def test_a_failed_save_leaves_the_old_file(
    good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.isn"
    path.write_bytes(good)
    estimator = build(ist.Potential(SMALL))

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", fail)
        with pytest.raises(OSError, match="no space left"):
            estimator.save(path)
    assert path.read_bytes() == good
    assert os.listdir(tmp_path) == ["model.isn"]
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_archive(path, {}, {"a": np.array([object()])})
    assert path.read_bytes() == good
    assert os.listdir(tmp_path) == ["model.isn"]


def test_a_save_replaces_the_old_file(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.isn"
    path.write_bytes(good)
    estimator = build(ist.Potential(SMALL), members=3)
    estimator.save(path)
    assert ist.load(path).members == 3
    assert os.listdir(tmp_path) == ["model.isn"]


def test_a_saved_file_has_the_permissions_of_any_file(tmp_path: Path) -> None:
    """A colleague must be able to read it; a temporary file would be private."""
    (tmp_path / "plain").write_text("")
    usual = stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    path = tmp_path / "model.isn"
    estimator = build(ist.Potential(SMALL))
    estimator.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == usual
    path.chmod(0o640)
    estimator.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_names_the_versions_that_wrote_it(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.isn"
    path.write_bytes(good)
    header, _ = read_archive(path)
    assert set(header["packages"]) == {"inferostatic", "jax", "equinox", "optax"}
