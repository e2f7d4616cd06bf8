"""`Store`: a folder of events, made in parts by any number of processes, in any order."""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...files import remove_partial_files
from ...inputs import as_count, as_flag, as_number, as_path, as_seed, as_text, kind_of, row_slices
from ...memory_map import read_rows
from ...progress import progress
from ...serial import describe, restore
from ...streams import Purpose, Stream
from ...world.priors.prior import AbstractPrior
from ..blocks import BLOCK_SIZE
from ..events import Events, lazy_events
from ..latent import AbstractJoint
from ..origin import Origin
from .cache import CachedSource, require_parts
from .layout import ColumnLayout, arrays_of
from .manifest import MANIFEST, Manifest, find_difference, list_versions, read_manifest
from .parts import PARTS, find_parts, write_part
from .status import StoreStatus, find_status

#: Seconds that the simulation of a part takes, about: little is lost with a process that is
#: killed, and starting a task costs little beside it.
PART_SECONDS = 20.0
#: Parts of a store, at most: folders of more files are slow on many file systems.
MOST_PARTS = 10_000
#: Bytes of a part, at most, before compression: a process holds a few times as much.
MOST_BYTES = 64_000_000


@dataclasses.dataclass(frozen=True, init=False)
class Store:
    """A folder of simulated events: Parquet files and a manifest.

    `ist.simulate(…, store=PATH)` makes what is missing in it, and `ist.Store(PATH).events()` opens
    it. pandas, polars, duckdb and pyarrow read the files in `PATH/parts` as well; the last of them
    may hold a few events more than were asked for.

    Args:
        path: the folder.
        name, version: of the simulator. A store of another name or version is refused; without a
            name, one that was made by a function of another name.
        part_seconds: how long the simulation of a part should take; measured when the store is
            created.
        block_size: events with a common random stream; fixed when the store is created.
        events_per_part: instead of a measurement; a multiple of the block size.
    """

    path: Path
    name: str | None
    version: str | None
    part_seconds: float
    block_size: int | None
    events_per_part: int | None

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        version: str | None = None,
        part_seconds: float = PART_SECONDS,
        block_size: int | None = None,
        events_per_part: int | None = None,
    ) -> None:
        """Check the options; nothing is read or written yet."""
        size = None if block_size is None else as_count(block_size, "block_size")
        many = None if events_per_part is None else as_count(events_per_part, "events_per_part")
        if many is not None and many % (size or BLOCK_SIZE):
            raise ValueError(
                f"events_per_part must be a multiple of the block size, {size or BLOCK_SIZE}; got "
                f"{many}."
            )
        values = {
            "path": as_path(path),
            "name": None if name is None else as_text(name, "name"),
            "version": None if version is None else as_text(version, "version"),
            "part_seconds": as_number(part_seconds, "part_seconds", above=0),
            "block_size": size,
            "events_per_part": many,
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)

    def exists(self) -> bool:
        """Whether there is a store in the folder."""
        return (self.path / MANIFEST).exists()

    def manifest(self) -> Manifest:
        """What the store holds and how it was made."""
        found = read_manifest(self.path)
        self._require(found)
        return found

    def status(self, *, verify: bool = False) -> StoreStatus:
        """What is there, missing and damaged.

        Args:
            verify: read every part and compare its content with its checksum; else only parts that
                were cut short are found.
        """
        return find_status(self.path, self.manifest(), verify=as_flag(verify, "verify"))

    def events(
        self, *, prior: AbstractPrior | None = None, joint: AbstractJoint | None = None
    ) -> Events:
        """The events; nothing is read before an array of them is used.

        Then they are copied once into plain files in `PATH/cache`, which are memory-mapped, so that
        they may be larger than the memory.

        Args:
            prior: is in the store; needed only where it contains functions that a user wrote.
            joint: the joint density of latent variables, such as `ist.JointDensity(function)`,
                where a user wrote it.
        """
        manifest = self.manifest()
        require_parts(self.path, find_parts(self.path), range(manifest.part_count))
        return open_events(self.path, manifest, manifest.events, prior, joint)

    def write(self, events: Events, *, seed: int) -> Events:
        """Write events that come from elsewhere, in a random order, and open them.

        A part of the files is then as good as a random choice of all events, also where the events
        were sorted. An interrupted call goes on where it stopped.

        Args:
            events: all events of the store.
            seed: of their order.
        """
        if not isinstance(events, Events):
            raise TypeError(f"write takes a set of ist.Events; got {kind_of(events)}.")
        layout, size = ColumnLayout.of(events), len(events)
        most = max(MOST_BYTES // layout.row_bytes(), -(-size // MOST_PARTS), 1)
        wanted = Manifest(
            layout=layout,
            simulator=None,
            prior=None if events.prior is None else describe(events.prior),
            joint=None if events.latent.joint is None else describe(events.latent.joint),
            seed=as_seed(seed),
            block_size=min(self.events_per_part or most, size),
            blocks_per_part=1,
            events=size,
            fingerprint=_fingerprint(events),
            versions=list_versions(),
        )
        manifest = self.create(wanted) if not self.exists() else self.manifest()
        self.require_same(manifest, wanted)
        order = Stream(wanted.seed, Purpose.SHUFFLE_STORE).generator().permutation(size)
        with self.writing(), progress("writing the store", size) as advance:
            files = find_parts(self.path)
            for part in range(manifest.part_count):
                start = part * manifest.part_size
                rows = order[start : start + manifest.part_size]
                if part not in files or not files[part].whole:
                    write_part(self.path, manifest, part, _read(events, rows))
                advance(len(rows))
        return self.events(prior=events.prior, joint=events.latent.joint)

    def create(self, wanted: Manifest) -> Manifest:
        """Make the folder and its manifest; one that another process just made is taken."""
        with self.writing():
            (self.path / PARTS).mkdir(parents=True, exist_ok=True)
            return wanted.create(self.path)

    def record_events(self, n: int) -> Manifest:
        """Note that at least `n` events were asked for."""
        manifest = self.manifest()
        if manifest.events >= n:
            return manifest
        with self.writing():
            more = dataclasses.replace(manifest, events=n)
            more.write(self.path)
        return more

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Say in errors of the system what became of the store."""
        try:
            yield
            remove_partial_files(self.path / PARTS)
        except ConnectionError:  # of an engine whose cluster was lost
            raise
        except OSError as error:
            text = (
                f"{error.strerror or error}; the store in {self.path} could not be written. What "
                "it held is intact: mend that and run the same call again, which goes on from there"
            )
            raise OSError(error.errno, text, error.filename) from error

    def require_same(self, found: Manifest, wanted: Manifest) -> None:
        """Refuse a store that was made in another way than this call asks for."""
        there, here = found.described(), wanted.described()
        differences = []
        for name, said in (
            ("prior", "prior"),
            ("seed", "seed"),
            ("layout", "columns"),
            ("joint", "joint density"),
            ("fingerprint", "events"),
        ):
            differences.append(find_difference(there[name], here[name], said))
        differences.append(self._compare_simulators(found, wanted))
        self._refuse([difference for difference in differences if difference])

    def _compare_simulators(self, found: Manifest, wanted: Manifest) -> str:
        if found.simulator is None or wanted.simulator is None or self.name is not None:
            return ""  # names were compared already
        there, here = found.simulator["function"], wanted.simulator["function"]
        remedy = "; if it is the same one, give it a name, ist.Store(path, name=…)"
        return f"simulator: {there} in the store, {here} here{remedy}" if there != here else ""

    def _require(self, found: Manifest) -> None:
        """Refuse a store that does not fit the options given."""
        simulator = found.simulator or {}
        given = {
            "name": (self.name, simulator.get("name")),
            "version": (self.version, simulator.get("version")),
            "block_size": (self.block_size, found.block_size),
            "events_per_part": (self.events_per_part, found.part_size),
        }
        if found.fingerprint is not None:
            del given["block_size"], given["events_per_part"]
        self._refuse(
            [
                find_difference(there, here, name)
                for name, (here, there) in given.items()
                if here is not None and here != there
            ]
        )

    def _refuse(self, differences: list[str]) -> None:
        if differences:
            raise ValueError(
                f"the store in {self.path} was made otherwise: {'; '.join(differences)}. Use it as "
                "it was made, or choose another folder."
            )


def open_events(
    folder: Path,
    manifest: Manifest,
    n: int,
    prior: AbstractPrior | None,
    joint: AbstractJoint | None,
) -> Events:
    """The first `n` events of a store in which they are complete."""
    stored = manifest.joint
    found = joint if joint is not None or stored is None else restore(stored)
    source = CachedSource(folder, manifest, n, found if isinstance(found, AbstractJoint) else None)
    # The content follows from the manifest, so a checkpoint need not read all of it.
    return name_events(source, manifest, prior).identified(f"store {manifest.identity}, {n}")


def name_events(source: Any, manifest: Manifest, prior: AbstractPrior | None) -> Events:  # noqa: ANN401
    """Events of a source, with the names and the prior of the store."""
    if prior is not None:
        if not isinstance(prior, AbstractPrior):
            raise TypeError(
                f"prior must be a prior such as ist.Uniform(low, high); got {kind_of(prior)}."
            )
        difference = find_difference(manifest.prior, describe(prior), "prior")
        if difference:
            raise ValueError(
                f"this is not the prior that the events were drawn from; {difference}."
            )
    elif manifest.prior is not None:
        prior = restore(manifest.prior)
    layout = manifest.layout
    events = lazy_events(source, prior, x_names=layout.x_names, theta_names=layout.theta_names)
    return events.with_origin(_describe_origin(manifest))


def _describe_origin(manifest: Manifest) -> Origin:
    """Where the events of a store come from."""
    simulator = manifest.simulator
    if simulator is None:
        return Origin(source="a store of events that were made elsewhere")
    name = simulator.get("name") or simulator.get("function")
    return Origin(name or None, simulator.get("version") or None, manifest.seed)


def _fingerprint(events: Events) -> str:
    """A checksum of events, whatever files they are in."""
    digest = hashlib.sha256()
    for rows in row_slices(events.x):
        for name, values in arrays_of(events, rows).items():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


def _read(events: Events, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Some rows of events that may lie in files."""
    latent = {f"latent.{k}": read_rows(v, rows) for k, v in sorted(events.latent.items())}
    weight = read_rows(events.weight, rows).astype(np.float64)
    theta, x = read_rows(events.theta, rows), read_rows(events.x, rows)
    return {"theta": theta, "x": x, "weight": weight, **latent}
