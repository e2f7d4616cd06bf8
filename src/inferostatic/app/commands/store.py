"""Stores made from a Python file: which share, what was added, and what to do next."""

import contextlib
import dataclasses
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from ..streams import ending_on_signals
from .endings import fail, show, show_json

if TYPE_CHECKING:
    from ...events.store.status import StoreStatus
    from ...events.store.store import Store

#: What is said on Ctrl-C and SIGTERM.
STOPPED = (
    "Stopped; the parts that are done are kept. Run the same command again, which makes the rest."
)


class Share(NamedTuple):
    """Share `number`, from 0, of `total`."""

    number: int
    total: int


class Made(NamedTuple):
    """What a command has added to a store."""

    parts: int
    events: int
    seconds: float


def simulate_file(
    file: str,
    events: int,
    store: str,
    share: Share | None,
    *,
    seed: int,
    workers: int | None,
    as_json: bool,
) -> None:
    """Into a store, with the simulator and the prior of a file."""
    from ...events.store.store import Store
    from ...inputs import as_seed
    from ..simulator_file import SimulatorFileError, find_trace, load_simulator

    try:
        as_seed(seed)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--seed") from error
    target = Store(as_folder(store, "--store"))
    with ending_on_signals(STOPPED):
        try:
            simulator, prior = load_simulator(file)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="FILE") from error
        except SimulatorFileError as error:
            fail(error, find_trace(error.__cause__, file))
        try:
            made = _make(simulator, prior, events, target, share, seed=seed, workers=workers)
            found = target.status()
        except Exception as error:
            trace = find_trace(error, file)
            if not trace and not isinstance(error, OSError | RuntimeError | TypeError | ValueError):
                raise
            fail(error, trace)
    if as_json:
        told = {"share": describe_share(share), "made": made._asdict()}
        show_json(told | {"store": describe_store(found)})
    else:
        show("\n".join([_describe_made(made, share), found.summary(), _advise(found, share)]))


def describe_share(share: Share | None) -> dict[str, int] | None:
    """The share as JSON has it."""
    return None if share is None else {"index": share.number, "count": share.total}


def read_share(text: str) -> Share:
    """The share that `--parts i/N` means."""
    found = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    if found is None:
        raise typer.BadParameter(
            "must be i/N, the i-th of N shares, i from 0, such as 0/10, 1/10 and so on to 9/10; "
            f"got {text!r}.",
            param_hint="--parts",
        )
    share = Share(int(found[1]), int(found[2]))
    if share.total == 0:
        raise typer.BadParameter(f"N must be at least 1; got {text!r}.", param_hint="--parts")
    if share.number >= share.total:
        raise typer.BadParameter(
            f"the shares of {share.total} are 0/{share.total} to {share.total - 1}/{share.total}; "
            f"got {text!r}.",
            param_hint="--parts",
        )
    return share


def describe_store(found: "StoreStatus") -> dict[str, Any]:
    """The status of a store as JSON has it."""
    return dataclasses.asdict(found) | {"path": str(found.path), "complete": found.complete}


def as_folder(path: str, argument: str) -> Path:
    """A folder, which need not be there yet."""
    try:
        good = bool(path) and "\0" not in path and (Path(path).is_dir() or not Path(path).exists())
    except OSError:  # a name that is too long, a loop of links
        good = False
    if not good:
        raise typer.BadParameter(f"{path!r} is no folder.", param_hint=argument)
    return Path(path)


def _make(
    simulator: Any,  # noqa: ANN401
    prior: Any,  # noqa: ANN401
    n: int,
    store: "Store",
    share: Share | None,
    *,
    seed: int,
    workers: int | None,
) -> Made:
    """Make what is missing, and count it."""
    from ...events.engines.process_pool import ProcessPool
    from ...events.simulate import simulate as simulate_events
    from ...events.store.cache import count_events
    from ...events.store.parts import find_parts
    from ...events.store.production import choose_parts

    before = {part for part, file in find_parts(store.path).items() if file.whole}
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        engine = None if workers is None else stack.enter_context(ProcessPool(workers))
        simulate_events(simulator, prior, n, store=store, engine=engine, parts=share, seed=seed)
    seconds = time.monotonic() - began
    manifest = store.manifest()
    new = [part for part in choose_parts(manifest.count_parts(n), share) if part not in before]
    return Made(len(new), count_events(store.path, manifest, new, n), round(seconds, 3))


def _describe_made(made: Made, share: Share | None) -> str:
    what = "the store" if share is None else f"share {share.number} of 0 to {share.total - 1}"
    if not made.parts:
        return f"{what}: nothing was missing"
    parts = f"{made.parts:,} part{'s' if made.parts > 1 else ''}"
    return f"{what}: made {parts}, {made.events:,} events, in {made.seconds:.1f} s"


def _advise(found: "StoreStatus", share: Share | None) -> str:
    """What to do next."""
    if found.complete:
        return f"next: events = ist.Store({str(found.path)!r}).events() in Python"
    if share is None:
        return f"next: the same command with --events {found.events} makes the rest"
    return (
        f"next: the other shares, --parts 0/{share.total} to {share.total - 1}/{share.total}; "
        f"`inferostatic status {found.path}` says what is missing"
    )
