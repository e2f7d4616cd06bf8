"""A weight of 2 is the event twice, and weights +1 and −1 on one event are no event at all."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import inferostatic as ist
from inferostatic.learning.dataset.examples import Examples
from inferostatic.learning.methods import AbstractMethod
from inferostatic.learning.training.steps import Job, fix_records, member_losses
from inferostatic.models.potential import PotentialModel
from parameters import slow

PRIOR = ist.Uniform([-1.0, 0.5], [1.0, 2.0])
REFERENCE = [0.5, 1.0]
NETWORK = ist.Potential(ist.MLP((6,), activation=jnp.tanh), ist.Raw(), ist.Raw())
BATCH = 24


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta[:, :1] + theta[:, 1:] * rng.standard_normal((len(theta), 1))


def stored_events(n: int = BATCH, seed: int = 1) -> ist.Events:
    """Events from the prior, a third of which sit at the reference point."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform([-1.0, 0.5], [1.0, 2.0], size=(n, 2))
    theta[::3] = REFERENCE
    return ist.Events(x=simulate(theta, rng), theta=theta, prior=PRIOR)


METHODS: dict[str, AbstractMethod] = {
    "KSE": ist.KSE(ist.Rectangular([0.2, 0.1])),
    "KLRE": ist.KLRE(ist.Rectangular(0.4)),
    "KLRE square": ist.KLRE(ist.Rectangular(0.4), ist.Square()),
    "KLRE savage": ist.KLRE(ist.Rectangular(0.4), ist.Savage()),
    "CARL exponential": ist.CARL(loss=ist.Exponential()),
    "CARL": ist.CARL(),
    "CARL to a point": ist.CARL(reference=REFERENCE),
    "DCTR to a sample": ist.DCTR(stored_events(8, seed=2)),
    "KCE": ist.KCE(number=5),
    "KCE fixed": ist.KCE(ist.Rectangular(0.4), number=3),
    "KCE independent": ist.KCE(ist.Independent(), number=3),
    "Mix": ist.Mix([(1.0, ist.KCE(number=2)), (0.3, ist.KSE(ist.Delta(0.1)))]),
}
methods = pytest.mark.parametrize("name", METHODS)


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly() -> Iterator[None]:
    jax.config.update("jax_disable_most_optimizations", val=True)
    yield
    jax.config.update("jax_disable_most_optimizations", val=False)


def make_job(method: AbstractMethod, events: ist.Events) -> tuple[Job, jax.Array, Examples]:
    """A job, weights of one member, and examples with fixed records."""
    supply = method.supply(events)
    shapes = NETWORK.shapes(events.x, *PRIOR.centre_and_scale)
    model = NETWORK.build(shapes, key=jax.random.key(3))
    assert isinstance(model, PotentialModel)
    weights, _ = ravel_pytree(eqx.filter(model.network, eqx.is_inexact_array))
    job = Job(model, method, supply.distribution, ist.Training(epochs=1).adam, 1)
    examples = Examples(
        features=supply.rows.x,
        weight=jnp.asarray(supply.weight, jnp.float32),
        records=None,
        rows=supply.rows,
    )
    return job, weights, fix_records(job, examples, jax.random.key(4))


@eqx.filter_jit
def _losses_and_gradient(job: Job, weights: jax.Array, examples: Examples) -> tuple[Any, Any]:
    def total(w: jax.Array) -> tuple[jax.Array, jax.Array]:
        losses = job.losses(job.unravel(w), examples)
        return jnp.sum(losses), losses

    gradient, losses = jax.grad(total, has_aux=True)(weights)
    return losses, gradient


class Trial:
    """A method's fixed records on a few events, to be weighted in different ways."""

    def __init__(self, method: AbstractMethod) -> None:
        self.job, self.weights, self.examples = make_job(method, stored_events())
        self.number = len(self.examples)

    def chosen(self, index: Any, weight: Any) -> Examples:
        """The events at `index` with these weights, filled up to one length with weight 0."""
        spare = 3 * self.number - len(index)
        some = self.examples.take(jnp.asarray(np.concatenate([index, np.zeros(spare, int)])))
        factor = jnp.asarray(np.concatenate([weight, np.zeros(spare)]), jnp.float32)
        return eqx.tree_at(lambda e: e.weight, some, some.weight * factor)

    def evaluate(self, examples: Examples) -> tuple[np.ndarray, np.ndarray]:
        """Losses of all events and the gradient of their sum."""
        losses, gradient = _losses_and_gradient(self.job, self.weights, examples)
        return np.asarray(losses, np.float64), np.asarray(gradient)

    def assert_same(self, first: Examples, second: Examples) -> None:
        (losses, gradient), (others, other) = self.evaluate(first), self.evaluate(second)
        np.testing.assert_allclose(losses.sum(), others.sum(), rtol=1e-5)
        np.testing.assert_allclose(gradient, other, rtol=1e-4, atol=1e-5)


