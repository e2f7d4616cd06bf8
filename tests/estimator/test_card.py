"""Model cards: what they say is what the estimator is, they travel with it, and they stay short."""

import copy
import dataclasses
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import inferostatic as ist
from exact_estimators import exact_normal
from inferostatic.estimator.card import ModelCard, write_choice
from inferostatic.estimator.history import Region
from inferostatic.estimator.loading import read_described
from inferostatic.estimator.provenance import DiagnosisNote, FindingNote, Provenance
from inferostatic.events.origin import Origin
from inferostatic.learning.arguments import check_options
from inferostatic.learning.train_estimator import record_provenance
from random_estimators import HIGH, LOW, random_estimator
from saved_models import FOLDER, SUPPLIED

#: Bytes of a card as JSON, at most.
MOST = 16_384
MADE = Provenance(
    events=50_000,
    effective_events=12_345.6,
    origin=Origin("generate", "3.1", 7, "two files"),
    seed=11,
    packages={"inferostatic": "0.1.0", "jax": "0.10.2"},
)
NOTE = DiagnosisNote(
    passed=True,
    verdict="No fault found in 2 checks on 3,000 events.",
    events=3000,
    n_observed=100,
    trusted_events=250,
    bias_events=2900.0,
    findings=(
        FindingNote("mean score", "good", 0.4, "E[s] differs from 0 by 1.1 standard errors"),
        FindingNote("SBC", "notable", None, "the ranks differ by +0.01"),
    ),
)


@pytest.fixture(scope="module")
def bare() -> Any:
    return random_estimator(ist.Potential(ist.MLP((4, 3))), members=3)


@pytest.fixture(scope="module")
def known(bare: Any) -> Any:
    return dataclasses.replace(bare, provenance=MADE, diagnosis=NOTE)


def to_json(card: ModelCard) -> str:
    return json.dumps(card.to_dict(), allow_nan=False)


def test_it_says_what_the_estimator_is(known: Any) -> None:
    told = json.loads(to_json(known.card))
    assert told["kind"] == "Estimator"
    assert told["offers"] == "potential, score and log_ratio"
    assert told["parameters"] == [
        {"name": "mass", "low": LOW[0], "high": HIGH[0]},
        {"name": "width", "low": LOW[1], "high": HIGH[1]},
    ]
    assert [one["name"] for one in told["observables"]] == ["pt", "eta", "phi"]
    assert (told["parameter_count"], told["observable_count"]) == (2, 3)
    assert told["prior"] == repr(known.prior)
    assert told["method"] == "CARL"
    assert told["network"].startswith("Potential(network=MLP(widths=[4, 3], activation=silu")
    # Five inputs, two hidden layers and one output.
    assert (told["members"], told["weights"]) == (3, 5 * 4 + 4 + 4 * 3 + 3 + 3 + 1)
    assert told["simulated"] == {
        "simulator": "generate",
        "version": "3.1",
        "seed": 7,
        "source": "two files",
        "events": 50_000,
        "effective_events": 12_345.6,
    }
    assert told["training"]["seed"] == 11
    assert told["training"]["epochs"] == 4
    assert told["training"]["validation_loss"] == known.history.validation_loss.min()
    assert told["versions"] == MADE.packages
    assert told["diagnosis"]["verdict"] == NOTE.verdict
    assert [one["grade"] for one in told["diagnosis"]["findings"]] == ["good", "notable"]
    assert told["diagnosis"]["findings"][1]["p_value"] is None
    assert told["trusted_events"] == 250
    text = known.card.summary()
    for part in (
        "50,000 events with weights, as good as 12,346 equal ones, by generate, version 3.1, from "
        "two files, seed 7",
        "4 epochs, validation loss",
        "seed 11",
        "inferostatic 0.1.0, jax 0.10.2",
        "passed, on 3,000 events: No fault found",
        "up to 250 observed events, by its diagnosis on 3,000 events",
        "notable: SBC, the ranks differ by +0.01",
    ):
        assert part in text


def test_it_says_what_is_not_known(bare: Any) -> None:
    told = bare.card.to_dict()
    assert set(told["simulated"].values()) == {None}
    assert (told["training"]["seed"], told["versions"], told["diagnosis"]) == (None, {}, None)
    assert told["trusted_events"] is None
    assert "was not measured" in told["trusted_because"]
    text = bare.card.summary()
    assert "an unknown number of events; where they come from is not known" in text
    assert "seed unknown" in text
    assert "none was made" in text


