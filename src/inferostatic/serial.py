"""Plain descriptions of configuration objects, and objects from descriptions, without pickle.

Everything that configures a model or a method here (priors, kernels, losses, networks, recipes)
is a frozen record of numbers, names and other such records, so one pair of functions serves all.
Functions that a user wrote cannot be stored; their name is, and loading asks for them again.
"""

import copyreg
import dataclasses
import pickle
import types
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

import jax
import numpy as np

from .archive import require_shape

#: Classes and functions that can be stored, by name.
_KNOWN: dict[str, Any] = {}
#: Modules that register something, by their folders. A file may name what nobody imported yet.
REGISTERING = {
    "world.priors": "custom discrete prior product truncated_normal",
    "events": "origin",
    "events.morphing": "morphing nuisance",
    "supervision": "candidates density difference kernel_score kernels latent pairs references",
    "models": "architecture matrix_element theta_potential",
    "models.features": "coordinates feature_map features per_particle",
    "models.flows": "flow",
    "models.networks": "networks particle_set two_tower",
    "estimator": "measured_mean provenance response_model",
    "learning": "density_methods losses methods",
    "learning.training": "options",
}
#: Present names of classes and functions by those that files of earlier versions hold. Whoever
#: renames one adds it here.
FORMER_NAMES: dict[str, str] = {"Identity": "IdentityMap"}
#: Present names of fields by their former ones, for each class by its present name.
FORMER_FIELDS: dict[str, dict[str, str]] = {
    "CandidateSets": {"law": "candidates"},
    "LabelledPairs": {"law": "pairs"},
}
#: Types of fields that a file holds as they are.
_PLAIN = (bool, int, float, str)
#: Where our own classes are.
_PACKAGE = __name__.partition(".")[0]

#: Whatever is registered comes back unchanged.
T = TypeVar("T")


def known(thing: T) -> T:
    """Register a class or function of this package under its own name, so that it can be stored."""
    name = getattr(thing, "__name__", None)
    if not name:
        raise TypeError(f"{thing!r} has no name to be stored under.")
    _KNOWN[name] = thing
    return thing


def picklable(kind: type[T]) -> type[T]:
    """Let a known class that holds JAX's functions be pickled and copied, by its description.

    These are compiled functions: pickle refuses them, and `copy.deepcopy` makes other ones, which
    no file knows.
    """
    copyreg.pickle(kind, _reduce_record)
    return kind


def _reduce_record(thing: object) -> tuple[Any, ...]:
    users: dict[str, UserObject] = {}
    return _restore_record, (describe(thing, users), users)


def _restore_record(description: Any, users: Mapping[str, "UserObject"]) -> Any:  # noqa: ANN401
    return restore(description, {name: user.thing for name, user in users.items()})


def register(name: str, thing: object) -> None:
    """Register a third-party function, such as an activation, under a chosen name."""
    _KNOWN[name] = thing


@dataclasses.dataclass(frozen=True)
class Absent:
    """Stands where a user's own function stood when the file was written; using it is an error."""

    name: str

    def __call__(self, *_: object, **__: object) -> Any:  # noqa: ANN401
        """Say which object is missing."""
        raise ValueError(
            f"This file was saved with a user-written object, {self.name!r}, which a file cannot "
            "hold. Supply it again when loading, for example ist.load(path, network=…) or "
            "ist.load(path, supplied={'" + self.name + "': …})."
        )


@dataclasses.dataclass(frozen=True)
class UserObject:
    """Something that a user wrote on its way to another process, which needs pickle."""

    thing: Any

    def __deepcopy__(self, memo: object) -> "UserObject":
        """Itself: functions are not copied."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse what pickle cannot do, with the cure."""
        try:
            pickle.dumps(self.thing)
        except Exception as error:  # of any kind, by what the user wrote
            name = user_name(self.thing)
            raise pickle.PicklingError(
                f"there is the user-written {name!r} inside, which cannot be pickled ({error}). "
                "Define it by def or class at the top of a module, not as a lambda or inside a "
                "function; or save the estimator, est.save(path), and load it in every process: "
                f"ist.load(path, supplied={{{name!r}: …}})."
            ) from error
        return UserObject, (self.thing,)


def describe(thing: object, users: dict[str, UserObject] | None = None) -> Any:  # noqa: ANN401
    """`thing` as JSON-ready data; what a user wrote is added to `users` under the name it gets."""
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    if isinstance(thing, np.generic):
        return thing.item()
    if isinstance(thing, np.ndarray | jax.Array):
        array = np.asarray(thing)
        # The shape as well, which a list without entries does not show.
        return {"array": array.tolist(), "dtype": str(array.dtype), "shape": list(array.shape)}
    if isinstance(thing, Absent) and users is None:
        return {"user": thing.name}
    if isinstance(thing, Mapping):
        return {"mapping": {str(key): describe(value, users) for key, value in thing.items()}}
    if isinstance(thing, tuple | list):
        return {"tuple": [describe(item, users) for item in thing]}
    for name, candidate in _KNOWN.items():
        if thing is candidate:
            return {"known": name}
    kind = type(thing)
    if dataclasses.is_dataclass(thing) and _KNOWN.get(kind.__name__) is kind:
        stored = getattr(thing, "stored_fields", None)
        fields = stored() if stored else {f.name: getattr(thing, f.name) for f in _fields(thing)}
        described = {k: _describe_field(kind.__name__, k, v, users) for k, v in fields.items()}
        return {"type": kind.__name__, "fields": described}
    if users is None:
        return {"user": user_name(thing)}
    # By a number, because two functions may have one name.
    users[str(len(users))] = UserObject(thing)
    return {"user": str(len(users) - 1)}


