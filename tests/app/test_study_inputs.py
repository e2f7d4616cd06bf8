"""Studies with all that a likelihood can be made of, as the library has it when it is called."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import inferostatic as ist
from data_files import write_csv, write_parquet, write_root
from tiny_study import STUDY, call, write_study

# Each trains or fits; tests/app/test_study_data.py has what is quick.
pytestmark = pytest.mark.slow

#: What stands before the data.
HEAD = STUDY[: STUDY.index("[infer.simulated]")]
ASK = "[infer.maximum_likelihood]\n"
TITLE = "maximum likelihood"
#: Reads θ from a CSV file, and writes x with a column more than is asked for.
PROGRAM = """
import sys

import numpy as np

theta = np.loadtxt(sys.argv[1], delimiter=",", skiprows=1, ndmin=2)
rng = np.random.default_rng(int(sys.argv[3]))
x = theta + rng.normal(size=theta.shape)
table = np.column_stack([x[:, 1], np.arange(len(x)), x[:, 0]])
np.savetxt(sys.argv[2], table, delimiter=",", header="t,number,m", comments="", fmt="%.17g")
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with its events and its estimator; tests copy it and ask."""
    folder = write_study(tmp_path_factory.mktemp("studies") / "trained")
    for step in ("simulate", "fit"):
        result = call(step, folder)
        assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def study(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "study"))


@pytest.fixture
def estimator(trained: Path) -> Any:
    (model,) = (trained / "run" / "fit").glob("*/model.isn")
    return ist.load(model)


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(8).normal([0.5, -0.5], 1, (30, 2))


def ask(study: Path, infer: str, *options: str, head: str = HEAD) -> dict[str, Any]:
    """The numbers of every question of `[infer]`, by title, once all are in a report."""
    (study / "study.toml").write_text(f"{head}{infer}", encoding="utf-8")
    result = call("infer", study, "--json", *options)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["steps"]
    result = call("report", study)
    assert result.exit_code == 0, result.output
    return {title: one["numbers"] for title, one in found.items()}


@pytest.mark.parametrize(
    ("name", "write", "more"),
    [
        ("observed.csv", write_csv, ""),
        ("observed.parquet", write_parquet, ""),
        ("observed.root", write_root, 'tree = "new"\n'),
        ("observed.root", write_root, 'tree = "old"\n'),
    ],
)
def test_files_with_weights_and_columns_that_nobody_asked_for(
    study: Path, estimator: Any, x: np.ndarray, name: str, write: Callable[..., None], more: str
) -> None:
    weight = np.random.default_rng(9).uniform(0.5, 2, len(x))
    write(study / name, x, weight)
    data = f'[infer]\ndata = "{name}"\n{more}'
    plain = ist.maximum_likelihood(estimator, x)
    assert ask(study, data + ASK)[TITLE]["a"] == plain.theta[0]
    weighted = ist.maximum_likelihood(ist.Likelihood(estimator, x, weight=weight))
    found = ask(study, f'{data}weight = "w"\n{ASK}')[TITLE]
    assert (found["b"], found["b: error"]) == (weighted.theta[1], weighted.errors[1])
    assert found["b"] != plain.theta[1]


def test_rates_constraints_and_fixed_parameters(study: Path, estimator: Any, x: np.ndarray) -> None:
    np.save(study / "observed.npy", x)
    data = '[infer]\ndata = "observed.npy"\n'

    def rate(theta: Any) -> Any:
        return 30.0 + 4.0 * theta[0]

    expected = ist.maximum_likelihood(ist.Likelihood(estimator, x, rate=rate))
    found = ask(study, f'{data}rate = "expected_events"\n{ASK}')[TITLE]
    assert found["a"] == pytest.approx(expected.theta[0], abs=1e-6)
    assert found["a: error"] == pytest.approx(expected.errors[0], rel=1e-4)
    assert found["a: error"] != ask(study, data + ASK)[TITLE]["a: error"]
    both = "constraints = { b = [0.0, 0.1] }\nfixed = { a = 0.3 }\nbounds = { b = [-1.0, 1.0] }\n"
    likelihood = ist.Likelihood(
        estimator, x, constraints={"b": (0.0, 0.1)}, fixed={"a": 0.3}, bounds={"b": (-1.0, 1.0)}
    )
    found = ask(study, data + both + ASK)[TITLE]
    assert found["a"] == 0.3
    assert found["b"] == ist.maximum_likelihood(likelihood).theta[1]


LIMITS = """
[[infer.upper_limit]]
parameter = "a"
background = 0.0
distribution = "asymptotic"

