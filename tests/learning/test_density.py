"""Densities learned by maximum likelihood, alone and with joint scores."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.estimator.density import DensityEstimator
from inferostatic.estimator.estimator import CapabilityError
from inferostatic.learning.arguments import as_architecture
from inferostatic.learning.dataset.memory import split_rows
from inferostatic.learning.density_methods import NDE, SCANDAL
from inferostatic.models.features.invertible import log_jacobian
from inferostatic.models.flows.flow import DensityModel, Flow, MixtureFlow
from inferostatic.models.members import with_network

pytest.importorskip("flowjax")

PRIOR = ist.Uniform([-2.0], [2.0], names=["mean"])
SMALL = Flow(MixtureFlow(layers=0, components=2, width=12, depth=1))
FEW = ist.Training(epochs=25, batch_size=128, learning_rate=1e-2)
WIDTH = 0.7


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly() -> Iterator[None]:
    jax.config.update("jax_disable_most_optimizations", val=True)
    yield
    jax.config.update("jax_disable_most_optimizations", val=False)


def simulate(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """x ~ N(2θ + 5, σ²): a density whose unit matters."""
    return 2 * theta + 5 + WIDTH * rng.normal(size=(len(theta), 1))


def exact(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    away = (x - 2 * theta - 5)[:, 0] / WIDTH
    return -(away**2) / 2 - np.log(WIDTH) - np.log(2 * np.pi) / 2


def events(n: int = 3000, seed: int = 1) -> ist.Events:
    return ist.simulate(simulate, PRIOR, n, seed=seed)


@pytest.fixture(scope="module")
def trained() -> DensityEstimator:
    return ist.fit(events(), NDE(), network=SMALL, members=2, training=FEW, seed=4)


def test_the_density_is_learned_in_the_units_of_x(trained: DensityEstimator) -> None:
    """The excess of the mean −ln p̂ is about parameters/2N: some 50 of 3,000 events, 0.01."""
    test = events(20_000, seed=9)
    excess = np.mean(exact(test.x, test.theta) - trained.log_prob(test.x, test.theta))
    assert 0 < excess < 0.02
    assert trained.history.validation_loss.shape == (25, 2)


def test_a_flow_is_the_default_network_of_a_density() -> None:
    """For SCANDAL as well, and not for methods that ask for less."""
    assert as_architecture(None, 100, NDE()) == Flow()
    assert as_architecture(None, 100, SCANDAL()) == Flow()
    assert isinstance(as_architecture(None, 100, ist.KCE()), ist.Potential)


def test_the_law_of_the_parameters_need_not_be_known() -> None:
    """Nothing is drawn from it, so there is no word about it."""
    data = events(1200)
    bare = ist.Events(x=data.x, theta=data.theta)
    once = ist.Training(epochs=1, batch_size=128)
    estimator = ist.fit(bare, NDE(), network=SMALL, training=once, seed=1)
    assert isinstance(estimator, DensityEstimator)
    assert str(estimator.method) == "NDE"
    assert estimator.region.theta_high[0] == data.theta.max()


def test_other_networks_are_refused() -> None:
    """A potential has no density to maximise."""
    for network in (ist.MLP((8,)), ist.Potential(), ist.DirectScore()):
        with pytest.raises(TypeError, match=r"NDE trains density.*Use a flow.*ist\.Flow"):
            ist.fit(events(100), NDE(), network=network, seed=1)


def test_the_members_of_a_density_are_mixed(trained: DensityEstimator) -> None:
    """p is the mean of their densities, which is normalised; φ is the mean of their potentials."""

    def member(i: int) -> DensityModel:
        network = jax.tree.map(lambda leaf: leaf[i], trained.model.network)
        return eqx.tree_at(lambda m: m.network, trained.model, network)

    x = np.linspace(-5.0, 15.0, 2001)[:, None]
    theta = jnp.asarray([0.5])
    values = np.array(
        [jax.vmap(lambda row: member(i).log_prob(row, theta))(jnp.asarray(x)) for i in (0, 1)]  # noqa: B023
    )
    with pytest.warns(UserWarning, match="outside the range of x"):
        found = trained.log_prob(x, [0.5])
    mixed = np.logaddexp(*values.astype(np.float64)) - np.log(2)
    np.testing.assert_allclose(found, mixed, rtol=1e-4, atol=1e-4)
    assert np.trapezoid(np.exp(found), x[:, 0]) == pytest.approx(1, abs=1e-4)
    some = slice(800, 1200, 20)
    jacobian = float(log_jacobian(trained.model.x_features, jnp.asarray(x[0])))
    np.testing.assert_allclose(
        trained.potential(x[some], [0.5]), values.mean(axis=0)[some] - jacobian, atol=1e-4
    )


def test_inference_takes_a_density(trained: DensityEstimator) -> None:
    """The estimate of 100 events is their mean, (x̄ − 5)/2, to a fraction of its error, 0.035."""
    x = simulate(np.full((100, 1), 0.4), np.random.default_rng(3))
    result = ist.maximum_likelihood(trained, x)
    assert abs(result.theta[0] - (x.mean() - 5) / 2) < 0.02


def test_conditional_draws(trained: DensityEstimator) -> None:
    """One event for each θ, with the mean and width of the law to 5 standard errors and a bit."""
    theta = np.repeat([[-1.0], [1.5]], 5000, axis=0)
    x = trained.sample(theta, seed=2).reshape(2, 5000)
    error = WIDTH / np.sqrt(5000)
    # What the flow itself got wrong comes on top: compare with its own mean.
    assert np.abs(x.mean(axis=1) - [3.0, 8.0]).max() < 5 * error + 0.05
    assert np.abs(x.std(axis=1) - WIDTH).max() < 5 * error + 0.05
    np.testing.assert_array_equal(trained.sample(theta[:3], seed=2)[:, 0].shape, (3,))
    np.testing.assert_array_equal(trained.sample(theta, seed=2), x.reshape(-1, 1))
    with pytest.raises(ValueError, match="expected theta with 1 columns"):
        trained.sample([[0.0, 1.0]], seed=1)
    for seed in (1.5, -1, True, None):
        with pytest.raises((TypeError, ValueError), match="seed must"):
            trained.sample([[0.0]], seed=seed)  # pyright: ignore[reportArgumentType]


def test_the_loss_is_that_of_the_features(trained: DensityEstimator) -> None:
    """So it differs from −ln p̂ by the mean of ln|du/dx|, which training need not know."""
    data, split = events(), split_rows(3000, 0.1, 4)
    held = data[split.validation]
    one = dataclasses.replace(
        trained,
        model=eqx.tree_at(
            lambda m: m.network, trained.model, jax.tree.map(lambda a: a[:1], trained.model.network)
        ),
    )
    jacobian = float(log_jacobian(one.model.x_features, jnp.asarray(held.x[0], jnp.float32)))
    epoch = trained.history.best_epoch[0] - 1
    loss = trained.history.validation_loss[epoch, 0]
    assert -one.log_prob(held.x, held.theta).mean() + jacobian == pytest.approx(loss, abs=1e-4)


def test_a_density_is_never_centred() -> None:
    """A function of θ alone would break its normalisation."""
    with pytest.raises(ValueError, match="would break the normalisation"):
        ist.fit(
            events(200), NDE(), network=SMALL, training=ist.Training(epochs=1, centre=True), seed=1
        )


def test_a_potential_says_that_it_has_no_density() -> None:
    """And how to get one."""
    estimator: Any = ist.fit(
        events(200), network=ist.MLP((4,)), training=ist.Training(epochs=1), seed=1
    )
    with pytest.raises(CapabilityError, match=r"ist\.fit\(events, ist\.NDE\(\)"):
        estimator.log_prob(events(10).x, [0.0])


def with_scores(n: int) -> ist.Events:
    """Without any latent variable, the joint score is the score."""
    data = events(n)
    score = 2 * (data.x - 2 * data.theta - 5) / WIDTH**2
    return ist.Events(x=data.x, theta=data.theta, prior=PRIOR, latent={"joint_score": score})


# Few events are trained on, and some of many others lie beyond them.
@pytest.mark.filterwarnings("ignore:.*outside the range of x seen in training:UserWarning")
@pytest.mark.slow
def test_joint_scores_teach_a_density() -> None:
    """SCANDAL's scores, learned from few events, are far better than those of NDE."""
    longer = dataclasses.replace(FEW, epochs=150)
    test = events(2000, seed=8)
    truth = 2 * (test.x - 2 * test.theta - 5) / WIDTH**2
    errors = []
    for method in (NDE(), SCANDAL(0.2)):
        estimator = ist.fit(with_scores(400), method, network=SMALL, training=longer, seed=2)
        assert isinstance(estimator, DensityEstimator)
        found = estimator.score(test.x, test.theta)
        errors.append(np.sqrt(np.mean(np.square(found - truth))))
    assert errors[1] < 0.6 * errors[0]


