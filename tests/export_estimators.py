"""Estimators of every kind that can be exported, with weights of the size of trained ones."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import inferostatic as ist
from inferostatic.models.architecture import AbstractArchitecture
from inferostatic.models.members import with_centring, with_network
from inferostatic.models.theta_potential import ThetaPotential
from random_estimators import HIGH, LOW, random_estimator

OBSERVABLES = ("pt", "eta", "phi", "mass", "met")
ACTIVATIONS = ("selu", "silu", "softplus", "gelu", "elu", "relu", "sigmoid", "celu", "mish")


def scaled_estimator(
    architecture: AbstractArchitecture,
    members: int = 2,
    x: np.ndarray | None = None,
    *,
    centred: bool = False,
) -> Any:
    """As `random_estimator`, with weights that neither shrink nor amplify what passes through.

    Amplified numbers would differ by their rounding alone.
    """
    est = random_estimator(architecture, members, OBSERVABLES, x=x)
    arrays, rest = eqx.partition(est.model.network, eqx.is_inexact_array)
    scaled = jax.tree.map(
        lambda leaf: jnp.asarray(leaf / np.float32(leaf.shape[-1] ** 0.5 if leaf.ndim > 2 else 2)),
        arrays,
    )
    model = with_network(est.model, eqx.combine(scaled, rest))
    if centred:
        degrees = ((1, 0), (0, 1), (2, 1), (0, 3))
        b = ThetaPotential(LOW, HIGH, degrees, np.array([0.5, -0.3, 0.2, 0.1]))
        model = with_centring(model, b)
    return dataclasses.replace(est, model=model)


def curved_events() -> np.ndarray:
    """Observables for which natural coordinates are of all kinds."""
    rng = np.random.default_rng(3)
    n = 4000
    return np.column_stack(
        [
            rng.lognormal(0, 2, n),
            -rng.lognormal(0, 2, n),
            rng.beta(0.2, 0.2, n),
            rng.standard_cauchy(n),
            rng.normal(size=n),
        ]
    )


def particle_events() -> np.ndarray:
    """Up to two particles of two features, and a column of the event."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(500, 5))
    left = rng.integers(0, 3, size=500)
    for slot in range(2):
        x[left <= slot, 2 * slot : 2 * slot + 2] = 0
    return x


class Attention(eqx.Module):
    """A user's network: library layers, a softmax, and a normalisation."""

    enter: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    leave: eqx.nn.Linear

    def __call__(self, a: Any) -> Any:
        hidden = self.norm(jnp.tanh(self.enter(a)))
        shares = jax.nn.softmax(jnp.outer(hidden, hidden), axis=1)
        return self.leave(shares @ hidden)


def attention(in_size: int, out_size: int, *, key: Any) -> Attention:
    one, two = jax.random.split(key)
    return Attention(
        eqx.nn.Linear(in_size, 6, key=one), eqx.nn.LayerNorm(6), eqx.nn.Linear(6, out_size, key=two)
    )


def _with_activation(name: str) -> Callable[[], Any]:
    activation = getattr(jax.nn, name)
    return lambda: scaled_estimator(ist.Potential(ist.MLP((8, 8), activation=activation)))


#: Small ones of the kinds that take different ways through the rules, which compile in a moment.
SMALL: dict[str, Callable[[], Any]] = {
    "residual": lambda: scaled_estimator(ist.Potential(ist.Residual(8, 1)), centred=True),
    "two tower": lambda: scaled_estimator(
        ist.Potential(ist.TwoTower(4, ist.MLP((6,)), ist.MLP((6,)))), centred=True
    ),
    "particles": lambda: scaled_estimator(
        ist.Potential(ist.ParticleSet(2, 2, 3, ist.MLP((4,)), ist.MLP((4,)))), x=particle_events()
    ),
    "natural": lambda: scaled_estimator(
        ist.Potential(ist.MLP((8,)), ist.Natural()), x=curved_events()
    ),
    "direct score": lambda: scaled_estimator(ist.DirectScore(ist.MLP((6,)))),
    "direct ratio": lambda: scaled_estimator(ist.DirectRatio(ist.MLP((6,)))),
}
#: Estimators by what they are.
KINDS: dict[str, Callable[[], Any]] = {
    "default": lambda: scaled_estimator(ist.Potential(), centred=True),
    "mlp": lambda: scaled_estimator(ist.Potential(ist.MLP((16, 16), activation=jnp.tanh))),
    "paper": lambda: scaled_estimator(ist.paper_network, members=1),
    "two tower": lambda: scaled_estimator(ist.Potential(ist.TwoTower()), centred=True),
    "particles": lambda: scaled_estimator(
        ist.Potential(ist.ParticleSet(2, 2)), x=particle_events()
    ),
    "particles with a mask": lambda: scaled_estimator(
        ist.Potential(ist.ParticleSet(2, 2, x_features=ist.PerParticle(2, 2, mask=1))),
        x=particle_events(),
    ),
    "two towers of particles": lambda: scaled_estimator(
        ist.Potential(ist.ParticleSet(2, 2, join_network=ist.TwoTower())), x=particle_events()
    ),
    "sorted particles": lambda: scaled_estimator(
        ist.Potential(ist.MLP((8,)), x_features=ist.PerParticle(2, 2)), x=particle_events()
    ),
    "direct score": lambda: scaled_estimator(ist.DirectScore()),
    "direct ratio": lambda: scaled_estimator(ist.DirectRatio()),
    "raw": lambda: scaled_estimator(ist.Potential(ist.MLP((8,)), ist.Raw(), ist.Raw())),
    "standardised": lambda: scaled_estimator(ist.Potential(ist.MLP((8,)), ist.Standardised())),
    "natural": lambda: scaled_estimator(
        ist.Potential(ist.MLP((8,)), ist.Natural()), x=curved_events()
    ),
    "quantile": lambda: scaled_estimator(
        ist.Potential(ist.MLP((8,)), ist.Quantile()), x=curved_events()
    ),
    "a user's network": lambda: scaled_estimator(ist.Potential(attention)),
} | {name: _with_activation(name) for name in ACTIVATIONS}
