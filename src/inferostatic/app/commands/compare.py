"""`inferostatic compare`: the numbers of two runs beside each other."""

import math
from typing import Annotated, Any

import typer

from .endings import show, show_json
from .steps import open_or_end, plan_or_end

#: Differences of settings that are shown.
SHOWN = 20


def compare(
    first: Annotated[str, typer.Argument(metavar="FOLDER", help="A study.")],
    second: Annotated[str, typer.Argument(metavar="FOLDER", help="Another one.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show the numbers of two studies beside each other, and which settings differ.

    Only files are read; no simulator is imported or run.

    Exit status: 0, 2 for wrong arguments or a wrong study.toml.
    """
    from ..study.assemble import flatten

    studies = [open_or_end(first), open_or_end(second)]
    numbers = [_numbers(study) for study in studies]
    settings = [flatten(study.table.model_dump(mode="json")) for study in studies]
    rows = [
        {"number": name, "first": a, "second": b, "difference": _difference(a, b)}
        for name in dict.fromkeys([*numbers[0], *numbers[1]])
        for a, b in [(numbers[0].get(name), numbers[1].get(name))]
    ]
    changed = {
        name: [settings[0].get(name), settings[1].get(name)]
        for name in dict.fromkeys([*settings[0], *settings[1]])
        if settings[0].get(name) != settings[1].get(name)
    }
    same = all(row["difference"] == 0 or row["first"] is row["second"] for row in rows)
    if as_json:
        show_json({"folders": [first, second], "settings": changed, "numbers": rows, "same": same})
        return
    show("\n".join(_describe(rows, changed, first, second, same=same)))


def _numbers(study: Any) -> dict[str, float | None]:  # noqa: ANN401
    found = {}
    for step in plan_or_end(study):
        record = step.find(study)
        if record is not None:
            for name, value in record.numbers.items():
                found[f"{step.title}: {name}"] = value
    return found


def _difference(a: object, b: object) -> float | None:
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return None
    found = b - a
    return found if math.isfinite(found) else None


def _describe(
    rows: list[dict[str, Any]],
    changed: dict[str, list[Any]],
    first: str,
    second: str,
    *,
    same: bool,
) -> list[str]:
    from ...tables import format_table

    lines = [f"{name}: {a!s} and {b!s}" for name, (a, b) in list(changed.items())[:SHOWN]]
    lines = [f"settings that differ ({len(changed)}):", *lines] if lines else ["same settings"]
    if not rows:
        return [*lines, "neither has any numbers yet; next: inferostatic run FOLDER"]
    table = {
        "": [row["number"] for row in rows],
        first: [_show(row["first"]) for row in rows],
        f"{second} ": [_show(row["second"]) for row in rows],
        "difference": [_show(row["difference"]) for row in rows],
    }
    return [*lines, *format_table(table, left=("",)), "all numbers are the same" if same else ""]


def _show(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else "-"
