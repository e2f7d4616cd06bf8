"""The source archive and the wheel hold what they should, and install into empty environments.

Slow, and needs a package index: one environment for the core and one for each extra.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import inferostatic as ist
from optional import EXTRAS

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "tests" / "data" / "models"
#: Largest wheel, in bytes: without tests and documentation it has less than one megabyte.
MOST_BYTES = 2_000_000

LOADED = f"""
import numpy as np, inferostatic as ist
est = ist.load({str(MODELS / "network-mlp.isn")!r})
x, theta = np.zeros((20, 2)), np.zeros(2)
"""
#: One promise of each extra; each is run as a script in an environment that has this extra alone.
PROMISES = {
    "inference": LOADED
    + """
x = np.random.default_rng(1).normal(0.1, 0.5, size=(20, 2))
print(ist.maximum_likelihood(est, x).summary())
found = ist.posterior(est, x, method=ist.NUTS(chains=2, draws=50), seed=1)
assert dict(found.to_arviz().posterior.sizes) == {"chain": 2, "draw": 25}
import pyhf
""",
    "flows": f"""
import numpy as np, inferostatic as ist
est = ist.load({str(MODELS / "nde.isn")!r})
theta = est.prior.sample(3, seed=1)
assert np.isfinite(est.log_prob(est.sample(theta, seed=2), theta)).all()
""",
    "readers": f"""
import numpy as np, uproot, pylhe, inferostatic as ist
assert len(ist.read_madminer({str(ROOT / "tests" / "data" / "madminer" / "toy.h5")!r}).x)
with uproot.recreate("some.root") as file:
    file["tree"] = {{"a": np.arange(4.0), "b": np.ones(4)}}
assert ist.read_root("some.root", "tree", x=["a"], theta=["b"]).x[:, 0].tolist() == [0, 1, 2, 3]
""",
    "numpyro": """
import numpy as np, numpyro, numpyro.distributions as dist, inferostatic as ist
def model():
    a = numpyro.sample("a", dist.Uniform(0.0, 1.0))
    numpyro.sample("y", dist.Normal(a, 0.1))
simulator = ist.from_numpyro(model, parameters=["a"], observed=["y"])
assert ist.simulate(simulator, ist.Uniform([0.0], [1.0]), 10, seed=1).x.shape == (10, 1)
""",
    "processes": """
import inferostatic as ist
def simulator(theta, rng):
    return theta + rng.normal(size=theta.shape)
if __name__ == "__main__":
    with ist.ProcessPool(1) as pool:
        made = ist.simulate(lambda theta, rng: simulator(theta, rng), ist.Uniform([0.0], [1.0]), 10,
                            engine=pool, seed=1)
    assert made.x.shape == (10, 1)
""",
    "dask": """
import inferostatic as ist
if __name__ == "__main__":
    with ist.Dask() as engine:
        assert dict(engine.run(lambda task: task**2, range(3))) == {0: 0, 1: 1, 2: 4}
""",
    "export": LOADED
    + """
import onnxruntime
files = ist.export.onnx(est, "model.onnx")
session = onnxruntime.InferenceSession(files.paths["score"])
x, theta = np.float32(np.zeros((5, 2))), np.float32(np.zeros((5, 2)))
(found,) = session.run(None, {"x": x, "theta": theta})
np.testing.assert_allclose(found, est.score(x, theta), rtol=1e-5, atol=1e-5)
""",
    "sklearn": """
import inferostatic as ist
from sklearn.base import clone
assert clone(ist.export.RatioRegressor()).get_params() == ist.export.RatioRegressor().get_params()
""",
}
#: What the core alone says to each of them, in an environment without extras.
MISSING = (
    LOADED
    + f"""
def compute(task):
    return task
def call(engine, function):
    with engine:
        return dict(engine.run(function, range(2)))
