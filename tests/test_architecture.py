"""The folders of the package are the stages of the data, and imports only ever point back up.

The source is parsed rather than imported, so that imports inside functions and under
`if TYPE_CHECKING:` count as well.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

from inferostatic.serial import REGISTERING

PACKAGE = Path(__file__).parents[1] / "src" / "inferostatic"

HELPERS = "package-level helpers"
LAYERS = (
    HELPERS,
    "world",
    "events",
    "supervision",
    "models",
    "estimator",
    "learning",
    "inference",
    "checks",
    "plots",
    "export",
    "report",
    "paper",
    "app",
)

LOADED_ON_FIRST_USE = (
    "matplotlib",
    "pandas",
    "pyarrow",
    "polars",
    "duckdb",
    "jinja2",
    "typer",
    "rich",
    "pydantic",
    "iminuit",
    "scipy.stats",
    "blackjax",
    "arviz",
    "pyhf",
    "flowjax",
    "h5py",
    "uproot",
    "pylhe",
    "awkward",
    "numpyro",
    "dask",
    "distributed",
    "onnx",
    "onnxruntime",
    "sklearn",
    "torch",
)


def find_modules(root: Path) -> dict[str, Path]:
    """Map dotted module names to files, for every module below the package folder `root`."""
    modules = {}
    for path in sorted(root.rglob("*.py")):
        parts = (root.name, *path.relative_to(root).with_suffix("").parts)
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def find_layer(module: str) -> str:
    """Name the layer of a module: its folder, its own name, or the package-level helpers."""
    name, *inner = module.split(".")[1:]
    return name if inner or name in LAYERS else HELPERS


def find_imports(module: str, modules: dict[str, Path]) -> Iterator[tuple[str, int]]:
    """Yield the modules of this package that `module` imports, each with its line number."""
    path = modules[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package)
            members = [f"{source}.{alias.name}" for alias in node.names]
            targets = [member if member in modules else source for member in members]
        else:
            continue
        for target in targets:
            if target in modules:
                yield target, node.lineno


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules along one import cycle, the first repeated at the end, or nothing."""
    done: set[str] = set()
    trail: list[str] = []

    def visit(module: str) -> list[str]:
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module in done:
            return []
        trail.append(module)
        for target in sorted(graph[module]):
            if cycle := visit(target):
                return cycle
        done.add(trail.pop())
        return []

    for module in sorted(graph):
        if cycle := visit(module):
            return cycle
    return []


def find_violations(root: Path) -> list[str]:
    """Check the package in folder `root` against the layer rule; one sentence for each offence.

    Only the package's own `__init__.py` is exempt: it re-exports every layer, and for that
    reason no other module may import names from it.
    """
    modules = find_modules(root)
    violations = []
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        if module == root.name:
            continue
        graph[module] = set()
        layer = find_layer(module)
        if layer not in LAYERS:
            violations.append(f"{path.relative_to(root)}: the folder {layer} is not a layer")
            continue
        for target, line in find_imports(module, modules):
            where = f"{path.relative_to(root)}:{line}"
            if target == root.name:
                violations.append(f"{where}: imports from {target} itself, not from a module of it")
                continue
            graph[module].add(target)
            target_layer = find_layer(target)
            if target_layer in LAYERS and LAYERS.index(target_layer) > LAYERS.index(layer):
                violations.append(f"{where}: {layer} imports {target}, which stands below it")
    if cycle := find_cycle(graph):
        violations.append(f"import cycle: {' -> '.join(cycle)}")
    return violations


def find_dataset_leaks(root: Path) -> list[str]:
    """Name the modules outside `learning/dataset/` that name one of its concrete kinds.

    They may use the interface, classes named `Abstract…` and the records that these hand out, and
    `build_dataset`; not the modules in which the kinds are written.
    """
    modules = find_modules(root)
    folder = f"{root.name}.learning.dataset"
    open_to_all = {f"{folder}.{name}" for name in ("dataset", "examples", "epoch", "build")}
    return [
        f"{modules[module].relative_to(root)}:{line}: imports {target}, a kind of dataset"
        for module in modules
        if not module.startswith(folder)
        for target, line in find_imports(module, modules)
        if target.startswith(f"{folder}.") and target not in open_to_all
    ]


