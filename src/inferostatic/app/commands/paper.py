"""`inferostatic paper`: the reproduction of the paper."""

import json
from typing import Annotated

import typer

from ...inputs import in_short
from ..streams import INTERRUPTED, complain, hold_interrupts, say


def paper(
    *,
    out: Annotated[str, typer.Option(help="Folder for table.json, figures and index.html.")],
    instances: Annotated[int, typer.Option(help="Training sets and networks each.")] = 5,
    events: Annotated[int, typer.Option(help="Size of every event set.")] = 100_000,
    epochs: Annotated[int, typer.Option(help="Passes over a training set.")] = 20,
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Reproduce the experiment of arXiv:2210.01680: table, figures and a report.

    Exit status: 0, 1 if a file could not be written or the table not be shown, 2 for wrong
    arguments, 130 after Ctrl-C.
    """
    settings = {"instances": instances, "events": events, "epochs": epochs, "seed": seed}
    # All that can be refused is refused before minutes of work, not after.
    try:
        import jax

        jax.devices()
        from ...paper.experiment import check_settings, reproduce
        from ...paper.report import prepare_folder, text_table, write_results
    except (ImportError, RuntimeError, ValueError) as error:
        raise typer.BadParameter(
            f"JAX or matplotlib cannot start here ({in_short(error)}); see the environment "
            "variables JAX_PLATFORMS and MPLBACKEND."
        ) from error
    try:
        check_settings(**settings)
    except ValueError as error:
        name = str(error).split(" ", 1)[0]
        hint = f"--{name}" if name in settings else None
        raise typer.BadParameter(str(error), param_hint=hint) from error
    try:
        folder = prepare_folder(out)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--out") from error
    results = reproduce(instances=instances, events=events, epochs=epochs, seed=seed)
    table = text_table(results)
    with hold_interrupts() as interrupts:
        try:
            report = write_results(results, folder)
        except OSError as error:
            say(table)
            complain(f"The files could not be written to {folder}: {error}. The table is above.")
            raise typer.Exit(1) from error
    told = f"{table}\n\nReport: {report}"
    if as_json:
        told = json.dumps({**results.table(), "report": str(report)}, indent=1)
    trouble = say(told)
    if trouble is not None:
        complain(f"The table could not be shown ({trouble}); the report is {report}.")
        raise typer.Exit(1)
    if interrupts:
        complain(f"Interrupted when all was done; the report is {report}.")
        raise typer.Exit(INTERRUPTED)
