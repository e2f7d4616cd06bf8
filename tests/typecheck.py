"""Types and shapes, checked while the tests run.

`conftest.py` has jaxtyping wrap every function of the package with `check`. Arguments and results
of internal functions must be what their annotations say. The public shell is given anything by
users and answers with messages of its own, which tests look for. Its arguments are therefore
compared with the annotations after the call: a wrong one must be refused by the function itself,
or the annotation is untrue.
"""

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from beartype import BeartypeConf, beartype

#: An int may stand for a float, as for a static type checker.
CONFIGURATION = BeartypeConf(is_pep484_tower=True)
#: Module and qualified name of every function that users call; filled by `add_exports`.
PUBLIC_SHELL: set[tuple[str, str]] = set()


def add_exports(*modules: ModuleType) -> None:
    """Count as public what these modules export: functions, classes, and what functions return."""
    for exported in (getattr(module, name) for module in modules for name in dir(module)):
        if inspect.isfunction(exported):
            PUBLIC_SHELL.add((exported.__module__, exported.__qualname__))
            exported = inspect.signature(exported).return_annotation
        if inspect.isclass(exported):
            PUBLIC_SHELL.update(_public_methods(exported))


def _public_methods(kind: type) -> set[tuple[str, str]]:
    """Methods of a class, inherited ones as well; not those that begin with one underscore."""
    return {
        (owner.__module__, f"{owner.__qualname__}.{name}")
        for owner in inspect.getmro(kind)
        for name in vars(owner)
        if not name.startswith("_") or name.startswith("__")
    }


def check(stub: Callable[..., Any]) -> Callable[..., Any]:
    """A checked form of a function, made on its first call, since most are not called in a test.

    Jaxtyping hands over two stubs for each function, without its body. It calls the one, whose
    result it declares to be anything, before the function, and the other one after it.
    """
    before = stub.__annotations__.get("return", Any) is Any
    name = (stub.__module__, stub.__qualname__)

    @functools.cache
    def build() -> Callable[..., Any]:
        if not before and name not in PUBLIC_SHELL:  # its arguments were checked before
            stub.__annotations__ = {"return": stub.__annotations__["return"]}
        return beartype(conf=CONFIGURATION)(stub)

    # A class may refuse its arguments after the fields are set, in `__check_init__`.
    exempt = before or stub.__name__ == "__init__"

    def check_call(*args: object, **options: object) -> object:
        if exempt and name in PUBLIC_SHELL:
            return None
        return build()(*args, **options)

    return check_call
