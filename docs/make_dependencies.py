"""Makes the tables of `docs/dependencies.md` out of what is installed.

Run `python docs/make_dependencies.py`, or `make dependencies`, in an environment that has the
versions of `constraints.txt`. Licences are those that the packages state in their metadata.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "dependencies.md"
#: Extras for users, in the order of the page, and those for development.
EXTRAS = ("inference", "flows", "readers", "numpyro", "processes", "dask", "export", "sklearn")
DEVELOPMENT = ("test", "simulators", "lint", "docs")
#: Names of licences in the words of SPDX, for the sentences that metadata hold instead.
LICENCES = {
    "apache 2.0": "Apache-2.0",
    "apache license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd": "BSD",
    "bsd license": "BSD",
    "bsd 3-clause license": "BSD-3-Clause",
    "modified bsd license": "BSD-3-Clause",
    "gnu gpl v2 or later": "GPL-2.0-or-later",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "the mit license (mit)": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}
#: A licence, or several, as SPDX writes them.
SPDX = re.compile(r"(MIT|[A-Za-z]+-[\w.-]*\d[\w.-]*)( (AND|OR) (MIT|[A-Za-z]+-[\w.-]*\d[\w.-]*))*")
#: Comes with Python's own environments, in a version of theirs.
OWN = "setuptools"
HEAD = """\
# Dependencies and their licences

What is installed with the library, with each extra and for development.
The versions are those of `constraints.txt`, with which the tests are run on Python 3.11 and Linux.
The licences are those that the packages state themselves.
The extras `simulators` and `test` are for the tests, and the library imports nothing of them.
This page is written by `make dependencies`, and a test compares it with what is installed.
"""


class StaleError(RuntimeError):
    """The environment does not have the versions of constraints.txt."""


class Row(NamedTuple):
    """A package that is named in pyproject.toml (`allowed` is its range), or brought along."""

    name: str
    allowed: str
    version: str
    licence: str


def read_constraints() -> dict[str, str]:
    """Exact version of each package."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def read_requirements() -> dict[str, list[Requirement]]:
    """What pyproject.toml names: under `core`, and under each extra that names packages."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"core": table["dependencies"]}
    groups |= {name: table["optional-dependencies"][name] for name in (*EXTRAS, *DEVELOPMENT)}
    return {name: [Requirement(text) for text in texts] for name, texts in groups.items()}


def find_distribution(name: str, constraints: Mapping[str, str]) -> metadata.Distribution:
    """Metadata of a package with its version in constraints.txt; raises StaleError otherwise."""
    expected = constraints.get(canonicalize_name(name))
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise StaleError(f"{name} is not installed; constraints.txt has {expected}.") from None
    if found.version != expected:
        raise StaleError(f"{name} {found.version} is installed; constraints.txt has {expected}.")
    return found


def read_licence(found: metadata.Distribution) -> str:
    """Name of the licence: the expression, the field, a classifier, or the first words of it."""
    about = found.metadata
    expression = about.get("License-Expression")
    if expression:
        return expression
    field = (about.get("License") or "").partition("\n")[0].strip()
    listed = [text for text in about.get_all("Classifier") or () if text.startswith("License ::")]
    named = [_shorten(text.rpartition(" :: ")[2]) for text in listed]
    # A classifier says BSD of all its kinds, and the field often which; some hold the whole text.
    if field.lower() in LICENCES or SPDX.fullmatch(field):
        return _shorten(field)
    if named:
        return " AND ".join(dict.fromkeys(named))
    for file in found.files or ():
        if re.search(r"licen[cs]e", file.name, re.IGNORECASE):
            opening = " ".join(file.read_text(encoding="utf-8").split()[:4])
            if opening.startswith("Apache License Version 2.0"):
                return "Apache-2.0"
            if opening.startswith("MIT License"):
                return "MIT"
    raise RuntimeError(f"{found.name} states no licence; look for it and add a rule here.")


def _shorten(text: str) -> str:
    return LICENCES.get(text.lower(), text)


def list_brought(
    requirements: Iterable[Requirement], constraints: Mapping[str, str], known: set[str]
) -> Iterator[str]:
    """Names of what these packages need, and so on, without those known, which grow."""
    waiting = [(one.name, frozenset(one.extras)) for one in requirements]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        if canonicalize_name(name) not in known:
            known.add(canonicalize_name(name))
            yield name
        found = find_distribution(name, constraints)
        for requirement in map(Requirement, found.requires or ()):
            marker = requirement.marker
            wanted = marker is None or any(
                marker.evaluate({"extra": extra}) for extra in (extras or {""})
            )
            following = (requirement.name, frozenset(requirement.extras))
            if wanted and following not in seen and requirement.name != OWN:
                seen.add(following)
                waiting.append(following)


def make_table(rows: Iterable[Row]) -> str:
    """Rows in the order of names; ranges where there are any."""
    ordered = sorted(rows, key=lambda row: canonicalize_name(row.name))
    titles = Row("package", "allowed", "tested", "licence")
    table = [titles, Row(*["---"] * len(titles)), *ordered]
    if not any(row.allowed for row in ordered):
        table = [(row.name, row.version, row.licence) for row in table]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def make_page() -> str:
    """The whole page."""
    constraints, groups = read_constraints(), read_requirements()

    def row(name: str, allowed: str) -> Row:
        found = find_distribution(name, constraints)
        return Row(found.name, allowed, found.version, read_licence(found))

    parts = [HEAD]
    known = {canonicalize_name(one.name) for group in groups.values() for one in group}
    sections = {"Core": ("core",), "Extras": EXTRAS, "Development": DEVELOPMENT}
    for title, names in sections.items():
        parts.append(f"## {title}\n")
        for name in names:
            if name != "core":
                parts.append(f"### `{name}`\n")
            direct = [(one.name, str(one.specifier)) for one in groups[name]]
            ranges = {one: ", ".join(sorted(text.split(","), reverse=True)) for one, text in direct}
            parts.append(make_table(row(one, text) for one, text in ranges.items()) + "\n")
        named = [one for name in names for one in groups[name]]
        brought = [row(name, "") for name in list_brought(named, constraints, known)]
        parts.append(f"### Brought along by these{' extras' * (title == 'Extras')}\n")
        parts.append(make_table(brought) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