if __name__ == "__main__":
    calls = [
        ("inference", lambda: ist.maximum_likelihood(est, x)),
        ("inference", lambda: ist.posterior(est, x, method=ist.NUTS(), seed=1)),
        ("flows", lambda: ist.load({str(MODELS / "nde.isn")!r})),
        ("readers", lambda: ist.read_madminer("some.h5")),
        ("readers", lambda: ist.read_root("some.root", "tree", x=["a"], theta=["b"])),
        ("readers", lambda: ist.read_lhe("some.lhe", {{}}, theta=[0.0])),
        ("numpyro", lambda: ist.from_numpyro(compute, parameters=["task"], observed=["y"])),
        ("processes", lambda: call(ist.ProcessPool(1), lambda task: task)),
        ("dask", lambda: call(ist.Dask(), compute)),
        ("export", lambda: ist.export.onnx(est, "model.onnx")),
        ("sklearn", lambda: ist.export.RatioRegressor),
    ]
    for extra, function in calls:
        try:
            function()
        except (ImportError, TypeError) as error:
            assert f"pip install 'inferostatic[{{extra}}]'" in str(error), (extra, error)
        else:
            raise AssertionError(f"{{extra}} is not missed")
"""
)


def run(command: list[str | Path], folder: Path) -> str:
    """What it printed; fails with all that it said."""
    found = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout + found.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive, and with the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    pytest.importorskip("hatchling")
    run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder], ROOT)
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    run([*wheel, "-w", folder, *folder.glob("*.tar.gz")], folder)
    return folder


@pytest.mark.slow
def test_the_archive_has_all_that_the_tests_need(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    assert archive.name == f"inferostatic-{ist.__version__}.tar.gz"
    with tarfile.open(archive) as file:
        held = {name.partition("/")[2] for name in file.getnames()}
    command = ["git", "ls-files"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("needs a clone by git, to compare the archive with")
    missing = {name for name in listed.stdout.splitlines() if not name.startswith(".")} - held
    assert missing == set()


@pytest.mark.slow
def test_the_wheel_has_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(wheel) as file:
        held = set(file.namelist())
        (name,) = (name for name in held if name.endswith("METADATA"))
        about = file.read(name).decode()
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in (source / "inferostatic").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"inferostatic/py.typed", "inferostatic/app/templates/study.toml"} <= expected
    assert {name for name in held if ".dist-info/" not in name} == expected
    assert any(name.endswith("licenses/LICENSE") for name in held)
    assert re.search(rf"^Version: {re.escape(ist.__version__)}$", about, re.MULTILINE)
    assert set(re.findall(r"^Provides-Extra: (\w+)$", about, re.MULTILINE)) >= EXTRAS.keys()


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Path]:
    """The Python of an environment that has nothing else; removed afterwards, being large."""
    venv.create(tmp_path / "empty", with_pip=True)
    yield tmp_path / "empty" / "bin" / "python"
    shutil.rmtree(tmp_path / "empty")


def install(python: Path, built: Path, extra: str = "") -> None:
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", python]
    what = f"inferostatic{extra} @ {wheel.as_uri()}"
    run([*pip, "install", "-q", "-c", ROOT / "constraints.txt", what], built)
    run([*pip, "check"], built)


@pytest.mark.slow
def test_the_core_alone_does_what_the_readme_says(
    built: Path, environment: Path, tmp_path: Path
) -> None:
    install(environment, built)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code, *_ = re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    printed = re.findall(r"^```text\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)[0]
    (tmp_path / "quickstart.py").write_text(code, encoding="utf-8")
    found = run([environment, "quickstart.py"], tmp_path)
    for row in printed.splitlines()[2:5]:
        name, estimate = row.split()[:2]
        digits = re.search(rf"^{name} +(\S+)", found, re.MULTILINE)
        assert digits is not None
        # The last digits depend on the processor.
        assert float(digits[1]) == pytest.approx(float(estimate), rel=0.01)
    command = environment.parent / "inferostatic"
    assert "iminuit is not installed" in run([command, "new", "study"], tmp_path)
    run([command, "run", "study"], tmp_path)
    assert (tmp_path / "study" / "report.html").stat().st_size > 0
    (tmp_path / "missing.py").write_text(MISSING, encoding="utf-8")
    run([environment, "missing.py"], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("extra", PROMISES)
def test_an_extra_does_what_it_promises(
    extra: str, built: Path, environment: Path, tmp_path: Path
) -> None:
    install(environment, built, f"[{extra}]")
    (tmp_path / "promise.py").write_text(PROMISES[extra], encoding="utf-8")
    run([environment, "promise.py"], tmp_path)
