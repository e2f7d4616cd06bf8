"""Estimators of two parameters that were never trained, with random weights."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import inferostatic as ist
from inferostatic.estimator.history import Region
from inferostatic.estimator.loading import KINDS
from inferostatic.models.architecture import AbstractArchitecture
from inferostatic.models.members import with_network

LOW, HIGH = np.array([0.0, -3.0]), np.array([4.0, 3.0])


def random_estimator(
    architecture: AbstractArchitecture,
    members: int = 2,
    x_names: Sequence[str] = ("pt", "eta", "phi"),
    seed: int = 1,
    x: np.ndarray | None = None,
) -> Any:
    rng = np.random.default_rng(seed)
    x_dim = len(x_names)
    drawn = rng.uniform(-2, 2, size=(500, x_dim))
    x_low, x_high = np.full(x_dim, -2.0), np.full(x_dim, 2.0)
    if x is None:
        x = drawn
    else:
        x_low, x_high = x.min(axis=0), x.max(axis=0)
    shapes = architecture.shapes(x, (LOW + HIGH) / 2, (HIGH - LOW) / np.sqrt(12))
    model = architecture.build(shapes, key=jax.random.key(seed))
    arrays, static = eqx.partition(model.network, eqx.is_inexact_array)
    stacked = jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=(members, *leaf.shape)).astype(np.float32)), arrays
    )
    kind = {"Potential": "Estimator", "DirectScore": "ScoreEstimator"}.get(
        type(architecture).__name__, "RatioEstimator"
    )
    losses = rng.uniform(size=(4, members))
    return KINDS[kind](
        model=with_network(model, eqx.combine(stacked, static)),
        architecture=architecture,
        shapes=shapes,
        method=ist.CARL(),
        prior=ist.Uniform(LOW, HIGH, names=["mass", "width"]),
        region=Region(LOW, HIGH, x_low, x_high),
        x_names=tuple(x_names),
        theta_names=("mass", "width"),
        history=ist.History(losses, losses, np.ones(4), np.full(members, 4), "all 4 epochs"),
    )
