"""The commands that do the steps of a study: `run`, and every step alone."""

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from ..streams import complain
from .endings import (
    FAILED,
    NOT_TRUSTED,
    WRONG,
    describe_error,
    fail,
    format_trace,
    show,
    show_json,
    stopping,
)

Folder = Annotated[
    str, typer.Argument(metavar="FOLDER", help="Folder with study.toml, see `inferostatic new`.")
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=4096, help="Worker processes; default as in study.toml."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Exit status 3 if the estimator is not to be trusted."),
]


def run(
    folder: Folder, *, workers: Workers = None, strict: Strict = False, as_json: AsJson = False
) -> None:
    """Do all steps of a study and write its report: FOLDER/report.html.

    What was done before with the same settings is not done again, so the same command goes on
    after any interruption, and after a change does what depends on it.

    Exit status: 0 if all is done, 1 if a step failed, 2 for wrong arguments or a wrong study.toml,
    3 with --strict if the estimator is not to be trusted, 130 after Ctrl-C and 143 after SIGTERM.
    """
    from ..study.plan import NAMES

    do_steps(folder, NAMES, "run", workers=workers, strict=strict, as_json=as_json)


def fit(folder: Folder, *, as_json: AsJson = False) -> None:
    """Train the estimator of a study on its events; goes on where it stopped.

    Exit status as for `run`.
    """
    do_steps(folder, ("fit",), "fit", as_json=as_json)


def diagnose(folder: Folder, *, strict: Strict = False, as_json: AsJson = False) -> None:
    """Check the estimator of a study on its validation events.

    Exit status as for `run`.
    """
    do_steps(folder, ("diagnose",), "diagnose", strict=strict, as_json=as_json)


def infer(folder: Folder, *, workers: Workers = None, as_json: AsJson = False) -> None:
    """Answer the questions of a study about its data: fits, intervals, sets, limits and posteriors.

    Exit status as for `run`.
    """
    do_steps(folder, ("infer",), "infer", workers=workers, as_json=as_json)


def reweight(folder: Folder, *, workers: Workers = None, as_json: AsJson = False) -> None:
    """Reweight simulated events as a study asks, and test whether that closes.

    Exit status as for `run`.
    """
    do_steps(folder, ("reweight",), "reweight", workers=workers, as_json=as_json)


def report(folder: Folder, *, as_json: AsJson = False) -> None:
    """Write FOLDER/report.html and report.json from what the steps left; runs no simulator.

    Exit status: 0, 1 if there is nothing to report yet, 2 for wrong arguments or a wrong
    study.toml.
    """
    study = open_or_end(folder)
    try:
        content = _write_report(study, {})
    except (OSError, ValueError, RuntimeError) as error:
        fail(error)
    if as_json:
        show_json(content)
    else:
        show(f"report: {study.report}")


def open_or_end(folder: str) -> Any:  # noqa: ANN401
    """The study in a folder; a wrong file ends the command with status 2."""
    from ..config.faults import StudyError
    from ..study.folder import open_study

    try:
        return open_study(folder)
    except StudyError as error:
        fail(error, status=WRONG)


def plan_or_end(study: Any) -> list[Any]:  # noqa: ANN401
    """The steps of a study; a file that cannot be read ends the command with status 2."""
    from ..config.faults import StudyError
    from ..study.plan import plan

    try:
        return plan(study)
    except StudyError as error:
        fail(error, status=WRONG)


def prepare_run(study: Any) -> Any:  # noqa: ANN401
    """Make the run folder, keep the resolved configuration in it, and open its journal."""
    from ..config.checks import list_missing_packages
    from ..study.journal import Journal
    from ..study.resolved import write_resolved

    missing = list_missing_packages(study.table)
    if missing:
        extras = sorted({"readers" if name == "uproot" else "inference" for name in missing})
        command = f"pip install 'inferostatic[{','.join(extras)}]'"
        text = f"this study needs {', '.join(missing)}: {command}."
        fail(RuntimeError(text))
    try:
        study.run.mkdir(exist_ok=True)
        write_resolved(study)
    except OSError as error:
        fail(error)
    return Journal(study.run)


