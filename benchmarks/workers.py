"""Trainings in processes of their own, possibly in another environment, by files of arrays."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).parent.parent.absolute()
FOLDER: Final = ROOT / "benchmarks" / "peers"
PEER_PYTHON: Final = ROOT / ".venv-peers/bin/python"

Arrays = dict[str, np.ndarray]


def ask_peer(peer: str, given: Mapping[str, Any], seed: int, cores: Sequence[int] = ()) -> Arrays:
    """What another package writes after its training, in .venv-peers."""
    if not PEER_PYTHON.exists():
        raise SystemExit("The other packages are not installed: run `make .venv-peers`.")
    line = [str(PEER_PYTHON), str(FOLDER / "accuracy_worker.py"), peer]
    return _ask(line, given, seed, cores, {})


def ask_checkout(
    checkout: Path,
    given: Mapping[str, Any],
    seed: int,
    cores: Sequence[int] = (),
    *,
    effort: float = 1.0,
    programs: str | None = None,
) -> Arrays:
    """What a default fit of a checkout of this library writes.

    Compiled programs are kept in the folder `programs`; without it all are compiled anew.
    """
    path = [str(checkout / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {
        "PYTHONPATH": os.pathsep.join(part for part in path if part),
        "JAX_ENABLE_COMPILATION_CACHE": "false" if programs is None else "true",
        "INFEROSTATIC_PROGRESS": "0",
    }
    if programs is not None:
        environment["XDG_CACHE_HOME"] = programs
    line = [sys.executable, str(FOLDER / "default_fit_worker.py"), "--effort", str(effort)]
    return _ask(line, given, seed, cores, environment)


def _ask(
    line: list[str],
    given: Mapping[str, Any],
    seed: int,
    cores: Sequence[int],
    environment: Mapping[str, str],
) -> Arrays:
    pinned = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    # Installed packages come with their byte code; a checkout keeps its own after the first import.
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(source, **given)
        # In the folder, because sbi writes its logs wherever it is started.
        done = subprocess.run(
            [*pinned, *line, str(source), str(target), "--seed", str(seed)],
            cwd=folder,
            env={**inherited, **environment},
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(line)} failed:\n{done.stderr}")
        with np.load(target) as file:
            return dict(file)
