"""`ModelCard`: what a user of a trained model has to know, short enough for any file to hold it.

It is made anew from what the estimator holds whenever it is asked for, so that it cannot
contradict it. Texts and lists have a bound on their length as JSON, so that a card stays below
16 kB for any number and length of names.
"""

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..inputs import in_short
from ..serial import describe
from ..summary import (
    AbstractSummarised,
    Summary,
    clean,
    count,
    shorten,
    tabulate_facts,
    tabulate_first,
)
from ..world.priors.prior import AbstractPrior
from .history import Region
from .measured_mean import MeasuredMean
from .provenance import DiagnosisNote, Provenance
from .trusted_events import compute_shifts, count_trusted_at_most

#: Version of the dictionary that `to_dict` gives; raised when a name in it changes its meaning.
FORMAT = 1
#: θ of the prior at which the bias of the score is looked at.
POINTS = 100
#: Bytes of JSON for a text of one line, such as the method.
TEXT_BYTES = 700
#: Bytes of JSON for the name of a column.
NAME_BYTES = 120
#: Bytes of JSON for what one check found.
FINDING_BYTES = 400
#: Bytes of JSON for a list: names of columns with their ranges, or warnings.
LIST_BYTES = 2_000
#: Bytes of JSON for all findings.
FINDINGS_BYTES = 3_500
#: Characters of the method, the network or the prior in a summary, at most.
SHOWN = 200


