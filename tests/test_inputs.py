"""The boundary: anything array-like becomes a checked array, or a sentence."""

import warnings
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.inputs import (
    as_count,
    as_floats,
    as_names,
    as_rows,
    as_seed,
    bad_rows,
    finite_rows,
    kind_of,
    require_finite,
    require_float32,
    require_order,
)
from optional import OptionalPackage

pd = OptionalPackage("pandas")
ak = OptionalPackage("awkward")

READABLE = {
    "NumPy": np.array([[1.0, 2.0], [3.0, 4.0]]),
    "float16": np.array([[1, 2], [3, 4]], np.float16),
    "long double": np.array([[1, 2], [3, 4]], np.longdouble),
    "integers": np.array([[1, 2], [3, 4]]),
    "small unsigned integers": np.array([[1, 2], [3, 4]], np.uint8),
    "numbers as objects": np.array([[1, 2], [3, 4.0]], object),
    "lists": [[1, 2], [3, 4]],
    "JAX": jnp.array([[1.0, 2.0], [3.0, 4.0]]),
    "bfloat16": jnp.array([[1.0, 2.0], [3.0, 4.0]], jnp.bfloat16),
    "pandas": pd.DataFrame({"a": [1.0, 3.0], "b": [2, 4]}),
    "nullable pandas": pd.DataFrame({"a": [1, 3], "b": [2, 4]}, dtype="Int64"),
    "awkward": ak.Array([[1, 2], [3, 4]]),
    "masked, nothing hidden": np.ma.masked_array([[1, 2], [3, 4]], mask=False),
}


@pytest.mark.parametrize("value", READABLE.values(), ids=READABLE)
def test_arrays_of_any_library_are_read(value: object) -> None:
    array = as_floats(value, "x")  # pyright: ignore[reportArgumentType]
    assert type(array) is np.ndarray
    assert array.dtype in (np.float32, np.float64)
    assert array.tolist() == [[1, 2], [3, 4]]


def test_float32_and_float64_are_not_copied() -> None:
    for dtype in (np.float32, np.float64):
        array = np.ones((2, 2), dtype)
        assert as_floats(array, "x") is array


def test_booleans_become_numbers() -> None:
    assert as_floats([[True, False]], "x").tolist() == [[1.0, 0.0]]


def test_masked_values_are_missing_not_what_lies_under_the_mask() -> None:
    masked = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, False], [True, False]])
    assert np.isnan(as_floats(masked, "x")).tolist() == [[False, False], [True, False]]


UNREADABLE = {
    "ragged lists": ([[1, 2], [3]], ["x could not be read", "rectangular"]),
    "ragged awkward": (ak.Array([[1, 2], [3]]), ["could not be read", "an awkward array regular"]),
    "missing awkward": (ak.Array([[1, None]]), ["x could not be read"]),
    "awkward records": (ak.Array([{"a": 1.0, "b": 2.0}]), ["named fields, a, b", "np.stack("]),
    "a structured array": (np.zeros(2, [("a", float)]), ["named fields, a", "axis=1"]),
    "text": ([["a", "b"]], ["x must hold numbers", "<U1"]),
    "text among objects": (np.array([["a", 1]], object), ["objects that are not numbers"]),
    "masked text": (np.ma.masked_array(["a"]), ["could not be read"]),
    "complex numbers": ([[1j]], ["x must be real", "complex128"]),
    "dates": (np.array(["2026-01-01"], "datetime64[D]"), ["must hold numbers", "datetime64"]),
    "durations": (np.array([1], "timedelta64[D]"), ["must hold numbers", "timedelta64"]),
    "events": (ist.Events(x=[[1.0]], theta=[[1.0]]), ["set of Events", ".x or .theta"]),
}


