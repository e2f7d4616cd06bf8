"""`inferostatic simulate` and `status`: of a study's folder, or of a Python file and a store."""

import contextlib
import dataclasses
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..config.reading import FILE
from ..streams import ending_on_signals
from .endings import FAILED, fail, format_trace, show, show_json, stopping
from .steps import open_or_end, plan_or_end, prepare_run

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


def simulate(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="Folder of a study, or a Python file that defines simulator and prior.",
        ),
    ],
    *,
    events: Annotated[
        int | None, typer.Option(min=1, help="For a file: events that the store is to hold.")
    ] = None,
    store: Annotated[str | None, typer.Option(help="For a file: folder of the store.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="For a file: everything random follows from it.")
    ] = None,
    parts: Annotated[
        str | None, typer.Option(metavar="i/N", help="Make the i-th of N shares, i from 0.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="Worker processes; default is this process alone."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Simulate what is missing of the events of a study, or in a store, or a share of it.

    A study says in its study.toml what is simulated; for a Python file --events, --store and
    --seed say so. The same command goes on where it was stopped.

    Exit status: 0 if all that was asked for is there, 1 if the simulation failed, 2 for wrong
    arguments or a wrong study.toml, 130 after Ctrl-C and 143 after SIGTERM, both of which leave a
    store that the same command completes.
    """
    share = None if parts is None else read_share(parts)
    given = {"--events": events, "--store": store, "--seed": seed}
    if _is_folder(path):
        for option, value in given.items():
            if value is not None:
                text = f"is for a Python file; a study says it in {FILE}."
                raise typer.BadParameter(text, param_hint=option)
        simulate_study(path, share, workers=workers, as_json=as_json)
        return
    if events is None or store is None or seed is None:
        lacking = " and ".join(option for option, value in given.items() if value is None)
        raise typer.BadParameter(
            f"{path!r} is no folder of a study, and for a Python file {lacking} must be given. "
            f"Missing option {lacking}.",
            param_hint="PATH",
        )
    simulate_file(path, events, store, share, seed=seed, workers=workers, as_json=as_json)


def simulate_file(
    file: str,
    events: int,
    store: str,
    share: "Share | None",
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
    target = Store(_as_folder(store, "--store"))
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
        told = {"share": _describe_share(share), "made": made._asdict()}
        show_json(told | {"store": describe(found)})
    else:
        show("\n".join([_describe_made(made, share), found.summary(), _advise(found, share)]))


def simulate_study(
    folder: str, share: "Share | None", *, workers: int | None, as_json: bool
) -> None:
    """Into the stores of a study."""
    from ..simulator_file import find_trace
    from ..study.events_step import are_complete, simulate_share
    from ..study.progress import describe_progress, suggest_next
    from ..study.workshop import Workshop

    study = open_or_end(folder)
    steps = plan_or_end(study)
    journal = prepare_run(study)
    journal.note(f"inferostatic simulate {folder}")
    table = study.table.simulator
    advice = f"{STOPPED} It is kept in {study.run}."
    with stopping(advice), contextlib.ExitStack() as stack:
        chosen = study.table.simulate.workers if workers is None else workers
        workshop = Workshop(study, journal, chosen, stack)
        try:
            with journal.collecting():
                made = simulate_share(workshop, share)
            if are_complete(study):
                steps[0].perform(workshop)
        except Exception as error:
            journal.note(format_trace(error))
            file = None if table.file is None else str(study.folder / table.file)
            fail(error, "" if file is None else find_trace(error, file))
    if as_json:
        found = describe_progress(study, steps)
        show_json({"share": _describe_share(share), "made": made} | found)
        return
    lines = [
        f"{which}: made {one['events']:,} events in {one['seconds']:.1f} s"
        if one["events"]
        else f"{which}: nothing was missing"
        for which, one in made.items()
    ]
    if share is not None and not are_complete(study):
        others = f"the other shares, --parts 0/{share.total} to {share.total - 1}/{share.total}"
        lines.append(f"next: {others}; `inferostatic status {folder}` says what is missing")
    else:
        lines.append(f"next: {suggest_next(study, steps)}")
    show("\n".join(lines))


def status(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder of a study, or of a store.")],
    *,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read all parts and compare their checksums.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as JSON.")] = False,
) -> None:
    """Say how far a study is and what to do next, or what is in a store.

    Only files are read; no simulator is imported or run.

    Exit status: 0 if all is there, 1 if not, or if there is no store, 2 for wrong arguments or a
    wrong study.toml.
    """
    from ...events.store.store import Store

    if _is_folder(path) and (Path(path) / FILE).exists():
        _show_study(path, verify=verify, as_json=as_json)
        return
    try:
        found = Store(_as_folder(path, "PATH")).status(verify=verify)
    except (OSError, ValueError) as error:
        fail(error)
    if as_json:
        show_json(describe(found))
    else:
        show(found.summary())
    if not found.complete:
        raise typer.Exit(FAILED)


def _show_study(folder: str, *, verify: bool, as_json: bool) -> None:
    from ...events.store.store import Store
    from ..study.progress import describe_progress, summarise

    study = open_or_end(folder)
    steps = plan_or_end(study)
    progress = describe_progress(study, steps)
    stores = {}
    if verify:
        for which, store in progress["stores"].items():
            with contextlib.suppress(OSError, ValueError):
                stores[which] = Store(store["path"]).status(verify=True)
    progress["complete"] &= all(found.complete for found in stores.values())
    if as_json:
        show_json(progress | {"verified": {name: describe(one) for name, one in stores.items()}})
    else:
        show("\n".join([summarise(progress), *(one.summary() for one in stores.values())]))
    if not progress["complete"]:
        raise typer.Exit(FAILED)


def _is_folder(path: str) -> bool:
    try:
        return bool(path) and Path(path).is_dir()
    except (OSError, ValueError):
        return False


def _describe_share(share: "Share | None") -> dict[str, int] | None:
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


def describe(found: "StoreStatus") -> dict[str, Any]:
    """The status of a store as JSON has it."""
    return dataclasses.asdict(found) | {"path": str(found.path), "complete": found.complete}


def _as_folder(path: str, argument: str) -> Path:
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
