"""Methods of Equinox modules that look like methods to people.

Equinox makes a bound method a module of its own, so that it can be handed to compiled functions.
`help` and notebooks then show that module in place of the method's arguments.
"""

import functools
import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

P = ParamSpec("P")
Owner = TypeVar("Owner")
Result = TypeVar("Result")


class plain_method(Generic[Owner, P, Result]):
    """Decorates a method of a module that only people call; it comes back as a function."""

    def __init__(self, function: Callable[Concatenate[Owner, P], Result]) -> None:
        self.function = function
        wrapper: Any = self
        functools.update_wrapper(wrapper, function)

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[Concatenate[Owner, P], Result]: ...

    @overload
    def __get__(self, instance: Owner, owner: type) -> Callable[P, Result]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """The function of a class, and of an instance the one without its first argument."""
        if instance is None:
            return self.function

        @functools.wraps(self.function)
        def method(*args: P.args, **options: P.kwargs) -> Result:
            return self.function(instance, *args, **options)

        method.__signature__ = inspect.signature(MethodType(self.function, instance))  # pyright: ignore[reportAttributeAccessIssue]
        return method
