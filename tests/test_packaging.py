"""What is stated about the package agrees: versions, extras, ranges, licences, classifiers."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import inferostatic as ist
import oldest_versions
from inferostatic.packages import import_package
from inferostatic.versions import find_version
from optional import EXTRAS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "inferostatic"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TABLE: dict[str, Any] = PROJECT["project"]
OPTIONAL: dict[str, list[str]] = TABLE["optional-dependencies"]
#: Extras of developers; all others are for users.
DEVELOPMENT = {"all", "test", "simulators", "lint", "docs", "dev"}
#: Packages by the names under which they are imported, where those differ.
IMPORTED_AS = {"scikit-learn": "sklearn"}
#: Imported together with a package of the same extra or of the core, of which it is a part.
PARTS = {"distributed": "dask", "markupsafe": "jinja2", "jaxlib": "jax"}


def names_of(texts: list[str]) -> set[str]:
    names = {Requirement(text).name for text in texts}
    return {IMPORTED_AS.get(name, name) for name in names}


def read_constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def load_page_maker() -> ModuleType:
    path = ROOT / "docs" / "make_dependencies.py"
    found = importlib.util.spec_from_file_location("make_dependencies", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


# Versions.


def test_the_version_is_in_one_place() -> None:
    assert "version" not in TABLE
    assert TABLE["dynamic"] == ["version"]
    file = ROOT / PROJECT["tool"]["hatch"]["version"]["path"]
    found = re.findall(r'^__version__ = "(.*)"$', file.read_text(encoding="utf-8"), re.MULTILINE)
    assert found == [ist.__version__]
    stated = [
        path.name for path in SOURCE.rglob("*.py") if ist.__version__ in path.read_text("utf-8")
    ]
    assert stated == [file.name]


def test_files_name_the_version_that_runs() -> None:
    """Not that of an earlier installation, nor none where sources are on the path."""
    assert find_version("inferostatic") == ist.__version__
    assert find_version("jax") == jax.__version__
    for path in sorted(SOURCE.rglob("*.py")):
        assert 'version("inferostatic")' not in path.read_text("utf-8"), path


def test_the_citation_is_of_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", text, re.MULTILINE) == [ist.__version__]


def test_exact_versions_lie_in_the_ranges() -> None:
    constraints = read_constraints()
    texts = [*TABLE["dependencies"], *(text for group in OPTIONAL.values() for text in group)]
    for requirement in map(Requirement, texts):
        if requirement.name != "inferostatic":
            version = constraints[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), f"{requirement}: {version}"


def test_every_range_has_both_bounds() -> None:
    """So that the oldest versions can be installed, and no untested later ones."""
    users = [text for name, group in OPTIONAL.items() if name not in DEVELOPMENT for text in group]
    for requirement in map(Requirement, [*TABLE["dependencies"], *users]):
        assert sorted(one.operator for one in requirement.specifier) == ["<", ">="]


def test_the_oldest_versions_are_the_lower_bounds() -> None:
    oldest = {one.name: one for one in map(Requirement, oldest_versions.list_oldest())}
    groups = [TABLE["dependencies"], OPTIONAL["test"], *(OPTIONAL[extra] for extra in EXTRAS)]
    bounds: dict[str, set[str]] = {}
    for requirement in (Requirement(text) for group in groups for text in group):
        (version,) = (one.version for one in oldest[requirement.name].specifier)
        assert requirement.specifier.contains(version)
        stated = {one.version for one in requirement.specifier if one.operator == ">="}
        bounds.setdefault(requirement.name, set()).update(stated)
    for name, versions in bounds.items():
        assert str(oldest[name].specifier).removeprefix("==") in versions
    assert oldest.keys() == bounds.keys()


def test_carried_packages_have_exact_versions() -> None:
    lines = (ROOT / "tests" / "carried.txt").read_text(encoding="utf-8").splitlines()
    names = {canonicalize_name(line) for line in lines if not line.startswith("#")}
    assert names <= read_constraints().keys()


def test_classifiers_name_what_was_tested() -> None:
    stated = set(TABLE["classifiers"])
    assert "Operating System :: POSIX :: Linux" in stated
    assert {text for text in stated if text.startswith("Programming Language")} == {
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
    }
    assert "macOS and Windows are untested" in (ROOT / "docs" / "install.md").read_text("utf-8")


# Extras.


def test_the_extras_are_these() -> None:
    assert set(OPTIONAL) == DEVELOPMENT | EXTRAS.keys()
    for name, packages in EXTRAS.items():
        assert names_of(OPTIONAL[name]) == {PARTS.get(one, one) for one in packages}
    (everything,) = OPTIONAL["all"]
    assert Requirement(everything).extras == EXTRAS.keys()


def test_the_page_has_every_extra() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [*EXTRAS, "all"]


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Modules that a file imports, and whether it does so on its own import."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    branches = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    skipped = [node for node in branches if ast.unparse(node.test) == "TYPE_CHECKING"]
    hidden = {id(child) for node in skipped for one in node.body for child in ast.walk(one)}
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.col_offset == 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or "", node.col_offset == 0


def test_imports_are_of_the_core_or_of_an_extra() -> None:
    core = names_of(TABLE["dependencies"]) | sys.stdlib_module_names | {"inferostatic"}
    extra = {name for names in EXTRAS.values() for name in names}
    at_once: set[str] = set()
    for path in sorted(SOURCE.rglob("*.py")):
        for module, first in imports_of(path):
            name = module.partition(".")[0]
            name = PARTS.get(name, name)
            assert name in core | extra, f"{path.name} imports {module}"
            if name in extra and first:
                at_once.add(path.relative_to(SOURCE).as_posix())
    # These are imported by functions that have asked for the package before.
    assert at_once <= {"models/flows/mixture_flow.py", "export/ratio_regressor.py"}


def test_messages_name_the_extra_that_has_the_package() -> None:
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "import_package":
                module, extra = (
                    ast.literal_eval(part) for part in (_opening(node.args[0]), node.args[2])
                )
                assert module.rstrip(".") in EXTRAS[extra], f"{path.name}: {module}, {extra}"
                found.add(extra)
        for extra in re.findall(r"pip install '?inferostatic\[(\w+)\]", path.read_text("utf-8")):
            assert extra in EXTRAS
            found.add(extra)
    assert found == EXTRAS.keys()


def _opening(node: ast.expr) -> ast.expr:
    """The constant of a string, or the first part of one that is formatted."""
    return node.values[0] if isinstance(node, ast.JoinedStr) else node


@pytest.mark.parametrize(
    ("name", "extra"), [(name, extra) for extra, names in EXTRAS.items() for name in names]
)
def test_a_missing_package_names_the_command(
    name: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError) as caught:
        import_package(name, "this uses it", extra)
    assert str(caught.value) == f"this uses it: pip install 'inferostatic[{extra}]'"


# Licences.


def test_the_page_of_dependencies_is_current() -> None:
    maker = load_page_maker()
    try:
        page = maker.make_page()
    except maker.StaleError as error:
        pytest.skip(f"needs the versions of constraints.txt: {error}")
    assert page == maker.PAGE.read_text(encoding="utf-8"), "run `make dependencies`"


# Types.

#: A file that users get as it is, and what inherits from scikit-learn, which states no types.
UNTYPED = (
    "inferostatic.app.templates.simulator.simulator",
    "inferostatic.export.RatioRegressor",
    "inferostatic.export.ratio_regressor.RatioRegressor",
)


@pytest.mark.slow
def test_the_types_of_the_package_are_complete() -> None:
    """As other projects see them, which check their own calls against py.typed."""
    pytest.importorskip("pyright")
    environment = os.environ | {
        "VIRTUAL_ENV": sys.prefix,
        "PATH": f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
    }
    command = [sys.executable, "-m", "pyright", "--verifytypes", "inferostatic", "--outputjson"]
    answer = subprocess.run(
        [*command, "--ignoreexternal"], env=environment, capture_output=True, text=True, check=False
    )
    found = json.loads(answer.stdout)["typeCompleteness"]
    symbols = [one for one in found["symbols"] if one["isExported"]]
    assert len(symbols) > 5000
    unknown = [one["name"] for one in symbols if not one["isTypeKnown"]]
    assert set(unknown) <= set(UNTYPED)
