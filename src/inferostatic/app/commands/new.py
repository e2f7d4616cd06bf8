"""`inferostatic new`: a folder with a study that runs as it is."""

import contextlib
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ...files import write_whole
from .endings import fail, show, show_json

#: Files of every study.
STUDY = ("study.toml", "simulator.py")
#: The question of a new study that the core alone cannot answer, and what stands there without it.
QUESTION = "[infer.maximum_likelihood]"
WITHOUT = f"# {QUESTION}             # needs pip install 'inferostatic[inference]'"


def new(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder to make.")],
    *,
    snakemake: Annotated[
        bool, typer.Option("--snakemake", help="Write a Snakefile that calls the steps as well.")
    ] = False,
    slurm: Annotated[
        bool, typer.Option("--slurm", help="Write a script for a SLURM job array as well.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write a commented study.toml and a simulator that runs as it is.

    Nothing that is there is overwritten.

    Exit status: 0, 1 if the files could not be written, 2 for wrong arguments.
    """
    names = [*STUDY, *(["Snakefile"] if snakemake else []), *(["slurm.sh"] if slurm else [])]
    target = Path(folder)
    _require_room(target, folder, names)
    source = resources.files("inferostatic.app") / "templates"
    written: list[Path] = []
    made = not target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in names:
            written.append(target / name)
            write_whole(target / name, _fit_to_installation((source / name).read_bytes()))
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        if made:
            with contextlib.suppress(OSError):
                target.rmdir()
        fail(error)
    if as_json:
        show_json({"study": folder, "files": [str(path) for path in written]})
        return
    lines = [f"wrote {', '.join(str(path) for path in written)}"]
    if not _has_minuit():
        lines.append(
            f"{QUESTION} is left out, because iminuit is not installed: "
            "pip install 'inferostatic[inference]'"
        )
    lines.append(f"next: inferostatic run {folder}, which takes a minute or two as it is")
    show("\n".join(lines))


def _has_minuit() -> bool:
    return find_spec("iminuit") is not None


def _fit_to_installation(text: bytes) -> bytes:
    """A template, without the question that needs a package which is not there."""
    return text if _has_minuit() else text.replace(QUESTION.encode(), WITHOUT.encode())


def _require_room(target: Path, given: str, names: list[str]) -> None:
    """Refuse what is no name of a folder, and files that would be overwritten."""
    if not given or "\0" in given:
        raise typer.BadParameter(f"{given!r} is no name of a folder.", param_hint="FOLDER")
    try:
        if target.is_symlink() and not target.exists():
            raise typer.BadParameter(f"{given!r} is a link to nothing.", param_hint="FOLDER")
        if target.exists() and not target.is_dir():
            raise typer.BadParameter(f"{given!r} is no folder.", param_hint="FOLDER")
        taken = [name for name in names if (target / name).exists() or (target / name).is_symlink()]
    except OSError as error:
        text = f"{given!r} is no name of a folder: {error.strerror}."
        raise typer.BadParameter(text, param_hint="FOLDER") from None
    if taken:
        raise typer.BadParameter(
            f"{given!r} has {', '.join(taken)} already, which stay as they are; give another "
            "folder.",
            param_hint="FOLDER",
        )
