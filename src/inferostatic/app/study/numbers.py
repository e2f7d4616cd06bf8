"""Results as numbers by name, in full precision, for comparing runs and for scripts."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def number_diagnosis(diagnosis: Any) -> dict[str, float]:  # noqa: ANN401
    """Of a `Diagnosis`."""
    numbers: dict[str, float] = {"passed": int(diagnosis.passed)}
    for finding in diagnosis.findings:
        numbers[f"{finding.name}: p-value"] = finding.p_value
        numbers[f"{finding.name}: size"] = finding.size
    if diagnosis.trusted_events is not None:
        numbers["trusted events"] = int(diagnosis.trusted_events)
    return numbers


def number_estimator(estimator: Any) -> dict[str, float]:  # noqa: ANN401
    """Of a trained estimator."""
    history = estimator.history
    return {
        "epochs": len(history.train_loss),
        "members": int(estimator.members),
        "training loss": float(np.mean(history.train_loss[-1])),
        "validation loss": float(np.mean(history.validation_loss[-1])),
    }


def number_estimates(
    names: Sequence[str],
    estimates: np.ndarray,
    errors: np.ndarray,
    intervals: np.ndarray,
    more: dict[str, float],
) -> dict[str, float]:
    """Estimates with errors and intervals, parameter by parameter."""
    numbers: dict[str, float] = {}
    for name, value, error, ends in zip(names, estimates, errors, intervals, strict=True):
        numbers[name] = float(value)
        numbers[f"{name}: error"] = float(error)
        numbers[f"{name}: lower end"] = float(ends[0])
        numbers[f"{name}: upper end"] = float(ends[1])
    return numbers | more


def number_set(found: Any) -> dict[str, float]:  # noqa: ANN401
    """Of a `ConfidenceSet`."""
    numbers: dict[str, float] = {}
    for name, ends in zip(found.names, found.hull(), strict=True):
        numbers[name] = float(found.best[found.theta_names.index(name)])
        numbers[f"{name}: lower end"] = float(ends[0])
        numbers[f"{name}: upper end"] = float(ends[1])
    return numbers


def number_limit(limit: Any) -> dict[str, float]:  # noqa: ANN401
    """Of an `UpperLimit`."""
    numbers = {"observed": float(limit.observed)}
    for band, value in zip(range(-2, 3), limit.expected, strict=True):
        numbers[f"expected, {band:+d} sigma" if band else "expected"] = float(value)
    return numbers


def number_reweighting(reweighting: Any, closure: Any) -> dict[str, float]:  # noqa: ANN401
    """Of a `Reweighting` and its `Closure`."""
    return {
        "effective events": float(reweighting.effective_size),
        "mean ratio": float(reweighting.normalisation),
        "mean ratio: error": float(reweighting.normalisation_error),
        "closes": int(closure.closes),
        "AUC": float(closure.auc),
        "AUC: error": float(closure.auc_error),
        "AUC before": float(closure.unweighted_auc),
    }