def test_nobody_reads_of_up_to_0_events(known: Any) -> None:
    note = dataclasses.replace(NOTE, trusted_events=0)
    said = dataclasses.replace(known, diagnosis=note).card.facts()["trusted events"]
    assert said.startswith("no number of observed events, by its diagnosis on 3,000 events: ")
    assert "up to 0" not in said


def test_it_is_in_files_and_pickles(known: Any, tmp_path: Path) -> None:
    known.save(tmp_path / "model.isn")
    for again in (ist.load(tmp_path / "model.isn"), pickle.loads(pickle.dumps(known))):
        assert again.provenance == MADE
        assert again.diagnosis == NOTE
        assert again.card.to_dict() == known.card.to_dict()


@pytest.mark.parametrize("name", ["carl", "direct-score", "direct-ratio", "bias-measured"])
def test_files_without_a_card_say_by_what_they_were_written(name: str) -> None:
    told = ist.load(FOLDER / f"{name}.isn", supplied=SUPPLIED).card.to_dict()
    assert told["versions"]["inferostatic"] == "0.1.0"
    assert told["simulated"]["events"] is None
    assert (told["trusted_events"] is None) == (name != "bias-measured")


def test_a_matrix_element_has_one(tmp_path: Path) -> None:
    pytest.importorskip("flowjax")
    element = ist.load(FOLDER / "mem.isn", supplied=SUPPLIED)
    prior = ist.Uniform(-1, 1, names=["mean"])
    element = dataclasses.replace(element, provenance=MADE, prior=prior)
    element.save(tmp_path / "mem.isn")
    again = ist.load(tmp_path / "mem.isn", supplied=SUPPLIED)
    told = again.card.to_dict()
    assert told == element.card.to_dict()
    assert told["kind"] == "MatrixElement"
    assert told["simulated"]["events"] == 50_000
    assert told["prior"] == repr(prior)
    assert told["parameters"][0]["name"] == "mean"
    assert "latent_log_prob" in told["method"]
    assert "0x" not in told["method"]
    assert told["trusted_events"] is None
    with pytest.raises(ValueError, match="prior of another number"):
        dataclasses.replace(element, prior=ist.Uniform([0, 0], [1, 1])).save(tmp_path / "x.isn")


def test_exports_carry_it(known: Any) -> None:
    from inferostatic.export.metadata import describe_export

    assert json.loads(describe_export(known)["card"]) == known.card.to_dict()


def test_networks_are_written_without_addresses() -> None:
    """Two processes write the same, or cards of one model would differ."""
    written = write_choice(ist.Potential(ist.MLP((4,), activation=jax.nn.gelu), ist.Natural()))
    assert "activation=gelu" in written
    assert "0x" not in written
    assert "x_features=Natural" in written


def test_it_stays_short_for_any_names_and_texts(known: Any) -> None:
    columns, parameters = 700, 40
    long = "µ\x1b[31m😀" * 2000
    warnings = tuple(f"{i} {long}" for i in range(50))
    finding = FindingNote(long, "wrong", 1e-300, long)
    crowded = dataclasses.replace(
        known,
        x_names=tuple(f"{i}{long}" for i in range(columns)),
        theta_names=tuple(f"{i}{long}" for i in range(parameters)),
        region=Region(
            np.full(parameters, -1.23456789012345e-300),
            np.full(parameters, np.inf),
            np.full(columns, -1.23456789012345e-300),
            np.full(columns, 1.23456789012345e300),
        ),
        method=long,
        prior=None,
        history=dataclasses.replace(known.history, warnings=warnings),
        provenance=Provenance(
            2**62, 1.23456789012345e300, Origin(long, long, 2**32 - 1, long), 2**32 - 1,
            {f"{i}{long}": long for i in range(100)},
        ),
        diagnosis=dataclasses.replace(NOTE, verdict=long, findings=(finding,) * 100),
    )  # fmt: skip
    told = json.loads(to_json(crowded.card))
    assert len(to_json(crowded.card)) < MOST
    assert told["observable_count"] == columns
    assert 5 < len(told["observables"]) < columns
    assert told["parameters"][0]["high"] is None
    assert 1 < len(told["diagnosis"]["findings"]) < 100
    assert "\x1b" not in to_json(crowded.card) + crowded.card.summary()
    assert "\\u001b" not in to_json(crowded.card)
    assert "are left out" in crowded.card.summary()


# --- For how many events it may be trusted ---


