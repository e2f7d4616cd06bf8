"""Summaries and reprs: exact texts of a few, and manners of all."""

import dataclasses
import inspect
import pydoc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.checks.calibration import CalibrationCurve
from inferostatic.checks.coverage import Coverage
from inferostatic.checks.diagnose import Diagnosis
from inferostatic.checks.finding import Finding
from inferostatic.checks.learned_bias import BiasOverTheta
from inferostatic.checks.mean_score import MeanScore
from inferostatic.checks.pair_identities import PairIdentities
from inferostatic.checks.predictive import PosteriorPredictive
from inferostatic.checks.recalibration import Recalibration
from inferostatic.events.store.status import StoreStatus
from inferostatic.inference.centre import CentringReport
from inferostatic.inference.information.disagreement import Disagreement
from inferostatic.inference.information.score_response import ScoreResponse
from inferostatic.inference.likelihood.learned_bias import LearnedBias
from inferostatic.inference.likelihood.maximum_likelihood import MaximumLikelihood
from inferostatic.inference.likelihood.profile import Profile
from inferostatic.inference.observables.histograms import Bins, Histogram
from inferostatic.inference.observables.templates import TemplateHistograms
from inferostatic.learning.compare import Comparison
from inferostatic.summary import Summary, SummaryTable, clean, list_names
from manners import Elements, check_manners
from random_estimators import random_estimator

#: A name that HTML must not run and a terminal must not obey.
EVIL = "<script>alert(1)</script>\x1b[31m\n"
NAMES = ("a", EVIL)
EYE = np.eye(2)
TWO = np.array([0.25, 1.5])
TRIPLE = ist.Uniform([1.0] * 3, [2.0] * 3)
FINDING = Finding("mean score", 0.2, 0.01, 0.25, "bias 0.01 of one standard error")
HISTOGRAM = Histogram(Bins(np.array([0.0, 1.0])), np.array([3.0, 4.0, 5.0]), np.ones(3))
HISTORY = ist.History(
    np.array([[0.5, 0.6], [0.4, 0.45]]),
    np.array([[0.55, 0.65], [0.5, 0.7]]),
    np.array([1.5, 1.5]),
    np.array([2, 1]),
    "all 2 epochs",
    choices=("weight decay 0.1",),
)
COVERAGE = Coverage(
    ranks=np.full((40, 2), 0.5),
    tarp=np.full(40, 0.5),
    density_ranks=np.full(40, 0.5),
    mean=np.zeros((40, 2)),
    theta=np.zeros((40, 2)),
    weight=np.ones(40),
    levels=np.array([0.5, 0.68, 0.9, 0.95]),
    expected=np.array([0.51, 0.69, 0.91, 0.94]),
    error=np.full(4, 0.01),
    over_theta=np.zeros((2, 5, 4)),
    over_theta_error=np.zeros((2, 5, 4)),
    theta_edges=np.zeros((2, 6)),
    p_values={"SBC": TWO, "SBC given the estimate": TWO, "TARP": np.array(0.4)},
    effective_candidates=200.0,
    names=NAMES,
    findings=(FINDING, FINDING),
)


def events(**options: Any) -> ist.Events:
    x = np.arange(12.0).reshape(4, 3)
    theta = np.arange(8.0).reshape(4, 2)
    return ist.Events(x=x, theta=theta, x_names=["p", "q", "r"], **options)


