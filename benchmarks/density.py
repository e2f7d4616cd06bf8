"""How close learned densities come to exact ones, with which flow, and what that takes.

Each row is one training, by the defaults of the library unless the row says otherwise, on 20,000
events; the excess is that of the mean −ln p over the exact one, on 100,000 fresh events. The last
rows are the matrix-element method on a Gaussian chain.

    python benchmarks/density.py                everything, and benchmarks/results/density.json
    python benchmarks/density.py --quick        2,000 events, two flows; writes nothing
    python benchmarks/density.py --fresh        measure again what the file already has
"""

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from scipy.stats import gamma, norm, t

import inferostatic as ist
from inferostatic.learning.density_methods import NDE
from inferostatic.models.flows.flow import Flow, MixtureFlow
from inferostatic.models.matrix_element import MEM
from record import RESULTS, Log

FRESH: Final = 100_000


@dataclass(frozen=True)
class Problem:
    """A law of x given θ uniform on (−1, 1): a simulator and its exact ln p."""

    parameters: int
    simulate: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    log_prob: Callable[[np.ndarray, np.ndarray], np.ndarray]

    @property
    def prior(self) -> ist.Uniform:
        """The law of θ."""
        return ist.Uniform([-1.0] * self.parameters, [1.0] * self.parameters)


