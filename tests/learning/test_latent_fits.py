"""Fits from latent information, from simulators, stored numbers, morphing weights and files."""

import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import inferostatic as ist
from inferostatic.events.morphing.weighted_pool import WeightedPool

CHAIN = ist.toys.GaussianChain()
PRIOR = ist.Uniform([-1.0, -0.5], [1.0, 0.5], names=["mean", "log_width"])
QUICK = ist.Training(epochs=20, batch_size=64, progress_bar=False)
NETWORK = ist.Potential(ist.MLP((32, 32)), ist.Standardised())


@pytest.fixture(scope="module")
def events() -> ist.Events:
    return ist.simulate(CHAIN, PRIOR, 4000, seed=1, progress_bar=False)


@pytest.fixture(scope="module")
def pairs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    theta0, theta1 = PRIOR.sample(4000, seed=8), PRIOR.sample(4000, seed=9)
    theta = np.where(rng.integers(2, size=(4000, 1)) == 1, theta1, theta0)
    x = CHAIN(theta, rng)
    exact = CHAIN.log_prob(x, theta0) - CHAIN.log_prob(x, theta1)
    return {"x": x, "theta0": theta0, "theta1": theta1, "log_ratio": exact}


def error(estimator: ist.Estimator | ist.RatioEstimator, pairs: dict[str, np.ndarray]) -> float:
    found = estimator.log_ratio(pairs["x"], pairs["theta0"], pairs["theta1"])
    exact = pairs["log_ratio"]
    return float(np.mean(np.square(found - exact)) / exact.var())


@pytest.mark.slow
def test_latent_information_is_worth_many_events(
    pairs: dict[str, np.ndarray],
) -> None:
    """Joint ratios beat labels, and joint scores beside them are better still.

    Errors vary by a third between samples, mean ones fall by 1.8 and by 1.5: eight samples tell.
    """
    samples = [ist.simulate(CHAIN, PRIOR, 4000, seed=j, progress_bar=False) for j in range(8)]
    errors = [
        [
            error(ist.fit(one, method, network=NETWORK, training=QUICK, seed=j), pairs)
            for method in (ist.CARL(), ist.ALICE(), ist.ALICES())
        ]
        for j, one in enumerate(samples)
    ]
    for gain in -np.diff(np.log(errors), axis=1).T:
        # Methods that are equally good pass once in a hundred.
        test: Any = stats.ttest_1samp(gain, 0.0, alternative="greater")
        assert test.pvalue < 0.01


@pytest.mark.slow
def test_the_best_weight_decay_is_taken_not_the_strongest_within_errors(events: ist.Events) -> None:
    trying = ist.Training(epochs=10, batch_size=64, choose=True, progress_bar=False)
    found = ist.fit(events[:1500], ist.SALLY(), network=NETWORK, training=trying, members=1, seed=2)
    (words,) = found.history.choices
    others = re.findall(r"([+-]\d\.\d+) ± \d", words)
    assert 1 <= len(others) <= 3
    assert all(float(excess) >= 0 for excess in others)


@pytest.mark.slow
def test_a_direct_ratio_network_learns_from_it(
    events: ist.Events, pairs: dict[str, np.ndarray]
) -> None:
    network = ist.DirectRatio(ist.MLP((32, 32), output_bias=True), ist.Standardised())
    found = ist.fit(events, ist.ALICES(), network=network, training=QUICK, seed=2)
    assert isinstance(found, ist.RatioEstimator)
    assert error(found, pairs) < 0.1


def test_a_local_score_is_a_regression_at_its_reference() -> None:
    theta = np.array([0.2, -0.1])
    x, z = CHAIN.simulate_latent(np.tile(theta, (4000, 1)), np.random.default_rng(3))
    joint = ist.JointDensity(CHAIN.joint_log_prob)
    events = ist.Events(x=x, theta=theta, latent=ist.Latent({"z": z}, joint))
    network = ist.DirectScore(ist.MLP((32, 32), output_bias=True), ist.Standardised())
    found = ist.fit(events, ist.SALLY(reference=theta), network=network, training=QUICK, seed=2)
    fresh = CHAIN(np.tile(theta, (4000, 1)), np.random.default_rng(4))
    exact = CHAIN.score(fresh, theta)
    off = np.mean(np.square(found.score(fresh, theta) - exact), axis=0) / exact.var(axis=0)
    assert (off < 0.1).all()
    with pytest.warns(UserWarning, match="outside the trained region"):
        found.score(fresh[:5], theta + 0.3)


@pytest.mark.slow
def test_a_saved_model_knows_its_method(events: ist.Events, tmp_path: Path) -> None:
    short = ist.Training(epochs=1, batch_size=500, progress_bar=False)
    parts = [(1.0, ist.RASCAL(0.5, unit=[1.0, 2.0])), (0.5, ist.KCE(number=2, latent=True))]
    for number, method in enumerate((ist.Mix(parts), ist.SALLY())):
        found = ist.fit(events[:1000], method, network=NETWORK, training=short, seed=2)
        found.save(tmp_path / f"{number}.isn")
        read = ist.load(tmp_path / f"{number}.isn")
        assert str(read.method) == str(method)
        assert jax.tree.structure(read.method) == jax.tree.structure(method)
        np.testing.assert_array_equal(
            read.potential(events.x[:9], events.theta[:9]),
            found.potential(events.x[:9], events.theta[:9]),
        )


