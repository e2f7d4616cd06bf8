"""A peak on a falling spectrum, unbinned: one potential fits fraction, mass and slope.

What one learns: the default method on a problem that particle physicists know. The score and the
log ratio are compared with the exact ones, an observed spectrum is fitted by maximum likelihood,
and the likelihood is scanned in the mass of the peak and in its fraction, learned beside exact.

    python examples/peak_on_falling_spectrum.py [--events 100000] [--epochs 30] [--figure scan.png]

The simulator is a toy with a known density; the parameters are the signal fraction, the mass of
the peak and the slope of the background.
"""

import argparse

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize

import inferostatic as ist

TRUTH = np.array([0.20, 125.0, 0.030])
OBSERVED = 1000
#: Simulated wider than what is evaluated below, so that nothing is extrapolated.
PRIOR = ist.Uniform(
    [0.02, 115.0, 0.005],
    [0.50, 135.0, 0.060],
    names=("signal_fraction", "peak_mass_GeV", "slope_per_GeV"),
)
SCANS = {0: np.linspace(0.14, 0.27, 41), 1: np.linspace(123.9, 125.9, 41)}


def print_errors(estimator: ist.Estimator, toy: ist.toys.FallingSpectrumWithPeak) -> None:
    """Learned against exact on new events, relative to the spread of the exact values."""
    inner = ist.Uniform([0.05, 118.0, 0.01], [0.45, 132.0, 0.055], names=PRIOR.names)
    new = ist.simulate(toy, inner, 20_000, seed=3)
    exact = np.column_stack(
        [
            toy.score(new.x, new.theta),
            toy.log_prob(new.x, new.theta) - toy.log_prob(new.x, TRUTH),
        ]
    )
    learned = np.column_stack(
        [
            estimator.score(new.x, new.theta),
            estimator.log_ratio(new.x, new.theta, TRUTH),
        ]
    )
    spread, error = exact.std(axis=0), np.sqrt(np.square(learned - exact).mean(axis=0))
    names = [*(f"score along {name}" for name in PRIOR.names), "log ratio to the truth"]
    print(f"{'':32}{'spread':>10}{'rms error':>12}")
    for name, size, wrong in zip(names, spread, error, strict=True):
        print(f"{name:32}{size:10.3g}{wrong:12.2g}")


def exact_fit(
    toy: ist.toys.FallingSpectrumWithPeak, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The maximum of the exact likelihood, with errors from the sum of the products of scores."""
    low, high = PRIOR.support
    found = minimize(
        # In units of the prior, because the parameters differ by orders of magnitude.
        lambda unit: -toy.log_prob(x, low + unit * (high - low)).sum(),
        x0=np.full(3, 0.5),
        jac=lambda unit: -toy.score(x, low + unit * (high - low)).sum(axis=0) * (high - low),
        bounds=[(0, 1)] * 3,
    )
    theta = low + found.x * (high - low)
    score = toy.score(x, theta)
    return theta, np.sqrt(np.diag(np.linalg.inv(score.T @ score)))


def print_fits(
    estimator: ist.Estimator, toy: ist.toys.FallingSpectrumWithPeak, x: np.ndarray
) -> None:
    """Both maximum likelihood fits of the observed events."""
    fit = ist.maximum_likelihood(estimator, x, throw=False)
    best, errors = exact_fit(toy, x)
    print(f"\n{len(x)} observed events made at {TRUTH.tolist()}: {fit.message}")
    print(f"{'':32}{'exact':>18}{'learned':>18}")
    rows = zip(PRIOR.names, best, errors, fit.theta, fit.errors, strict=True)
    for name, exact, exact_error, learned, learned_error in rows:
        cells = [f"{exact:.4g} ± {exact_error:.2g}", f"{learned:.4g} ± {learned_error:.2g}"]
        print(f"{name:32}" + "".join(f"{cell:>18}" for cell in cells))


def scan(log_likelihood: np.ndarray) -> np.ndarray:
    """−2 Δ ln L above its minimum."""
    return -2 * (log_likelihood - log_likelihood.max())


def scanned(
    estimator: ist.Estimator, toy: ist.toys.FallingSpectrumWithPeak, x: np.ndarray, which: int
) -> tuple[np.ndarray, np.ndarray]:
    """Learned and exact scans along one parameter, the others at their true values."""
    points = np.tile(TRUTH, (len(SCANS[which]), 1))
    points[:, which] = SCANS[which]
    learned = np.array([estimator.potential(x, point).sum() for point in points])
    exact = np.array([toy.log_prob(x, point).sum() for point in points])
    return scan(learned), scan(exact)


def save_figure(
    estimator: ist.Estimator, toy: ist.toys.FallingSpectrumWithPeak, x: np.ndarray, path: str
) -> None:
    """The spectrum and the two scans."""
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    spectrum, *panels = figure.subplots(1, 3)
    spectrum.hist(x[:, 0], bins=40, histtype="step", color="black")
    spectrum.set(xlabel="mass [GeV]", ylabel="events", title=f"{len(x)} observed events")
    for axes, which in zip(panels, SCANS, strict=True):
        learned, exact = scanned(estimator, toy, x, which)
        axes.plot(SCANS[which], exact, color="black", label="exact")
        axes.plot(SCANS[which], learned, color="#D55E00", linestyle="--", label="learned")
        axes.axvline(TRUTH[which], color="0.6", linewidth=0.8)
        axes.set(xlabel=PRIOR.names[which], ylabel=r"$-2\,\Delta\ln L$", ylim=(0, 12))
        axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    print(f"\nscans saved to {path}")


def main() -> None:
    """Train, compare, fit and scan."""
    parser = argparse.ArgumentParser(description="A peak on a falling spectrum.")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--figure", default="peak_on_falling_spectrum.png")
    arguments = parser.parse_args()
    toy = ist.toys.FallingSpectrumWithPeak()
    events = ist.simulate(toy, PRIOR, arguments.events, seed=1)
    estimator = ist.fit(events, training=ist.Training(epochs=arguments.epochs), seed=2)
    print_errors(estimator, toy)
    x = toy(np.tile(TRUTH, (OBSERVED, 1)), np.random.default_rng(4))
    print_fits(estimator, toy, x)
    save_figure(estimator, toy, x, arguments.figure)


if __name__ == "__main__":
    main()
