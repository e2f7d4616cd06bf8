"""Estimators of every kind that a C++ header is written for, with weights of a trained size."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import inferostatic as ist
from export_estimators import ACTIVATIONS, curved_events, particle_events, scaled_estimator
from inferostatic.models.architecture import AbstractArchitecture
from inferostatic.models.members import with_centring
from inferostatic.models.theta_potential import ThetaPotential
from random_estimators import HIGH, LOW

#: Names that a careless writer of C++ would stumble over.
OBSERVABLES = ('p"t\\', "η ??/", "*/ phi", "class", "met\n")


def calm_estimator(
    architecture: AbstractArchitecture,
    x: np.ndarray | None = None,
    *,
    members: int = 2,
    centred: bool = False,
) -> Any:
    """With such names, and a centring beyond whose box some θ lie, where it is constant."""
    est = dataclasses.replace(scaled_estimator(architecture, members, x), x_names=OBSERVABLES)
    if not centred:
        return est
    box, degrees = (LOW + 0.3, HIGH - 0.3), ((1, 0), (0, 1), (2, 1), (0, 3))
    b = ThetaPotential(*box, degrees, np.array([0.5, -0.3, 0.2, 0.1]))
    return dataclasses.replace(est, model=with_centring(est.model, b))


def events_with_zeros() -> np.ndarray:
    """As `curved_events`, with zeros in a column that spans decades."""
    x = curved_events()
    x[::20, 0] = 0
    return x


def _with_activation(name: str) -> Callable[[], Any]:
    activation = getattr(jax.nn, name)
    return lambda: calm_estimator(ist.Potential(ist.MLP((6, 5), activation=activation)))


SMALL = ist.Residual(6, blocks=1)

#: Sizes are such that no loop comes out even; these are compiled in `make test`.
QUICK: dict[str, Callable[[], Any]] = {
    "natural": lambda: calm_estimator(
        ist.Potential(ist.MLP((9, 5)), ist.Natural()), events_with_zeros(), centred=True
    ),
    "towers_of_particles": lambda: calm_estimator(
        ist.Potential(
            ist.ParticleSet(
                2, 2, size=5, particle_network=SMALL, join_network=ist.TwoTower(7, SMALL, SMALL)
            )
        ),
        particle_events(),
    ),
    "direct_score": lambda: calm_estimator(ist.DirectScore(SMALL)),
    "direct_ratio": lambda: calm_estimator(ist.DirectRatio(ist.MLP((6,), activation=jnp.tanh))),
}
#: Those of fits, and all features and activations.
SLOW: dict[str, Callable[[], Any]] = {
    "paper": lambda: calm_estimator(ist.paper_network, members=1),
    "residual": lambda: calm_estimator(ist.Potential(), centred=True),
    "towers": lambda: calm_estimator(ist.Potential(ist.TwoTower()), centred=True),
    "particles": lambda: calm_estimator(ist.Potential(ist.ParticleSet(2, 2)), particle_events()),
    "masked": lambda: calm_estimator(
        ist.Potential(ist.ParticleSet(2, 2, x_features=ist.PerParticle(2, 2, mask=1))),
        particle_events(),
    ),
    "sorted": lambda: calm_estimator(
        ist.Potential(ist.MLP((8,)), ist.PerParticle(2, 2)), particle_events()
    ),
    "quantile": lambda: calm_estimator(
        ist.Potential(ist.MLP((8,)), ist.Quantile()), curved_events()
    ),
    "raw": lambda: calm_estimator(ist.Potential(SMALL, ist.Raw(), ist.Raw())),
    "wide": lambda: calm_estimator(ist.Potential(ist.MLP((3000, 4)))),
    "large_score": lambda: calm_estimator(ist.DirectScore()),
    "large_ratio": lambda: calm_estimator(ist.DirectRatio()),
} | {name: _with_activation(name) for name in ACTIVATIONS}
