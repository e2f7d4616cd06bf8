"""The quickstart to the letter, with the exact answers beside the learned ones.

What one learns: how far the three estimators of the quickstart are from the truth, and how much is
gained by simulating wider than one evaluates. The simulator draws from a Dirichlet distribution,
whose density is known, so that score, log ratio and maximum likelihood estimate can be computed
with SciPy alone, without this library. Takes about four minutes on two cores.

    python examples/quickstart.py [--figure learned-against-exact.png]
"""
# ruff: noqa: ANN001, ANN201, B018, D103, E402, E501, E702, I001 (the block of the page stands as it is)

estimators = {}  # not on the page

# fmt: off
import numpy as np
import inferostatic as ist

def my_simulator(theta, rng):                                       # theta (n,d) -> x (n,D), plain NumPy
    g = rng.standard_gamma(theta)
    return g / g.sum(axis=1, keepdims=True)

prior   = ist.Uniform([0.5, 0.5, 0.5], [5, 5, 5], names=["a", "b", "c"])
events  = ist.simulate(my_simulator, prior, 100_000, seed=1)
est     = ist.fit(events, seed=2)                                   # best default method (multi-scale KCE), sensible network
estimators["KCE"] = est  # not on the page
est     = ist.fit(events, ist.KLRE(ist.Rectangular(0.4)), network=ist.MLP((32, 32, 32)), members=5, seed=2)
estimators["KLRE"] = est  # not on the page
records = ist.draw(ist.KSE(ist.Delta(0.25)), my_simulator, prior, 100_000, seed=3)   # the paper's flowcharts
est     = ist.fit(records, seed=4)
estimators["KSE"] = est  # not on the page

x, theta = events.x[:5], events.theta[:5]
est.score(x, theta); est.log_ratio(x, theta, [1, 2, 2]); est.potential(x, theta)      # batched NumPy
est.save("model.isn"); est = ist.load("model.isn")
x_observed = my_simulator(np.tile([1.5, 3.0, 4.0], (1000, 1)), np.random.default_rng(7))
ist.maximum_likelihood(est, x_observed).theta
# fmt: on

import argparse

from scipy.optimize import minimize
from scipy.special import digamma, gammaln, polygamma

REFERENCE = np.array([1.0, 2.0, 2.0])
NEW_EVENTS = 20_000

# The default once more, with as many events from a wider range of θ.
wide = ist.Uniform([0.1, 0.1, 0.1], [5.4, 5.4, 5.4], names=prior.names)
wide_events = ist.simulate(my_simulator, wide, len(events), seed=1)
estimators["KCE, wide"] = ist.fit(wide_events, seed=2)


def exact_log_prob(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """ln p(x; θ) of the Dirichlet distribution."""
    normaliser = gammaln(theta).sum(axis=-1) - gammaln(theta.sum(axis=-1))
    return ((theta - 1) * np.log(x)).sum(axis=-1) - normaliser


def exact_score(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """∇θ ln p(x; θ)."""
    return np.log(x) + digamma(theta.sum(axis=-1, keepdims=True)) - digamma(theta)


def exact_fit(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The maximum of the exact likelihood, and the errors from its Fisher information."""
    found = minimize(
        lambda t: -exact_log_prob(x, t).mean(),
        x0=np.full(x.shape[1], 2.0),
        jac=lambda t: -exact_score(x, t).mean(axis=0),
        bounds=[(1e-3, None)] * x.shape[1],
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    fisher = np.diag(polygamma(1, found.x)) - polygamma(1, found.x.sum())
    return found.x, np.sqrt(np.diag(np.linalg.inv(len(x) * fisher)))


def vector(values: np.ndarray) -> str:
    """A few numbers in one cell."""
    return " ".join(f"{value:5.2f}" for value in values)


def row(label: str, cells: list[str], width: int) -> str:
    """One line of a table."""
    return f"{label:10}" + "".join(f"{cell:>{width}}" for cell in cells)


def print_events() -> None:
    """Score and log ratio of the five events, by the three estimators of the quickstart."""
    three = {name: e for name, e in estimators.items() if e is not estimators["KCE, wide"]}
    columns = ["exact", *three]
    scores = [exact_score(x, theta), *(e.score(x, theta) for e in three.values())]
    ratios = [exact_log_prob(x, theta) - exact_log_prob(x, REFERENCE)]
    ratios += [e.log_ratio(x, theta, REFERENCE) for e in three.values()]
    print("score along a, b and c")
    print(row("", columns, 20))
    for i in range(len(x)):
        print(row(f"event {i}", [vector(score[i]) for score in scores], 20))
    print("\nlog ratio to θ = (1, 2, 2)")
    print(row("", columns, 11))
    for i in range(len(x)):
        print(row(f"event {i}", [f"{ratio[i]:.3f}" for ratio in ratios], 11))


def print_errors() -> None:
    """Mean squared errors on new events, at θ inside the prior."""
    new = ist.simulate(my_simulator, prior, NEW_EVENTS, seed=5)
    score = exact_score(new.x, new.theta)
    ratio = exact_log_prob(new.x, new.theta) - exact_log_prob(new.x, REFERENCE)
    print(f"\nmean squared error on {len(new):,} new events")
    print(row("", list(estimators), 11))
    learned = [e.score(new.x, new.theta) for e in estimators.values()]
    print(row("score", [f"{np.square(s - score).mean():.3f}" for s in learned], 11))
    learned = [e.log_ratio(new.x, new.theta, REFERENCE) for e in estimators.values()]
    print(row("log ratio", [f"{np.square(s - ratio).mean():.3f}" for s in learned], 11))


def print_fits() -> None:
    """The maximum likelihood estimates of the 1000 observed events."""
    best, errors = exact_fit(x_observed)
    print("\nmaximum likelihood estimate of 1000 events made at (1.5, 3, 4)")
    print(row("exact", [f"{t:.2f} ± {e:.2f}" for t, e in zip(best, errors, strict=True)], 14))
    for name, estimator in estimators.items():
        fit = ist.maximum_likelihood(estimator, x_observed)
        cells = [f"{t:.2f} ± {e:.2f}" for t, e in zip(fit.theta, fit.errors, strict=True)]
        away = (fit.theta - best) / errors
        print(row(name, cells, 14) + f"   off by {vector(away)} exact errors")


def save_figure(path: str) -> None:
    """Learned against exact score of the default estimator, on as many new events as in training."""
    new = ist.simulate(my_simulator, prior, len(events), seed=6)
    figure = ist.plots.true_against_predicted(
        exact_score(new.x, new.theta),
        estimators["KCE"].score(new.x, new.theta),
        names=[f"along {name}" for name in prior.names],
        label="score",
    )
    figure.savefig(path, dpi=150)


def main() -> None:
    """Print the comparison, and draw it where a file is named."""
    parser = argparse.ArgumentParser(description="The quickstart beside the exact answers.")
    parser.add_argument("--figure", help="where to save learned against exact scores")
    arguments = parser.parse_args()
    print_events()
    print_errors()
    print_fits()
    if arguments.figure:
        save_figure(arguments.figure)


if __name__ == "__main__":
    main()