def _describe_field(
    owner: str, field: str, value: object, users: dict[str, UserObject] | None
) -> Any:  # noqa: ANN401
    """As `describe`; a function without a name is remembered by the field that holds it."""
    described = describe(value, users)
    if isinstance(described, dict) and str(described.get("user", "")).endswith("<lambda>"):
        return {"user": f"{owner}.{field}"}
    return described


def user_name(thing: object) -> str:
    """The name under which a user's own function or class is remembered."""
    return str(getattr(thing, "__qualname__", None) or type(thing).__qualname__)


def restore(data: Any, supplied: Mapping[str, object] | None = None) -> Any:  # noqa: ANN401
    """The object that `describe` described; unknown parts come from `supplied` or are `Absent`."""
    supplied = supplied or {}
    if not isinstance(data, dict):
        return data
    if "array" in data:
        shape, dtype = tuple(data["shape"]), np.dtype(str(data["dtype"]))
        require_shape(shape, dtype)
        entries = np.asarray(data["array"])
        if entries.size and entries.dtype.kind not in "biuf":  # texts as well could be converted
            raise ValueError(f"an array holds {entries.dtype}, which are no numbers")
        return np.asarray(data["array"], dtype=dtype).reshape(shape)
    if "tuple" in data:
        return tuple(restore(item, supplied) for item in data["tuple"])
    if "mapping" in data:
        return {key: restore(value, supplied) for key, value in data["mapping"].items()}
    if "user" in data:
        return supplied.get(data["user"], Absent(data["user"]))
    if "known" in data:
        return _lookup(data["known"])
    if "type" in data:
        kind: Callable[..., object] = _lookup(data["type"])
        renamed = FORMER_FIELDS.get(_present_name(data["type"]), {})
        stored: dict[str, Any] = data["fields"]
        fields = {renamed.get(k, k): restore(value, supplied) for k, value in stored.items()}
        users = {renamed.get(k, k) for k, value in stored.items() if "user" in _entries(value)}
        for field in dataclasses.fields(kind):  # pyright: ignore[reportArgumentType]
            if field.name in fields and not _fits(
                fields[field.name], field.type, user=field.name in users
            ):
                found = type(fields[field.name]).__name__
                raise TypeError(f"{field.name} of {data['type']} is {found}")
        return kind(**fields)
    raise ValueError("unreadable description in the file.")


def _fits(value: object, annotation: Any, *, user: bool) -> bool:  # noqa: ANN401
    """Whether a field may hold this, as far as plain types and our own classes tell."""
    if isinstance(annotation, types.UnionType):
        return any(_fits(value, one, user=user) for one in annotation.__args__)
    if annotation is types.NoneType:
        return value is None
    if annotation in _PLAIN:
        return isinstance(value, (int, float) if annotation is float else annotation)
    ours = isinstance(annotation, type) and annotation.__module__.startswith(_PACKAGE)
    return isinstance(value, annotation) if ours and not user else True


def _entries(data: object) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def absent_names(data: Any) -> list[str]:  # noqa: ANN401
    """The user-written parts that a description mentions."""
    if not isinstance(data, dict):
        return []
    if "user" in data:
        return [data["user"]]
    inner = [*data.get("tuple", ()), *data.get("mapping", {}).values()]
    inner += [*data.get("fields", {}).values()]
    return [name for item in inner for name in absent_names(item)]


def _fields(thing: Any) -> list[dataclasses.Field[Any]]:  # noqa: ANN401
    return [field for field in dataclasses.fields(thing) if field.init]


def _present_name(name: str) -> str:
    _import_registering(name)
    # A name that is in use again means the present thing.
    return name if name in _KNOWN else FORMER_NAMES.get(name, name)


def _import_registering(name: str) -> None:
    """Import modules until one of them registers the name, or there are no more."""
    for folder, modules in REGISTERING.items():
        for module in modules.split():
            if name in _KNOWN:
                return
            import_module(f"{_PACKAGE}.{folder}.{module}")


def _lookup(name: str) -> Any:  # noqa: ANN401
    name = _present_name(name)
    if name not in _KNOWN:
        raise ValueError(
            f"the file names {name!r}, which this version of inferostatic does not know; "
            "it was probably written by a newer version."
        )
    return _KNOWN[name]
