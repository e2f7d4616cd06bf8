"""msprime's joint likelihoods against the exact law of the number of mutations, and the example."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import inferostatic as ist

pytest.importorskip("msprime")

EXAMPLE = Path(__file__).parents[2] / "examples" / "msprime_coalescent.py"
N = 1000
THETA, PARTNER = np.array([0.2, -0.3]), np.array([0.35, -0.15])
#: Errors by which a mean may miss: about one in 30,000 for each.
FAR = 4.2


@pytest.fixture(scope="module")
def example() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(EXAMPLE)))


@pytest.fixture(scope="module")
def events(example: SimpleNamespace) -> ist.Events:
    return example.simulated(np.tile(THETA, (N, 1)), np.tile(PARTNER, (N, 1)), seed=5)


@pytest.fixture(scope="module")
def bins(events: ist.Events) -> np.ndarray:
    """One column for each of six ranges of S, 1 in it and 0 elsewhere."""
    edges = np.array([0, 3, 5, 7, 9, 13, 1000])
    return ((events.x >= edges[:-1]) & (events.x < edges[1:])).astype(float)


def errors_from_zero(values: np.ndarray) -> np.ndarray:
    return values.mean(axis=0) / (values.std(axis=0) / np.sqrt(len(values)))


@pytest.mark.slow
def test_mutations_follow_the_exact_law(
    example: SimpleNamespace, events: ist.Events, bins: np.ndarray
) -> None:
    every = np.exp(example.exact_log_prob(np.arange(400.0), THETA[None]))
    np.testing.assert_allclose(every.sum(), 1, rtol=1e-12)
    # Watterson: 4Nμ times the sum of 1/k.
    mean = 4 * np.exp(THETA.sum()) * (1 / np.arange(1, example.GENOMES)).sum()
    np.testing.assert_allclose(every @ np.arange(400), mean, rtol=1e-10)
    assert abs(errors_from_zero(events.x[:, 0] - mean)) < FAR
    edges = [0, 3, 5, 7, 9, 13, 400]
    expected = [every[low:high].sum() for low, high in zip(edges[:-1], edges[1:], strict=True)]
    assert np.abs(errors_from_zero(bins - expected)).max() < FAR


def test_joint_scores_are_those_of_the_coalescent(example: SimpleNamespace) -> None:
    size, rate = np.exp(THETA)
    for tree in example.genealogies(np.tile(THETA, (5, 1)), seed=6):
        times = np.unique(tree.nodes_time)
        lineages = np.arange(example.GENOMES, 1, -1)
        pairs = lineages * (lineages - 1) / 2
        # Waiting times are exponential, of rate pairs/2N; mutations Poisson along the branches.
        by_size = (pairs * np.diff(times) / (2 * size)).sum() - len(pairs)
        by_rate = tree.num_sites - rate * (lineages * np.diff(times)).sum()
        np.testing.assert_allclose(
            example.joint_score(tree, THETA), [by_size, by_rate], rtol=1e-4, atol=1e-4
        )


@pytest.mark.slow
def test_the_mean_of_the_joint_score_given_the_mutations_is_the_score(
    example: SimpleNamespace, events: ist.Events, bins: np.ndarray
) -> None:
    score = events.latent["joint_score"]
    assert np.abs(errors_from_zero(score)).max() < FAR
    off = score - example.exact_score(events.x, THETA[None, None])
    for component in off.T:
        assert np.abs(errors_from_zero(component[:, None] * bins)).max() < FAR
    # The joint scores know more: without their mean given S they would be far from the score.
    assert (off.std(axis=0) > 1).all()


@pytest.mark.slow
def test_the_mean_of_the_joint_ratio_given_the_mutations_is_the_ratio(
    example: SimpleNamespace, events: ist.Events, bins: np.ndarray
) -> None:
    ratio = np.exp(-events.latent["log_joint_ratio"])
    assert abs(errors_from_zero(ratio - 1)) < FAR
    count = events.x[:, 0]
    exact = example.exact_log_prob(count, PARTNER[None]) - example.exact_log_prob(
        count, THETA[None]
    )
    off = ratio - np.exp(exact)
    assert np.abs(errors_from_zero(off[:, None] * bins)).max() < FAR
    # With the ratio turned upside down, the same test fails.
    upside_down = 1 / ratio - np.exp(exact)
    assert np.abs(errors_from_zero(upside_down[:, None] * bins)).max() > 2 * FAR


# After so few events, new ones may lie outside their range, of which users are warned.
@pytest.mark.filterwarnings("ignore:.*lie outside the range of x")
@pytest.mark.slow
def test_the_example_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), "--events", "300", "--epochs", "2"])
    monkeypatch.setattr("inferostatic.learning.arguments.choose_network_size", lambda _: (8, 1))
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "SALLY" in capsys.readouterr().out
