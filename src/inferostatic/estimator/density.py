"""The trained artefact that is a normalised density: a flow, which can be drawn from as well."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..chunks import padded
from ..inputs import Input, as_seed
from ..models.features.invertible import undone
from ..models.members import each_member, log_mean_exp
from ..models.potential import AbstractModel
from ..streams import Purpose, Stream
from .estimator import Estimator


class DensityEstimator(Estimator):
    """A trained flow, ln p(x; θ): a potential that is the logarithm of a normalised density.

    Several members are averaged in two ways. The density is their mixture, the mean of their
    densities, which is normalised. The potential, with its scores and log ratios, is the mean of
    their potentials, as in every `Estimator`; so a difference of `log_prob` is the log ratio for a
    single member only.
    """

    def log_prob(self, x: Input, theta: Input, *, memory_mb: float | None = None) -> np.ndarray:
        """Ln p(x; θ), shape (n,): normalised, in the units of x.

        Args:
            x: events, shape (n, D), or (D,) for one event.
            theta: parameters, shape (n, d), or (d,) for all events.
            memory_mb: bound on the memory of the evaluation.
        """
        return self._map("log_prob", self._check(x, theta), memory_mb, over=log_mean_exp)

    def log_prob_anywhere(self, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """The same of finite rows, without a warning about those far from the training events."""
        return self._map("log_prob", [x, theta], None, over=log_mean_exp)

    def sample(self, theta: Input, *, seed: int) -> np.ndarray:
        """One event x drawn at each θ, shape (n, D).

        Args:
            theta: parameters, shape (n, d), or (d,) for one event.
            seed: the same seed gives the same events.
        """
        rows = self._read_theta(theta)
        if rows.shape[1] != len(self.theta_names) or len(rows) == 0:
            raise ValueError(
                f"expected theta with {len(self.theta_names)} columns "
                f"({', '.join(self.theta_names)}) and a row for each event; got shape {rows.shape}."
            )
        self._check_theta(rows)
        key = Stream(as_seed(seed), Purpose.DENSITY_SAMPLE).key()
        return undone(self.model.x_features, self.sample_features(rows, key))

    def sample_features(self, theta: np.ndarray, key: Array) -> np.ndarray:
        """Features of one event drawn at each θ."""
        count = len(theta)
        rows = self._count_rows(count, None)
        parts = []
        for start in range(0, count, rows):
            chunk = padded(theta[start : start + rows], rows)
            drawn = _draw(self.model, chunk, jax.random.fold_in(key, start))
            parts.append(np.asarray(drawn)[: count - start])
        return np.concatenate(parts).astype(np.float64)


@eqx.filter_jit
def _draw(model: AbstractModel, theta: Array, key: Array) -> Array:
    """Features drawn at each θ, each by one of the members, chosen at random."""
    choosing, drawing = jax.random.split(key)
    keys = jax.random.split(drawing, len(theta))
    drawn = each_member(
        model, lambda member: jax.vmap(lambda t, k: member.sample_features(t, key=k))(theta, keys)
    )
    chosen = jax.random.randint(choosing, (len(theta),), 0, len(drawn))
    return drawn[chosen, jnp.arange(len(theta))]