RESULTS: dict[str, Callable[[], Any]] = {
    "Uniform": lambda: ist.Uniform([0, 1], [1, 3], names=NAMES),
    "Normal": lambda: ist.Normal([0, 1], 2, names=NAMES),
    "TruncatedNormal": lambda: ist.TruncatedNormal([0, 1], 1, 0, names=NAMES),
    "Discrete": lambda: ist.Discrete(np.arange(1000.0).reshape(500, 2), names=NAMES),
    "Product": lambda: ist.Product([ist.Uniform(0, 1), ist.Normal(0, 1)], names=NAMES),
    "many parameters": lambda: ist.Uniform(np.zeros(300), np.ones(300)),
    "long names": lambda: ist.Uniform([0, 0], [1, 1], names=["n" * 9000, "m" * 9000]),
    "Events": lambda: events(theta_names=NAMES, weight=[1, 2, 3, 4.0]),
    "many columns": lambda: ist.Events(x=np.zeros((2, 300)), theta=np.zeros((2, 1))),
    "Estimator": lambda: random_estimator(ist.Potential(ist.MLP((4,))), x_names=["x", EVIL]),
    "ScoreEstimator": lambda: random_estimator(ist.DirectScore(ist.MLP((4,)))),
    "RatioEstimator": lambda: random_estimator(ist.DirectRatio(ist.MLP((4,)))),
    "History": lambda: HISTORY,
    "Region": lambda: random_estimator(ist.Potential(ist.MLP((4,)))).region,
    "StoreStatus": lambda: StoreStatus(
        Path("events"), EVIL, 100, 50, 4, (1,), {2: "cut"}, {3: EVIL}, 5, verified=False
    ),
    "WeightedPool": lambda: ist.WeightedPool(x=TWO[:, None], weights=EYE, weight_names=NAMES),
    "Records": lambda: ist.draw(ist.CARL(), ist.toys.Dirichlet(), TRIPLE, 5, seed=1),
    "Comparison": lambda: Comparison(NAMES, TWO, TWO, TWO, TWO, np.array([5, 6]), ()),
    "MaximumLikelihood": lambda: MaximumLikelihood(
        theta=TWO,
        covariance=EYE,
        log_likelihood=-3.5,
        valid=True,
        message="converged",
        names=NAMES,
        sandwich=EYE,
        minos=np.stack([-TWO, TWO], axis=1),
    ),
    "Profile": lambda: Profile(EVIL, TWO, EYE, TWO),
    "LearnedBias": lambda: LearnedBias(NAMES, TWO, TWO, TWO, 100.0, 5000.0),
    "BiasOverTheta": lambda: BiasOverTheta(NAMES, EYE, EYE, EYE, 5000.0),
    "CentringReport": lambda: CentringReport((0.1, 0.01), (1.1, 1.0), (0.01, 0.01), 5, 1000),
    "ScoreResponse": lambda: ScoreResponse(TWO, NAMES, EYE, EYE, EYE, 0.1 * EYE, 1000),
    "Disagreement": lambda: Disagreement(EYE, EYE, 0.1, 3.0, 3, 0.4),
    "Bins": lambda: HISTOGRAM.bins,
    "Histogram": lambda: HISTOGRAM,
    "TemplateHistograms": lambda: TemplateHistograms(
        {EVIL: TWO},
        {EVIL: 0.1},
        {EVIL: 0.2},
        HISTOGRAM,
        {EVIL: HISTOGRAM},
        {EVIL: HISTOGRAM},
        {EVIL: 0.01},
        {EVIL: 0.9},
    ),
    "Diagnosis": lambda: Diagnosis((FINDING,), 1000, 10, coverage=COVERAGE),
    "Coverage": lambda: COVERAGE,
    "CalibrationCurve": lambda: CalibrationCurve(EYE, EYE, EYE, EYE, TWO, TWO, NAMES, FINDING),
    "MeanScore": lambda: MeanScore(EYE, TWO, EYE, np.ones((2, 2)), TWO, 0.1, NAMES, FINDING),
    "PairIdentities": lambda: PairIdentities(
        ("near", "far"), EYE, np.ones((2, 2)), TWO, TWO, TWO, TWO > 1, NAMES, (FINDING,) * 2
    ),
    "PosteriorPredictive": lambda: PosteriorPredictive(TWO, EYE, TWO, 0.3, NAMES, FINDING),
    "Recalibration": lambda: Recalibration(np.arange(100.0), np.arange(100.0)),
}


@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
def test_manners(make: Callable[[], Any]) -> None:
    result = make()
    check_manners(result)
    assert "\x1b" not in repr(result) + result.summary() + result._repr_html_()
    assert "<script" not in result._repr_html_()


#: Returned, but handed to other functions rather than looked at.
OPTIONS = {"LimitMethod", "NumpyroSimulator"}


def find_returned() -> dict[str, type]:
    """The records of this package that public functions say they return."""
    functions = [
        getattr(module, name)
        for module in (ist, ist.checks)
        for name in dir(module)
        if not name.startswith("_") and inspect.isfunction(getattr(module, name))
    ]
    returned = {inspect.signature(function).return_annotation for function in functions}
    return {
        one.__name__: one
        for one in returned
        if isinstance(one, type) and dataclasses.is_dataclass(one)
        if not issubclass(one, eqx.Module) and one.__name__ not in OPTIONS
    }


def test_every_record_that_functions_return_has_manners() -> None:
    returned = find_returned()
    assert {"Events", "Diagnosis", "Coverage", "Posterior", "CalibratedFit"} <= returned.keys()
    for name, record in returned.items():
        assert callable(getattr(record, "summary", None)), name
        assert callable(getattr(record, "_repr_html_", None)), name
        # A dataclass writes a repr of its own, with all arrays, where it is not told otherwise.
        assert not hasattr(record.__repr__, "__wrapped__"), name


def test_texts_of_priors() -> None:
    prior = ist.Product([ist.Uniform([0.1, 1], [1, 3]), ist.Normal(0, 2)], names=["a", "b", "c"])
    assert repr(prior) == "Product(a from 0.1 to 1, b from 1 to 3, c = 0 ± 2)"
    assert prior.summary() == (
        "Product prior of 3 parameters\n"
        "parameter  distribution   mean  standard deviation\n"
        "a          from 0.1 to 1  0.55              0.2598\n"
        "b          from 1 to 3       2              0.5774\n"
        "c          = 0 ± 2           0                   2"
    )
    assert repr(ist.TruncatedNormal(0, 1, 0)) == "TruncatedNormal(theta0 = 0 ± 1 from 0 to inf)"
    assert repr(ist.Discrete([[1.0], [4.0]])) == "Discrete(theta0 from 1 to 4 at 2 points)"