@pytest.mark.parametrize(("value", "fragments"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_told(value: object, fragments: list[str]) -> None:
    with pytest.raises(TypeError) as caught:
        as_floats(value, "x")  # pyright: ignore[reportArgumentType]
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_a_foreign_array_that_refuses_is_quoted() -> None:
    class OnTheGpu:
        def __array__(self, *_: object, **__: object) -> np.ndarray:
            raise RuntimeError("can't convert cuda:0 device type tensor")

    with pytest.raises(TypeError, match="cuda:0 .* detached and on the CPU"):
        as_floats(OnTheGpu(), "x")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("sign", [1, -1])
def test_integers_that_float32_rounds_are_warned_about(sign: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_floats(np.array([sign * 2**24]), "x")
    with pytest.warns(UserWarning, match=r"x holds integers up to 16777217; .* above 16777216"):
        as_floats(np.array([sign * (2**24 + 1), 0]), "x")
    with pytest.warns(UserWarning, match="up to 9223372036854775808"):
        as_floats(np.array([-(2**63)]), "x")


def test_rows() -> None:
    assert as_rows([[1, 2]], "x").shape == (1, 2)
    with pytest.raises(ValueError, match=r"two axes, \(events, observables\); got shape \(3,\)"):
        as_rows([1, 2, 3], "x", of="observables")
    with pytest.raises(ValueError, match=r"use x\[:, None\], for one event x\[None, :\]"):
        as_rows(np.arange(3.0), "x")
    # Neither a list nor a pandas series can be indexed that way.
    with pytest.raises(ValueError, match=r"use np\.asarray\(x\)\[:, None\]"):
        as_rows(pd.Series([1.0, 2.0]), "x")
    with pytest.raises(ValueError, match=r"two axes.*got shape \(1, 1, 1\)"):
        as_rows([[[1.0]]], "x")
    with pytest.raises(ValueError, match=r"x must have 3 observables; got shape \(1, 2\)"):
        as_rows([[1, 2]], "x", columns=3, of="observables")
    with pytest.raises(ValueError, match=r"x is empty; .*some rows"):
        as_rows([], "x")


def test_bad_rows_are_named_up_to_five() -> None:
    good = np.ones(9, bool)
    good[3] = False
    assert bad_rows(good) == "row 3"
    good[[1, 7]] = False
    assert bad_rows(good) == "rows 1, 3, 7"
    assert bad_rows(np.zeros(9, bool)) == "rows 0, 1, 2, 3, 4, … (9 in all)"


def test_finite_rows() -> None:
    table = np.array([[1.0, 2.0], [np.nan, 1.0], [1.0, -np.inf]])
    assert finite_rows(table).tolist() == [True, False, False]
    assert finite_rows(np.array([1.0, np.inf])).tolist() == [True, False]
    require_finite(table[:1], "x", "")
    with pytest.raises(ValueError, match="weight has NaN or infinite values in rows 1, 2. Mend."):
        require_finite(table, "weight", "Mend.")


def test_float32_range() -> None:
    largest = float(np.finfo(np.float32).max)
    smallest = float(np.finfo(np.float32).tiny)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_float32(np.array([[largest, -largest], [smallest, 0.0]]), ("a", "b"), "x")
    with pytest.raises(ValueError, match=r"x exceeds float32's largest number, 3.4e\+38, in row 1"):
        require_float32(np.array([[1.0], [-1e39]]), ("a",), "x")
    with pytest.warns(UserWarning, match="x column 'b' has values below .* 1.18e-38, in row 1"):
        require_float32(np.array([[1.0, 1.0], [0.0, -1e-39]]), ("a", "b"), "x")


def test_warnings_point_to_the_line_of_the_user() -> None:
    x, theta = [[1e-50], [1.0]], [[1.0], [2.0]]
    with pytest.warns(UserWarning, match="below float32") as caught:
        ist.Events(x=x, theta=theta)
    assert Path(caught[0].filename) == Path(__file__)
    with pytest.warns(UserWarning, match="below float32") as caught:
        ist.simulate(lambda t, _: t * 1e-50, ist.Uniform(1, 2), 3, seed=1)
    assert Path(caught[0].filename) == Path(__file__)


def test_names() -> None:
    assert as_names(None, 2, "x") == ("x0", "x1")
    assert as_names(["a", "b"], 2, "x") == ("a", "b")
    assert as_names("mass", 1, "x") == ("mass",)
    assert as_names(pd.Index([0, 1]), 2, "x") == ("0", "1")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"x has 2 columns but 3 names were given: \('a', 'b', 'c"):
        as_names(["a", "b", "c"], 2, "x")
    with pytest.raises(ValueError, match=r"x has 1 column but 0 names were given"):
        as_names([], 1, "x")
    with pytest.raises(ValueError, match=r"names must differ from each other; got \('a', 'a'\)"):
        as_names(["a", "a"], 2, "x")
    with pytest.raises(TypeError, match="a list of 2 strings, one for each column; got 3"):
        as_names(3, 2, "x")  # pyright: ignore[reportArgumentType]


def test_columns_in_another_order_are_refused() -> None:
    require_order(("a", "b"), ("a", "b"), "x")
    require_order(None, ("a", "b"), "x")
    require_order(("p", "q"), ("a", "b"), "x", renamed=True)
    # Names that only count columns are no names.
    require_order(("0", "1"), ("a", "b"), "x")
    require_order(("p", "q"), ("x0", "x1"), "x")
    require_order(("a", "theta1"), ("a", "b"), "theta")
    with pytest.raises(ValueError, match=r"x are a, c, but those expected here are a, b"):
        require_order(("a", "c"), ("a", "b"), "x")
    with pytest.raises(
        ValueError, match=r"are b, a, but the order here is a, b; use x\[\['a', 'b'"
    ):
        require_order(("b", "a"), ("a", "b"), "x")


def test_what_a_user_gave() -> None:
    assert kind_of(3) == "int"
    assert kind_of(None) == "None"
    assert kind_of(ist.Uniform) == "the class Uniform itself; call it, Uniform(…)"


BAD_SEEDS: list[tuple[object, type[Exception], str]] = [
    (1.0, TypeError, "seed must be an int, for example seed=1; got float"),
    ("1", TypeError, "got str"),
    (None, TypeError, "got NoneType"),
    (True, TypeError, "got bool"),
    (np.random.default_rng(1), TypeError, "got Generator"),
    (-1, ValueError, r"seed must lie in \[0, 2\*\*32\); got -1"),
    (2**32, ValueError, "got 4294967296"),
]


@pytest.mark.parametrize(("seed", "kind", "message"), BAD_SEEDS)
def test_seeds(seed: int, kind: type[Exception], message: str) -> None:
    assert as_seed(np.int64(7)) == 7  # pyright: ignore[reportArgumentType]
    assert as_seed(2**32 - 1) == 2**32 - 1
    with pytest.raises(kind, match=message):
        as_seed(seed)


@pytest.mark.parametrize(
    ("count", "kind", "message"),
    [
        (0, ValueError, "members must be at least 1; got 0"),
        (1.0, TypeError, "members must be a whole number; got 1.0"),
        (True, TypeError, "whole number; got True"),
        ("3", TypeError, "whole number; got '3'"),
    ],
)
def test_counts(count: int, kind: type[Exception], message: str) -> None:
    assert as_count(np.int32(3), "members") == 3  # pyright: ignore[reportArgumentType]
    with pytest.raises(kind, match=message):
        as_count(count, "members")


def test_every_reader_names_what_it_reads() -> None:
    readers: list[Callable[[], object]] = [
        lambda: as_floats("a", "the width"),
        lambda: as_rows([1.0], "the width"),
        lambda: as_count(0, "the width"),
    ]
    for read in readers:
        with pytest.raises((TypeError, ValueError), match="^the width "):
            read()