def do_steps(
    folder: str,
    names: tuple[str, ...],
    command: str,
    *,
    workers: int | None = None,
    strict: bool = False,
    as_json: bool = False,
) -> None:
    """Do the steps of some names; `run` goes on after a question that failed."""
    study = open_or_end(folder)
    steps = plan_or_end(study)
    journal = prepare_run(study)
    wanted = [step for step in steps if step.name in names]
    if not wanted:
        fail(ValueError(_say_why_nothing(command)), status=WRONG)
    advice = (
        f"Stopped; what was done is kept in {study.run}. Go on with: inferostatic {command} "
        f"{study.folder}"
    )
    records, failed = {}, {}
    journal.note(f"inferostatic {command} {study.folder}")
    with stopping(advice), contextlib.ExitStack() as stack:
        from ..study.workshop import Workshop

        chosen = study.table.simulate.workers if workers is None else workers
        workshop = Workshop(study, journal, chosen, stack)
        for step in wanted:
            try:
                records[step.title] = _perform(step, workshop, steps)
            except Exception as error:
                failed[step.title] = describe_error(error)
                journal.note(format_trace(error))
                if trace := _find_user_trace(study, error):
                    complain(trace)
                journal.say(f"inferostatic: {step.title}: {describe_error(error)}")
                if step.name in ("simulate", "fit"):
                    break
        report = None
        if command == "run" and records:
            try:
                report = _write_report(study, failed)
            except (OSError, ValueError, RuntimeError) as error:
                failed["report"] = describe_error(error)
                journal.note(format_trace(error))
                complain(f"inferostatic: report: {describe_error(error)}")
    trusted = _is_trusted(records)
    _show_end(study, command, records, failed, as_json=as_json, reported=report is not None)
    if failed:
        raise typer.Exit(FAILED)
    if strict and not trusted:
        raise typer.Exit(NOT_TRUSTED)


def _perform(step: Any, workshop: Any, steps: list[Any]) -> Any:  # noqa: ANN401
    """Do a step whose predecessors are there."""
    from ..study.events_step import are_complete

    study = workshop.study
    if step.name == "simulate":
        if step.find(study) is not None and not are_complete(study):
            workshop.journal.say("simulate: events are missing in a store and are made again")
            from ..study.events_step import simulate_share

            simulate_share(workshop, None)
        return step.perform(workshop)
    if step.name != "fit" and step.find(study) is None:
        trained = next(one for one in steps if one.name == "fit")
        if trained.find(study) is None:
            raise ValueError(
                "there is no estimator of these settings yet: `inferostatic fit "
                f"{study.folder}` trains it."
            )
    return step.perform(workshop)


def _write_report(study: Any, failed: dict[str, str]) -> dict[str, Any]:  # noqa: ANN401
    from ..study.assemble import write_study_report

    return write_study_report(study, plan_or_end(study), failed)


def _find_user_trace(study: Any, error: Exception) -> str:  # noqa: ANN401
    from ..simulator_file import find_trace

    table = study.table.simulator
    if table.file is None:
        return ""
    return find_trace(error, str(study.folder / table.file)).rstrip()


def _is_trusted(records: dict[str, Any]) -> bool:
    found = records.get("diagnose")
    return found is None or bool(found.numbers.get("passed"))


def _say_why_nothing(command: str) -> str:
    return {
        "diagnose": "there is nothing to check with: set simulate.validation in study.toml.",
        "infer": "study.toml asks for nothing: it needs [infer] with data and a question, such as "
        "[infer.maximum_likelihood].",
        "reweight": "study.toml asks for nothing: it needs [[reweight]].",
    }.get(command, "study.toml asks for nothing.")


def _show_end(
    study: Any,  # noqa: ANN401
    command: str,
    records: dict[str, Any],
    failed: dict[str, str],
    *,
    as_json: bool,
    reported: bool,
) -> None:
    from ..study.progress import suggest_next

    advice = suggest_next(study, plan_or_end(study), failed=bool(failed))
    if as_json:
        show_json(
            {
                "study": str(study.folder),
                "command": command,
                "steps": {
                    title: {
                        "step": record.step,
                        "numbers": record.numbers,
                        "warnings": record.warnings,
                        "seconds": record.seconds,
                        "finished": record.finished,
                    }
                    for title, record in records.items()
                },
                "failed": failed,
                "report": str(study.report) if reported else None,
                "next": advice,
            }
        )
        return
    lines = []
    for title, record in records.items():
        lines += [f"== {title}", record.text, ""]
    for title, reason in failed.items():
        lines += [f"== {title}: FAILED", reason, ""]
    if reported:
        lines.append(f"report: {Path(study.report)}")
    show("\n".join([*lines, f"next: {advice}"]))
