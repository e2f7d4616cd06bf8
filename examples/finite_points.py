"""Events at a few benchmark points, with unequal numbers and no prior: ratios between the points.

What one learns: samples that exist at a finite set of parameter points need no prior and no equal
sizes, and no event is reweighted to make up for either. The distribution of the stored θ is taken
from the events, and CARL and KCE are exact for it. The learned ratio is then checked between all
pairs of points, and at a point in between, where no events were made and the network interpolates.

    python examples/finite_points.py [--events 60000] [--epochs 20]

The simulator is a toy with a known density, two overlapping Gaussians whose separation and
fraction are the parameters.
"""

import argparse

import numpy as np

import inferostatic as ist

#: Benchmark points (separation, fraction), and the share of the events that each has.
POINTS = np.array([[2.0, 0.3], [3.0, 0.3], [4.0, 0.3], [2.0, 0.6], [3.0, 0.6], [4.0, 0.6]])
SHARES = np.array([0.40, 0.05, 0.10, 0.20, 0.05, 0.20])
BETWEEN = np.array([2.5, 0.45])


def stored_samples(toy: ist.toys.GaussianMixture, total: int) -> ist.Events:
    """One sample for each point, joined; think of files that a collaboration already has."""
    rng = np.random.default_rng(1)
    parts = []
    for point, share in zip(POINTS, SHARES, strict=True):
        x = toy(np.tile(point, (max(int(share * total), 2), 1)), rng)
        parts.append(ist.Events(x=x, theta=point, x_names=toy.x_names, theta_names=toy.theta_names))
    return ist.Events.concatenate(parts)


def rms_error(
    estimator: ist.Estimator, toy: ist.toys.GaussianMixture, point0: np.ndarray, point1: np.ndarray
) -> tuple[float, float]:
    """Root mean square of the exact ln r and of the error of the learned one, for x from point0."""
    x = toy(np.tile(point0, (5000, 1)), np.random.default_rng(2))
    exact = toy.log_prob(x, point0) - toy.log_prob(x, point1)
    learned = estimator.log_ratio(x, point0, point1)
    return float(np.sqrt(np.mean(exact**2))), float(np.sqrt(np.mean((learned - exact) ** 2)))


def main() -> None:
    """Train both methods and print their errors beside the size of the exact log ratio."""
    parser = argparse.ArgumentParser(description="Ratios from events at a finite set of points.")
    parser.add_argument("--events", type=int, default=60_000, help="events at all points together")
    parser.add_argument("--epochs", type=int, default=20)
    arguments = parser.parse_args()
    toy = ist.toys.GaussianMixture()
    events = stored_samples(toy, arguments.events)
    print(events)
    training = ist.Training(epochs=arguments.epochs)
    carl = ist.fit(events, ist.CARL(), training=training, seed=3)
    kce = ist.fit(events, ist.KCE(ist.Independent(), number=5), training=training, seed=3)
    print("\nln r(x; θ0, θ1) for x made at θ0: its size, and the error of the learned ones (rms)")
    print(f"{'θ0':>12}{'θ1':>12}{'exact':>9}{'CARL':>9}{'KCE':>9}")
    pairs = [(a, b) for i, a in enumerate(POINTS) for b in POINTS[i + 1 :]]
    for point0, point1 in [*pairs, (BETWEEN, POINTS[0])]:
        size, carl_error = rms_error(carl, toy, point0, point1)
        kce_error = rms_error(kce, toy, point0, point1)[1]
        note = "  (no events were made at this θ0)" if point0 is BETWEEN else ""
        names = "".join(f"{f'({p[0]:g}, {p[1]:g})':>12}" for p in (point0, point1))
        print(f"{names}{size:9.3f}{carl_error:9.3f}{kce_error:9.3f}{note}")


if __name__ == "__main__":
    main()
