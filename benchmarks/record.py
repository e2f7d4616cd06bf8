"""Results of benchmarks in files, with when, with what and on what they were measured."""

import json
import multiprocessing
import os
import platform
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).parent.absolute() / "results"


class Log:
    """Rows of a result file, written as they come, so that nothing is lost or done twice."""

    def __init__(self, path: Path, *, fresh: bool, hidden: tuple[str, ...] = ()) -> None:
        self.path, self.hidden = path, hidden
        self.rows: list[dict[str, Any]] = []
        if self.path.exists() and not fresh:
            self.rows = json.loads(self.path.read_text())["rows"]

    def has(self, key: dict[str, Any]) -> bool:
        """Whether it was measured."""
        return bool(self._with(key))

    def _with(self, key: dict[str, Any]) -> list[dict[str, Any]]:
        return [row for row in self.rows if key.items() <= row.items()]

    def row(self, key: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The row with this key, measured unless it is there already."""
        for row in self._with(key):
            return row
        return self.add(key | measure() | {"device": device_name()})

    def measure(
        self,
        keys: list[dict[str, Any]],
        measure: Callable[..., dict[str, Any]],
        *,
        processes: int = 1,
    ) -> None:
        """The rows of all keys, by several processes, which a GPU shares well among small jobs."""
        missing = [key for key in keys if not self.has(key)]
        if processes == 1:
            for key in missing:
                self.row(key, lambda k=key: measure(**k))
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, context) as pool:
            waiting = {pool.submit(measure, **key): key for key in missing}
            for done in as_completed(waiting):
                self.add(waiting[done] | done.result() | {"device": device_name()})

    def add(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row more, written at once."""
        self.rows.append(row)
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps({"made": made(), "rows": self.rows}, indent=1) + "\n")
        told = {name: value for name, value in row.items() if name not in self.hidden}
        print("  ".join(f"{name} {shown(value)}" for name, value in told.items()), flush=True)
        return row


def shown(value: object) -> str:
    """A number with four digits, anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def made() -> dict[str, Any]:
    """When, with what and on what this was measured."""
    packages = ("inferostatic", "jax", "equinox", "optax", "numpy", "scipy")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: metadata.version(name) for name in packages if _installed(name)},
        "python": platform.python_version(),
        "device": device_name(),
        "cores": os.cpu_count(),
    }


def device_name() -> str:
    """The model of the GPU, or of the processor where there is none."""
    import jax

    device = jax.devices()[0]
    return device.device_kind if device.platform != "cpu" else processor()


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def processor() -> str:
    """The name of the processor where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
