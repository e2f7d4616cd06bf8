"""Functions of a likelihood, which take an estimator and events as a short form."""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload, runtime_checkable

from ...inputs import Input
from .likelihood import Estimators, Likelihood

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
#: What a likelihood is made of, besides estimator and events.
PARTS = ("weight", "rate", "constraints", "fixed", "bounds")


@runtime_checkable
class Verb(Protocol[P, R]):
    """A function that can be called with a likelihood, or with an estimator and events."""

    @overload
    def __call__(self, likelihood: Likelihood, /, *args: P.args, **options: P.kwargs) -> R: ...
    @overload
    def __call__(
        self, estimator: Estimators, x: Input, /, *args: P.args, **options: P.kwargs
    ) -> R: ...


def of_likelihood(function: Callable[Concatenate[Likelihood, P], R]) -> Verb[P, R]:
    """Let `function(likelihood, …)` be called as `function(estimator, x, …)` too."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> R:  # noqa: ANN401
        name = function.__name__
        parts = [part for part in PARTS if part in options]
        if parts:
            raise TypeError(
                f"{parts[0]} belongs to the likelihood: ist.{name}(ist.Likelihood(estimator, x, "
                f"{parts[0]}=…), …)."
            )
        if "likelihood" in options:
            args = (options.pop("likelihood"), *args)
        if args and isinstance(args[0], Likelihood):
            return function(*args, **options)
        if "x" in options:
            args = (*args[:1], options.pop("x"), *args[1:])
        if len(args) < 2:
            raise TypeError(
                f"{name} takes a likelihood, ist.Likelihood(estimator, x, …), or an estimator and "
                f"events: ist.{name}(estimator, x, …)."
            )
        return function(Likelihood(args[0], args[1]), *args[2:], **options)

    return call  # pyright: ignore[reportReturnType]