@pytest.mark.slow
def test_latent_arrays_are_read_from_files(
    events: ist.Events,
    pairs: dict[str, np.ndarray],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inferostatic.learning.dataset.build.READ_WHOLE", 0)
    arrays = {"x": events.x, "theta": events.theta, "z": events.latent["z"]}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array.astype(np.float32))
    x, theta, z = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in arrays)
    latent = ist.Latent({"z": z}, events.latent.joint)
    mapped = ist.Events(x=x, theta=theta, prior=PRIOR, latent=latent)
    assert mapped.mapped
    found = ist.fit(mapped, ist.ALICES(), network=NETWORK, training=QUICK, seed=2)
    assert error(found, pairs) < 0.1
    with pytest.raises(ValueError, match="memory-mapped events do not allow"):
        ist.fit(mapped, ist.ALICE(reference=[0.0, 0.0]), network=NETWORK, seed=2)


@pytest.mark.slow
def test_morphing_weights_teach_the_exact_ratios() -> None:
    """A pool of weighted events, drawn at one point, serves every θ."""
    toy = ist.toys.TwoCouplings()
    prior = ist.Uniform([-0.5, -0.5], [0.5, 0.5])
    x, z = toy.simulate_latent(np.zeros((20_000, 2)), np.random.default_rng(1))
    benchmarks = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, 1.0]])
    weights = toy.weights(z, benchmarks, theta=np.zeros(2))
    morphing = ist.Morphing(toy.powers, benchmarks).with_sample(weights)
    pool = ist.WeightedPool(x, weights, morphing)
    events = pool.events(prior, 6000, seed=3, progress_bar=False)
    assert ist.checks.latent(events).passed
    found = ist.fit(events, ist.ALICES(), network=NETWORK, training=QUICK, seed=2)
    rng = np.random.default_rng(5)
    theta0, theta1 = prior.sample(3000, seed=8), prior.sample(3000, seed=9)
    fresh = toy(theta0, rng)
    exact = toy.log_prob(fresh, theta0) - toy.log_prob(fresh, theta1)
    off = np.mean(np.square(found.log_ratio(fresh, theta0, theta1) - exact)) / exact.var()
    assert off < 0.1


@pytest.mark.slow
def test_a_pool_and_its_events_at_a_reference_teach_the_ratio_to_it() -> None:
    """Against the exact ratio of the couplings, from the lines of the documentation."""
    toy = ist.toys.TwoCouplings()
    prior, point = ist.Uniform([-0.5, -0.5], [0.5, 0.5]), np.array([0.2, -0.1])
    x, z = toy.simulate_latent(np.zeros((20_000, 2)), np.random.default_rng(1))
    benchmarks = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, 1.0]])
    weights = toy.weights(z, benchmarks, theta=np.zeros(2))
    morphing = ist.Morphing(toy.powers, benchmarks)
    pool = WeightedPool(x, weights, morphing, weight_names=tuple("abcdefg"))
    events = pool.events(prior, 3000, seed=3, progress_bar=False)
    same = events.latent.joint
    assert isinstance(same, ist.Morphing)
    at_reference = pool.events(point, 3000, seed=4, morphing=same, progress_bar=False)
    both = ist.Events.concatenate([events, at_reference], prior=prior)
    found = ist.fit(both, ist.ALICES(reference=point), network=NETWORK, training=QUICK, seed=2)
    theta = prior.sample(3000, seed=8)
    fresh = toy(theta, np.random.default_rng(5))
    exact = toy.log_prob(fresh, theta) - toy.log_prob(fresh, point)
    off = np.mean(np.square(found.log_ratio(fresh, theta, point) - exact)) / exact.var()
    assert off < 0.05


@pytest.mark.slow
def test_a_ratio_set_of_madminer_teaches_the_ratio_to_its_reference(tmp_path: Path) -> None:
    """Files as `sample_train_ratio` writes them: the score at θ0, whichever θ made the event."""
    point, n = np.array([0.2, -0.1]), 4000
    theta0, theta1 = PRIOR.sample(n, seed=11), np.tile(point, (n, 1))
    y = np.arange(n)[:, None] % 2
    x, z = CHAIN.simulate_latent(np.where(y, theta1, theta0), np.random.default_rng(12))
    density: Any = jax.vmap(CHAIN.joint_log_prob)
    log_r = density(x, z, theta0) - density(x, z, theta1)
    t = jax.vmap(jax.grad(CHAIN.joint_log_prob, argnums=2))(x, z, theta0)
    arrays = dict(x=x, y=y, theta0=theta0, theta1=theta1, r_xz=np.exp(log_r)[:, None], t_xz=t)
    for name, values in arrays.items():
        np.save(tmp_path / f"{name}_set.npy", values)
    events = ist.read_madminer_samples(tmp_path, prior=PRIOR)
    theta = PRIOR.sample(4000, seed=13)
    fresh = CHAIN(theta, np.random.default_rng(14))
    exact = CHAIN.log_prob(fresh, theta) - CHAIN.log_prob(fresh, point)
    found = ist.fit(events, ist.ALICES(reference=point), network=NETWORK, training=QUICK, seed=2)
    off = np.mean(np.square(found.log_ratio(fresh, theta, point) - exact)) / exact.var()
    assert off < 0.05  # CARL, which learns from the labels alone, has 0.11


@pytest.mark.slow
def test_a_file_of_madminer_is_trained_on_in_two_lines() -> None:
    path = Path(__file__).parent.parent / "data" / "madminer" / "mixed.h5"
    pool = ist.read_madminer(path)
    prior = ist.Uniform([-0.3, -0.3], [0.3, 0.3])
    short = ist.Training(epochs=1, progress_bar=False)
    with pytest.warns(UserWarning, match="effective"):  # the file has few events
        events = pool.events(prior, 2000, seed=1)
    found = ist.fit(events, ist.ALICES(), network=NETWORK, training=short, seed=2)
    assert found.theta_names == pool.theta_names
    assert np.isfinite(found.history.validation_loss).all()
