"""What default estimators give in inference, beside exact answers.

    python benchmarks/inference.py fisher          the Fisher information of the Dirichlet
    python benchmarks/inference.py posterior       posteriors of single events and of 100 events
    python benchmarks/inference.py reweighting     closure of reweighted events
    python benchmarks/inference.py cross_entropy   the cross-entropy fit beside maximum likelihood
    python benchmarks/inference.py pyhf            intervals and CLs of a pyhf model
    python benchmarks/inference.py                 all of them

Estimators are trained with the defaults of the library, and kept in `benchmarks/.cache`. Each part
prints a table and writes `benchmarks/results/inference-<part>.json`. A part that was interrupted
goes on where it stopped; `--fresh` begins anew.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from scipy.stats import chi2

import inferostatic as ist
from counting import LearnedProfile, PyhfProfile
from counting import simulator as counting_simulator
from exact_posterior import exact_moments, exact_samples
from inferostatic.inference.likelihood.cross_entropy import CrossEntropy
from inferostatic.inference.likelihood.event_sum import EventTerms
from inferostatic.inference.likelihood.float64 import float64, in_float64
from record import RESULTS, Log
from trained import COUNTING, DIRICHLET, trained

TOY: Final = ist.toys.Dirichlet()
#: Where θ of tests is drawn, as parts of the range on which the estimator was trained.
INNER: Final = (0.1, 0.9)
FISHER_POINTS, FISHER_EVENTS, RESPONSE_EVENTS = 20, 100_000, 400_000
SINGLE_EVENTS, SETS, SET_EVENTS = 10, 10, 100
#: Draws of a single event's posterior, as many as sbibm compares, and of that of a set.
DRAWS, SET_DRAWS = 10_000, 2_000
REWEIGHTED: Final = 100_000
#: θ from which and to which events are reweighted; the last pair is far.
PAIRS: Final = (
    ((2.5, 2.5, 2.5), (2.9, 2.5, 2.2)),
    ((1.2, 3.0, 2.0), (1.6, 3.0, 1.8)),
    ((4.0, 1.0, 3.0), (3.2, 1.2, 3.4)),
    ((1.0, 1.0, 4.5), (4.5, 4.5, 1.0)),
)
CROSS_POINTS, CROSS_EVENTS, CROSS_REFERENCE = 4, (100, 1000), 50_000
COUNTED: Final = 24
LEVELS: Final = (0.68, 0.95)
TESTED_MU: Final = (1.0, 2.0, 3.0)


def inner_points(estimator: ist.Estimator, count: int, *, seed: int) -> np.ndarray:
    """θ in the inner part of the trained region, shape (count, d)."""
    low, high = estimator.region.theta_low, estimator.region.theta_high
    return low + (high - low) * np.random.default_rng(seed).uniform(*INNER, (count, len(low)))


def drawn(theta: np.ndarray, count: int, seed: tuple[int, ...]) -> np.ndarray:
    """Events of the Dirichlet at one θ."""
    return TOY(np.tile(theta, (count, 1)), np.random.default_rng(seed))


def numbers(values: Any) -> list[Any]:  # noqa: ANN401
    """An array for a file, with five digits."""
    return [float(f"{value:.5g}") for value in np.ravel(values)]


def each_of(rows: list[dict[str, Any]], key: str) -> dict[Any, list[dict[str, Any]]]:
    """Rows by what they have in a column."""
    names = dict.fromkeys(row[key] for row in rows)
    return {name: [row for row in rows if row[key] == name] for name in names}


def column(rows: list[dict[str, Any]], name: str) -> np.ndarray:
    """What rows have in a column, one row each."""
    return np.array([row[name] for row in rows])


def fisher(log: Log, name: str) -> None:
    """The diagonal of the information at 20 points, in both forms, over the closed form."""
    estimator = trained(name)
    for place, theta in enumerate(inner_points(estimator, FISHER_POINTS, seed=20)):
        log.row(
            {"estimator": name, "point": place},
            lambda t=theta, p=place: measured_fisher(estimator, t, p),
        )


def measured_fisher(estimator: ist.Estimator, theta: np.ndarray, seed: int) -> dict[str, Any]:
    """Relative errors, and what the estimator itself says of its error."""
    found = ist.fisher(estimator, TOY, theta, n=FISHER_EVENTS, seed=seed)
    exact = np.diag(TOY.fisher(theta))
    scores = TOY.score(drawn(theta, FISHER_EVENTS, (seed,)), theta)
    responded = ist.score_response(estimator, theta, TOY, n=RESPONSE_EVENTS, seed=100 + seed)
    return {
        "theta": numbers(theta),
        "scores": numbers(np.diag(found.score_information) / exact - 1),
        "hessian": numbers(np.diag(found.hessian_information) / exact - 1),
        "response": numbers(np.diag(responded.information) / exact - 1),
        "response_statistical": numbers(np.diag(responded.information_error) / exact),
        "statistical": numbers((scores**2).std(axis=0) / np.sqrt(FISHER_EVENTS) / exact),
        "bias": numbers(found.bias),
        "disagreement": float(found.disagreement.relative),
    }


def tell_fisher(log: Log) -> None:
    """Means over the points and the largest error of all."""
    print("\nrelative error of the diagonal: aimed at 3% on average, 8% at each point")
    print(f"{'estimator':28}{'form':10}{'mean |e|':>10}{'mean e':>10}{'largest':>10}{'> 8%':>7}")
    for name, rows in each_of(log.rows, "estimator").items():
        for form in ("scores", "hessian", "response"):
            errors = column(rows, form)
            print(
                f"{name:28}{form:10}{np.abs(errors).mean():10.2%}{errors.mean():10.2%}"
                f"{np.abs(errors).max():10.2%}{np.mean(np.abs(errors) > 0.08):7.0%}"
            )


def posterior(log: Log, name: str) -> None:
    """C2ST for single events; means and standard deviations for sets of 100 events."""
    estimator = trained(name)
    for place, theta in enumerate(inner_points(estimator, SETS, seed=31)):
        log.row(
            {"estimator": name, "events": SET_EVENTS, "set": place},
            lambda t=theta, p=place: measured_set(estimator, drawn(t, SET_EVENTS, (32, p)), t),
        )
    for place, theta in enumerate(inner_points(estimator, SINGLE_EVENTS, seed=30)):
        log.row(
            {"estimator": name, "events": 1, "set": place},
            lambda t=theta, p=place: measured_single(estimator, drawn(t, 1, (33, p)), t),
        )


def measured_single(estimator: ist.Estimator, x: np.ndarray, theta: np.ndarray) -> dict[str, Any]:
    """How well a classifier tells draws by NUTS from exact ones."""
    from sbibm.c2st import c2st

    began = time.perf_counter()
    found = ist.posterior(estimator, x, method=ist.NUTS(draws=DRAWS), seed=1)
    seconds = time.perf_counter() - began
    exact = exact_samples(x, estimator.prior, DRAWS, seed=2)
    return {
        "theta": numbers(theta),
        "c2st": c2st(exact, found.samples),
        "ess": float(found.sampling.ess.min()),
        "seconds": seconds,
    }


def measured_set(estimator: ist.Estimator, x: np.ndarray, theta: np.ndarray) -> dict[str, Any]:
    """Differences of the means in exact standard deviations, and ratios of the latter."""
    began = time.perf_counter()
    found = ist.posterior(estimator, x, method=ist.Importance(draws=SET_DRAWS), seed=1)
    seconds = time.perf_counter() - began
    mean, std = exact_moments(x, estimator.prior, seed=2)
    return {
        "theta": numbers(theta),
        "shift": numbers((found.mean - mean) / std),
        "ratio": numbers(found.std / std),
        "ess": float(found.sampling.ess.min()),
        "seconds": seconds,
    }


def tell_posterior(log: Log) -> None:
    """Medians over events and sets."""
    print("\naimed at: C2ST 0.53; |shift| 0.25 and |ratio − 1| 0.1 as medians over the sets")
    heads = ("C2ST", "worst", "|shift|", "by parameter", "|ratio − 1|", "by parameter")
    print(f"{'estimator':28}" + "".join(f"{head:>22}" for head in heads))
    for name, rows in each_of(log.rows, "estimator").items():
        single = [row["c2st"] for row in rows if row["events"] == 1]
        sets = [row for row in rows if row["events"] > 1]
        shift, ratio = np.abs(column(sets, "shift")), np.abs(column(sets, "ratio") - 1)
        cells = [f"{np.median(single):.3f}", f"{max(single):.3f}"] if single else ["", ""]
        for errors in (shift, ratio):
            cells.append(f"{np.median(errors):.3f}")
            cells.append(" ".join(f"{m:.3f}" for m in np.median(errors, axis=0)))
        print(f"{name:28}" + "".join(f"{cell:>22}" for cell in cells))


def reweighting(log: Log, name: str) -> None:
    """Closure of pairs, and what is said of a far one."""
    estimator = trained(name)
    for place, pair in enumerate(PAIRS):
        points = np.array(pair)
        log.row(
            {"estimator": name, "pair": place},
            lambda p=points: (
                {"from": numbers(p[0]), "to": numbers(p[1])} | measured_reweighting(estimator, *p)
            ),
        )


def measured_reweighting(
    estimator: ist.Estimator, theta_from: np.ndarray, theta_to: np.ndarray
) -> dict[str, Any]:
    """The areas under the curves, or the refusal."""
    x, direct = drawn(theta_from, REWEIGHTED, (41,)), drawn(theta_to, REWEIGHTED, (42,))
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        try:
            found = ist.reweight(estimator, x, theta_from, theta_to)
        except ist.FarReweighting as error:
            return {"refused": str(error)}
    closed = ist.closure(found, direct, seed=1)
    return {
        "auc": closed.auc,
        "auc_error": closed.auc_error,
        "unweighted": closed.unweighted_auc,
        "closes": closed.closes,
        "effective": found.effective_fraction,
        "normalisation": found.normalisation,
        "remarks": list(found.remarks),
    }


def tell_reweighting(log: Log) -> None:
    """A line for each pair."""
    print(f"\naimed at: |AUC − 0.5| ≤ 0.005 with {REWEIGHTED:,} events of either kind")
    for row in log.rows:
        told = f"{row['estimator']:28}{row['from']} → {row['to']}  "
        if "refused" in row:
            print(f"{told}refused: {row['refused']}")
        else:
            print(
                f"{told}AUC {row['auc']:.4f} ± {row['auc_error']:.4f}, before "
                f"{row['unweighted']:.4f}; {row['effective']:.0%} effectively"
                + "".join(f"; {remark}" for remark in row["remarks"])
            )


def cross_entropy(log: Log, name: str) -> None:
    """Both fits of sets of events, at several points."""
    estimator, simulator = trained(name), {**DIRICHLET, **COUNTING}[name].simulator
    for count in CROSS_EVENTS:
        for place, theta in enumerate(inner_points(estimator, CROSS_POINTS, seed=50)):
            log.row(
                {"estimator": name, "events": count, "point": place},
                lambda t=theta, c=count, p=place: measured_fits(estimator, simulator, t, c, p),
            )


def measured_fits(
    estimator: ist.Estimator,
    simulator: Callable[..., np.ndarray],
    theta: np.ndarray,
    count: int,
    seed: int,
) -> dict[str, Any]:
    """Differences in standard errors, where the reference is simulated at the first estimate."""
    x = simulator(np.tile(theta, (count, 1)), np.random.default_rng((51, seed)))
    first = ist.maximum_likelihood(estimator, x)
    many = np.tile(first.theta, (CROSS_REFERENCE, 1))
    reference = simulator(many, np.random.default_rng((52, seed)))
    found = ist.cross_entropy_fit(
        estimator, x, reference=ist.Events(x=reference, theta=many), start=first.theta
    )
    return {
        "theta": numbers(theta),
        "difference": numbers((found.theta - first.theta) / first.errors),
        "pull": numbers((first.theta - theta) / first.errors),
        "pull_cross_entropy": numbers((found.theta - theta) / found.errors),
        "gradient": gradient_error(estimator, x, reference[:2000], first.theta, theta),
    }


def gradient_error(
    estimator: ist.Estimator,
    x: np.ndarray,
    reference: np.ndarray,
    against: np.ndarray,
    theta: np.ndarray,
) -> float:
    """The largest difference of the gradient from finite ones, relative to its length."""
    with float64():
        models = (in_float64(estimator.model),)
    samples = [EventTerms(models, rows, reference=against) for rows in (x, reference)]
    loss = CrossEntropy(samples, [np.ones(len(x)), np.ones(len(reference))])
    steps = 1e-4 * np.eye(len(theta))

    def value(theta: np.ndarray) -> float:
        return loss.value_and_gradient(theta)[0]

    numerical = [(value(theta + h) - value(theta - h)) / 2e-4 for h in steps]
    gradient = loss.value_and_gradient(theta)[1]
    return float(np.abs(gradient - numerical).max() / np.linalg.norm(gradient))


def tell_cross_entropy(log: Log) -> None:
    """Differences over the points."""
    print("\naimed at: a difference of 0.3 standard errors. Mean squared pulls should be near 1")
    heads = ("events", "median |d|", "largest", "pull²", "pull² CE", "gradient")
    print(f"{'estimator':28}" + "".join(f"{head:>12}" for head in heads))
    for name, group in each_of(log.rows, "estimator").items():
        for count, rows in each_of(group, "events").items():
            difference = np.abs(column(rows, "difference"))
            values = (
                count,
                np.median(difference),
                difference.max(),
                np.mean(column(rows, "pull") ** 2),
                np.mean(column(rows, "pull_cross_entropy") ** 2),
                column(rows, "gradient").max(),
            )
            print(f"{name:28}" + "".join(f"{value:12.3g}" for value in values))


def pyhf(log: Log, name: str) -> None:
    """Profile intervals of μ for observed events, and CLs at a few μ."""
    estimator = trained(name)
    rng = np.random.default_rng(60)
    mu = rng.uniform(0.5, 3.5, COUNTED)
    theta = np.stack([mu, rng.normal(1, 0.04, COUNTED), rng.normal(1, 0.09, COUNTED)], axis=1)
    observed = counting_simulator(theta, rng)
    for place, x in enumerate(observed):
        log.row({"estimator": name, "event": place}, lambda x=x: measured_pyhf(estimator, x))


def measured_pyhf(estimator: ist.Estimator, x: np.ndarray) -> dict[str, Any]:
    """The ends of both intervals, both CLs and both limits."""
    exact, found = PyhfProfile(x), LearnedProfile(estimator, x)
    row: dict[str, Any] = {
        "x": numbers(x),
        "mu": numbers([found.fit.theta[0]]),
        "pyhf_mu": numbers([exact.theta[0]]),
    }
    for level in LEVELS:
        row[f"interval_{level}"] = numbers(found.interval(level))
        row[f"pyhf_interval_{level}"] = numbers(exact.interval(chi2.ppf(level, 1)))
    for kind, profile in (("", found), ("pyhf_", exact)):
        row[f"{kind}cls"] = numbers([profile.cls(mu) for mu in TESTED_MU])
        row[f"{kind}limit"] = profile.limit()
    return row


def tell_pyhf(log: Log) -> None:
    """Differences of the ends as parts of the length."""
    print("\naimed at: 5% of the length of pyhf's interval")
    print(f"{'estimator':28}{'level':>8}{'median':>10}{'mean lower':>12}{'upper':>10}{'worst':>10}")
    for name, rows in each_of(log.rows, "estimator").items():
        for level in LEVELS:
            ours, theirs = (column(rows, f"{kind}interval_{level}") for kind in ("", "pyhf_"))
            parts = (ours - theirs) / np.diff(theirs, axis=1)
            print(
                f"{name:28}{level:8.2f}{np.median(np.abs(parts)):10.2%}"
                f"{parts[:, 0].mean():12.2%}{parts[:, 1].mean():10.2%}{np.abs(parts).max():10.2%}"
            )
        length = np.diff(column(rows, f"pyhf_interval_{LEVELS[0]}"), axis=1)[:, 0]
        away = np.abs(column(rows, "limit") - column(rows, "pyhf_limit")) / length
        print(
            f"{name:28}CLs limits: median |difference| {np.median(away):.2%} of the 68% interval, "
            f"largest {away.max():.2%}"
        )
        for place, mu in enumerate(TESTED_MU):
            ours, theirs = (column(rows, f"{kind}cls")[:, place] for kind in ("", "pyhf_"))
            print(
                f"{name:28}CLs at μ = {mu:.0f}: median |difference| "
                f"{np.median(np.abs(ours - theirs)):.4f}, largest {np.abs(ours - theirs).max():.4f}"
            )


PARTS: Final[dict[str, tuple[Callable[..., None], Callable[..., None], Any]]] = {
    "fisher": (fisher, tell_fisher, DIRICHLET),
    "posterior": (posterior, tell_posterior, DIRICHLET),
    "reweighting": (reweighting, tell_reweighting, DIRICHLET),
    "cross_entropy": (cross_entropy, tell_cross_entropy, {**COUNTING, **DIRICHLET}),
    "pyhf": (pyhf, tell_pyhf, COUNTING),
}


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="part")
    parser.add_argument("--only", help="only estimators whose name contains this")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--tell", action="store_true", help="only print what was measured")
    options = parser.parse_args()
    for part in options.parts or list(PARTS):
        run, tell, names = PARTS[part]
        log = Log(RESULTS / f"inference-{part}.json", fresh=options.fresh)
        for name in names:
            if not options.tell and (options.only is None or options.only in name):
                print(f"--- {part}, {name}", flush=True)
                run(log, name)
        tell(log)


if __name__ == "__main__":
    main()