@methods
def test_every_method_counts_weights(name):
    trial = Trial(METHODS[name])
    everything, ones = np.arange(trial.number), np.ones(trial.number)
    factor = everything % 3 + 1
    heavy = trial.chosen(everything, factor)

    # A weight of 2 or 3 is the event twice or three times.
    repeated = np.repeat(everything, factor)
    trial.assert_same(heavy, trial.chosen(repeated, np.ones(len(repeated))))
    losses, plain = trial.evaluate(heavy)[0], trial.evaluate(trial.chosen(everything, ones))[0]
    assert abs(losses.sum() / plain.sum() - 1) > 0.1
    np.testing.assert_allclose(losses[: trial.number], factor * plain[: trial.number], rtol=1e-5)

    # Weights of opposite sign cancel: event 1 with +1, +1 and −1, event 2 with +1 and −1.
    index = np.concatenate([everything, [1, 1, 2]])
    signed = trial.chosen(index, np.concatenate([ones, [1.0, -1.0, -1.0]]))
    trial.assert_same(signed, trial.chosen(everything, np.where(everything == 2, 0.0, 1.0)))

    # The mean loss that is shown and validated counts them in the same way.
    mean = np.mean(member_losses(trial.job, trial.weights[None], heavy), axis=1)
    np.testing.assert_allclose(mean, [losses.sum() / (3 * trial.number)], rtol=1e-5)

    # So does the weight that a record brings.
    def is_record(node: object) -> bool:
        return eqx.is_array(getattr(node, "weight", None))

    def double(record: Any) -> Any:
        return eqx.tree_at(lambda r: r.weight, record, 2 * record.weight)

    records = jax.tree.map(double, heavy.records, is_leaf=is_record)
    doubled = eqx.tree_at(lambda e: e.records, heavy, records)
    np.testing.assert_allclose(trial.evaluate(doubled)[0], 2 * losses, rtol=1e-5)


def points_with(weight: Any, repeats: list[int]) -> ist.Events:
    points = np.array([[0.0, 1.0], [0.5, 1.0], [-0.3, 0.7]])
    theta = np.repeat(points, repeats, axis=0)
    return ist.Events(x=np.zeros((len(theta), 1)), theta=theta, weight=weight)


def test_the_law_of_stored_theta_counts_weights():
    # np.unique sorts the points: −0.3, 0, 0.5.
    weighted = points_with([2.0, 1.0, 3.0, 0.5, 0.5], [2, 1, 2]).stored_prior()
    repeated = points_with(None, [3, 3, 1]).stored_prior()
    np.testing.assert_allclose(weighted.probability, [1 / 7, 3 / 7, 3 / 7], rtol=1e-6)
    np.testing.assert_array_equal(weighted.points, repeated.points)
    np.testing.assert_allclose(weighted.probability, repeated.probability, rtol=1e-6)
    signed = points_with([2.0, 1.0, 1.0, -1.0, 3.0, 1.0], [2, 3, 1]).stored_prior()
    np.testing.assert_allclose(signed.probability, [1 / 7, 3 / 7, 3 / 7], rtol=1e-6)


def test_points_whose_weights_cancel_have_no_law():
    with pytest.raises(ValueError, match="1 parameter point.s. have a total weight that is not"):
        points_with([1.0, 1.0, 1.0, 1.0, -1.0], [2, 1, 2]).stored_prior()
    with pytest.raises(ValueError, match="total weight that is not positive"):
        ist.CARL().supply(points_with([1.0, 1.0, 1.0, 1.0, -1.0], [2, 1, 2]))


@pytest.mark.parametrize("name", ["CARL", "KCE independent", "KCE fixed"])
def test_candidates_from_stored_points_follow_the_weights(name):
    weight = np.array([2.0, 1.0, 3.0, 0.5, 0.5])
    weighted = METHODS[name].supply(points_with(weight, [2, 1, 2])).distribution.prior
    repeated = METHODS[name].supply(points_with(None, [3, 3, 1])).distribution.prior
    assert isinstance(weighted, ist.Discrete)
    assert isinstance(repeated, ist.Discrete)
    np.testing.assert_allclose(weighted.probability, repeated.probability, rtol=1e-6)


def two_points(weight: np.ndarray | None, index: np.ndarray) -> ist.Events:
    """Events at a point and at the reference: supervision has nothing left to draw."""
    theta = np.where(np.arange(20)[:, None] < 12, [[0.0, 1.0]], [REFERENCE])
    x = simulate(theta, np.random.default_rng(5))
    return ist.Events(x=x[index], theta=theta[index], weight=weight)


@pytest.mark.parametrize(
    "loss", [ist.Logistic(), slow(ist.Square()), slow(ist.Savage()), slow(ist.Exponential())]
)
def test_fit_takes_a_weight_of_two_as_the_event_twice(loss):
    everything = np.arange(20)
    factor = np.where(everything % 4 == 1, 2, 1)
    training = ist.Training(
        epochs=5, batch_size=64, learning_rate=1e-2, validation_fraction=0.0, epsilon=1e-3
    )
    method = ist.CARL(reference=REFERENCE, loss=loss)

    def losses(events: ist.Events) -> np.ndarray:
        fitted = ist.fit(events, method, network=NETWORK, training=training, seed=6)
        return fitted.history.train_loss[:, 0]

    heavy = losses(two_points(factor.astype(float), everything))
    repeated = losses(two_points(None, np.repeat(everything, factor)))
    plain = losses(two_points(None, everything))
    np.testing.assert_allclose(heavy, repeated, rtol=2e-5)
    assert np.abs(heavy / plain - 1).max() > 1e-3
    # An event with weights +1 and −1 does not exist.
    index = np.concatenate([everything, [3, 15, 3, 15]])
    weight = np.array([1.0] * 22 + [-1.0] * 2)
    np.testing.assert_allclose(losses(two_points(weight, index)), plain, rtol=2e-5)
