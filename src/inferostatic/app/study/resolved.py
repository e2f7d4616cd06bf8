"""The resolved configuration in the run folder: all settings, seeds and versions, as JSON."""

import platform
from importlib import metadata
from typing import Any

from ...files import write_whole
from ...versions import find_version
from .folder import Study

#: Its name in the run folder.
CONFIG = "config.json"
#: Packages whose versions are kept.
PACKAGES = ("inferostatic", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "pyarrow")


def resolve(study: Study) -> dict[str, Any]:
    """All settings, with defaults."""
    return {
        "settings": study.table.model_dump(mode="json"),
        "seeds": study.seeds,
        "simulator": study.simulator_identity,
        "versions": list_versions(),
    }


def list_versions() -> dict[str, str]:
    """Versions of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = find_version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def write_resolved(study: Study) -> None:
    """Keep it in the run folder."""
    import json

    text = json.dumps(resolve(study), indent=1, allow_nan=False)
    write_whole(study.run / CONFIG, text.encode("ascii") + b"\n")
