"""Joint scores from Pythia's own weights: the best statistic for strangeness in hadronic Z decays.

What one learns: a large simulator that cannot be differentiated may still provide its joint score.
Pythia 8 reweights each event to other parameters step by step; differences of these weights are the
joint score, stored with the event as `joint_score`. First the latent information is checked by what
must hold whatever the simulator does: joint ratios have the mean 1, joint scores the mean 0, and
Cov(t, x) is the slope of the mean of x, here found by simulating directly, without weights. Then
SALLY learns the score at the default tune from them. The information of the learned statistic on
the suppression of strange quarks is measured on the directly simulated events, beside that of a
count of kaons.

    pip install pythia8mc==8.317.2
    python examples/pythia_weights.py [--events 20000] [--epochs 30]

The simulator, and which of Pythia's settings the weights need, is `benchmarks/zhadrons_weights.py`.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import inferostatic as ist

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from zhadrons_weights import (  # noqa: E402
    DEFAULT,
    THETA_NAMES,
    X_NAMES,
    WeightedEvents,
    direct_events,
    weighted_events,
)

STRANGE = THETA_NAMES.index("strange")
#: More strange quarks, and a little of everything.
TARGETS = np.array([[0.0, 0.68, 0.26], [-0.15, 0.64, 0.24]])
#: Half distances between direct simulations, from which slopes are taken.
APART = np.array([0.6, 0.15, 0.05])


def errors_from_zero(values: np.ndarray) -> np.ndarray:
    """Means in units of their errors."""
    return values.mean(axis=0) / (values.std(axis=0) / np.sqrt(len(values)))


def beside(which: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Direct simulations above and below the default tune in one parameter."""
    shift = APART * (np.arange(len(APART)) == which)
    return (
        direct_events(DEFAULT + shift, n, seed),
        direct_events(DEFAULT - shift, n, seed + 1),
    )


def slope_misses(
    events: WeightedEvents, above: np.ndarray, below: np.ndarray, which: int
) -> np.ndarray:
    """Cov(t, x) less the directly simulated slope of E[x], in errors, for each observable."""
    products = events.joint_score[:, which, None] * (events.x - events.x.mean(axis=0))
    slope = (above.mean(axis=0) - below.mean(axis=0)) / (2 * APART[which])
    variance = products.var(axis=0) / len(products)
    variance += (above.var(axis=0) + below.var(axis=0)) / len(above) / (2 * APART[which]) ** 2
    return (products.mean(axis=0) - slope) / np.sqrt(variance)


def information(above: np.ndarray, below: np.ndarray, here: np.ndarray) -> float:
    """(dm/dθ)²/Var of a statistic by its values above, below and at the default tune."""
    slope = (above.mean() - below.mean()) / (2 * APART[STRANGE])
    return float(slope**2 / here.var())


def main() -> None:
    """Check the weights, learn from them, and measure what was learned."""
    parser = argparse.ArgumentParser(description="Joint scores from Pythia's variation weights.")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=30)
    arguments = parser.parse_args()
    n = arguments.events
    weighted = weighted_events(DEFAULT, n, seed=1, targets=TARGETS)
    above, below = beside(STRANGE, n, seed=2)
    here = direct_events(DEFAULT, n, seed=4)
    print("misses, in errors")
    print("  mean of joint ratios", errors_from_zero(np.exp(weighted.log_ratio) - 1).round(1))
    print("  mean of joint scores", errors_from_zero(weighted.joint_score).round(1))
    print("  slopes of the means ", slope_misses(weighted, above, below, STRANGE).round(1))
    events = ist.Events(
        x=weighted.x,
        theta=DEFAULT,
        latent={"joint_score": weighted.joint_score},
        x_names=X_NAMES,
        theta_names=THETA_NAMES,
    )
    estimator = ist.fit(
        events,
        ist.SALLY(reference=DEFAULT),
        network=ist.DirectScore(),
        training=ist.Training(epochs=arguments.epochs),
        seed=5,
    )
    sets = (above, below, here)
    learned = information(*(estimator.score(x, DEFAULT)[:, STRANGE] for x in sets))
    kaons = [X_NAMES.index(name) for name in ("n_K", "n_K0S")]
    counted = information(*(x[:, kaons].sum(axis=1) for x in sets))
    print("\ninformation on the suppression of strange quarks, per event")
    print(f"  learned score {learned:8.2f}\n  kaons counted {counted:8.2f}")


if __name__ == "__main__":
    main()
