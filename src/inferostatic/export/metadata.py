"""What every export carries along: names, trained region, hash and card of the model."""

import json
from typing import Any

import numpy as np

from ..estimator.estimator import AbstractEstimator
from ..estimator.model_hash import model_hash


def describe_export(estimator: AbstractEstimator) -> dict[str, str]:
    """Texts by name; lists and numbers are JSON."""
    return {
        name: fact if isinstance(fact, str) else json.dumps(fact)
        for name, fact in list_facts(estimator).items()
    }


def list_facts(estimator: AbstractEstimator) -> dict[str, Any]:
    """The same as values that JSON has, for exports whose metadata is JSON itself."""
    region = estimator.region
    return {
        "producer": "inferostatic",
        "kind": type(estimator).__name__,
        "x_names": list(estimator.x_names),
        "theta_names": list(estimator.theta_names),
        "theta_low": _as_json(region.theta_low),
        "theta_high": _as_json(region.theta_high),
        "x_low": _as_json(region.x_low),
        "x_high": _as_json(region.x_high),
        "members": estimator.members,
        "model_hash": model_hash(estimator),
        "card": estimator.card.to_dict(),
    }


def _as_json(edges: np.ndarray) -> list[float | None]:
    """Numbers, with null for an edge at infinity, which JSON has no word for."""
    return [float(edge) if np.isfinite(edge) else None for edge in edges]
