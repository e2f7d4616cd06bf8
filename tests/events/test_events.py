"""Events: everything is checked on the way in, and stays as it was checked."""

import dataclasses
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic import inputs
from optional import OptionalPackage

pd = OptionalPackage("pandas")
ak = OptionalPackage("awkward")

N = 6
X = np.linspace(0.1, 1.8, 3 * N).reshape(N, 3)
THETA = np.linspace(1.0, 4.0, 2 * N).reshape(N, 2)
PRIOR = ist.Uniform([0.5, 0.5], [5.0, 5.0], names=["a", "b"])


def events(**changes: Any) -> ist.Events:
    arguments: dict[str, Any] = {"x": X, "theta": THETA}
    return ist.Events(**(arguments | changes))


# What is accepted.


def test_defaults() -> None:
    plain = events()
    np.testing.assert_array_equal(plain.x, X)
    np.testing.assert_array_equal(plain.theta, THETA)
    np.testing.assert_array_equal(plain.weight, np.ones(N))
    assert plain.weight.dtype == np.float64
    assert dict(plain.latent) == {}
    assert plain.prior is None
    assert plain.x_names == ("x0", "x1", "x2")
    assert plain.theta_names == ("theta0", "theta1")
    assert len(plain) == N


TABLES: dict[str, Callable[[np.ndarray], Any]] = {
    "lists": lambda table: table.tolist(),
    "JAX": lambda table: jnp.asarray(table, jnp.float32),
    "awkward": lambda table: ak.Array(table.tolist()),
    "pandas": pd.DataFrame,
    "float16": lambda table: table.astype(np.float16),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_tables_of_any_library(table: Callable[[np.ndarray], Any]) -> None:
    read = events(x=table(X), theta=table(THETA), prior=PRIOR)
    assert type(read.x) is type(read.theta) is np.ndarray
    np.testing.assert_allclose(read.x, X, rtol=1e-3)
    np.testing.assert_allclose(read.theta, THETA, rtol=1e-3)


def test_a_column_of_a_data_frame_as_weights() -> None:
    frame = pd.DataFrame(X, columns=["p", "q", "weight"])
    np.testing.assert_array_equal(events(weight=frame["weight"]).weight, X[:, 2])


def test_integers_and_booleans() -> None:
    read = events(x=np.arange(12).reshape(N, 2), theta=np.ones((N, 1), int))
    assert read.x.dtype == read.theta.dtype == np.float64
    assert events(x=X > 1).x.tolist() == (X > 1).astype(float).tolist()


def test_names_come_from_data_frames() -> None:
    x = pd.DataFrame(X, columns=["mass", "pt", "eta"])
    theta = pd.DataFrame(THETA, columns=["coupling", "width"])
    named = events(x=x, theta=theta)
    assert named.x_names == ("mass", "pt", "eta")
    assert named.theta_names == ("coupling", "width")
    assert events(x=x, theta=theta, x_names=["p", "q", "r"]).x_names == ("p", "q", "r")
    assert events(x=pd.DataFrame(X)).x_names == ("0", "1", "2")


def test_names_of_parameters_come_from_the_prior() -> None:
    assert events(prior=PRIOR).theta_names == ("a", "b")
    assert events(prior=PRIOR, theta_names=["p", "q"]).theta_names == ("p", "q")
    with pytest.raises(ValueError, match=r"columns of theta are b, a, but the order here is a, b"):
        events(prior=PRIOR, theta=pd.DataFrame(THETA, columns=["b", "a"]))
    with pytest.raises(ValueError, match=r"theta are p, q, but those expected here are a, b"):
        events(prior=PRIOR, theta=pd.DataFrame(THETA, columns=["p", "q"]))
    with pytest.raises(ValueError, match=r"columns of x are v, u, but the order here is u, v"):
        events(x=pd.DataFrame(X[:, :2], columns=["v", "u"]), x_names=["u", "v"])


def test_one_theta_serves_all_events() -> None:
    np.testing.assert_array_equal(events(theta=[1.0, 2.0]).theta, np.tile([1.0, 2.0], (N, 1)))
    # As many parameters as events: only a prior can tell one θ from one column.
    square = events(x=X[:2], theta=[1.0, 2.0], prior=PRIOR)
    np.testing.assert_array_equal(square.theta, [[1.0, 2.0], [1.0, 2.0]])
    assert events(x=X[:1], theta=[1.0, 2.0, 3.0]).theta.shape == (1, 3)
    with pytest.raises(ValueError, match=r"got shape \(2,\).*theta\[:, None\].*np\.tile\(theta, "):
        events(x=X[:2], theta=[1.0, 2.0])


def test_x_may_be_exactly_zero() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (events(x=np.zeros((N, 2))).x == 0).all()


def test_weights_of_either_sign_are_kept() -> None:
    weight = [1, -0.5, 2, 0, 1, 1]
    assert events(weight=weight).weight.tolist() == weight


def test_latent_rows_are_kept_with_their_shape() -> None:
    latent = {"score": np.ones((N, 2)), "log_r": list(range(N))}
    kept = events(latent=latent)
    assert {name: values.shape for name, values in kept.latent.items()} == {
        "score": (N, 2),
        "log_r": (N,),
    }
    assert kept[2:4].latent["log_r"].tolist() == [2, 3]


# What was checked stays true.


def test_later_changes_to_the_users_arrays_do_not_reach_the_events() -> None:
    x, theta, weight, latent = X.copy(), THETA.copy(), np.ones(N), np.ones(N)
    kept = events(x=x, theta=theta, weight=weight, latent={"z": latent})
    for array in (x, theta, weight, latent):
        array[:] = np.nan
    assert all(np.isfinite(a).all() for a in (kept.x, kept.theta, kept.weight, kept.latent["z"]))


def test_events_cannot_be_changed() -> None:
    kept = events(latent={"z": np.ones(N)})
    for array in (kept.x, kept.theta, kept.weight, kept.latent["z"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        kept.x = X  # pyright: ignore[reportAttributeAccessIssue]


# Choosing and joining.


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (slice(1, 3), [1, 2]),
        (slice(None, None, -2), [5, 3, 1]),
        (THETA[:, 0] > 2, [2, 3, 4, 5]),
        ([0, 0, 4], [0, 0, 4]),
        (np.array([-1]), [5]),
        (3, [3]),
        (jnp.array([1, 2]), [1, 2]),
        (pd.Series([True] + [False] * 5), [0]),
    ],
)
def test_chosen_events(rows: Any, expected: list[int]) -> None:
    whole = events(weight=np.arange(1, N + 1), latent={"z": X}, prior=PRIOR)
    part = whole[rows]
    np.testing.assert_array_equal(part.x, X[expected])
    np.testing.assert_array_equal(part.theta, THETA[expected])
    np.testing.assert_array_equal(part.weight, np.array(expected) + 1)
    np.testing.assert_array_equal(part.latent["z"], X[expected])
    assert part.prior is PRIOR
    assert (part.x_names, part.theta_names) == (whole.x_names, whole.theta_names)


BAD_CHOICES: dict[str, tuple[Any, str]] = {
    "a mask of another length": (np.ones(3, bool), r"a mask of 6 booleans.*got bool of shape \(3,"),
    "a row that is not there": (6, "row numbers below 6.*got 6"),
    "a negative row that is not there": ([-7], "got -7"),
    "decimal numbers": ([1.0, 2.0], r"got float64 of shape \(2,\)"),
    "the name of a column": ("x0", "got 'x0'"),
    "rows and columns": ((1, 2), "chosen by a slice"),
    "a table of rows": ([[1, 2], [3, 4]], r"got int64 of shape \(2, 2\)"),
    "no rows": ([], r"shape \(0,\)"),
}


@pytest.mark.parametrize(("rows", "message"), BAD_CHOICES.values(), ids=BAD_CHOICES)
def test_a_choice_that_makes_no_sense_is_told(rows: Any, message: str) -> None:
    with pytest.raises(IndexError, match=message):
        events()[rows]


def test_an_empty_choice_is_told() -> None:
    with pytest.raises(ValueError, match="x holds no events"):
        events()[:0]
    with pytest.raises(ValueError, match="x holds no events"):
        events()[THETA[:, 0] > 99]


def test_looping_over_events_is_refused() -> None:
    with pytest.raises(TypeError, match=r"not iterable; use events\.x and events\.theta"):
        list(events())
    with pytest.raises(TypeError, match=r"set of Events, not an array; pass its \.x or \.theta"):
        np.asarray(events())


def test_samples_at_a_finite_set_of_points_are_joined() -> None:
    parts = [
        events(theta=[1.0, 2.0], weight=np.full(N, 2.0), latent={"z": X}),
        events(x=X[:3] + 1, theta=[3.0, 2.0], latent={"z": X[:3]}),
    ]
    joined = ist.Events.concatenate(parts)
    np.testing.assert_array_equal(joined.x, np.concatenate([X, X[:3] + 1]))
    np.testing.assert_array_equal(joined.theta[:, 0], [1] * N + [3] * 3)
    np.testing.assert_array_equal(joined.weight, [2] * N + [1] * 3)
    np.testing.assert_array_equal(joined.latent["z"], np.concatenate([X, X[:3]]))
    assert joined.prior is None
    law = joined.stored_prior()
    assert law.points.tolist() == [[1, 2], [3, 2]]
    np.testing.assert_allclose(law.probability, [12 / 15, 3 / 15], rtol=1e-6)
    assert law.names == ("theta0", "theta1")


def test_joining_with_a_prior() -> None:
    whole = events(prior=PRIOR)
    joined = ist.Events.concatenate([whole[:2], whole[2:]], prior=PRIOR)
    np.testing.assert_array_equal(joined.x, X)
    assert joined.prior is PRIOR
    assert ist.Events.concatenate([whole[:2], whole[2:]]).prior is None


def test_the_stored_prior_counts_weights() -> None:
    weighted = ist.Events(x=X[:2], theta=[[1.0], [2.0]], weight=[2, 1]).stored_prior()
    repeated = ist.Events(x=X[:3], theta=[[1.0], [2.0], [1.0]]).stored_prior()
    signed = ist.Events(x=X[:3], theta=[[1.0], [2.0], [1.0]], weight=[3, 1, -1]).stored_prior()
    for law in (weighted, repeated, signed):
        assert law.points.tolist() == [[1], [2]]
        np.testing.assert_allclose(law.probability, [2 / 3, 1 / 3], rtol=1e-6)


def test_cancelling_weights_leave_no_law() -> None:
    cancelling = ist.Events(x=X[:3], theta=[[1.0], [2.0], [1.0]], weight=[1, 1, -1])
    with pytest.raises(ValueError, match=r"1 parameter point\(s\).*θ = \[1\.0\]. Give prior="):
        cancelling.stored_prior()


def test_repr() -> None:
    assert repr(events()) == (
        "Events(6 events, x: x0, x1, x2; theta: theta0, theta1; unknown prior)"
    )
    assert repr(events(prior=PRIOR, weight=[2] * N, x_names=["p", "q", "r"])) == (
        "Events(6 events, x: p, q, r; theta: a, b; Uniform, weighted)"
    )
    assert repr(events()[0]).startswith("Events(1 event, ")
    many = ist.Events(x=np.zeros((12_000, 1)), theta=[1.0])
    assert repr(many).startswith("Events(12,000 events, ")


# What float32 cannot hold.


def test_values_that_float32_reads_as_zero_are_warned_about() -> None:
    x = X.copy()
    x[[1, 4], 1] = 1e-50, -1e-45
    with pytest.warns(UserWarning, match=r"x column 'pt' .* 1.18e-38, in rows 1, 4; .* logarithm"):
        events(x=x, x_names=["mass", "pt", "eta"])
    with pytest.warns(UserWarning, match="theta column 'theta0' has values below"):
        events(theta=THETA * 1e-50)


def test_values_beyond_float32_are_refused() -> None:
    x = X.copy()
    x[2, 0] = -1e39
    with pytest.raises(ValueError, match=r"x exceeds float32.*3.4e\+38, in row 2.*rescale"):
        events(x=x)
    with pytest.raises(ValueError, match=r"theta exceeds float32"):
        events(theta=THETA * 1e39)


def test_integers_that_float32_rounds_are_warned_about() -> None:
    with pytest.warns(UserWarning, match="x holds integers up to 20000000; .* Subtract an offset"):
        events(x=np.full((N, 1), 20_000_000))


# Misuse.


def with_nan(table: np.ndarray, row: int) -> np.ndarray:
    table = table.copy()
    table[row, 0] = np.nan
    return table


MISUSES: dict[str, tuple[Callable[[], object], type[Exception], list[str]]] = {
    "flat x": (lambda: events(x=X[:, 0]), ValueError, ["(events, observables)", "x[:, None]"]),
    "three axes": (lambda: events(x=X[None]), ValueError, ["two axes", "(1, 6, 3)"]),
    "no events": (lambda: events(x=X[:0], theta=THETA[:0]), ValueError, ["x holds no events"]),
    "an empty list": (lambda: events(x=[], theta=[]), ValueError, ["x is empty", "some rows"]),
    "no observables": (lambda: events(x=X[:, :0]), ValueError, ["x has no columns"]),
    "no parameters": (lambda: events(theta=THETA[:, :0]), ValueError, ["theta has no columns"]),
    "one number as theta": (lambda: events(theta=1.0), ValueError, ["theta must have two axes"]),
    "flat theta": (
        lambda: events(theta=THETA[:, 0]),
        ValueError,
        ["theta must have two axes", "(6,)", "theta[:, None]"],
    ),
    "rows that do not match": (
        lambda: events(x=X[:4]),
        ValueError,
        ["x has 4 rows and theta 6", "each event needs the θ"],
    ),
    "NaN in x": (lambda: events(x=with_nan(X, 3)), ValueError, ["x has NaN", "row 3", "Remove"]),
    "NaN in theta": (
        lambda: events(theta=with_nan(THETA, 5)),
        ValueError,
        ["theta has NaN", "row 5"],
    ),
    "masked x": (
        lambda: events(x=np.ma.masked_greater(X, 1.75)),
        ValueError,
        ["x has NaN or infinite values in row 5"],
    ),
    "missing values in a data frame": (
        lambda: events(x=pd.DataFrame({"p": pd.array([1, None] * 3, dtype="Int64")})),
        ValueError,
        ["x has NaN or infinite values in rows 1, 3, 5"],
    ),
    "text in a data frame": (
        lambda: events(x=pd.DataFrame({"p": ["e"] * N, "q": 1.0})),
        TypeError,
        ["column 'p' of x holds ", "not numbers", "x['p'] = pandas.Categorical(x['p'], cat"],
    ),
    "ragged awkward rows": (
        lambda: events(x=ak.Array([[1.0, 2.0], [3.0]])),
        TypeError,
        ["an awkward array regular"],
    ),
    "theta outside the prior": (
        lambda: events(theta=THETA + 2, prior=PRIOR),
        ValueError,
        [
            "[0.5, 0.5] to [5.0, 5.0]",
            "rows 4, 5",
            "must be the distribution the stored θ were drawn from.",
        ],
    ),
    "x and theta swapped": (
        lambda: events(x=THETA, theta=X[:, :2], prior=PRIOR),
        ValueError,
        ["outside the prior's support", "Were x and theta swapped?"],
    ),
    "x and theta swapped, other numbers of columns": (
        lambda: events(x=THETA, theta=X, prior=PRIOR),
        ValueError,
        ["theta has shape (6, 3)", "2 parameters (a, b)", "Were x and theta swapped?"],
    ),
    "a prior with more parameters": (
        lambda: events(theta=THETA[:, :1], prior=PRIOR),
        ValueError,
        ["theta has shape (6, 1)", "2 parameters (a, b)", "one column for each"],
    ),
    "theta between the points of a discrete prior": (
        lambda: events(theta=[2.0, 2.0], prior=ist.Discrete([[1.0, 2.0], [3.0, 2.0]])),
        ValueError,
        ["none of the prior's 2 points", "[2.0, 2.0]", "leave it out"],
    ),
    "the name of a prior": (
        lambda: events(prior="uniform"),
        TypeError,
        ["ist.Uniform(low, high)", "got str"],
    ),
    "the class of a prior": (
        lambda: events(prior=ist.Uniform),
        TypeError,
        ["got the class Uniform itself; call it, Uniform(…)"],
    ),
    "too few weights": (
        lambda: events(weight=[1.0]),
        ValueError,
        ["weight must have shape (6,), one for each event", "got (1,)"],
    ),
    "a column of weights": (lambda: events(weight=np.ones((N, 1))), ValueError, ["got (6, 1)"]),
    "NaN weight": (
        lambda: events(weight=[1, 1, np.nan, 1, 1, 1]),
        ValueError,
        ["weight has NaN", "row 2", "finite weight"],
    ),
    "weights that cancel": (
        lambda: events(weight=[1, -1, 1, -1, 1, -1]),
        ValueError,
        ["adds up to 0", "negative weights are allowed", "must be positive"],
    ),
    "weights with a negative sum": (
        lambda: events(weight=-np.ones(N)),
        ValueError,
        ["adds up to -6"],
    ),
    "too few latent rows": (
        lambda: events(latent={"z": [1.0, 2.0]}),
        ValueError,
        ["latent 'z' must have one row for each of the 6 events", "(2,)"],
    ),
    "a latent number": (lambda: events(latent={"z": 1.0}), ValueError, ["latent 'z'", "()"]),
    "NaN among the latent": (
        lambda: events(latent={"z": with_nan(X, 1)}),
        ValueError,
        ["latent 'z' has NaN", "row 1"],
    ),
    "latent without names": (
        lambda: events(latent=[X]),
        TypeError,
        ["dictionary of arrays by name", "got list"],
    ),
    "too few names of x": (
        lambda: events(x_names=["p"]),
        ValueError,
        ["x has 3 columns but 1 name was given: ('p',)"],
    ),
    "too many names of theta": (
        lambda: events(theta_names=["p", "q", "r"]),
        ValueError,
        ["theta has 2 columns but 3 names were given"],
    ),
    "repeated names": (
        lambda: events(x_names=["p", "p", "q"]),
        ValueError,
        ["names must differ", "('p', 'p', 'q')"],
    ),
    "nothing to join": (
        lambda: ist.Events.concatenate([]),
        ValueError,
        ["at least one event set"],
    ),
    "joining without a list": (
        lambda: ist.Events.concatenate(events()),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["a list of event sets"],
    ),
    "joining arrays": (
        lambda: ist.Events.concatenate([X]),  # pyright: ignore[reportArgumentType]
        TypeError,
        ["a list of event sets"],
    ),
    "joining sets with other columns": (
        lambda: ist.Events.concatenate([events(), events(x_names=["p", "q", "r"])]),
        ValueError,
        ["the same names", "('p', 'q', 'r', 'theta0', 'theta1')"],
    ),
    "joining a set with latent information to one without": (
        lambda: ist.Events.concatenate([events(latent={"z": X}), events()]),
        ValueError,
        ["the same latent information", "{'z': (3,)} and {}"],
    ),
}


@pytest.mark.parametrize(("misuse", "kind", "fragments"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_answered_by_a_sentence(
    misuse: Callable[[], object], kind: type[Exception], fragments: list[str]
) -> None:
    with pytest.raises(kind) as caught:
        misuse()
    for fragment in fragments:
        assert fragment in str(caught.value)
    assert "  " not in str(caught.value)
    assert str(caught.value) == str(caught.value).strip()


def test_no_hint_of_a_swap_where_there_can_be_none() -> None:
    with pytest.raises(ValueError, match="outside the prior") as caught:
        events(theta=THETA + 2, prior=PRIOR)
    assert "swapped" not in str(caught.value)


def test_points_of_a_discrete_prior_are_recognised_after_rounding() -> None:
    prior = ist.Discrete([[0.1, 0.2], [0.3, 1e-3]])
    near = np.array([[0.1, 0.2], [np.float32(0.3), 1e-3 * (1 + 3e-7)]])
    assert len(ist.Events(x=X[:2], theta=near, prior=prior)) == 2
    assert len(events(prior=events().stored_prior())) == N


def test_a_column_that_float32_cannot_resolve_is_told() -> None:
    seconds = 1.7e9 + np.linspace(0, 300, 50)
    with pytest.warns(UserWarning, match="'x1' varies by only a few of float32's steps"):
        ist.Events(x=np.stack([np.linspace(0, 1, 50), seconds], axis=1), theta=np.zeros((50, 1)))
    ist.Events(x=np.full((50, 1), 0.1), theta=np.full((50, 1), 1.7e9))


# Memory-mapped arrays stay in their files.


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a few rows at a time, so that a small file has several pieces."""
    monkeypatch.setattr(inputs, "CHECKED_NUMBERS", 4)


def in_file(folder: Path, name: str, array: np.ndarray) -> np.ndarray:
    np.save(folder / name, array)
    return np.load(folder / f"{name}.npy", mmap_mode="r")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mapped_arrays_are_not_copied(tmp_path: Path, dtype: Any) -> None:
    weight = np.arange(1, N + 1)
    x, theta, w, z = (
        in_file(tmp_path, name, a.astype(dtype))
        for name, a in {"x": X, "theta": THETA, "w": weight, "z": X}.items()
    )
    mapped = events(x=x, theta=theta, weight=w, latent={"z": z}, prior=PRIOR)
    kept = (mapped.x, mapped.theta, mapped.weight, mapped.latent["z"])
    for ours, file in zip(kept, (x, theta, w, z), strict=True):
        assert np.shares_memory(ours, file)
        assert type(ours) is np.ndarray
        assert ours.dtype == dtype
        with pytest.raises(ValueError, match="read-only"):
            ours[0] = 1
    assert mapped.mapped
    assert not events().mapped
    assert len(mapped) == N
    assert mapped.x_names == ("x0", "x1", "x2")
    assert mapped.theta_names == ("a", "b")
    assert repr(mapped).endswith("Uniform, weighted)")


def test_any_way_of_mapping_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"some header!" + X.tobytes())
    maps = [np.memmap(path, np.float64, mode, 12, X.shape) for mode in ("r", "r+", "c")]
    for x in maps:
        for view in (x, np.asarray(x), x[1:][:-1], x[::2]):
            mapped = ist.Events(x=view, theta=THETA[0])
            assert mapped.mapped
            assert np.shares_memory(mapped.x, x)
            assert not mapped.x.flags.writeable
    copied = ist.Events(x=maps[0][[0, 1, 3]], theta=THETA[0])
    assert not copied.mapped
    np.testing.assert_array_equal(copied.x, X[[0, 1, 3]])


def test_a_slice_of_mapped_events_stays_in_the_file_and_a_choice_is_read(tmp_path: Path) -> None:
    x, theta = in_file(tmp_path, "x", X), in_file(tmp_path, "theta", THETA)
    whole = events(x=x, theta=theta, weight=np.arange(1, N + 1), prior=PRIOR)
    for part, expected in ((whole[1:5:2], [1, 3]), (whole[::-1], [5, 4, 3, 2, 1, 0])):
        assert part.mapped
        assert np.shares_memory(part.x, x)
        np.testing.assert_array_equal(part.x, X[expected])
        np.testing.assert_array_equal(part.weight, np.array(expected) + 1)
    for part in (whole[[1, 3]], whole[np.isin(np.arange(N), [1, 3])]):
        assert not part.mapped
        assert not np.shares_memory(part.x, x)
        np.testing.assert_array_equal(part.x, X[[1, 3]])
    assert not ist.Events.concatenate([whole, whole]).mapped


def test_what_is_the_same_for_all_mapped_events_is_kept_once(tmp_path: Path) -> None:
    point = np.array([1.0, 2.0])
    mapped = events(x=in_file(tmp_path, "x", X), theta=point)
    point[:] = np.nan
    assert mapped.weight.strides == (0,)
    assert mapped.theta.strides[0] == 0
    np.testing.assert_array_equal(mapped.weight, np.ones(N))
    np.testing.assert_array_equal(mapped.theta, np.tile([1.0, 2.0], (N, 1)))
    for array in (mapped.weight, mapped.theta):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.usefixtures("small_pieces")
def test_bad_rows_of_files_are_named(tmp_path: Path) -> None:
    def bad(table: np.ndarray, rows: list[int], value: float) -> np.ndarray:
        table = table.copy()
        table[rows, 0] = value
        return in_file(tmp_path, "bad", table)

    with pytest.raises(ValueError, match="x has NaN or infinite values in rows 2, 5. Remove"):
        events(x=bad(X, [2, 5], np.nan))
    with pytest.raises(ValueError, match="theta has NaN or infinite values in row 4"):
        events(x=in_file(tmp_path, "x", X), theta=bad(THETA, [4], np.inf))
    with pytest.raises(ValueError, match="x exceeds float32's largest number.* in row 5"):
        events(x=bad(X, [5], 1e39))
    with pytest.raises(ValueError, match="outside the prior's support.* in rows 3, 4"):
        events(x=in_file(tmp_path, "x", X), theta=bad(THETA, [3, 4], 9.0), prior=PRIOR)
    with pytest.raises(ValueError, match="weight has NaN or infinite values in row 3"):
        events(weight=bad(np.ones((N, 1)), [3], np.nan)[:, 0])
    with pytest.warns(UserWarning, match="x column 'x0' has values below .* in rows 1, 5;"):
        events(x=bad(X, [1, 5], 1e-40))
    between = THETA[[0, 1, 2, 2, 0, 1]]
    between[4] = THETA[:2].mean(axis=0)
    with pytest.raises(ValueError, match="none of the prior's 3 points in row 4"):
        events(theta=in_file(tmp_path, "t", between), prior=ist.Discrete(THETA[:3]))


@pytest.mark.usefixtures("small_pieces")
def test_a_coarse_column_is_found_across_pieces(tmp_path: Path) -> None:
    """A column may be constant within each piece: then only the pieces' means tell its spread."""
    coarse = np.repeat([1e6, 1e6 + 1], [4, 2])[:, None]
    with pytest.warns(UserWarning, match="x column 'x0' varies by only a few of float32's steps"):
        events(x=in_file(tmp_path, "x", coarse))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        events(x=in_file(tmp_path, "x", np.repeat([1.0, 2.0], [4, 2])[:, None]))
        events(x=in_file(tmp_path, "x", np.full((N, 1), 1e6)))


@pytest.mark.usefixtures("small_pieces")
def test_the_law_of_mapped_events_is_counted_in_pieces(tmp_path: Path) -> None:
    theta = np.array([[1.0, 2.0], [3.0, 2.0], [1.0, 2.0], [0.0, 9.0], [3.0, 2.0], [1.0, 2.0]])
    weight = [1, 2, 3, 4, 5, -0.5]
    mapped = events(x=in_file(tmp_path, "x", X), theta=in_file(tmp_path, "t", theta), weight=weight)
    law, expected = mapped.stored_prior(), events(theta=theta, weight=weight).stored_prior()
    np.testing.assert_array_equal(law.points, expected.points)
    np.testing.assert_allclose(law.probability, expected.probability, rtol=1e-6)


def test_a_file_that_must_be_read_is_told(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="x is memory-mapped as <i2 and is read into memory"):
        read = events(x=in_file(tmp_path, "x", (100 * X).astype(np.int16)))
    assert not read.mapped
    with pytest.warns(UserWarning, match="theta is memory-mapped as >f4 .* as float32"):
        events(theta=in_file(tmp_path, "t", THETA.astype(">f4")))


def test_a_file_that_was_cut_short_is_told(tmp_path: Path) -> None:
    x = in_file(tmp_path, "x", X)
    os.truncate(tmp_path / "x.npy", 130)
    with pytest.raises(OSError, match=r"file of x, .*x\.npy, is too short: it has 130 bytes, and"):
        events(x=x)


@pytest.mark.parametrize("names", [[None], [[1, 2], [3]], b"pqr", [1.5, 2.5, 3.5]])
def test_names_that_are_no_texts_are_refused_as_such(names: Any) -> None:
    for which in ("x_names", "theta_names"):
        with pytest.raises(TypeError, match="names must be a list of . strings"):
            events(**{which: names})
