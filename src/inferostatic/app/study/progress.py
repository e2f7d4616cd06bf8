"""How far a study is, and what to do next; reads files alone."""

from collections.abc import Sequence
from typing import Any

from .events_step import count_wanted, find_stores
from .folder import Study
from .step import StudyStep


def describe_progress(study: Study, steps: Sequence[StudyStep]) -> dict[str, Any]:
    """The state of every step and store, as JSON has it."""
    wanted = count_wanted(study)
    stores = {
        which: {
            "path": str(study.store(which)),
            "events": wanted[which],
            "present": 0 if found is None else min(found.present, wanted[which]),
            "missing_parts": None if found is None else len(found.missing),
            "damaged_parts": None if found is None else len(found.damaged),
            "failed_parts": None if found is None else len(found.failed),
        }
        for which, found in find_stores(study).items()
    }
    states = []
    for step in steps:
        record = step.find(study)
        begun = step.folder(study).is_dir()
        state = "done" if record is not None else "begun" if begun else "missing"
        if step.name == "simulate" and state != "done":
            state = "begun" if any(one["present"] for one in stores.values()) else "missing"
        states.append(
            {
                "step": step.name,
                "title": step.title,
                "state": state,
                "seconds": None if record is None else record.seconds,
                "finished": None if record is None else record.finished,
                "warnings": 0 if record is None else len(record.warnings),
            }
        )
    complete = all(one["state"] == "done" for one in states) and all(
        store["present"] >= store["events"] for store in stores.values()
    )
    return {
        "study": str(study.folder),
        "title": study.title,
        "steps": states,
        "stores": stores,
        "report": str(study.report) if study.report.is_file() else None,
        "complete": complete,
        "next": suggest_next(study, steps),
    }


def suggest_next(study: Study, steps: Sequence[StudyStep], *, failed: bool = False) -> str:
    """What to do next."""
    if failed:
        return (
            f"mend what failed and call `inferostatic run {study.folder}` again; tracebacks are "
            f"in {study.run / 'log.txt'}"
        )
    for step in steps:
        if step.find(study) is None:
            return (
                f"`inferostatic {step.name} {study.folder}` does the next step, `inferostatic run "
                f"{study.folder}` all of them"
            )
    if not study.report.is_file():
        return f"`inferostatic report {study.folder}` writes the report"
    return f"open {study.report}"


def summarise(progress: dict[str, Any]) -> str:
    """The state in lines."""
    lines = [f"study {progress['title']} in {progress['study']}"]
    for which, store in progress["stores"].items():
        lines.append(f"{which} events: {store['present']:,} of {store['events']:,}")
    width = max(len(step["title"]) for step in progress["steps"])
    for step in progress["steps"]:
        more = f", {step['finished']}, {step['seconds']:.1f} s" if step["finished"] else ""
        if step["warnings"]:
            more += f", {step['warnings']} warning{'s' if step['warnings'] > 1 else ''}"
        lines.append(f"  {step['title'].ljust(width)}  {step['state']}{more}")
    lines.append(f"report: {progress['report'] or 'none yet'}")
    return "\n".join([*lines, f"next: {progress['next']}"])