[[infer.upper_limit]]
parameter = "a"
background = 0.0
distribution = "toys"
toys = 200
method = "CLs+b"

[[infer.upper_limit]]
parameter = "a"
background = 0.0
calibration = "validation"
level = 0.9
"""


# Of the 10,000 events that calibrate, one in a hundred lies beyond the few of the training.
@pytest.mark.filterwarnings("ignore:.* outside the range of x:UserWarning")
def test_limits(study: Path, estimator: Any, x: np.ndarray) -> None:
    np.save(study / "observed.npy", x)
    # The last one learns an expectation from them.
    head = HEAD.replace("validation = 400", "validation = 10000")
    (study / "study.toml").write_text(head)
    assert call("simulate", study).exit_code == 0
    asked = f'[infer]\ndata = "observed.npy"\nfixed = {{ b = 0.0 }}\n{LIMITS}'
    found = ask(study, asked, head=head)
    likelihood = ist.Likelihood(estimator, x, fixed={"b": 0.0})
    config = json.loads((study / "run" / "config.json").read_text())
    seed = config["seeds"]["infer"]

    def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return theta + rng.normal(size=theta.shape)

    stores = (study / "run" / "events").glob("validation-*")
    methods = [
        (ist.CLs(simulator=simulator), 0.95),
        (ist.CLsb(toys=200, simulator=simulator), 0.95),
        (ist.CLs(calibration=ist.Store(next(stores)).events()), 0.9),
    ]
    assert len(found) == len(methods)
    for numbers, (method, level) in zip(found.values(), methods, strict=True):
        limit = ist.upper_limit(likelihood, "a", method, level=level, background=0.0, seed=seed)
        assert numbers["observed"] == pytest.approx(limit.observed, rel=1e-9)
        assert numbers["expected"] == pytest.approx(limit.expected[2], rel=1e-9)
        assert numbers["observed"] > 0


def test_a_calibrated_limit_by_the_simulator(study: Path, x: np.ndarray) -> None:
    np.save(study / "observed.npy", x)
    text = '[infer]\ndata = "observed.npy"\n[[infer.upper_limit]]\nparameter = "a"\n'
    (numbers,) = ask(study, f"{text}background = 0.0\n", "--workers", "2").values()
    # Unit normal numbers about each parameter: that of the other one does not matter.
    error, mean = 1 / np.sqrt(len(x)), x[:, 0].mean()

    def cls(limit: float) -> float:
        return float(norm.cdf((mean - limit) / error) / norm.cdf(mean / error))

    exact = brentq(lambda limit: cls(limit) - 0.05, 0, 3)
    assert numbers["observed"] == pytest.approx(exact, abs=0.25 * error)


def test_programs(tmp_path: Path) -> None:
    """Events by another process; columns are chosen by their names."""
    study = write_study(tmp_path / "study")
    (study / "generate.py").write_text(PROGRAM)
    words = [sys.executable, "{study}/generate.py", "{theta}", "{x}", "{seed}"]
    own = f"command = {json.dumps(words)}"
    text = STUDY.replace('file = "simulator_of_a_study.py"', own)
    (study / "study.toml").write_text(text)
    result = call("run", study, "--workers", "2")
    assert result.exit_code == 0, result.output
    (store,) = (study / "run" / "events").glob("training-*")
    events = ist.Store(store).events()
    assert events.x_names == ("m", "t")
    # Each observable is its own parameter and a unit normal number.
    assert np.std(events.x - events.theta, axis=0) == pytest.approx([1, 1], abs=0.1)
    assert not (study / "imported").exists()
    assert "generate.py" in (study / "report.html").read_text()


def test_workers_change_no_number(tmp_path: Path) -> None:
    text = STUDY.replace("validation = 400", "validation = 400\nworkers = 2")
    found = []
    for name, content in (("alone", STUDY), ("shared", text)):
        folder = write_study(tmp_path / name, content)
        result = call("run", folder)
        assert result.exit_code == 0, result.output
        found.append(json.loads((folder / "report.json").read_text())["numbers"])
    assert found[0] == found[1]