def test_scandal_in_words(tmp_path: Path) -> None:
    """Its name, what it refuses, and what it needs."""
    assert str(SCANDAL()) == "SCANDAL"
    with pytest.raises(ValueError, match="alpha must be a finite number above 0"):
        SCANDAL(-1.0)
    with pytest.raises(ValueError, match="joint scores"):
        ist.fit(events(100), SCANDAL(), network=SMALL, training=FEW, seed=1)
    one = ist.Training(epochs=1)
    estimator = ist.fit(
        with_scores(100), SCANDAL(0.5, unit=2.0), network=SMALL, training=one, seed=1
    )
    estimator.save(tmp_path / "model.isn")
    assert eqx.tree_equal(ist.load(tmp_path / "model.isn").method, estimator.method)


def test_a_density_and_its_score_are_evaluated_at_once_to_the_same_loss(
    trained: DensityEstimator,
) -> None:
    """Weighted, with a unit: each event's loss is the sum of those of its parts."""
    method = SCANDAL(0.5, unit=2.0)
    some = with_scores(30)
    supply = method.supply(some)
    model = jax.tree.map(
        lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, trained.model.network
    )
    model = with_network(trained.model, model)
    keys = jax.random.split(jax.random.key(1), 30)
    records = jax.vmap(lambda row, key: method.supervise(row, supply.distribution, key=key))(
        supply.rows, keys
    )
    x = jnp.asarray(some.x, jnp.float32)
    together = method.losses_of(model, x, records)
    apart = [
        weight * part.losses_of(model, x, record)
        for (weight, part), record in zip(method.parts, records, strict=True)
    ]
    np.testing.assert_allclose(together, apart[0] + apart[1], rtol=1e-5, atol=1e-6)
    assert np.abs(np.asarray(apart[1])).max() > 0.1


def test_records_of_densities() -> None:
    """Drawn by the flowchart: θ from the prior, then x."""
    records = ist.draw(NDE(), simulate, PRIOR, 200, seed=3)
    estimator = ist.fit(records, network=SMALL, training=ist.Training(epochs=1), seed=1)
    assert isinstance(estimator, DensityEstimator)