def measured(tilt: float, n: int) -> ist.Estimator:
    """ln p + t·θ of a normal distribution has the mean score t, and the information is 1."""
    estimator = exact_normal(tilt=(tilt,))
    assert estimator.prior is not None
    theta = estimator.prior.sample(n, seed=3)
    x = theta + np.random.default_rng(5).normal(size=theta.shape)
    events = ist.Events(x=x, theta=theta, x_names=estimator.x_names)
    return ist.measure_bias(estimator, events)


@pytest.fixture(scope="module")
def tilted() -> ist.Estimator:
    return measured(0.1, 100_000)


def test_the_trusted_number_is_that_of_a_known_bias(tilted: ist.Estimator) -> None:
    """One event has a bias of t standard errors, so that 0.3 of them are reached at (0.3/t)²."""
    card = tilted.card
    assert card.trusted_events is not None
    # Measured to 1/√100,000 of a standard error for each of up to five terms, at two of them.
    assert (0.3 / (0.1 + 2 * np.sqrt(5 / 100_000))) ** 2 - 1 < card.trusted_events < 9
    assert "100,000 events that had no part" in card.trusted_because


def test_it_is_that_of_the_diagnosis(tilted: ist.Estimator) -> None:
    """The same mean at θ of the validation events instead of those of the prior."""
    from inferostatic.checks.learned_bias import BiasOverTheta
    from inferostatic.estimator.trusted_events import compute_shifts

    assert tilted.score_bias is not None
    assert tilted.prior is not None
    points = tilted.prior.sample(200, seed=8)
    bias = BiasOverTheta(("a",), points, *compute_shifts(tilted.score_bias, points), 1.0)
    assert tilted.card.trusted_events == bias.trusted_events


def test_whatever_was_measured_with_more_events_counts(tilted: ist.Estimator) -> None:
    few = dataclasses.replace(NOTE, bias_events=2900.0, trusted_events=250)
    many = dataclasses.replace(NOTE, bias_events=1e6, trusted_events=9)
    by_fit = dataclasses.replace(tilted, diagnosis=few).card
    by_diagnosis = dataclasses.replace(tilted, diagnosis=many).card
    assert by_fit.trusted_events == tilted.card.trusted_events
    assert by_diagnosis.trusted_events == 9
    assert "diagnosis" in by_diagnosis.trusted_because


@pytest.mark.parametrize("prior", [None, "absent"])
def test_it_needs_no_prior(tilted: ist.Estimator, prior: object) -> None:
    """The bias of this one is the same at all θ."""
    without: Any = dataclasses.replace(tilted, prior=prior)  # type: ignore[arg-type]
    assert abs(without.card.trusted_events - tilted.card.trusted_events) <= 1


def test_a_mean_that_cannot_be_evaluated_is_said(tilted: ist.Estimator) -> None:
    assert tilted.score_bias is not None
    mean = dataclasses.replace(tilted.score_bias.mean, coefficients=np.zeros((1, 7)))
    broken = dataclasses.replace(
        tilted, score_bias=dataclasses.replace(tilted.score_bias, mean=mean)
    )
    assert broken.card.trusted_events is None
    assert "cannot be evaluated" in broken.card.trusted_because


# --- Diagnoses ---


def test_a_diagnosis_is_kept_in_short(tilted: ist.Estimator, tmp_path: Path) -> None:
    assert tilted.prior is not None
    theta = tilted.prior.sample(3000, seed=13)
    x = theta + np.random.default_rng(17).normal(size=theta.shape)
    events = ist.Events(x=x, theta=theta, prior=tilted.prior, x_names=tilted.x_names)
    found = ist.diagnose(tilted, events, n_observed=5, seed=1)
    judged = tilted.with_diagnosis(found)
    note = judged.card.to_dict()["diagnosis"]
    assert note["verdict"] == found.verdict
    assert note["passed"] is found.passed
    assert note["trusted_events"] == found.trusted_events
    assert [one["check"] for one in note["findings"]] == [one.name for one in found.findings]
    assert [one["p_value"] for one in note["findings"]] == [one.p_value for one in found.findings]
    assert tilted.diagnosis is None
    assert judged.model is tilted.model
    json.dumps(found.to_dict(), allow_nan=False)


def test_checkpoints_do_not_depend_on_remarks(known: Any, bare: Any) -> None:
    from inferostatic.fingerprint import identify

    assert identify({"a": known}) == identify({"a": bare})


