"""The command line: parse, call the library, write files."""

import os
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Inference from simulators by learned scores and likelihood ratios.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(show: bool) -> bool:  # noqa: FBT001 (typer's callback)
    if show:
        typer.echo(metadata.version("inferostatic"))
        raise typer.Exit
    return show


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print and exit.")
    ] = False,
) -> None:
    """Inference from simulators by learned scores and likelihood ratios."""
    del version


@app.command()
def paper(
    *,
    out: Annotated[Path, typer.Option(help="Folder for table.json, figures and index.html.")],
    instances: Annotated[int, typer.Option(min=1, help="Training sets and networks each.")] = 5,
    events: Annotated[int, typer.Option(min=20, help="Size of every event set.")] = 100_000,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over a training set.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Everything random follows from it.")] = 0,
) -> None:
    """Reproduce the experiment of arXiv:2210.01680: table, figures and a report."""
    from ..paper.experiment import reproduce
    from ..paper.report import text_table, write_results

    # Raised before minutes of work, not after.
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file; give a folder.", param_hint="--out")
    out.mkdir(parents=True, exist_ok=True)
    results = reproduce(instances=instances, events=events, epochs=epochs, seed=seed)
    typer.echo(text_table(results))
    report = write_results(results, out)
    typer.echo(f"\nReport: {report}")


def keep_compilations() -> None:
    """Let JAX keep compiled code between runs, by default in the user's cache folder."""
    import jax

    if jax.config.values["jax_compilation_cache_dir"] is None:
        folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "inferostatic"
        jax.config.update("jax_compilation_cache_dir", str(folder))


def main() -> None:
    """Entry point of the command `inferostatic`."""
    keep_compilations()
    app()
