"""What an export says of its model."""

import dataclasses
import json

import numpy as np

import inferostatic as ist
from export_estimators import OBSERVABLES, scaled_estimator
from inferostatic.estimator.history import Region
from inferostatic.estimator.model_hash import model_hash
from inferostatic.export.metadata import describe_export
from random_estimators import HIGH, LOW


def test_names_region_and_hash_are_texts() -> None:
    est = scaled_estimator(ist.Potential(ist.MLP((4,))), members=3)
    facts = describe_export(est)
    assert all(isinstance(text, str) for text in facts.values())
    assert json.loads(facts["x_names"]) == list(OBSERVABLES)
    assert json.loads(facts["theta_names"]) == ["mass", "width"]
    assert json.loads(facts["theta_low"]) == LOW.tolist()
    assert json.loads(facts["theta_high"]) == HIGH.tolist()
    assert json.loads(facts["x_low"]) == [-2.0] * 5
    assert facts["members"] == "3"
    assert facts["kind"] == "Estimator"
    assert facts["model_hash"] == model_hash(est)


def test_an_edge_at_infinity_is_null() -> None:
    est = scaled_estimator(ist.Potential(ist.MLP((4,))), members=1)
    region = Region(np.array([0.0, -np.inf]), HIGH, np.full(5, -2.0), np.full(5, 2.0))
    facts = describe_export(dataclasses.replace(est, region=region))
    assert json.loads(facts["theta_low"]) == [0.0, None]