def test_a_traced_prior_can_be_shown() -> None:
    seen = []

    @jax.jit
    def trace(prior: ist.Uniform) -> jax.Array:
        seen.append(repr(prior))
        return jax.numpy.asarray(prior.low)

    trace(ist.Uniform([0, 1], [1, 3], names=["a", "b"]))
    assert seen == ["Uniform(a, b)"]


def test_texts_of_events() -> None:
    some = events(prior=ist.Uniform([-1, -1], [9, 9], names=["a", "b"]))
    assert repr(some) == "Events(4 events, x: p, q, r; theta: a, b; Uniform)"
    assert some.summary() == (
        "4 events of 3 observables and 2 parameters\n"
        "prior of theta  Uniform(a from -1 to 9, b from -1 to 9)\n"
        "observable  mean  standard deviation  from  to\n"
        "p            4.5               3.354     0   9\n"
        "q            5.5               3.354     1  10\n"
        "r            6.5               3.354     2  11\n"
        "parameter  mean  standard deviation  from  to\n"
        "a             3               2.236     0   6\n"
        "b             4               2.236     1   7"
    )


def test_mapped_events_are_not_read_for_a_table(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 3)))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    text = ist.Events(x=x, theta=[1.0]).summary()
    assert "memory-mapped" in text
    assert "mean" not in text


def test_texts_of_history() -> None:
    assert repr(HISTORY) == (
        "History(2 epochs of 2 members in 3 s; validation loss 0.5000; all 2 epochs)"
    )
    assert HISTORY.summary() == (
        "Training: 2 epochs in 3 s\n"
        "member  epoch kept  training loss  validation loss\n"
        "1                2            0.4              0.5\n"
        "2                1            0.6             0.65\n"
        "stopped: all 2 epochs\n"
        "chosen: weight decay 0.1"
    )


def test_coverage_has_numbers() -> None:
    assert repr(dataclasses.replace(COVERAGE, names=("a", "b"))) == (
        "Coverage(0.690 ± 0.010 at 0.68, 0.940 ± 0.010 at 0.95; 40 events; "
        "mean score: good, p 0.2; mean score: good, p 0.2)"
    )
    assert ["0.68", "0.690", "0.010"] in [line.split() for line in COVERAGE.summary().splitlines()]


def test_nothing_is_printed_by_a_repr(capsys: pytest.CaptureFixture[str]) -> None:
    diagnosis = Diagnosis((FINDING,), 1000, 10)
    assert repr(diagnosis) == "Diagnosis(passed; 1 check on 1,000 events)"
    assert "\n" in str(diagnosis)
    assert capsys.readouterr() == ("", "")


def test_help_shows_signatures() -> None:
    prior = ist.Uniform(0, 1)
    for method in (prior.sample, ist.Uniform.sample):
        text = pydoc.plain(pydoc.render_doc(method))
        assert "seed: int) -> numpy.ndarray" in text
        assert "seed: of the random numbers" in text
        assert "BoundMethod" not in text
    assert list(inspect.signature(prior.sample).parameters) == ["n", "seed"]
    assert "theta: one θ" in pydoc.plain(pydoc.render_doc(prior.log_prob))
    with pytest.raises(TypeError, match="seed"):
        prior.sample(3)  # pyright: ignore[reportCallIssue]


def test_html_says_what_the_text_says() -> None:
    table = SummaryTable({"name": ["<b>", "x & y"], "value": ["1", "2"]})
    shown = Summary("title <i>", ("a <note>", table))
    assert shown.text() == "title <i>\na <note>\nname   value\n<b>        1\nx & y      2"
    assert shown.html() == (
        "<div><div><strong>title &lt;i&gt;</strong></div><div>a &lt;note&gt;</div><table><thead>"
        '<tr><th style="text-align: left">name</th><th style="text-align: right">value</th></tr>'
        '</thead><tbody><tr><td style="text-align: left">&lt;b&gt;</td>'
        '<td style="text-align: right">1</td></tr><tr><td style="text-align: left">x &amp; y</td>'
        '<td style="text-align: right">2</td></tr></tbody></table></div>'
    )
    assert Elements(shown.html()).text == "title <i>a <note>namevalue<b>1x & y2"


def test_headings_that_differ_in_what_is_cleaned_keep_their_columns() -> None:
    assert SummaryTable({"a\n": ["1"], "a ": ["2"]}).lines() == ["a   a", "1     2"]


def test_clean_and_short_names() -> None:
    assert clean("a\tb\x1b[31m\nθ") == "a b�[31m θ"
    assert list_names(["n" * 100]) == "n" * 39 + "…"
