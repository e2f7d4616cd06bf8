"""Functions with plain values for their arguments, and cases that replace one of them."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .inputs import ABSOLUTE, CHANGED, EQUAL, SKIP
from .outcomes import ROUNDING, Outcome, attempt, digest, is_same, nan_places

#: A case: its name, and what runs it.
Case = tuple[str, Callable[[], Outcome]]

_SCALARS = {
    "0",
    "-1",
    "3",
    "0.25",
    "-2.5",
    "1e-300",
    "1e300",
    "0-d array",
    "10**30",
    "-10**30",
    "True",
    "False",
    "numpy bool",
    "Decimal",
    "Fraction",
    "inf",
    "-inf",
}
_NUMBERS = {"0", "-1", "3", "0.25", "-2.5", "negative", "plus one half", "1e-300", "0-d array"}
_LARGE = {"10**30", "-10**30", "1e300"}
_CALLABLE = {label for label in ABSOLUTE if label.startswith("function")} | {"a network"}
_TEXTS = {"text", "empty text", "digits", "surrogate", "zero byte"}
_OTHER_DATA = {
    *("one row less", "integers", "uint8", "booleans", "float16", "all equal"),
    *("huge at the end", "inf at the end", "-inf at the start", "transposed"),
}

#: Inputs that an argument of each kind is documented to take, although its plain value is another.
#: Those that are still wrong, such as a negative number where only positive ones have a meaning,
#: are refused by the library, which is as good.
TAKEN: dict[str, set[str]] = {
    "number": _NUMBERS | _LARGE,
    "count": {"3", "0"},
    "seed": {"0", "3"},
    "flag": {"True", "False", "numpy bool"},
    "data": _OTHER_DATA,
    # Numbers and lists of them, which are read as arrays.
    "vector": _OTHER_DATA | _SCALARS | {"five numbers", "range", "an array like JAX"},
    "names": {
        "two texts",
        "reversed",
        "array of text",
        "five numbers",
        "range",
        "array beyond float64",
        "series of text",
        "generator",
    },
    "text": _TEXTS,
    "label": _TEXTS,
    "function": _CALLABLE,
    "simulator": {"a network"},
    "object": {"list of it"},
    "anything": set(ABSOLUTE),
    "path": set(),
}


@dataclasses.dataclass(frozen=True)
class Argument:
    """The plain value of an argument, what kind it is, and what else it takes."""

    value: Any
    kind: str
    taken: frozenset[str] = frozenset()

    def takes(self, label: str) -> bool:
        return label in TAKEN[self.kind] or label in self.taken


@dataclasses.dataclass(frozen=True)
class Target:
    """A function of the library and all its arguments; `heavy` if one call takes seconds."""

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Argument]
    heavy: bool = False
    setup: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def expected(self) -> dict[str, Any]:
        """The answer to the plain values."""
        return digest(self.function(**self.plain()))

    def plain(self) -> dict[str, Any]:
        values = {name: argument.value for name, argument in self.arguments.items()}
        return values | dict(self.setup)


def cases_of(targets: Iterable[Target]) -> list[Case]:
    """Every input in every argument of every target."""
    return [
        (f"{target.name}: {name} = {label}", functools.partial(run, target, name, label))
        for target in targets
        for name in target.arguments
        for label in labels_for(target.arguments[name].value)
    ]


def labels_for(plain: Any) -> list[str]:
    """Inputs that exist for an argument with this plain value."""
    made = [
        label for table in (EQUAL, CHANGED) for label in table if table[label](plain) is not SKIP
    ]
    return [*ABSOLUTE, *made]


def run(target: Target, name: str, label: str) -> Outcome:
    """One call, with one argument replaced."""
    argument, case = target.arguments[name], f"{target.name}: {name} = {label}"
    expected = target.expected
    if label in ABSOLUTE:
        value = ABSOLUTE[label]()
    else:
        value = (EQUAL | CHANGED)[label](argument.value)
    result, refused, said = attempt(lambda: target.function(**target.plain() | {name: value}))
    if refused is not None:
        return Outcome(case, refused, said)
    found = digest(result)
    nan = nan_places(found) - nan_places(expected)
    # A warning says that there is no answer; a few arguments may hold NaN.
    if nan and not said and label not in argument.taken:
        return Outcome(case, "silent", f"NaN in {min(nan)!r}; {said}")
    if is_same(found, expected, ROUNDING):
        return Outcome(case, "same", said)
    if label in EQUAL and label not in argument.taken:
        return Outcome(case, "silent", f"another answer: {_differences(found, expected)}")
    if argument.takes(label) or said:
        return Outcome(case, "odd", said)
    return Outcome(case, "silent", f"accepted: {_differences(found, expected)}")


def _differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    places = [
        p
        for p in {**found, **expected}
        if not is_same({p: found.get(p)}, {p: expected.get(p)}, ROUNDING)
    ]
    return ", ".join(
        f"{p}: {str(found.get(p))[:60]!r} for {str(expected.get(p))[:60]!r}" for p in places[:2]
    )
