"""The check of types reaches every module, and treats the public shell as `typecheck.py` says."""

import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from jaxtyping import TypeCheckError, jaxtyped

import typecheck
from inferostatic.checks.two_samples import _distribution
from inferostatic.estimator.loading import read_described
from inferostatic.events.morphing.polynomial_basis import solve_components
from inferostatic.inference.chi_square import chi2_quantile
from inferostatic.learning.defaults.trials import find_first_within_error
from inferostatic.plots.style import choose_colour
from inferostatic.report.html import _paragraphs

checked = pytest.mark.skipif(
    not os.environ.get("CHECK_TYPES"), reason="types are checked with CHECK_TYPES=1"
)


@checked
def test_every_function_is_checked() -> None:
    modules = [name for name in sys.modules if name.partition(".")[0] == "inferostatic"]
    for name in modules:
        for value in vars(sys.modules[name]).values():
            if inspect.isfunction(value) and value.__module__ == name:
                assert inspect.unwrap(value) is not value, f"{name}.{value.__qualname__}"


@checked
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (_distribution, ([1.0],)),
        (read_described, ([], {}, "file", None, {})),
        (solve_components, ([[1.0]], [[0]])),
        (chi2_quantile, ("0.9", 1)),
        (find_first_within_error, ([1.0], 1.0)),
        (choose_colour, ("red",)),
        (_paragraphs, (3,)),
    ],
)
def test_a_wrong_call_is_refused(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeCheckError, match="checking the parameters of inferostatic"):
        function(*arguments)


@checked
def test_the_wrong_argument_is_named() -> None:
    with pytest.raises(TypeCheckError, match="typechecking parameter 'freedom'"):
        chi2_quantile(0.9, "1")  # pyright: ignore[reportArgumentType]


def double(value: int) -> int:
    if isinstance(value, str):
        raise ValueError("a number is needed")
    return int(2 * value)


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], int]:
    name = (double.__module__, double.__qualname__)
    monkeypatch.setattr(typecheck, "PUBLIC_SHELL", {name})
    return jaxtyped(double, typechecker=typecheck.check)


def test_an_internal_function_is_checked_before_it_is_called() -> None:
    internal: Callable[[Any], int] = jaxtyped(double, typechecker=typecheck.check)
    assert internal(2) == 4
    with pytest.raises(TypeCheckError, match="parameters of test_typecheck.double"):
        internal("2")


def test_a_public_function_answers_itself(public: Callable[[Any], int]) -> None:
    assert public(2) == 4
    with pytest.raises(ValueError, match="a number is needed"):
        public("2")


def test_a_public_function_may_not_take_what_its_annotation_excludes(
    public: Callable[[Any], int],
) -> None:
    with pytest.raises(TypeCheckError, match="test_typecheck.double"):
        public(1.5)
