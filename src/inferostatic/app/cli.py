"""The command line: parse, call the library, write files."""

import sys
from typing import Annotated

import typer

from ..versions import __version__
from .commands.citation import BIBTEX
from .commands.compare import compare
from .commands.info import info
from .commands.new import new
from .commands.paper import paper
from .commands.simulation import simulate, status
from .commands.steps import diagnose, fit, infer, report, reweight, run
from .streams import complain, end_on_interrupt, flush_streams, prepare_streams

app: typer.Typer = typer.Typer(
    help="Inference from simulators by learned scores and likelihood ratios.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain text: paragraphs are filled, and any terminal and log can show it.
    rich_markup_mode=None,
)


def _version(show: bool) -> bool:  # noqa: FBT001 (typer's callback)
    if show:
        typer.echo(__version__)
        raise typer.Exit
    return show


def _cite(show: bool) -> bool:  # noqa: FBT001 (typer's callback)
    if show:
        typer.echo(BIBTEX.format(version=__version__))
        raise typer.Exit
    return show


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print and exit.")
    ] = False,
    cite: Annotated[
        bool,
        typer.Option("--cite", callback=_cite, is_eager=True, help="Print BibTeX and exit."),
    ] = False,
) -> None:
    """Inference from simulators by learned scores and likelihood ratios."""
    del version, cite


for _command in (
    new,
    run,
    simulate,
    fit,
    diagnose,
    infer,
    reweight,
    report,
    status,
    compare,
    info,
    paper,
):
    # Else it is cut in the list of commands.
    app.command(short_help=(_command.__doc__ or "").partition("\n")[0])(_command)


def main() -> None:
    """Entry point of the command `inferostatic`."""
    prepare_streams()
    end_on_interrupt()
    try:
        app()
    except OSError as error:  # a stream that cannot be written, at --help for example
        complain(f"inferostatic: {error}")
        flush_streams()
        sys.exit(1)
    finally:
        flush_streams()
