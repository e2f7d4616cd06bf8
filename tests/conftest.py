"""A strict world for the tests: sloppy broadcasting is an error, and shapes can be checked.

With `CHECK_TYPES=1` every function of the package checks its annotations, which takes half as long
again; `make test-slow` does that. The import hook must run before the package is imported, hence at
the top of this file.
"""

import gc
import itertools
import os
from collections.abc import Generator, Iterator
from importlib import metadata
from pathlib import Path

os.environ["INFEROSTATIC_PROGRESS"] = "0"
os.environ["INFEROSTATIC_CACHE"] = "0"  # tests leave nothing in the user's folder
# Most of the tests' time is compilation, and most of that is spent on making fast what runs once.
FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
if metadata.version("jaxlib").startswith("0.10."):
    # The newer emitters of kernels compile to the same numbers in nearly twice the time.
    FLAGS += " --xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}"

from jaxtyping import install_import_hook  # noqa: E402

if os.environ.get("CHECK_TYPES"):
    # Stays installed, for modules that are imported on first use.
    install_import_hook("inferostatic", "typecheck.check")

import jax  # noqa: E402
import pytest  # noqa: E402

import inferostatic  # noqa: E402
import optional  # noqa: E402
import typecheck  # noqa: E402

if os.environ.get("CHECK_TYPES"):  # else nobody asks, and some exports load other packages
    typecheck.add_exports(
        inferostatic,
        inferostatic.checks,
        inferostatic.export,
        inferostatic.plots,
        inferostatic.toys,
    )

jax.config.update("jax_numpy_rank_promotion", "raise")

# Compilation is most of the tests' time, and many of them compile the same: share it among the
# processes of a run, and with the next run.
jax.config.update(
    "jax_compilation_cache_dir", str(Path(__file__).parent.parent / ".pytest_cache" / "compiled")
)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

MOST_MAPPINGS = 45_000
#: Programs that are lowered in one context of MLIR; what they hold in common is kept with it.
SHARING = 200


def _share_contexts() -> None:
    """Lower programs in one context of MLIR: making it takes longer than lowering a small one."""
    from jax._src.interpreters import mlir

    make, counts, current = mlir.make_ir_context, itertools.count(), []

    def share() -> object:
        if next(counts) % SHARING == 0 or not current:
            current[:] = [make()]
        return current[0]

    mlir.make_ir_context = share


_share_contexts()

# Tracing makes objects by the million and hardly any cycles, so collect them less often, and never
# go through what was imported.
gc.set_threshold(20_000, 50, 100)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def _skip_without_extra() -> Generator[None, object, object]:
    """Skip a test that needs an extra which is not installed, with what the library says of it."""
    try:
        return (yield)
    except (Exception, pytest.fail.Exception) as error:
        missing = optional.find_missing(error)
        if missing is None:
            raise
        pytest.skip(f"{missing} is not installed: {error}")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    return (yield from _skip_without_extra())


# Not the set-up of a fixture: what one raised is raised again for every test that uses it.
@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    return (yield from _skip_without_extra())


@pytest.fixture
def strict() -> Iterator[None]:
    """Make implicit dtype promotion an error, for tests of our own formulas (optax needs it)."""
    with jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture(autouse=True)
def _no_global_random_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here may draw from NumPy's global generator: results would not be reproducible."""
    import numpy as np

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("NumPy's global random state was used; pass a Generator instead.")

    for name in ("rand", "randn", "random", "uniform", "normal", "choice", "permutation"):
        monkeypatch.setattr(np.random, name, refuse)


@pytest.fixture(scope="module", autouse=True)
def _few_mappings() -> Iterator[None]:
    """Forget compiled programs before there are too many of them.

    Each maps some memory, Linux allows a process 65,530 mappings unless told, and beyond them it is
    killed. What is needed again comes from the cache on disk.
    """
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPPINGS:
        jax.clear_caches()