def write_package(root: Path, files: dict[str, str]) -> Path:
    """Write a package of the given sources below `root`, with an `__init__.py` in each folder."""
    for name, source in {"__init__.py": "from pkg.app import cli", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(source)
    return root


def test_imports_point_back_up():
    assert len(find_modules(PACKAGE)) > 1
    assert find_violations(PACKAGE) == []


def test_the_check_accepts_a_layered_package(tmp_path: Path):
    package = write_package(
        tmp_path / "pkg",
        {
            "inputs.py": "import numpy as np",
            "serial.py": "from . import inputs",
            "world/__init__.py": "from .prior import Uniform as Uniform",
            "world/prior.py": "from ..inputs import as_matrix",
            "world/toys/__init__.py": "from .dirichlet import Dirichlet as Dirichlet",
            "world/toys/dirichlet.py": "from ... import inputs\nfrom ..prior import Uniform",
            "events/events.py": "from pkg.world import prior\nimport pkg.serial",
            "estimator.py": "from .events.events import Events",
            "app/cli.py": "def main():\n    from pkg.estimator import Estimator",
        },
    )
    assert find_violations(package) == []


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("world/prior.py", "from pkg.events import events", "world/prior.py:1: world imports"),
        ("world/prior.py", "from ..events import events", "pkg.events.events, which stands below"),
        ("world/prior.py", "from ..events.events import Events", "pkg.events.events"),
        ("world/prior.py", "from ..events import Events", "world imports pkg.events, which"),
        ("world/prior.py", "import pkg.events.events as e", "pkg.events.events"),
        ("world/toys/dirichlet.py", "from ...events import events", "pkg.events.events"),
        ("world/__init__.py", "from ..events import events", "world/__init__.py:1"),
        ("models/potential.py", "from ..estimator import Estimator", "pkg.estimator"),
        ("estimator.py", "from .learning.fit import fit", "estimator imports pkg.learning.fit"),
        ("inputs.py", "from .world import prior", "package-level helpers imports pkg.world"),
        ("world/prior.py", "def f():\n    from ..events import events", "prior.py:2"),
        (
            "world/prior.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..events import events",
            "prior.py:3",
        ),
        ("world/prior.py", "from pkg import Estimator", "imports from pkg itself"),
        ("world/prior.py", "from .. import Estimator", "imports from pkg itself"),
        ("app/cli.py", "import pkg", "imports from pkg itself"),
        ("extras/thing.py", "", "the folder extras is not a layer"),
    ],
)
def test_the_check_flags_a_wrong_import(tmp_path: Path, name: str, source: str, expected: str):
    empty = ["world/prior.py", "events/events.py", "estimator.py", "learning/fit.py"]
    files = dict.fromkeys(empty, "")
    violations = find_violations(write_package(tmp_path / "pkg", files | {name: source}))
    assert any(expected in violation for violation in violations)


def test_the_check_flags_a_cycle_within_a_layer(tmp_path: Path):
    package = write_package(
        tmp_path / "pkg",
        {
            "world/prior.py": "from .simulator import simulate",
            "world/simulator.py": "def simulate():\n    from .toys import dirichlet",
            "world/toys/dirichlet.py": "from ..prior import Uniform",
        },
    )
    (violation,) = find_violations(package)
    assert violation == (
        "import cycle: pkg.world.prior -> pkg.world.simulator"
        " -> pkg.world.toys.dirichlet -> pkg.world.prior"
    )


def test_no_module_names_a_kind_of_dataset():
    assert find_dataset_leaks(PACKAGE) == []


