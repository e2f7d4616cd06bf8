"""The report of a study, from the files that its steps left."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...files import write_whole
from ...report.html import write_report
from ...report.section import Section, Table
from ...report.section_files import load_sections
from .folder import Study
from .record import StepRecord
from .resolved import list_versions, resolve
from .step import SECTIONS, StudyStep

#: The numbers of the report, beside it.
NUMBERS = "report.json"


def write_study_report(
    study: Study, steps: Sequence[StudyStep], failed: Mapping[str, str]
) -> dict[str, Any]:
    """Write `report.html`, and `report.json` with its numbers, which is returned."""
    found = {step.title: (step, step.find(study)) for step in steps}
    done = {title: record for title, (_, record) in found.items() if record is not None}
    if not done:
        raise ValueError(
            f"there is nothing to report yet: `inferostatic run {study.folder}` does all steps."
        )
    missing = [title for title, (_, record) in found.items() if record is None]
    sections = [_describe_question(study, missing, failed), *_tabulate_answers(study, done)]
    for step, record in found.values():
        if record is not None:
            sections += load_sections(step.folder(study) / SECTIONS)
    sections += _list_warnings(done)
    content = {
        "format": 1,
        "study": study.title,
        "numbers": {title: dict(record.numbers) for title, record in done.items()},
        "missing": missing,
        "failed": dict(failed),
        "warnings": {title: list(one.warnings) for title, one in done.items() if one.warnings},
        **resolve(study),
    }
    write_report(
        study.report,
        title=study.title,
        sections=sections,
        settings=_list_settings(study) | {"versions": _join(list_versions())},
        summary=_summarise(done, missing, failed),
    )
    text = json.dumps(content, indent=1, allow_nan=False)
    write_whole(study.folder / NUMBERS, text.encode("ascii") + b"\n")
    return content


def flatten(settings: Mapping[str, Any], path: str = "") -> dict[str, object]:
    """Settings by names such as `fit.epochs`; defaults that are None are left out."""
    found: dict[str, object] = {}
    for key, value in settings.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            found |= flatten(value, name)
        elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            for number, one in enumerate(value, 1):
                found |= flatten(one, f"{name}[{number}]")
        elif value is not None and value not in ([], ""):
            found[name] = value
    return found


def _list_settings(study: Study) -> dict[str, object]:
    """All settings but those of the other kinds of simulators."""
    found = flatten(study.table.model_dump(mode="json"))
    is_program = study.table.simulator.command is not None
    for key in ("function",) if is_program else ("theta", "x", "deterministic"):
        found.pop(f"simulator.{key}", None)
    return found


def _summarise(
    done: Mapping[str, StepRecord], missing: Sequence[str], failed: Mapping[str, str]
) -> str:
    """What is not in the verdicts of the sections, in words."""
    parts = []
    if "diagnose" not in (*done, *missing):
        parts.append("The estimator was not checked: there are no validation events.")
    if failed:
        parts.append(f"These steps failed: {', '.join(failed)}.")
    left = [title for title in missing if title not in failed]
    if left:
        parts.append(f"Not done yet: {', '.join(left)}.")
    return "\n\n".join(parts)


def _describe_question(study: Study, missing: Sequence[str], failed: Mapping[str, str]) -> Section:
    """What was asked."""
    table = study.table
    rows = []
    for name, one in table.prior.items():
        given = one.model_dump(exclude_none=True)
        rows.append([name, _join(given)])
    tables = [Table(header=["parameter", "prior"], rows=rows, caption="Parameters")]
    trouble = [
        [title, failed.get(title, "not done yet")] for title in {**dict.fromkeys(missing), **failed}
    ]
    if trouble:
        tables.append(Table(header=["step", "what is missing"], rows=trouble, caption="Missing"))
    simulator = table.simulator
    source = simulator.file or simulator.module or " ".join(simulator.command or ())
    lines = [
        f"The simulator is {source}. It made {table.simulate.events:,} events to train on and "
        f"{table.simulate.validation:,} to check the estimator."
    ]
    if table.infer is not None and table.infer.data is not None:
        lines.append(f"The observed events are those of {table.infer.data}.")
    elif table.infer is not None and table.infer.simulated is not None:
        simulated = table.infer.simulated
        lines.append(
            f"In place of observed events {simulated.events:,} were simulated at "
            f"{_join(simulated.theta)}."
        )
    return Section("What was asked", "\n\n".join(lines), tables)


def _tabulate_answers(study: Study, done: Mapping[str, StepRecord]) -> list[Section]:
    """All answers about each parameter side by side, before the sections with the details."""
    infer = study.table.infer
    truth = {} if infer is None or infer.simulated is None else infer.simulated.theta
    rows = [
        [name, title, *answer, *([truth[name]] if name in truth else [])]
        for name in study.table.prior
        for title, record in done.items()
        if record.step == "infer" and (answer := _find_answer(name, record)) is not None
    ]
    if not rows:
        return []
    header = ["parameter", "question", "estimate", "from", "to", "level"]
    header += ["truth"] if truth else []
    text = (
        "The verdict above says which of them can be relied on; the sections below have the rest."
    )
    return [Section("Answers", text, [Table(header, rows, number_format=".5g")])]


def _find_answer(name: str, record: StepRecord) -> list[str | float | None] | None:
    """Estimate, both ends and level of one parameter; None where it was fixed or not asked for."""
    numbers, settings = record.numbers, record.inputs["settings"]
    level = f"{100 * settings['level']:.3g}%".replace("68.3%", "68%")
    if settings.get("parameter") == name:
        return [None, None, numbers["observed"], level]
    if name not in numbers or numbers.get(f"{name}: error") == 0:
        return None
    ends = [numbers[f"{name}: lower end"], numbers[f"{name}: upper end"]]
    return [numbers[name], *ends, level]


def _list_warnings(done: Mapping[str, StepRecord]) -> list[Section]:
    rows = [[title, text] for title, record in done.items() for text in record.warnings]
    if not rows:
        return []
    table = Table(header=["step", "warning"], rows=rows)
    return [Section("Warnings", "Given while the steps were done.", [table])]


def _join(values: Mapping[str, object]) -> str:
    return ", ".join(
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in values.items()
    )
