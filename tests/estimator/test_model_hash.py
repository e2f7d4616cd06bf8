"""The hash tells models apart, and nothing else."""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import pytest

import inferostatic as ist
from inferostatic.estimator.model_hash import model_hash
from inferostatic.models.members import with_centring, with_network
from inferostatic.models.theta_potential import ThetaPotential
from random_estimators import HIGH, LOW, random_estimator


@pytest.fixture(scope="module")
def est() -> Any:
    return random_estimator(ist.Potential(ist.MLP((4,))))


def test_a_model_and_its_file_have_the_same(est: Any, tmp_path: Path) -> None:
    est.save(tmp_path / "model.zip")
    found = model_hash(est)
    assert len(found) == 64
    assert model_hash(ist.load(tmp_path / "model.zip")) == found


def test_how_it_was_trained_does_not_count(est: Any) -> None:
    other = dataclasses.replace(est, method=ist.KCE(), prior=None)
    assert model_hash(other) == model_hash(est)


def test_whatever_changes_answers_changes_it(est: Any) -> None:
    network = eqx.tree_at(
        lambda n: n.layers[1].weight,
        est.model.network,
        replace_fn=lambda w: w.at[1, 0, 2].add(1e-3),
    )
    centring = ThetaPotential(LOW, HIGH, ((1, 0),), [0.1])
    shapes = dataclasses.replace(est.shapes, theta_scale=est.shapes.theta_scale * 2)
    others = [
        dataclasses.replace(est, model=with_network(est.model, network)),
        dataclasses.replace(est, model=with_centring(est.model, centring)),
        dataclasses.replace(est, shapes=shapes),
        dataclasses.replace(est, x_names=("pt", "phi", "eta")),
    ]
    assert len({model_hash(one) for one in (est, *others)}) == 5
