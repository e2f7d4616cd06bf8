"""`inferostatic simulate` and `status`: of a study's folder, or of a Python file and a store."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from ..config.reading import FILE
from .endings import FAILED, fail, format_trace, show, show_json, stopping
from .steps import open_or_end, plan_or_end, prepare_run
from .store import (
    STOPPED,
    Share,
    as_folder,
    describe_share,
    describe_store,
    read_share,
    simulate_file,
)


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


def simulate_study(folder: str, share: Share | None, *, workers: int | None, as_json: bool) -> None:
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
        show_json({"share": describe_share(share), "made": made} | found)
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
        found = Store(as_folder(path, "PATH")).status(verify=verify)
    except (OSError, ValueError) as error:
        fail(error)
    if as_json:
        show_json(describe_store(found))
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
        show_json(
            progress | {"verified": {name: describe_store(one) for name, one in stores.items()}}
        )
    else:
        show("\n".join([summarise(progress), *(one.summary() for one in stores.values())]))
    if not progress["complete"]:
        raise typer.Exit(FAILED)


def _is_folder(path: str) -> bool:
    try:
        return bool(path) and Path(path).is_dir()
    except (OSError, ValueError):
        return False