def test_another_function_is_not_diagnosed(tilted: ist.Estimator) -> None:
    judged = dataclasses.replace(tilted, diagnosis=NOTE)
    assert tilted.prior is not None
    theta = tilted.prior.sample(2000, seed=13)
    x = theta + np.random.default_rng(17).normal(size=theta.shape)
    events = ist.Events(x=x, theta=theta, prior=tilted.prior, x_names=tilted.x_names)
    assert ist.centre(judged, events).diagnosis is None
    assert ist.measure_bias(judged, events).diagnosis == NOTE


@pytest.mark.parametrize("wrong", [None, 3, "good", {}, {"verdict": "good"}, ist.diagnose])
def test_what_is_no_diagnosis_is_refused(bare: Any, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"with_diagnosis takes what ist\.diagnose"):
        bare.with_diagnosis(wrong)


# --- Files from anywhere ---

Change = Callable[[dict[str, Any]], None]
#: Changes of a header that no library of ours writes.
MALFORMED: dict[str, Change] = {
    "no record": lambda h: h.update(provenance=3),
    "another record": lambda h: h.update(provenance=h["diagnosis"]),
    "diagnosis a text": lambda h: h.update(diagnosis="good"),
    "unknown field": lambda h: h["provenance"]["fields"].update(more=1),
    "negative events": lambda h: h["provenance"]["fields"].update(events=-1),
    "events a truth": lambda h: h["provenance"]["fields"].update(events=True),
    "endless seed": lambda h: h["provenance"]["fields"].update(seed=10**200),
    "effective NaN": lambda h: h["provenance"]["fields"].update(effective_events=float("nan")),
    "effective infinite": lambda h: h["provenance"]["fields"].update(effective_events=float("inf")),
    "packages a list": lambda h: h["provenance"]["fields"].update(packages={"tuple": ["jax"]}),
    "version a number": lambda h: h["provenance"]["fields"]["packages"]["mapping"].update(jax=1),
    "origin a text": lambda h: h["provenance"]["fields"].update(origin="here"),
    "simulator a number": lambda h: h["provenance"]["fields"]["origin"]["fields"].update(
        simulator=1
    ),
    "origin's seed": lambda h: h["provenance"]["fields"]["origin"]["fields"].update(seed=-1),
    "user's origin": lambda h: h["provenance"]["fields"].update(origin={"user": "f"}),
    "verdict a list": lambda h: h["diagnosis"]["fields"].update(verdict={"tuple": []}),
    "passed a number": lambda h: h["diagnosis"]["fields"].update(passed=1),
    "no events": lambda h: h["diagnosis"]["fields"].update(events=None),
    "trusted a fraction": lambda h: h["diagnosis"]["fields"].update(trusted_events=0.5),
    "findings a text": lambda h: h["diagnosis"]["fields"].update(findings="all"),
    "findings of texts": lambda h: h["diagnosis"]["fields"].update(findings={"tuple": ["good"]}),
    "many findings": lambda h: h["diagnosis"]["fields"]["findings"]["tuple"].extend(
        h["diagnosis"]["fields"]["findings"]["tuple"] * 60
    ),
    "grade": lambda h: h["diagnosis"]["fields"]["findings"]["tuple"][0]["fields"].update(
        grade="best"
    ),
    "p-value": lambda h: h["diagnosis"]["fields"]["findings"]["tuple"][0]["fields"].update(
        p_value=1.5
    ),
    "found": lambda h: h["diagnosis"]["fields"]["findings"]["tuple"][0]["fields"].update(
        found=None
    ),
    "old packages": lambda h: h.update(provenance=None, packages=["jax"]),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_cards_are_refused(known: Any, name: str) -> None:
    header, arrays = known.described()
    header = copy.deepcopy(json.loads(json.dumps(header)))
    assert read_described(header, arrays, "file").card.to_dict() == known.card.to_dict()
    MALFORMED[name](header)
    with pytest.raises(ValueError, match=r"missing or malformed"):
        read_described(header, arrays, "file")


# --- What a fit records ---


def test_a_fit_records_its_events() -> None:
    options = check_options(None, None, None, None, 4)
    weighted = ist.Events(x=[[1.0], [2.0]], theta=[[0.0], [1.0]], weight=[1.0, 3.0])
    made = record_provenance(weighted.made_by("pythia", version="8"), options)
    assert (made.events, made.seed, made.continued) == (2, 4, False)
    assert made.effective_events == pytest.approx(4**2 / 10)
    assert made.origin == Origin("pythia", "8")
    assert made.packages["jax"] == jax.__version__
    equal = ist.Events(x=[[1.0], [2.0]], theta=[[0.0], [1.0]])
    assert record_provenance(equal, options) == dataclasses.replace(
        made, effective_events=None, origin=None
    )