def two_modes(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """x1 = ±3 with equal odds + N(0, 1), x2 = x1/2 + θ + N(0, 1)."""
    first = rng.choice([-3.0, 3.0], len(theta)) + rng.normal(size=len(theta))
    return np.stack([first, first / 2 + theta[:, 0] + rng.normal(size=len(theta))], axis=1)


def two_modes_log_prob(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Exact."""
    either = np.logaddexp(norm.logpdf(x[:, 0], 3), norm.logpdf(x[:, 0], -3)) - np.log(2)
    return either + norm.logpdf(x[:, 1], x[:, 0] / 2 + theta[:, 0])


def ring(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A ring of radius 2 + θ and width 0.2."""
    radius = 2 + theta[:, 0] + 0.2 * rng.normal(size=len(theta))
    angle = rng.uniform(0, 2 * np.pi, len(theta))
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def ring_log_prob(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Exact: the probability of a negative radius is below 10⁻⁶."""
    radius = np.hypot(x[:, 0], x[:, 1])
    return norm.logpdf(radius, 2 + theta[:, 0], 0.2) - np.log(2 * np.pi * radius)


def five(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Five observables: two modes, a curve, a product, a skewed one, a heavy tail."""
    n = len(theta)
    narrow = rng.random(n) < 0.3
    noise = rng.normal(size=(3, n))
    a = np.where(narrow, 2 + 0.3 * noise[0], theta[:, 0] - 1 + noise[0])
    b = np.sin(2 * a) + 0.4 * noise[1]
    c = a * b / 2 + np.exp(theta[:, 1] / 2) / 2 * noise[2]
    d = rng.gamma(3.0, 1.0, n) * np.exp(0.3 * theta[:, 0]) + 0.3 * c
    e = rng.standard_t(4, n) / 2 + d * theta[:, 1]
    return np.stack([a, b, c, d, e], axis=1)


def five_log_prob(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Exact."""
    a, b, c, d, e = x.T
    scale = np.exp(0.3 * theta[:, 0])
    narrow = np.log(0.3) + norm.logpdf(a, 2, 0.3)
    value = np.logaddexp(narrow, np.log(0.7) + norm.logpdf(a, theta[:, 0] - 1))
    value += norm.logpdf(b, np.sin(2 * a), 0.4)
    value += norm.logpdf(c, a * b / 2, np.exp(theta[:, 1] / 2) / 2)
    value += gamma.logpdf((d - 0.3 * c) / scale, 3.0) - np.log(scale)
    return value + t.logpdf((e - d * theta[:, 1]) * 2, 4) + np.log(2)


PROBLEMS: Final = {
    "two modes": Problem(1, two_modes, two_modes_log_prob),
    "ring": Problem(1, ring, ring_log_prob),
    "five observables": Problem(2, five, five_log_prob),
}


def affine(x_size: int, theta_size: int, *, key: Any) -> Any:  # noqa: ANN401
    """A masked autoregressive flow of five affine layers."""
    from flowjax.distributions import StandardNormal
    from flowjax.flows import masked_autoregressive_flow

    return masked_autoregressive_flow(
        key,
        base_dist=StandardNormal((x_size,)),
        cond_dim=theta_size,
        flow_layers=5,
        nn_width=64,
        nn_activation=jax.nn.silu,
    )


def splines(x_size: int, theta_size: int, *, key: Any) -> Any:  # noqa: ANN401
    """Two autoregressive layers of rational quadratic splines; their score jumps at the knots."""
    from flowjax.bijections import RationalQuadraticSpline
    from flowjax.distributions import StandardNormal
    from flowjax.flows import masked_autoregressive_flow

    return masked_autoregressive_flow(
        key,
        base_dist=StandardNormal((x_size,)),
        transformer=RationalQuadraticSpline(knots=8, interval=4),
        cond_dim=theta_size,
        flow_layers=2,
        nn_width=64,
        nn_depth=2,
        nn_activation=jax.nn.silu,
    )


def block_neural(x_size: int, theta_size: int, *, key: Any) -> Any:  # noqa: ANN401
    """A block neural autoregressive flow."""
    from flowjax.distributions import StandardNormal
    from flowjax.flows import block_neural_autoregressive_flow

    return block_neural_autoregressive_flow(
        key,
        base_dist=StandardNormal((x_size,)),
        cond_dim=theta_size,
        nn_depth=2,
        nn_block_dim=16,
    )


FLOWS: Final[dict[str, Any]] = {
    "mixtures behind 1 affine layer (default)": MixtureFlow(),
    "mixtures alone": MixtureFlow(layers=0),
    "mixtures behind 2 affine layers": MixtureFlow(layers=2),
    "affine layers": affine,
    "splines": splines,
    "block neural": block_neural,
}


def density(problem: Problem, network: Any, n: int) -> dict[str, Any]:  # noqa: ANN401
    """Train a flow, and compare it with the truth."""
    began = time.perf_counter()
    events = ist.simulate(problem.simulate, problem.prior, n, seed=1)
    estimator = ist.fit(events, NDE(), network=Flow(network), seed=2)
    seconds = time.perf_counter() - began
    test = ist.simulate(problem.simulate, problem.prior, FRESH, seed=99)
    exact = problem.log_prob(test.x, test.theta)
    excess = exact - estimator.log_prob(test.x, test.theta)
    return {
        "exact": float(-exact.mean()),
        "excess": float(excess.mean()),
        "error": float(excess.std() / np.sqrt(FRESH)),
        "seconds": seconds,
        "epochs": len(estimator.history.seconds),
    }


def matrix_element(transfer: str, n: int) -> dict[str, Any]:
    """The Gaussian chain of `ist.toys.GaussianChain`, with three latent variables."""
    toy = ist.toys.GaussianChain()
    prior = ist.Uniform([-2.0, -0.5], [2.0, 0.5])
    given = toy.transfer_log_prob if transfer == "given" else None
    began = time.perf_counter()
    events = ist.simulate(toy, prior, n, seed=1)
    model = ist.fit(events, MEM(toy.latent_log_prob, transfer=given), seed=2)
    seconds = time.perf_counter() - began
    test = ist.simulate(toy, prior, 1000, seed=7)
    began = time.perf_counter()
    value, error = model.log_prob(test.x, test.theta)
    away = value - toy.log_prob(test.x, test.theta)
    return {
        "rms of ln p": float(np.sqrt(np.mean(away**2))),
        "median stated error": float(np.median(error)),
        "within two": float(np.mean(np.abs(away) < 2 * error)),
        "seconds": seconds,
        "milliseconds per event": time.perf_counter() - began,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="small, and nothing is written")
    parser.add_argument("--fresh", action="store_true", help="measure again")
    options = parser.parse_args()
    # Of 100,000 fresh events a few lie beyond the range of those trained on.
    warnings.filterwarnings("ignore", message=".*outside the range of x.*")
    n = 2000 if options.quick else 20_000
    flows = dict(list(FLOWS.items())[:2]) if options.quick else FLOWS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "density.json" if options.quick else RESULTS / "density.json"
        log = Log(path, fresh=options.fresh or options.quick)
        for name, problem in PROBLEMS.items():
            for flow, network in flows.items():
                key = {"problem": name, "flow": flow, "events": n}
                log.row(key, lambda p=problem, f=network: density(p, f, n))
        for transfer in ("given", "learned"):
            key = {"problem": "Gaussian chain", "transfer": transfer, "events": n}
            log.row(key, lambda t=transfer: matrix_element(t, n))
        table(log.rows)


def table(rows: list[dict[str, Any]]) -> None:
    """Excess and time of every flow."""
    print(f"\n{'problem':18}{'flow':44}{'excess (nats)':>18}{'seconds':>10}")
    for row in rows:
        if "excess" in row:
            excess = f"{row['excess']:.4f} ± {row['error']:.4f}"
            print(f"{row['problem']:18}{row['flow']:44}{excess:>18}{row['seconds']:10.0f}")
    for row in rows:
        if "transfer" in row:
            print(
                f"{row['problem']}, {row['transfer']} transfer density: rms error of ln p "
                f"{row['rms of ln p']:.4f}, median stated error {row['median stated error']:.4f}, "
                f"{row['within two']:.1%} within two of them; {row['seconds']:.0f} s of training"
            )


if __name__ == "__main__":
    main()
