"""The commands of stores: `simulate` makes a share of one, `status` says what is in it."""

import contextlib
import dataclasses
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer

from .streams import complain, ending_on_signals, say

if TYPE_CHECKING:
    from ..events.store.status import StoreStatus
    from ..events.store.store import Store

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


def simulate(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Python file that defines simulator and prior.")
    ],
    *,
    events: Annotated[int, typer.Option(min=1, help="Events that the store is to hold.")],
    store: Annotated[str, typer.Option(help="Folder of the store.")],
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")],
    parts: Annotated[
        str | None, typer.Option(metavar="i/N", help="Make the i-th of N shares, i from 0.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes; default is this process alone.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Simulate what is missing in a store, or in a share of it.

    The same command goes on where it was stopped.

    Exit status: 0 if all that was asked for is there, 1 if the simulation failed, 2 for wrong
    arguments, 130 after Ctrl-C and 143 after SIGTERM, both of which leave a store that the same
    command completes.
    """
    share = None if parts is None else read_share(parts)
    from ..events.store.store import Store
    from ..inputs import as_seed
    from .simulator_file import SimulatorFileError, find_trace, load_simulator

    try:
        as_seed(seed)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--seed") from error
    target = Store(_as_folder(store, "--store"))
    with ending_on_signals(STOPPED):
        try:
            simulator, prior = load_simulator(file)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="FILE") from error
        except SimulatorFileError as error:
            _fail(error, find_trace(error.__cause__, file))
        try:
            made = _make(simulator, prior, events, target, share, seed=seed, workers=workers)
            found = target.status()
        except Exception as error:
            trace = find_trace(error, file)
            if not trace and not isinstance(error, OSError | RuntimeError | TypeError | ValueError):
                raise
            _fail(error, trace)
    if as_json:
        asked = None if share is None else {"index": share.number, "count": share.total}
        told = {"share": asked, "made": made._asdict()}
        _show(json.dumps(told | {"store": describe(found)}, indent=1))
    else:
        _show("\n".join([_describe_made(made, share), found.summary(), _advise(found, share)]))


def status(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder of the store.")],
    *,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read all parts and compare their checksums.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as JSON.")] = False,
) -> None:
    """Say what is in a store, and what is missing, damaged or failed.

    Only the store is read, no simulator.

    Exit status: 0 if all events are there, 1 if not, or if there is no store, 2 for wrong
    arguments.
    """
    from ..events.store.store import Store

    try:
        found = Store(_as_folder(path, "PATH")).status(verify=verify)
    except (OSError, ValueError) as error:
        _fail(error, "")
    _show(json.dumps(describe(found), indent=1) if as_json else found.summary())
    if not found.complete:
        raise typer.Exit(1)


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


def describe(found: "StoreStatus") -> dict[str, Any]:
    """The status of a store as JSON has it."""
    return dataclasses.asdict(found) | {"path": str(found.path), "complete": found.complete}


def _as_folder(path: str, argument: str) -> Path:
    if not path or (Path(path).exists() and not Path(path).is_dir()):
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
    from ..events.engines.process_pool import ProcessPool
    from ..events.simulate import simulate as simulate_events
    from ..events.store.cache import count_events
    from ..events.store.parts import find_parts
    from ..events.store.production import choose_parts

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


def _show(text: str) -> None:
    trouble = say(text)
    if trouble is not None:
        complain(f"The result could not be shown ({trouble}).")
        raise typer.Exit(1)


def _fail(error: Exception, trace: str) -> NoReturn:
    """Say where and why, and end with status 1."""
    if trace:
        complain(trace.rstrip())
    complain(f"inferostatic: {str(error) or type(error).__name__}")
    raise typer.Exit(1) from error
