"""The manifest: what a store holds and how it was made, in a file that people can read."""

import contextlib
import dataclasses
import hashlib
import json
import os
import platform
import secrets
from importlib import metadata
from pathlib import Path
from typing import Any

from ...files import write_whole
from ...versions import find_version
from .layout import ColumnLayout

#: Name of the file.
MANIFEST = "manifest.json"
#: What every manifest says of itself.
KIND = "inferostatic store"
#: Version of the format; files of a newer one are refused.
FORMAT = 1
#: Packages on which the numbers may depend.
PACKAGES = ("inferostatic", "numpy", "jax", "pyarrow")
#: Entries that may differ between two calls that work on one store.
CHANGING = ("events", "versions")


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a store holds and how it was made.

    Attributes:
        layout: columns and dtypes.
        simulator: its `name` and `version` as the user gave them, and the name of the `function`;
            None for events that come from elsewhere.
        prior: description of the prior; None where it is unknown.
        joint: description of the joint density of latent variables, if there is one.
        seed: of the simulation, or of the order in which events from elsewhere were shuffled.
        block_size: events in a block, which has one random stream.
        blocks_per_part: blocks in a part, which is one file.
        events: number of events that were asked for; those beyond are not shown.
        fingerprint: checksum of events that come from elsewhere.
        versions: of the packages that created the store.
    """

    layout: ColumnLayout
    simulator: dict[str, str | None] | None
    prior: Any
    joint: Any
    seed: int
    block_size: int
    blocks_per_part: int
    events: int
    fingerprint: str | None = None
    versions: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def part_size(self) -> int:
        """Events in a part."""
        return self.block_size * self.blocks_per_part

    @property
    def part_count(self) -> int:
        """Parts that hold the events that were asked for."""
        return self.count_parts(self.events)

    def count_parts(self, n: int) -> int:
        """Parts that hold `n` events."""
        return -(-n // self.part_size)

    def part_rows(self, part: int) -> int:
        """Events in this part before any were dropped; the last part from elsewhere has fewer."""
        if self.fingerprint is None:
            return self.part_size
        return min(self.part_size, self.events - part * self.part_size)

    @property
    def identity(self) -> str:
        """A number that is another one for every other store; its parts carry it."""
        fixed = {name: value for name, value in self.described().items() if name not in CHANGING}
        return _digest(fixed)

    def described(self) -> dict[str, Any]:
        """As JSON has it."""
        fields = dataclasses.fields(self)
        plain = {field.name: getattr(self, field.name) for field in fields}
        text = json.dumps({"format": FORMAT, **plain, "layout": self.layout.described()})
        return json.loads(text)

    def write(self, folder: Path) -> None:
        """Write it, in place of an older one."""
        write_whole(folder / MANIFEST, self._content())

    def create(self, folder: Path) -> "Manifest":
        """Write it where there is none; of several processes the first one wins.

        Returns the manifest that is there afterwards.
        """
        target = folder / MANIFEST
        partial = folder / f".{MANIFEST}.{secrets.token_hex(6)}.new"
        try:
            write_whole(partial, self._content())
            try:
                os.link(partial, target)  # fails if the manifest exists, unlike a rename
            except FileExistsError:
                pass
            except OSError:  # a file system without links
                if not target.exists():
                    os.replace(partial, target)
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
        return read_manifest(folder)

    def _content(self) -> bytes:
        described = self.described()
        content = {"kind": KIND, **described, "checksum": _digest(described)}
        return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a store; raises where it is missing, damaged, edited or too new."""
    path = folder / MANIFEST
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no store in {folder}: {MANIFEST} is missing. ist.simulate(…, "
            "store=path) creates one."
        ) from None
    edited = ValueError(
        f"{path} is damaged or was edited: it does not fit its checksum. Put back the former file; "
        "the parts of the store are not affected."
    )
    try:
        data = json.loads(content)
        kind, version = data.pop("kind"), data["format"]
        found = data.pop("checksum")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise edited from error
    if kind != KIND or not isinstance(version, int):
        raise edited
    if version > FORMAT:
        raise ValueError(
            f"{path} has format {version}, and this version of inferostatic reads up to {FORMAT}; "
            "install a newer one."
        )
    if found != _digest(data):
        raise edited
    data.pop("format")
    return Manifest(**{**data, "layout": ColumnLayout.restored(data["layout"])})


def list_versions() -> dict[str, str]:
    """Versions of Python and of the packages on which the numbers may depend."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = find_version(name)
    return found


def find_difference(there: Any, here: Any, place: str) -> str:  # noqa: ANN401
    """Where two descriptions differ first, for a message; empty where they agree."""
    if there == here:
        return ""
    if isinstance(there, dict) and isinstance(here, dict) and there.keys() == here.keys():
        inner = {"fields", "array", "tuple", "mapping"}
        for name in there:
            where = place if name in inner else f"{place} {name}"
            if difference := find_difference(there[name], here[name], where):
                return difference
    return f"{place}: {_shorten(there)} in the store, {_shorten(here)} here"


def _shorten(value: Any) -> str:  # noqa: ANN401
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _digest(data: Any) -> str:  # noqa: ANN401
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