@dataclasses.dataclass(frozen=True)
class CardColumn:
    """A parameter or an observable, and the range in which the model was trained.

    Attributes:
        name: of the column.
        low, high: edges of the range; None where it is open.
    """

    name: str
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True, repr=False)
class ModelCard(AbstractSummarised):
    """What a user of a trained model has to know; `est.card` is that of an estimator.

    Attributes:
        kind: of estimator, such as "Estimator" for a potential.
        offers: what it can be asked for, in words.
        parameters, observables: the first columns, as many as a card holds.
        parameter_count, observable_count: how many there are.
        prior: of the parameters in training, in words; None where it is unknown.
        method: by which it was trained.
        network: that was trained.
        members: networks that are averaged.
        weights: numbers that each of them has learned.
        epochs: of the training.
        validation_loss: the smallest; None where none was measured.
        warnings: remarks made during the training.
        provenance: number and origin of the events, seed of the fit and versions of packages.
        diagnosis: verdict and findings; None where `est.with_diagnosis` was not called.
        trusted_events: observed events up to which estimates are not biased by the learned score;
            None where that is unknown.
        trusted_because: by what that was measured, or why it is unknown.
    """

    kind: str
    offers: str
    parameters: tuple[CardColumn, ...]
    observables: tuple[CardColumn, ...]
    parameter_count: int
    observable_count: int
    prior: str | None
    method: str
    network: str
    members: int
    weights: int
    epochs: int
    validation_loss: float | None
    warnings: tuple[str, ...]
    provenance: Provenance
    diagnosis: DiagnosisNote | None
    trusted_events: int | None
    trusted_because: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it, in less than 16 kB."""
        made, origin = self.provenance, self.provenance.origin
        return {
            "card": FORMAT,
            "kind": self.kind,
            "offers": self.offers,
            "parameters": [vars(column).copy() for column in self.parameters],
            "parameter_count": self.parameter_count,
            "observables": [vars(column).copy() for column in self.observables],
            "observable_count": self.observable_count,
            "simulated": {
                "simulator": None if origin is None else _cut(origin.simulator),
                "version": None if origin is None else _cut(origin.version, NAME_BYTES),
                "seed": None if origin is None else origin.seed,
                "source": None if origin is None else _cut(origin.source),
                "events": made.events,
                "effective_events": made.effective_events,
            },
            "prior": self.prior,
            "method": self.method,
            "network": self.network,
            "members": self.members,
            "weights": self.weights,
            "training": {
                "seed": made.seed,
                "continued": made.continued,
                "epochs": self.epochs,
                "validation_loss": self.validation_loss,
                "warnings": list(self.warnings),
            },
            "versions": _cut_versions(made.packages),
            "diagnosis": None if self.diagnosis is None else _cut_diagnosis(self.diagnosis),
            "trusted_events": self.trusted_events,
            "trusted_because": self.trusted_because,
        }

    def __repr__(self) -> str:
        """Kind, method and what may be trusted, in a line."""
        trusted = "unknown" if self.trusted_events is None else f"{self.trusted_events:,}"
        return f"ModelCard({self.kind}; {shorten(self.method)}; trusted events: {trusted})"

    def facts(self) -> dict[str, str]:
        """What is neither a column, a finding nor a warning, in words."""
        return {
            "offers": self.offers,
            "simulated": self._describe_events(),
            "prior": shorten(self.prior or "unknown, the stored θ", SHOWN),
            "method": shorten(self.method, SHOWN),
            "network": f"{shorten(self.network, SHOWN)}; {count(self.members, 'member')} of "
            f"{count(self.weights, 'weight')}",
            "training": self._describe_training(),
            "versions": ", ".join(
                f"{name} {version}" for name, version in _cut_versions(self._packages).items()
            )
            or "unknown",
            "diagnosis": "none was made"
            if self.diagnosis is None
            else f"{'passed' if self.diagnosis.passed else 'NOT passed'}, on "
            f"{count(self.diagnosis.events, 'event')}: {self.diagnosis.verdict}",
            "trusted events": self._describe_trusted(),
        }

    def _summarise(self) -> Summary:
        findings = [] if self.diagnosis is None else _cut_diagnosis(self.diagnosis)["findings"]
        return Summary(
            f"Model card: {self.kind} of {count(self.observable_count, 'observable')} and "
            f"{count(self.parameter_count, 'parameter')}",
            (
                tabulate_facts(self.facts()),
                *_tabulate("parameter", self.parameters, self.parameter_count),
                *_tabulate("observable", self.observables, self.observable_count),
                *(f"{one['grade']}: {one['check']}, {one['found']}" for one in findings),
                *(f"! {warning}" for warning in self.warnings),
            ),
        )

    @property
    def _packages(self) -> Mapping[str, str]:
        return self.provenance.packages

    def _describe_events(self) -> str:
        made, origin = self.provenance, self.provenance.origin
        parts = [
            "an unknown number of events" if made.events is None else count(made.events, "event")
        ]
        if made.effective_events is not None and made.effective_events != made.events:
            parts[0] += f" with weights, as good as {made.effective_events:,.0f} equal ones"
        if origin is None:
            return f"{parts[0]}; where they come from is not known"
        if origin.simulator is not None:
            version = "" if origin.version is None else f", version {shorten(origin.version)}"
            parts.append(f"by {shorten(origin.simulator, SHOWN)}{version}")
        if origin.source is not None:
            parts.append(f"from {shorten(origin.source, SHOWN)}")
        if origin.seed is not None:
            parts.append(f"seed {origin.seed}")
        return ", ".join(parts)

    def _describe_training(self) -> str:
        seed = self.provenance.seed
        loss = self.validation_loss
        return (
            f"{'continued from another estimator, ' * self.provenance.continued}"
            f"{count(self.epochs, 'epoch')}, "
            f"{'no validation loss' if loss is None else f'validation loss {loss:.5g}'}, "
            f"{'seed unknown' if seed is None else f'seed {seed}'}"
        )

    def _describe_trusted(self) -> str:
        if self.trusted_events is None:
            return f"unknown: {self.trusted_because}"
        if self.trusted_events == 0:
            return (
                f"no number of observed events, {self.trusted_because}: they are too few, or the "
                "mean of its score is too far from 0"
            )
        return f"up to {self.trusted_events:,} observed events, {self.trusted_because}"


def describe_estimator(estimator: Any, offers: str) -> ModelCard:  # noqa: ANN401
    """The card of an estimator, whichever kind it is."""
    best = estimator.history.best_loss
    trusted, because = _find_trusted(estimator)
    region: Region = estimator.region
    return ModelCard(
        kind=type(estimator).__name__,
        offers=offers,
        parameters=_list_columns(estimator.theta_names, region.theta_low, region.theta_high),
        observables=_list_columns(estimator.x_names, region.x_low, region.x_high),
        parameter_count=len(estimator.theta_names),
        observable_count=len(estimator.x_names),
        prior=_name_prior(estimator.prior),
        method=_cut_text(str(estimator.method)),
        network=_cut_text(write_choice(estimator.architecture)),
        members=estimator.members,
        weights=count_weights(estimator.model.network) // estimator.members,
        epochs=len(estimator.history.seconds),
        validation_loss=None if math.isnan(best) else best,
        warnings=tuple(_cut_list(estimator.history.warnings)),
        provenance=estimator.provenance or Provenance(),
        diagnosis=estimator.diagnosis,
        trusted_events=trusted,
        trusted_because=because,
    )


def describe_matrix_element(element: Any, offers: str) -> ModelCard:  # noqa: ANN401
    """The card of a matrix element, whose networks are those of its densities."""
    proposal, transfer = element.proposal, element.transfer
    parts = [proposal] if transfer is None else [proposal, transfer]
    warnings = [warning for part in parts for warning in part.history.warnings]
    return ModelCard(
        kind=type(element).__name__,
        offers=offers,
        parameters=_list_columns(element.theta_names, element.theta_low, element.theta_high),
        observables=_list_columns(
            element.x_names, proposal.region.theta_low, proposal.region.theta_high
        ),
        parameter_count=len(element.theta_names),
        observable_count=len(element.x_names),
        prior=_name_prior(element.prior),
        method=_cut_text(write_choice(element.method)),
        network=_cut_text(write_choice(proposal.architecture)),
        members=proposal.members,
        weights=sum(count_weights(part.model.network) // part.members for part in parts),
        epochs=sum(len(part.history.seconds) for part in parts),
        validation_loss=None,
        warnings=tuple(_cut_list(warnings)),
        provenance=element.provenance or Provenance(),
        diagnosis=None,
        trusted_events=None,
        trusted_because="every value has an error of its own, and that of a learned transfer "
        "density was not measured",
    )


def count_weights(network: Any) -> int:  # noqa: ANN401
    """Numbers that were learned, of all members."""
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)))


def write_choice(thing: object) -> str:
    """A network, a method or another record as it would be typed; functions by their names."""
    return _write(describe(thing))


def _write(described: Any) -> str:  # noqa: ANN401
    if not isinstance(described, dict):
        return repr(described)
    if "type" in described:
        fields = [f"{name}={_write(value)}" for name, value in described["fields"].items()]
        return f"{described['type']}({', '.join(fields)})"
    if "tuple" in described:
        return f"[{', '.join(map(_write, described['tuple']))}]"
    if "array" in described:
        return str(described["array"])
    if "mapping" in described:
        parts = [f"{name}: {_write(value)}" for name, value in described["mapping"].items()]
        return f"{{{', '.join(parts)}}}"
    return str(described.get("known") or described.get("user"))


def _find_trusted(estimator: Any) -> tuple[int | None, str]:  # noqa: ANN401
    """Observed events up to which it may be trusted, and by what; None and why not."""
    diagnosis: DiagnosisNote | None = estimator.diagnosis
    measured: MeasuredMean | None = estimator.score_bias
    if diagnosis is not None and diagnosis.trusted_events is not None:
        more = diagnosis.bias_events or 0.0
        if measured is None or measured.events <= more:
            return diagnosis.trusted_events, f"by its diagnosis on {diagnosis.events:,} events"
    if measured is None:
        return None, (
            "the mean of its score was not measured with events that had no part in the training; "
            "est.with_diagnosis(ist.diagnose(est, events)) does it for a potential"
        )
    try:
        number = count_trusted_at_most(*compute_shifts(measured, _choose_points(estimator)))
    except Exception as error:  # a file from anywhere may hold any numbers
        return None, f"the measured mean of its score cannot be evaluated ({in_short(error)})"
    return number, f"by {measured.events:,.0f} events that had no part in its training"


def _choose_points(estimator: Any) -> np.ndarray:  # noqa: ANN401
    """θ of the prior in the trained region; of the region alone where none can be drawn."""
    region: Region = estimator.region
    points = np.zeros((0, len(region.theta_low)))
    if isinstance(estimator.prior, AbstractPrior):
        try:
            points = np.asarray(estimator.prior.sample(POINTS, seed=0), np.float64)
        except Exception:  # whatever functions do that a user wrote, or did not supply again
            points = points[:0]
    points = points[region.contains_theta(points)]
    if len(points):
        return points
    # Points that fill a box evenly (Kronecker's sequence), by square roots of primes.
    primes = [p for p in range(2, 20 * points.shape[1] + 4) if all(p % q for q in range(2, p))]
    steps = np.sqrt(primes[: points.shape[1]])
    parts = np.outer(np.arange(1, POINTS + 1), steps) % 1.0
    return region.theta_low + parts * (region.theta_high - region.theta_low)


def _name_prior(prior: object) -> str | None:
    return None if prior is None else _cut_text(" ".join(repr(prior).split()))


def _list_columns(
    names: Sequence[str], low: np.ndarray, high: np.ndarray
) -> tuple[CardColumn, ...]:
    """As many columns as a list may hold."""
    each = zip(names, low, high, strict=True)
    columns = ([_cut_text(name, NAME_BYTES), _finite(a), _finite(b)] for name, a, b in each)
    return tuple(CardColumn(*column) for column in _take(columns))


def _tabulate(kind: str, columns: Sequence[CardColumn], number: int) -> tuple[Any, ...]:
    table = {
        kind: [column.name for column in columns],
        "trained from": [_show(column.low) for column in columns],
        "to": [_show(column.high) for column in columns],
    }
    left = number - len(columns)
    return (
        *tabulate_first(table),
        *([f"… {left:,} of all {number:,} are left out"] if left else []),
    )


def _show(edge: float | None) -> str:
    return "open" if edge is None else f"{edge:.4g}"


def _finite(value: Any) -> float | None:  # noqa: ANN401
    return float(value) if math.isfinite(value) else None


def _cut_diagnosis(note: DiagnosisNote) -> dict[str, Any]:
    found = note.to_dict()
    findings = [
        finding
        | {
            "check": _cut_text(finding["check"], NAME_BYTES),
            "found": _cut_text(finding["found"], FINDING_BYTES),
        }
        for finding in found["findings"]
    ]
    return found | {
        "verdict": _cut(note.verdict),
        "findings": list(_take(findings, FINDINGS_BYTES)),
    }


def _cut_versions(packages: Mapping[str, str]) -> dict[str, str]:
    pairs = ([_cut_text(part, NAME_BYTES) for part in pair] for pair in packages.items())
    return {name: version for name, version in _take(pairs, TEXT_BYTES)}


def _cut_list(texts: Iterable[str]) -> Iterator[str]:
    return _take(_cut_text(text) for text in texts)


def _cut(text: str | None, most: int = TEXT_BYTES) -> str | None:
    return None if text is None else _cut_text(text, most)


def _cut_text(text: str, most: int = TEXT_BYTES) -> str:
    """The beginning of a text that JSON has in so many bytes, without control characters."""
    text = clean(text[:most])
    if len(json.dumps(text)) <= most:
        return text
    while len(json.dumps(text)) > most - len(json.dumps("…")):
        text = text[: -max(1, len(text) // 16)]
    return f"{text}…"


def _take(items: Iterable[Any], most: int = LIST_BYTES) -> Iterator[Any]:
    """The first of some plain values, which JSON has in so many bytes together."""
    for item in items:
        most -= len(json.dumps(item)) + 40
        if most < 0:
            return
        yield item
