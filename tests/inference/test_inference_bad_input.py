"""Bad input of every inference verb, and the message that comes back.

One table: what is called, the kind of error, and fragments that its message must have. Messages of
verbs that need their own simulations are tested beside them (`calibrated_fit`, `to_pyhf`).
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import jaxtyping
import numpy as np
import pytest

import inferostatic
from exact_estimators import as_direct, exact_dirichlet, exact_estimator, exact_normal, gaussian
from inferostatic.inference.information.score_response import score_response
from inferostatic.inference.observables.histograms import choose_bins
from inferostatic.world.priors.discrete import Discrete
from optional import OptionalPackage
from random_estimators import random_estimator

pd = OptionalPackage("pandas")

# Types are wrong on purpose here.
ist: Any = inferostatic
ONE: Any = exact_normal()
PAIR: Any = exact_normal(dim=2)
FRACTIONS: Any = exact_dirichlet()
NAMED: Any = exact_estimator(
    gaussian,
    ist.Uniform([0.5] * 3, [6.0] * 3, names=["a", "b", "c"]),
    np.full(3, -1e3),
    np.full(3, 1e3),
    x_names=("p", "q", "r"),
)
RATIO: Any = as_direct(ist.RatioEstimator, FRACTIONS)
SCORE: Any = as_direct(ist.ScoreEstimator, FRACTIONS)
UNTRAINED_RATIO = random_estimator(ist.DirectRatio(ist.MLP((8,)), ist.Raw()))
UNTRAINED_SCORE = random_estimator(ist.DirectScore(ist.MLP((8,)), ist.Raw()))

TOY: Any = ist.toys.Dirichlet(3)
THETA = np.array([1.5, 3.0, 4.0])
FROM, TO = np.array([2.0, 2.0, 2.0]), np.array([2.5, 2.0, 1.8])
X = TOY(np.tile(THETA, (100, 1)), np.random.default_rng(1))
X1, X2 = np.array([[0.5], [1.0]]), np.zeros((2, 2))
X3 = np.random.default_rng(1).normal(3.0, 1.0, (8, 3))
NAN3 = np.where(np.arange(8)[:, None] == 3, np.nan, X3)
AT_ZERO = ist.Events(x=np.zeros((20, 1)), theta=np.zeros((20, 1)))
MANY = ist.simulate(TOY, FRACTIONS.prior, 500, seed=3)


def normal(theta, rng):
    return theta + rng.normal(size=theta.shape)


def pair(**parts: Any) -> Any:
    return ist.Likelihood(PAIR, X2, **parts)


def set_of(x: Any = X2, **options: Any) -> Any:
    """A set at one point, which is what a newcomer would ask for."""
    return ist.confidence_set(PAIR, x, **({"grid": [[0.0, 0.0]]} | options))


def limit_of(method: Any = None, parameter: Any = 0, **options: Any) -> Any:
    method = ist.CLs() if method is None else method
    return ist.upper_limit(PAIR, np.zeros((1, 2)), parameter, method, **options)


def best_of(**given: Any) -> Any:
    return ist.maximum_likelihood(ist.Likelihood(PAIR, np.ones((200, 2)), **given))


def sample(estimator: Any = ONE, x: Any = X1, **options: Any) -> Any:
    return ist.posterior(estimator, x, **({"seed": 1} | options))


def cross(estimator: Any = ONE, x: Any = AT_ZERO.x, reference: Any = AT_ZERO) -> Any:
    return ist.cross_entropy_fit(estimator, x, reference=reference)


def information(x: Any = X, theta: Any = THETA, **options: Any) -> Any:
    return ist.fisher(FRACTIONS, x, theta, **options)


def weights(estimator: Any = FRACTIONS, **given: Any) -> Any:
    return ist.reweight(estimator, **({"x": X, "theta_from": FROM, "theta_to": TO} | given))


def see(*given: Any, estimator: Any = FRACTIONS, **options: Any) -> Any:
    return ist.observable(estimator, *(given or (THETA,)), **options)


def channel(name: str, low: float, high: float, **parts: Any) -> Any:
    prior = ist.Uniform([-4.0, low], [4.0, high], names=["mu", name])
    wide = np.full(2, 60.0)
    return ist.Likelihood(exact_estimator(gaussian, prior, -wide, wide), X2, **parts)


TWICE: Any = {"x": np.zeros((1, 2)), "theta": np.zeros((1, 2))}
TOYS: dict[str, Any] = {"toys": 5, "simulator": normal}
V, T = ValueError, TypeError

#: What is called, the kind of error, and fragments of its message.
Case = tuple[Any, ...]
LIKELIHOOD: dict[str, Case] = {
    "fix an unknown parameter": (
        lambda: ist.Likelihood(FRACTIONS, X).fix(d=1.0),
        V,
        "'d', but the parameters are a, b, c",
    ),
    "bound an unknown parameter": (
        lambda: ist.Likelihood(FRACTIONS, X).bound(d=(0, 1)),
        V,
        "'d', but the parameters are a, b, c",
    ),
    "constrain an unknown parameter": (
        lambda: ist.Likelihood(FRACTIONS, X).constrain(d=(0, 1)),
        V,
        "'d', but the parameters are a, b, c",
    ),
    "an unknown fixed parameter": (
        lambda: ist.Likelihood(FRACTIONS, X, fixed={"d": 1.0}),
        V,
        "'d', but the parameters are a, b, c",
    ),
    "fixed outside": (lambda: pair().fix(theta0=9.0), V, "fixed value of theta0 must lie", "9.0"),
    "fixed in the trained region": (
        lambda: ist.Likelihood(FRACTIONS, X).fix(a=6.0),
        V,
        "fixed value of a must lie in the trained region",
    ),
    "fixed to two values": (
        lambda: pair().fix(theta0=[1.0, 2.0]),
        V,
        "fixed value of theta0 must lie",
    ),
    "fixed to NaN": (lambda: pair(fixed={"theta0": np.nan}), V, "trained region, -3 to 3", "nan"),
    "fixed outside the bounds": (
        lambda: pair().bound(theta0=(1.0, 2.0)).fix(theta0=3.0),
        V,
        "fixed value of theta0",
    ),
    "bounds outside": (
        lambda: ist.Likelihood(FRACTIONS, X).bound(a=(0.0, 2.0)),
        V,
        "bounds of a must be a pair",
        "0.1 to 5.4",
    ),
    "bounds the wrong way round": (
        lambda: pair().bound(theta0=(2.0, 1.0)),
        V,
        "bounds of theta0 must be a pair",
    ),
    "a constraint of an unknown parameter": (
        lambda: pair(constraints={"b": (0, 1)}),
        V,
        "'b'",
        "theta0, theta1",
    ),
    "a constraint without a width": (
        lambda: pair(constraints={"theta1": (0.0, 0.0)}),
        V,
        "(mean, standard deviation)",
        "second positive",
        "theta1",
    ),
    "constraints in a list": (
        lambda: pair(constraints=[("a", 1)]),
        T,
        "constraints must be a dictionary",
    ),
    "fixed in a list": (lambda: pair(fixed=["theta0"]), T, "fixed must be a dictionary"),
    "everything fixed": (
        lambda: pair(fixed={"theta0": 0.0, "theta1": 0.0}),
        V,
        "every parameter is fixed",
    ),
    "everything fixed, one by one": (
        lambda: pair().fix(theta0=0.0).fix(theta1=0.0),
        V,
        "every parameter is fixed",
    ),
    "weights of the wrong number": (
        lambda: pair(weight=np.ones(3)),
        V,
        "weight must have shape (2,), one for each event",
        "(3,)",
    ),
    "weights of NaN": (lambda: pair(weight=[1.0, np.nan]), V, "weight has NaN"),
    "weights that cancel": (lambda: pair(weight=[-1.0, -1.0]), V, "sum must be positive", "-2"),
    "a point with too few values": (
        lambda: ist.Likelihood(FRACTIONS, X).value([1.0]),
        V,
        "theta must be one point with a value for each of a, b",
    ),
    "a point of NaN": (
        lambda: ist.Likelihood(FRACTIONS, X).gradient([1.0, np.nan, 1.0]),
        V,
        "theta must be finite",
    ),
    "no estimator": (lambda: ist.Likelihood([], X), V, "empty list"),
    "estimators that differ": (
        lambda: ist.Likelihood([FRACTIONS, PAIR], X),
        V,
        "differ in their observables or parameters",
    ),
    "a name": (
        lambda: ist.Likelihood("model", X),
        T,
        "likelihood needs a potential",
    ),
    "a rate that is a number": (lambda: pair(rate=100.0), T, "rate must be a function"),
    "a rate that fails": (lambda: pair(rate=lambda _: {}[0]), V, "rate failed", "shape (2,)"),
    "channels of other regions": (
        lambda: channel("a", -4, 4) + channel("a", 5, 6),
        V,
        "of a do not overlap",
    ),
    "channels of regions that touch": (
        lambda: channel("a", -4, 4) + channel("a", 4, 6),
        V,
        "of a do not overlap",
    ),
    "channels fixed to two values": (
        lambda: channel("a", -4, 4, fixed={"a": 0.1}) + channel("a", -4, 4, fixed={"a": 0.2}),
        V,
        "of a do not overlap",
    ),
    "channels with other bounds": (
        lambda: channel("a", -4, 4).bound(mu=(0, 1)) + channel("b", -4, 4).bound(mu=(2, 3)),
        V,
        "of mu do not overlap",
    ),
    "channels that fix everything": (
        lambda: channel("a", -4, 4).fix(a=0.0) + channel("a", -4, 4).fix(mu=0.0),
        V,
        "every parameter is fixed",
    ),
    "a likelihood and a number": (
        lambda: pair() + 1,
        T,
        "unsupported operand",
    ),
} | {
    f"{part} as an option": (
        lambda part=part: ist.confidence_set(PAIR, X2, **{part: None}),
        T,
        f"{part} belongs to the likelihood: ist.confidence_set(",
    )
    for part in ("weight", "rate", "constraints", "fixed", "bounds")
}

BEST: dict[str, Case] = {
    "NaN": (
        lambda: ist.maximum_likelihood(NAMED, NAN3),
        V,
        "x has NaN",
        "row 3",
        "Remove or repair",
    ),
    "no events": (lambda: ist.maximum_likelihood(NAMED, X3[:0]), V, "no observed events"),
    "an empty list": (lambda: ist.maximum_likelihood(NAMED, []), V, "x is empty"),
    "a part of one event": (
        lambda: ist.maximum_likelihood(NAMED, X3[0, :2]),
        V,
        "(events, observables)",
        "for one event x[None, :]",
    ),
    "too few columns": (
        lambda: ist.maximum_likelihood(NAMED, X3[:, :2]),
        V,
        "x must have 3 observables",
        "got shape (8, 2)",
    ),
    "columns in another order": (
        lambda: ist.maximum_likelihood(NAMED, pd.DataFrame(X3, columns=["q", "p", "r"])),
        V,
        "columns of x are q, p, r",
        "x[['p', 'q', 'r']]",
    ),
    "beyond float32": (lambda: ist.maximum_likelihood(NAMED, X3 * 1e39), V, "x exceeds float32"),
    "events in place of their x": (
        lambda: ist.maximum_likelihood(NAMED, ist.Events(x=X3, theta=X3)),
        T,
        "set of Events",
        ".x or .theta",
    ),
    "a direct estimator": (
        lambda: ist.maximum_likelihood(RATIO, X),
        T,
        "needs a potential (ist.Estimator)",
        "ist.fit(events, seed=…)",
        "got RatioEstimator",
    ),
    "nothing": (lambda: ist.maximum_likelihood(None, X3), T, "needs a potential", "got None"),
    "x first": (lambda: ist.maximum_likelihood(X3, NAMED), T, "needs a potential", "got ndarray"),
    "no x": (lambda: ist.maximum_likelihood(NAMED), T, "takes a likelihood"),
    "a start with too few values": (
        lambda: ist.maximum_likelihood(NAMED, X3, start=[1.0, 2.0]),
        V,
        "a value for each of a, b, c",
        "(2,)",
    ),
    "a start outside the region": (
        lambda: ist.maximum_likelihood(NAMED, X3, start=[1, 2, 9]),
        V,
        "trained region",
        "[0.5, 0.5, 0.5] to [6.0, 6.0, 6.0]",
        "got [1.0, 2.0, 9.0]",
    ),
    "a start of NaN": (
        lambda: ist.maximum_likelihood(NAMED, X3, start=[1, 2, np.nan]),
        V,
        "start must be finite",
    ),
    "no starts": (
        lambda: ist.maximum_likelihood(PAIR, X2, starts=0),
        V,
        "starts must be at least 1",
    ),
    "a rate that is negative somewhere": (
        lambda: best_of(rate=lambda theta: theta[0] + 0.1),
        V,
        "rate must be positive",
        "θ =",
    ),
    "a rate of NumPy that is negative somewhere": (
        lambda: best_of(rate=lambda theta: float(theta[0]) + 0.1),
        V,
        "rate must be positive",
        "θ =",
    ),
    "a rate of NumPy that fails somewhere": (
        lambda: best_of(rate=lambda theta: math.sqrt(theta[0] + 0.1)),
        V,
        "rate failed",
        "shape (2,)",
    ),
}

SETS: dict[str, Case] = {
    "a method's name": (
        lambda: set_of(method="neyman"),
        T,
        "method must be ist.Wilks() or ist.Neyman",
        "got str",
    ),
    "Neyman of nothing": (
        lambda: ist.Neyman(None),
        T,
        "a simulator, function",
        "or simulated ist.Events",
    ),
    "Neyman of an array": (
        lambda: ist.Neyman(X2),
        T,
        "simulated ist.Events at many θ",
        "ot ndarray",
    ),
    "a simulator": (lambda: set_of(simulator=normal), T, "unexpected keyword argument 'simulator'"),
    "no events": (lambda: set_of(X2[:0]), V, "no observed events"),
    "NaN": (lambda: set_of(X2 * np.nan), V, "Remove or repair"),
    "a parameter twice": (lambda: set_of(parameters=["theta0"] * 2), V, "and each only once"),
    "no such parameter": (
        lambda: set_of(parameters="mass"),
        V,
        "is no parameter; they are theta0, theta1",
    ),
    "a fixed parameter": (
        lambda: ist.confidence_set(pair(fixed={"theta0": 1.0}), parameters="theta0"),
        V,
        "is fixed, so it cannot be tested",
    ),
    "a grid without an axis": (
        lambda: set_of(grid={"theta0": [0.0]}),
        V,
        "an axis for each parameter of interest",
    ),
    "a grid outside": (
        lambda: set_of(grid=[[0.0, 9.0]]),
        V,
        "must lie in the trained region and the bounds",
    ),
    "a grid of NaN": (lambda: set_of(grid=[[0.0, np.nan]]), V, "Give finite parameters"),
    "an empty grid": (lambda: set_of(grid=np.zeros((0, 2))), V, "no points"),
    "a level in per cent": (lambda: set_of(level=68), V, "between 0 and 1"),
    "no toys": (lambda: ist.Neyman(normal, toys=0), V, "toys must be at least 1"),
    "a simulator of other observables": (
        lambda: set_of(method=ist.Neyman(lambda theta, rng: theta[:, :1])),
        V,
        "returns 1 observables",
    ),
    "a small pool": (
        lambda: set_of(method=ist.Neyman(normal, pool=3)),
        V,
        "pool must be at least twice",
    ),
    "few stored events": (
        lambda: set_of(np.zeros((60, 2)), method=ist.Neyman(ist.Events(**TWICE)[[0] * 80])),
        V,
        "too few for toys of 60",
    ),
    "a direct score": (lambda: ist.confidence_set(SCORE, X), T, "needs a potential"),
}

LIMITS: dict[str, Case] = {
    "no Asimov data": (limit_of, V, "needs the Asimov data set"),
    "a method's name": (
        lambda: limit_of("cls"),
        T,
        "method must be ist.CLs(…) or ist.CLsb(…); got str",
    ),
    "no such parameter": (lambda: limit_of(parameter="mass"), V, "is no parameter"),
    "a fixed parameter": (
        lambda: ist.upper_limit(pair(fixed={"theta0": 0.0}), "theta0", ist.CLs()),
        V,
        "is fixed, so it has no limit",
    ),
    "a background outside": (
        lambda: limit_of(background=7.0),
        V,
        "background must be a value of theta0",
    ),
    "toys of nothing": (lambda: limit_of(ist.CLs(toys=100)), V, "give simulator="),
    "Asimov data of NaN": (
        lambda: limit_of(ist.CLs(asimov=[[np.nan, 0.0]])),
        V,
        "Give finite observables",
    ),
    "a level in per cent": (lambda: limit_of(level=95), V, "between 0 and 1"),
    "a scan of one value": (
        lambda: limit_of(ist.CLs(**TOYS), scan=[1.0]),
        V,
        "at least two values",
    ),
    "a scan outside": (
        lambda: limit_of(ist.CLs(**TOYS), scan=[1.0, 9.0]),
        V,
        "must lie in the trained region",
    ),
    "a scan without toys": (
        lambda: limit_of(scan=[1.0, 2.0]),
        V,
        "scan holds values to test with toys",
    ),
    "a pool without toys": (lambda: limit_of(ist.CLs(pool=100)), V, "pool is for toys"),
}

POSTERIORS: dict[str, Case] = {
    "NaN": (lambda: sample(x=[[np.nan]]), V, "x has NaN", "row 0", "Remove or repair"),
    "no events": (lambda: sample(x=X1[:0]), V, "no observed events"),
    "many events of one observable": (lambda: sample(x=[0.5, 1.0]), V, "[:, None]"),
    "too many columns": (lambda: sample(x=[[1.0, 2.0]]), V, "1 observables", "(1, 2)"),
    "a direct estimator": (
        lambda: sample(RATIO, X),
        T,
        "needs a potential",
        "got RatioEstimator",
    ),
    "no prior": (
        lambda: sample(dataclasses.replace(ONE, prior=None)),
        V,
        "without a prior",
        "prior=ist.Uniform",
    ),
    "another kind of prior": (lambda: sample(prior=(0, 1)), T, "prior must be", "got tuple"),
    "a prior of another dimension": (
        lambda: sample(prior=ist.Uniform([0, 0], [1, 1])),
        V,
        "has 1 parameters (theta0), the prior 2",
    ),
    "a prior in another order": (
        lambda: sample(FRACTIONS, X, prior=ist.Uniform([1] * 3, [2] * 3, names=["b", "a", "c"])),
        V,
        "order is a, b, c",
    ),
    "a grid of three": (
        lambda: sample(FRACTIONS, X, method=ist.Grid()),
        V,
        "one or two free parameters",
        "ist.NUTS()",
    ),
    "a method's name": (
        lambda: sample(method="nuts"),
        T,
        "ist.Grid(…), ist.NUTS(…) or ist.Importance(…)",
    ),
    "NUTS on points": (
        lambda: sample(method=ist.NUTS(), prior=Discrete([[0.0], [1.0]])),
        V,
        "finite set of points",
        "ist.Grid()",
    ),
    "a seed of text": (lambda: sample(seed="1"), T, "seed must be an int"),
    "a grid without draws": (lambda: ist.Grid(draws=0), V, "draws must be at least 1"),
    "NUTS without draws": (lambda: ist.NUTS(draws=0), V, "draws must be at least 1"),
    "NUTS without chains": (lambda: ist.NUTS(chains=0), V, "chains must be at least 1"),
    "importance without draws": (lambda: ist.Importance(draws=0), V, "draws must be at least 1"),
}

CROSS_ENTROPY: dict[str, Case] = {
    "a direct score": (
        lambda: cross(as_direct(ist.ScoreEstimator, ONE)),
        T,
        "needs log ratios",
        "got ScoreEstimator",
    ),
    "a reference outside": (
        lambda: cross(reference=ist.Events(x=AT_ZERO.x, theta=AT_ZERO.theta + 4.0)),
        V,
        "θ of the reference must lie in the trained region",
    ),
    "a reference of two parameters": (
        lambda: cross(reference=ist.Events(x=AT_ZERO.x, theta=np.zeros((20, 2)))),
        V,
        "one θ of 1 parameters; got 1 different θ of 2",
    ),
    "a reference at many points": (
        lambda: cross(reference=ist.Events(x=AT_ZERO.x, theta=np.arange(20.0)[:, None])),
        V,
        "one θ of 1 parameters; got 20 different θ of 1",
    ),
    "a reference without θ": (
        lambda: cross(reference=AT_ZERO.x),
        T,
        "reference must be ist.Events",
        "got ndarray",
    ),
    "constraints": (
        lambda: ist.cross_entropy_fit(
            ist.Likelihood(ONE, X1, constraints={"theta0": (0.0, 1.0)}), reference=AT_ZERO
        ),
        V,
        "neither a rate nor constraints",
    ),
    "observed events twice": (
        lambda: cross(ist.Likelihood(ONE, X1), X1),
        T,
        "holds the observed events already",
    ),
    "no observed events": (
        lambda: ist.cross_entropy_fit(ONE, reference=AT_ZERO),
        T,
        "a likelihood, or an estimator and events x",
    ),
}

INFORMATION: dict[str, Case] = {
    "events with a seed": (lambda: information(seed=1), T, "n and seed belong to a simulator"),
    "events with a number": (lambda: information(n=100), T, "here x are events"),
    "a simulator without a seed": (lambda: information(TOY), T, "needs a seed"),
    "no simulated event": (lambda: information(TOY, n=0, seed=1), V, "n must be at least 1"),
    "the class of a simulator": (lambda: information(type(TOY)), T, "simulator must be a function"),
    "a simulator with weights": (
        lambda: information(TOY, weight=np.ones(5), seed=1),
        T,
        "weight belongs to events",
    ),
    "too few parameters": (
        lambda: information(theta=[1.0, 2.0]),
        V,
        "each of a, b, c; got shape",
    ),
    "outside the region": (lambda: information(theta=[9.0, 2.0, 2.0]), V, "trained region"),
    "θ of NaN": (lambda: information(theta=[np.nan, 2, 2]), V, "theta must be finite"),
    "no events": (lambda: information(X[:0]), V, "no events"),
    "one event": (lambda: information(X[:1]), V, "many of them"),
    "one event without its axis": (lambda: information(X[0]), V, "many of them"),
    "too few columns": (lambda: information(X[:, :2]), V, "must have 3 observables"),
    "NaN": (lambda: information(X + [[np.nan, 0, 0]]), V, "NaN or infinite"),
    "few weights": (lambda: information(weight=np.ones(5)), V, "weight must have shape"),
    "negative weights": (lambda: information(weight=-np.ones(100)), V, "sum must be positive"),
    "infinite weights": (lambda: information(weight=np.full(100, np.inf)), V, "finite weight"),
    "a direct ratio": (
        lambda: ist.fisher(UNTRAINED_RATIO, X, THETA),
        T,
        "needs a score",
        "got RatioEstimator",
    ),
    "the class of an estimator": (
        lambda: ist.fisher(ist.Estimator, X, THETA),
        T,
        "got the class Estimator itself",
    ),
    "columns in another order": (
        lambda: information(pd.DataFrame(X, columns=["x2", "x1", "x0"])),
        V,
        "but the order here is x0, x1, x2",
    ),
    "a response outside the region": (
        lambda: score_response(ONE, [30.0], normal, n=100, seed=1),
        V,
        "trained region",
    ),
    "a response of a number": (
        lambda: score_response(3, [0.0], normal, seed=1),  # pyright: ignore[reportArgumentType]
        T,
        "score_response needs a score",
        "got int",
    ),
    "a response of no events": (
        lambda: score_response(ONE, [0.0], normal, n=0, seed=1),
        V,
        "n must be",
    ),
}

OBSERVABLES: dict[str, Case] = {
    "a direct ratio": (lambda: see(estimator=RATIO), T, "needs a score", "got RatioEstimator"),
    "outside the region": (
        lambda: see([7.0], estimator=ONE),
        V,
        "theta_ref must lie in the trained region",
    ),
    "no such parameter": (lambda: see(direction="d"), V, "'d' is no parameter", "a, b, c"),
    "no direction": (
        lambda: see(direction=[0, 0, 0]),
        V,
        "direction must be a vector",
        "[0, 0, 0]",
    ),
    "information of another shape": (
        lambda: see(direction="a", information=np.eye(2)),
        V,
        "shape (3, 3); got shape (2, 2)",
    ),
    "no information": (
        lambda: see(direction="a", information=np.zeros((3, 3))),
        V,
        "positive definite",
    ),
    "information without a direction": (
        lambda: see(information=np.eye(3)),
        V,
        "direction must name one of a, b, c",
    ),
    "few events for bins": (
        lambda: choose_bins(np.zeros((50, 1))),
        V,
        "all 50 events together",
        "simulate more",
    ),
    "bins of NaN": (lambda: choose_bins(np.full((500, 1), np.nan)), V, "values has NaN"),
    "bins of no events": (
        lambda: choose_bins(np.zeros((0, 1))),
        V,
        "no events to choose bins from",
    ),
    "bins of negative weights": (
        lambda: choose_bins(np.zeros((500, 1)), weight=-np.ones(500)),
        V,
        "sum must be positive",
    ),
    "bins without errors": (
        lambda: choose_bins(np.zeros((500, 1)), max_relative_error=0),
        V,
        "max_relative_error must be a finite number above 0",
    ),
}

WEIGHTS: dict[str, Case] = {
    "no events": (lambda: weights(x=X[:0]), V, "no events"),
    "a part of one event": (lambda: weights(x=X[0, :2]), V, "two axes"),
    "too few columns": (lambda: weights(x=X[:9, :2]), V, "must have 3 observables"),
    "NaN": (lambda: weights(x=X[:9] + [[np.nan, 0, 0]]), V, "NaN or infinite"),
    "too few parameters": (
        lambda: weights(theta_to=[1.0, 2.0]),
        V,
        "expected x with 3 columns",
    ),
    "θ of NaN": (
        lambda: weights(theta_to=[np.nan, 2.0, 2.0]),
        V,
        "theta has NaN or infinite",
    ),
    "another number of θ": (
        lambda: weights(theta_from=np.tile(FROM, (7, 1))),
        V,
        "give one θ for each event",
    ),
    "many θ for one event": (
        lambda: weights(x=X[:1], theta_from=np.tile(FROM, (7, 1))),
        V,
        "repeat the event",
    ),
    "few weights": (lambda: weights(weight=np.ones(5)), V, "weight must have shape"),
    "weights of NaN": (lambda: weights(weight=np.full(100, np.nan)), V, "finite weight"),
    "negative weights": (lambda: weights(weight=-np.ones(100)), V, "sum must be positive"),
    "a direct score": (
        lambda: weights(UNTRAINED_SCORE),
        T,
        "needs a log ratio",
        "got ScoreEstimator",
    ),
    "columns in another order": (
        lambda: weights(x=pd.DataFrame(X, columns=["x2", "x1", "x0"])),
        V,
        "but the order here is x0, x1, x2",
    ),
}

CENTRE: dict[str, Case] = {
    "a direct score": (
        lambda: ist.centre(UNTRAINED_SCORE, MANY),
        T,
        "centre needs a potential",
    ),
    "an array": (lambda: ist.centre(FRACTIONS, X), T, "centre takes ist.Events"),
    "few events": (
        lambda: ist.centre(FRACTIONS, MANY[:10]),
        V,
        "at least 400 simulated events; got 10",
    ),
    "a report of a direct score": (
        lambda: ist.centring_report(UNTRAINED_SCORE, MANY),
        T,
        "centring_report needs a potential",
    ),
}

TABLE = {
    f"{verb}: {what}": case
    for verb, cases in {
        "Likelihood": LIKELIHOOD,
        "maximum_likelihood": BEST,
        "confidence_set": SETS,
        "upper_limit": LIMITS,
        "posterior": POSTERIORS,
        "cross_entropy_fit": CROSS_ENTROPY,
        "fisher": INFORMATION,
        "observable": OBSERVABLES,
        "reweight": WEIGHTS,
        "centre": CENTRE,
    }.items()
    for what, case in cases.items()
}


@pytest.fixture(autouse=True)
def _as_a_user() -> Iterator[None]:
    """Without the type checks of these tests, so that the library's own messages answer."""
    jaxtyping.config.update("jaxtyping_disable", "1")
    yield
    jaxtyping.config.update("jaxtyping_disable", "0")


@pytest.mark.parametrize("case", TABLE.values(), ids=TABLE)
def test_bad_input_is_refused_with_a_message(case: Any) -> None:
    misuse, kind, *fragments = case
    with pytest.raises(kind) as caught:
        misuse()
    for fragment in fragments:
        assert fragment in str(caught.value)
