"""What the model files in `data/models` need beside themselves, and what is asked of them.

Some of the files were trained with functions that a user might have written. A file remembers such
a function by its name only; here they are again. `data/models/make_models.py` and
`test_model_files.py` both use this module.
"""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

FOLDER = Path(__file__).parent / "data" / "models"
Array = jax.Array

# --- What a user wrote ---------------------------------------------------------------------------


class Sines(eqx.Module):
    """A network with integers, which are not trained, beside its weights."""

    order: Array
    weight: Array

    def __call__(self, a: Array) -> Array:
        return self.weight @ jnp.sin(a[self.order])


def vector_network(in_size: int, out_size: int, *, key: Array) -> Sines:
    weight = jax.random.normal(key, (out_size, in_size))
    return Sines(jnp.arange(in_size)[::-1], weight)


class Products(eqx.Module):
    """A network that takes x and θ apart."""

    x_weight: Array
    theta_weight: Array

    def embed_x(self, x: Array) -> Array:
        return jnp.tanh(self.x_weight @ x)

    def embed_theta(self, theta: Array) -> Array:
        return jnp.tanh(self.theta_weight @ theta)

    def join(self, x_part: Array, theta_part: Array) -> Array:
        return x_part @ theta_part


def pair_network(x_size: int, theta_size: int, *, key: Array) -> Products:
    one, two = jax.random.split(key)
    return Products(jax.random.normal(one, (3, x_size)), jax.random.normal(two, (3, theta_size)))


def autoregressive_flow(x_size: int, theta_size: int, *, key: Array) -> Any:
    from flowjax.distributions import Normal
    from flowjax.flows import masked_autoregressive_flow

    return masked_autoregressive_flow(
        key,
        base_dist=Normal(jnp.zeros(x_size)),
        cond_dim=theta_size,
        flow_layers=1,
        nn_width=4,
        nn_depth=1,
        nn_activation=jnp.tanh,
    )


def wave(z: Array) -> Array:
    return jnp.sin(2 * z)


def width_by_theta(theta: Array) -> Array:
    return 0.2 + 0.05 * jnp.abs(theta)


def draw_theta(key: Array) -> Array:
    return jax.random.uniform(key, (2,)) * jnp.array([2.0, 1.0]) - jnp.array([1.0, 0.5])


def log_density_of_theta(theta: Array) -> Array:
    return jnp.sum(0.0 * theta)


def draw_on_a_disc(dim: int, key: Array) -> Array:
    direction, radius = jax.random.split(key)
    u = jax.random.normal(direction, (dim,))
    return u / jnp.linalg.norm(u) * jax.random.uniform(radius) ** (1 / dim)


def log_density_on_a_disc(u: Array) -> Array:
    return jnp.where(jnp.sum(u**2) <= 1, 0.0, -jnp.inf)


def draw_partner(theta: Array, key: Array) -> Array:
    del theta
    return draw_theta(key)


def latent_log_prob(z: Array, theta: Array) -> Array:
    """z ~ N(θ, 1/4)."""
    return -2 * (z[0] - theta[0]) ** 2 - 0.5 * jnp.log(jnp.pi / 2)


def transfer_log_prob(x: Array, z: Array) -> Array:
    """x ~ N(z, 1/4)."""
    return -2 * (x[0] - z[0]) ** 2 - 0.5 * jnp.log(jnp.pi / 2)


#: By the names in the files. A function without a name has that of the field that held it.
SUPPLIED: dict[str, Any] = {
    function.__name__: function
    for function in (
        vector_network,
        pair_network,
        autoregressive_flow,
        wave,
        width_by_theta,
        draw_theta,
        log_density_of_theta,
        draw_on_a_disc,
        log_density_on_a_disc,
        draw_partner,
        latent_log_prob,
        transfer_log_prob,
    )
} | {"Factorised.alpha": lambda t: t, "Factorised.beta": lambda t: 1 - t / 2}


# --- What is asked -------------------------------------------------------------------------------

#: Questions, and which of (x, θ, θ') each takes; no estimator answers all of them.
QUESTIONS = {
    "potential": (0, 1),
    "score": (0, 1),
    "log_ratio": (0, 1, 2),
    "log_prob": (0, 1),
    "sample": (1,),
}
#: Draws of the latent variables where an answer is an average over them.
DRAWS = 64


def answers(
    estimator: Any, at: tuple[np.ndarray, ...], questions: tuple[str, ...]
) -> dict[str, list[Any]]:
    """What an estimator answers for events x at θ, with θ' for ratios."""
    found = {}
    for question in questions:
        options: dict[str, int] = {"seed": 1} if question == "sample" else {}
        if not hasattr(estimator, "history"):
            options = {"samples": DRAWS, "seed": 1}
        given = getattr(estimator, question)(*(at[i] for i in QUESTIONS[question]), **options)
        found[question] = np.asarray(given).tolist()
    return found


def told(estimator: Any, theta: np.ndarray | None = None) -> dict[str, Any]:
    """What an estimator tells of itself, in values that do not depend on how classes are called."""
    found = {
        "method": str(estimator.method),
        "x_names": list(estimator.x_names),
        "theta_names": list(estimator.theta_names),
    }
    if not hasattr(estimator, "history"):
        parts = {"proposal": estimator.proposal, "transfer": estimator.transfer}
        found |= {"samples": estimator.method.samples}
        found |= {"region": [estimator.theta_low.tolist(), estimator.theta_high.tolist()]}
        return found | {name: part and told(part) for name, part in parts.items()}
    region, history, training = estimator.region, estimator.history, estimator.training
    found |= {
        "members": estimator.members,
        "region": [
            np.asarray(edge).tolist()
            for edge in (region.theta_low, region.theta_high, region.x_low, region.x_high)
        ],
        "train_loss": history.train_loss.tolist(),
        "validation_loss": history.validation_loss.tolist(),
        "seconds": history.seconds.tolist(),
        "best_epoch": history.best_epoch.tolist(),
        "stopped": history.stopped,
        "warnings": list(history.warnings),
        "choices": list(history.choices),
        # Files may leave out how a model was trained.
        "training": training and [training.epochs, training.batch_size, training.learning_rate],
    }
    prior = estimator.prior
    found["prior"] = {
        "names": list(prior.names),
        "support": [edge.tolist() for edge in prior.support],
        "centre_and_scale": [part.tolist() for part in prior.centre_and_scale],
    }
    if theta is not None:
        found["prior"]["log_prob"] = prior.log_prob(theta).tolist()
    return found
