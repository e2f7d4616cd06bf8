"""What is wrong with a file: the field, what it must be, and what it is."""

import difflib
import json
import re
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from .table import AbstractTable

#: Characters of a value that a message shows.
SHOWN = 80
#: Problems that a message shows.
SHOWN_PROBLEMS = 12
#: A key that TOML takes without quotes.
BARE = re.compile(r"[A-Za-z0-9_-]+")


class Fault(NamedTuple):
    """A field by its keys, and a sentence without a subject."""

    path: tuple[str | int, ...]
    text: str

    def __str__(self) -> str:
        """One line."""
        return f"{name_field(self.path)} {self.text}" if self.path else self.text


class StudyError(ValueError):
    """A study.toml that cannot be used; `problems` has a line for each fault."""

    problems: list[str]

    def __init__(self, file: str, problems: Sequence[Fault]) -> None:
        self.problems = [str(problem) for problem in problems]
        shown = self.problems[:SHOWN_PROBLEMS]
        if len(self.problems) > len(shown):
            shown.append(f"and {len(self.problems) - len(shown)} more")
        super().__init__("\n".join([f"{file} cannot be used:", *(f"  {line}" for line in shown)]))


def name_field(path: Sequence[str | int]) -> str:
    """`fit.epochs`, `reweight[1].to.mass`."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key + 1}]"
        else:
            text += ("." if text else "") + show_key(key)
    return text


def show_key(key: str) -> str:
    """A key as TOML writes it, without characters that a terminal would obey."""
    return key if BARE.fullmatch(key) else shorten(json.dumps(key))


def show_value(value: object) -> str:
    """A value for a message."""
    try:
        return shorten(ascii(value) if not isinstance(value, str) else json.dumps(value))
    except ValueError:  # an integer of more digits than Python prints
        return "a number of thousands of digits"


def shorten(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def find_unknown_keys(
    table: type[AbstractTable], data: object, path: tuple[str | int, ...] = ()
) -> Iterator[Fault]:
    """The keys that no table has, each with the nearest one that there is."""
    if not isinstance(data, dict):
        return
    for key, value in data.items():
        field = table.model_fields.get(key)
        if field is None:
            yield Fault((*path, key), _advise(key, list(table.model_fields)))
            continue
        yield from _search(field.annotation, value, (*path, key))


def _search(annotation: Any, value: object, path: tuple[str | int, ...]) -> Iterator[Fault]:  # noqa: ANN401
    kind, inner = unwrap(annotation)
    if kind is dict and isinstance(value, dict):
        for key, one in value.items():
            yield from _search(inner, one, (*path, key))
    elif kind is list and isinstance(value, list):
        for number, one in enumerate(value):
            yield from _search(inner, one, (*path, number))
    elif isinstance(kind, type) and issubclass(kind, AbstractTable):
        yield from find_unknown_keys(kind, value, path)


def unwrap(annotation: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """What a field holds, `None` left out: a table, or `dict` or `list` with what is in it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return unwrap(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return unwrap(next(one for one in arguments if one is not types.NoneType))
    if origin in (dict, list):
        return origin, arguments[-1]
    return annotation, None


def _advise(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"is no key that this table knows; {hint}It may have {', '.join(known)}."


def list_problems(table: type[AbstractTable], error: ValidationError) -> Iterator[Fault]:
    """What pydantic found, in sentences; unknown keys are left to `find_unknown_keys`."""
    for found in error.errors(include_url=False, include_context=False):
        if found["type"] == "extra_forbidden":
            continue
        path = tuple(found["loc"])
        expected = _expected(table, path)
        if found["type"] == "missing":
            yield Fault(path, f"is missing; it must be {expected}.")
        else:
            yield Fault(path, f"must be {expected}; got {show_value(found['input'])}.")


def _expected(table: type[AbstractTable], path: tuple[str | int, ...]) -> str:
    """What the field must be; of an entry in a list or a table, what its owner must be."""
    field: FieldInfo | None = None
    current: Any = table
    for key in path:
        kind, inner = unwrap(current)
        if isinstance(kind, type) and issubclass(kind, AbstractTable):
            field = kind.model_fields.get(str(key))
            if field is None:
                break
            current = field.annotation
        else:
            current = inner
    kind, _ = unwrap(current)
    if isinstance(kind, type) and issubclass(kind, AbstractTable):
        return f"a table with {', '.join(kind.model_fields)}"
    if field is None or not field.description:
        return "valid"
    if unwrap(field.annotation)[0] is dict and current is not field.annotation:
        return "a number" if kind is float else "two numbers, such as [0.5, 2.0]"
    return f"an entry of {field.description}" if isinstance(path[-1], int) else field.description
