"""Print the oldest versions that `pyproject.toml` allows, as constraints for pip.

Direct dependencies only: what these bring along is as new as they allow.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
#: Extras with which the tests are run.
EXTRAS = ("inference", "flows", "readers", "numpyro", "processes", "dask", "export", "sklearn")


def oldest(requirement: Requirement) -> str:
    """The lower bound of a requirement, such as `2.1` of `numpy>=2.1,<3`."""
    (bound,) = (one.version for one in requirement.specifier if one.operator in (">=", "=="))
    return bound


def list_oldest(project: Path = PROJECT) -> Iterator[str]:
    """A line for each direct dependency; where two bounds are stated, the higher one counts."""
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    extras = table["optional-dependencies"]
    texts = [*table["dependencies"], *extras["test"]]
    texts += [text for extra in EXTRAS for text in extras[extra]]
    bounds: dict[str, list[str]] = {}
    for requirement in map(Requirement, texts):
        bounds.setdefault(requirement.name, []).append(oldest(requirement))
    for name, versions in bounds.items():
        yield f"{name}=={max(versions, key=_parts)}"


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


if __name__ == "__main__":
    print("\n".join(list_oldest()))
