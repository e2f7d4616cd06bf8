"""Mutations on a random genealogy by msprime: joint ratios of a simulator that knows its trees.

What one learns: how stored numbers become latent information. msprime (population genetics, written
in C) draws the family tree of a few genomes and mutations on it. Seen is only the number of
mutations S; the tree is latent. Its likelihood functions say how probable tree and mutations are at
any parameters, but not in JAX. So each event is given a partner θ' from the same prior, and the
logarithm of its joint ratio and its joint score are stored with it. ALICE learns from the joint
ratios and SALLY from the joint scores; CARL, beside them, from the same events without either. The
exact distribution of S (Tavaré) is known, so that all three are compared with the truth.

    pip install msprime==1.4.4
    python examples/msprime_coalescent.py [--events 4000] [--epochs 60]

The parameters are the logarithms of the population's size N and of the mutation rate μ. S depends
on their product alone: what a tree says about each of them is lost in S.
"""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import comb

import inferostatic as ist

if TYPE_CHECKING:
    import tskit

PRIOR = ist.Uniform([-0.5, -0.8], [0.5, 0.2], names=("ln_size", "ln_rate"))
#: Sampled individuals, of two genomes each.
SAMPLED = 3
GENOMES = 2 * SAMPLED
#: Half step of the central differences.
STEP = 1e-3


def genealogies(theta: np.ndarray, seed: int) -> "Iterator[tskit.TreeSequence]":
    """A tree with mutations for each row of θ, shape (n, 2)."""
    import msprime

    # Zero is no seed for msprime.
    seeds = np.random.default_rng(seed).integers(1, 2**31, (len(theta), 2))
    for (ln_size, ln_rate), (of_tree, of_mutations) in zip(theta, seeds.tolist(), strict=True):
        tree = msprime.sim_ancestry(
            SAMPLED,
            population_size=np.exp(ln_size),
            sequence_length=1,
            # No two mutations at one position: the likelihood, and S, count each of them.
            discrete_genome=False,
            random_seed=of_tree,
        )
        yield msprime.sim_mutations(
            tree, rate=np.exp(ln_rate), discrete_genome=False, random_seed=of_mutations
        )


def joint_log_prob(tree: "tskit.TreeSequence", theta: np.ndarray) -> float:
    """ln p(tree, mutations; θ) by msprime, up to a term without θ."""
    import msprime

    size, rate = np.exp(theta)
    ancestry = msprime.log_arg_likelihood(tree, recombination_rate=0, Ne=size)
    return ancestry + msprime.log_mutation_likelihood(tree, mutation_rate=rate)


def joint_score(tree: "tskit.TreeSequence", theta: np.ndarray) -> np.ndarray:
    """Its gradient by central differences."""
    shifts = STEP * np.eye(2)
    return np.array(
        [
            (joint_log_prob(tree, theta + shift) - joint_log_prob(tree, theta - shift)) / (2 * STEP)
            for shift in shifts
        ]
    )


def simulated(theta: np.ndarray, partner: np.ndarray, seed: int) -> ist.Events:
    """One event for each θ, with its joint score there and its joint ratio to the partner."""
    count, score, log_ratio = [], [], []
    for tree, own, other in zip(genealogies(theta, seed), theta, partner, strict=True):
        count.append([tree.num_sites])
        score.append(joint_score(tree, own))
        log_ratio.append(joint_log_prob(tree, own) - joint_log_prob(tree, other))
    latent = {"joint_score": score, "log_joint_ratio": log_ratio, "partner": partner}
    return ist.Events(
        x=count, theta=theta, latent=latent, x_names=["mutations"], theta_names=PRIOR.names
    )


def exact_log_prob(count: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """ln P(S; θ), shape (n,), by Tavaré's sum over the numbers of ancestors."""
    product = 4 * np.exp(theta.sum(axis=-1))[..., None]
    ancestors = np.arange(1, GENOMES)
    sign = (-1.0) ** (ancestors + 1) * comb(GENOMES - 1, ancestors)
    fraction = product / (product + ancestors)
    return np.log((sign * (1 - fraction) * fraction ** count[..., None]).sum(axis=-1))


def exact_score(count: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """∂ ln P(S; θ)/∂ ln N, shape (n,), which equals that by ln μ."""
    up, down = theta + [STEP, 0], theta - [STEP, 0]
    return (exact_log_prob(count, up) - exact_log_prob(count, down)) / (2 * STEP)


def print_errors(estimators: dict[str, ist.Estimator], n: int) -> None:
    """Learned log ratios on new events, against the exact ones."""
    theta, partner = PRIOR.sample(n, seed=11), PRIOR.sample(n, seed=12)
    count = np.array([tree.num_sites for tree in genealogies(theta, seed=13)])
    exact = exact_log_prob(count, theta) - exact_log_prob(count, partner)
    print(
        f"\nln r(S; θ, θ') of {n} new events: its spread, and the error of the learned ones (rms)"
    )
    print(f"{'exact':>8}{exact.std():10.3f}")
    for name, estimator in estimators.items():
        learned = estimator.log_ratio(count[:, None], theta, partner)
        print(f"{name:>8}{np.sqrt(np.square(learned - exact).mean()):10.3f}")


def main() -> None:
    """Simulate, train with and without the trees, and compare with the truth."""
    parser = argparse.ArgumentParser(description="Joint ratios from msprime's likelihoods.")
    parser.add_argument("--events", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()
    theta = PRIOR.sample(arguments.events, seed=1)
    partner = PRIOR.sample(arguments.events, seed=2)
    stored = simulated(theta, partner, seed=3)
    events = ist.Events(
        x=stored.x, theta=theta, latent=stored.latent, prior=PRIOR, x_names=stored.x_names
    )
    print(events)
    training = ist.Training(epochs=arguments.epochs)
    print_errors(
        {
            "CARL": ist.fit(events, ist.CARL(), training=training, seed=4),
            "ALICE": ist.fit(events, ist.ALICE(), training=training, seed=4),
            "SALLY": ist.fit(events, ist.SALLY(), training=training, seed=4),
        },
        arguments.events // 4,
    )


if __name__ == "__main__":
    main()
