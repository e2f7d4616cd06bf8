"""This library, through its public path: `draw`, then `fit`, timed by the fit's own history.

`history.seconds` holds the wall seconds of every epoch: order, batches, optimiser and training
loss. The first epoch includes compilation and is dropped. `--members` trains an ensemble.
"""

import argparse
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np

from peers import problem
from peers.problem import KSE, Array
from peers.service import Job, serve

try:
    import inferostatic as ist
except ImportError as error:
    raise SystemExit(
        f"inferostatic cannot be imported ({error}). Install it into the interpreter that runs the "
        "benchmark (pip install -e .), or leave it out with --stacks keras keras-steps50 torch."
    ) from error


@cache
def records(what: str, count: int) -> Any:  # noqa: ANN401
    """Draw the records that the task trains on."""
    method = (
        ist.KSE(ist.Delta(problem.KSE_WIDTH))
        if what == KSE
        else ist.KLRE(ist.Rectangular(problem.KLRE_WIDTH))
    )
    corners = ([problem.PRIOR_LOW] * problem.DIMENSIONS, [problem.PRIOR_HIGH] * problem.DIMENSIONS)
    simulator = ist.toys.Dirichlet(problem.DIMENSIONS)
    return ist.draw(method, simulator, ist.Uniform(*corners), count, seed=3)


def fit(job: Job, *, members: int, start: Any = None) -> Any:  # noqa: ANN401
    """Train the paper's network with the paper's settings, without validation."""
    beta1, beta2 = problem.ADAM_BETAS
    training = ist.Training(
        epochs=job.epochs,
        batch_size=job.batch,
        learning_rate=problem.LEARNING_RATE,
        weight_decay=0.0,
        clip=None,
        schedule=ist.Constant(),
        beta1=beta1,
        beta2=beta2,
        epsilon=problem.ADAM_EPSILON,
        validation_fraction=0,
        progress_bar=False,
    )
    return ist.fit(
        records(job.what, job.row_count),
        # A fit that continues from an estimator keeps its network.
        network=ist.paper_network if start is None else None,
        members=members,
        training=training,
        start=start,
        seed=job.seed,
    )


def mean_loss(what: str, estimator: Any, path: str) -> float:  # noqa: ANN401
    """Return the loss of a trained estimator on the rows of a file."""
    rows = problem.load_rows(path)
    x, theta = np.split(rows.inputs, 2, axis=-1)
    if what == KSE:
        return problem.squared_error(estimator.score(x, theta), rows.targets)
    log_ratio = estimator.log_ratio(x[:, 0], theta[:, 0], theta[:, 1])
    return problem.logistic_loss(log_ratio, rows.targets)


def with_weights(estimator: Any, weights: list[Array]) -> Any:  # noqa: ANN401
    """Return the estimator with its network's arrays replaced, in the order of the layers."""
    leaves, structure = jax.tree_util.tree_flatten(estimator.model.network)
    waiting = list(weights)
    replaced = []
    for leaf in leaves:
        fits = bool(waiting) and np.ndim(leaf) > 0 and np.size(leaf) % waiting[0].size == 0
        replaced.append(_shaped_like(leaf, waiting.pop(0)) if fits else leaf)
    if waiting:
        shapes = [np.shape(leaf) for leaf in leaves]
        raise ValueError(f"{len(waiting)} of the weights found no place among arrays {shapes}.")
    network = jax.tree_util.tree_unflatten(structure, replaced)
    return replace(estimator, model=replace(estimator.model, network=network))


def _shaped_like(leaf: jax.Array, weight: Array) -> jax.Array:
    """Return the weight as (inputs, outputs) or its transpose, repeated for each member."""
    same_order = leaf.shape[-weight.ndim :] == weight.shape
    flat = np.ravel(weight if same_order else weight.T)
    return jax.numpy.asarray(np.tile(flat, leaf.size // flat.size).reshape(leaf.shape))


class InferostaticStack:
    """The worker's answers."""

    def __init__(self, members: int) -> None:
        self._members = members

    def describe(self) -> dict[str, dict[str, str]]:
        """Return versions and settings."""
        versions = {"inferostatic": ist.__version__, "jax": jax.__version__}
        settings = {"members": str(self._members), "device": jax.devices()[0].device_kind}
        return {"versions": versions, "settings": settings}

    def warm_up(self, job: Job) -> None:
        """Draw the records; compilation falls into the epoch that every fit drops."""
        records(job.what, job.row_count)

    def epoch_seconds(self, job: Job) -> list[float]:
        """Train, and return the wall seconds of each epoch but the first."""
        estimator = fit(replace(job, epochs=job.epochs + 1), members=self._members)
        return np.asarray(estimator.history.seconds, float)[1:].tolist()

    def trained_loss(self, job: Job, weights: list[Array]) -> float:
        """Train from given weights, and return the loss on the held-out rows."""
        estimator = fit(job, members=self._members, start=self._untrained(job.what, weights))
        return mean_loss(job.what, estimator, job.held_out)

    def loss_at(self, what: str, rows: str, weights: list[Array]) -> float:
        """Return the loss of given weights on the rows of a file."""
        return mean_loss(what, self._untrained(what, weights), rows)

    def _untrained(self, what: str, weights: list[Array]) -> Any:  # noqa: ANN401
        """Return an estimator with given weights; the fit before only sets it up."""
        setting_up = Job(what=what, batch=1000, row_count=1000, epochs=1, rows="")
        return with_weights(fit(setting_up, members=self._members), weights)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    serve(InferostaticStack(_arguments().members))