def test_the_check_flags_a_kind_of_dataset(tmp_path: Path):
    package = write_package(
        tmp_path / "pkg",
        {
            "learning/dataset/dataset.py": "",
            "learning/dataset/files.py": "from .dataset import AbstractDataset",
            "learning/dataset/build.py": "from .files import FileDataset",
            "learning/training/train.py": "from ..dataset.dataset import AbstractDataset",
            "learning/fit.py": "from .dataset.build import build_dataset\n"
            "from .dataset.files import FileDataset",
        },
    )
    assert find_dataset_leaks(package) == [
        "learning/fit.py:2: imports pkg.learning.dataset.files, a kind of dataset"
    ]


#: A model file that names what neither `load` nor anything it imports uses.
SAVED = Path(__file__).parent / "data" / "models" / "prior-truncated.isn"
#: Run in a fresh process, with the names above and that file as its arguments.
IMPORTING = """
import copyreg, json, sys
import inferostatic as ist
loaded = [[name for name in sys.modules if name.startswith(("inferostatic.", "equinox", "scipy"))]]
from inferostatic.estimator.estimator import Estimator
assert Estimator in copyreg.dispatch_table  # it can be pickled
assert "inferostatic.world.priors.truncated_normal" not in sys.modules
ist.load(sys.argv[2])
# Modules that are called like the functions in them must not take their places.
import inferostatic.learning.fit, inferostatic.learning.draw, inferostatic.inference.centre
found = {name: getattr(ist, name) for name in dir(ist) if name != "plots"}
assert found["fit"] is inferostatic.learning.fit.fit and callable(found["centre"])
assert found["toys"] is inferostatic.world.toys
loaded.append([name for name in json.loads(sys.argv[1]) if name in sys.modules])
print(json.dumps(loaded))
"""


def test_importing_the_package_stays_light():
    command = [sys.executable, "-c", IMPORTING, json.dumps(LOADED_ON_FIRST_USE), str(SAVED)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    with_the_package, with_all_names = json.loads(answer.stdout)
    light = ["compilation_cache", "compiler", "versions"]
    assert with_the_package == [f"inferostatic.{name}" for name in light]
    assert with_all_names == []


def find_registering(root: Path) -> set[str]:
    """The modules below `root` that register what a model file can name."""
    return {
        module.removeprefix(f"{root.name}.")
        for module, path in find_modules(root).items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "serial"
        if {alias.name for alias in node.names} & {"known", "register"}
    }


def test_a_file_finds_whatever_it_can_name():
    listed = {f"{a}.{b}" for a, names in REGISTERING.items() for b in names.split()}
    assert listed == find_registering(PACKAGE)


#: Most parameters of a function that a user may call, `self` not counted.
MOST_PARAMETERS = 8


def find_wide_functions(root: Path) -> list[str]:
    """Name public functions and methods below `root` with too many parameters."""
    wide = []
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = sum(argument.arg not in ("self", "cls") for argument in given)
                if count > MOST_PARAMETERS:
                    wide.append(f"{path.relative_to(root)}: {node.name} has {count} parameters")
    return wide


def find_shared_names(root: Path) -> list[str]:
    """Name classes below `root` that share their name with another one."""
    where: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(str(path.relative_to(root)))
    return [f"{name}: {', '.join(paths)}" for name, paths in where.items() if len(paths) > 1]


def test_no_public_function_is_wide():
    assert find_wide_functions(PACKAGE) == []


def test_the_check_flags_a_wide_function(tmp_path: Path):
    names = ", ".join(f"a{i}" for i in range(MOST_PARAMETERS))
    source = f"def narrow({names}): ...\nclass C:\n    def wide(self, {names}, *, last): ..."
    package = write_package(tmp_path / "pkg", {"world/prior.py": source})
    assert find_wide_functions(package) == ["world/prior.py: wide has 9 parameters"]


def test_every_class_has_a_name_of_its_own():
    assert find_shared_names(PACKAGE) == []


def test_the_check_flags_a_shared_name(tmp_path: Path):
    files = {"world/prior.py": "class Grid: ...", "inference/grid.py": "class Grid: ..."}
    package = write_package(tmp_path / "pkg", files)
    assert find_shared_names(package) == ["Grid: inference/grid.py, world/prior.py"]
