"""Every public function and class, with plain values that make a call take milliseconds."""

import functools
import inspect
import math
import re
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import inferostatic as ist
from exact_estimators import as_direct, exact_normal
from inferostatic.inference.likelihood.learned_bias import LearnedBias
from random_estimators import random_estimator

from .outcomes import Outcome
from .targets import Argument, Case, Target, cases_of

DATA = Path(__file__).parent.parent / "data"
PRIOR = ist.Uniform([-3.0, -3.0], [3.0, 3.0])
NAMES = PRIOR.names
EXACT = exact_normal(dim=2, members=2)
SCORE, RATIO = as_direct(ist.ScoreEstimator, EXACT), as_direct(ist.RatioEstimator, EXACT)
POINT = np.array([0.5, -0.5])
KEY = jax.random.key(1)


def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


EVENTS = ist.simulate(simulator, PRIOR, 500, seed=3)
X, THETA = np.array(EVENTS.x), np.array(EVENTS.theta)
SEEN = np.random.default_rng(5).normal(POINT, 1.0, (12, 2))
WEIGHT = np.linspace(0.5, 1.5, 12)
LIKELIHOOD = ist.Likelihood(EXACT, SEEN)


# --- How an argument is written here -------------------------------------------------------------


def data(value: Any, *more: str) -> Argument:
    return Argument(np.asarray(value, float), "data", frozenset(more))


def vector(value: Any, *more: str) -> Argument:
    return Argument(np.asarray(value, float), "vector", frozenset(more))


def width(value: float) -> Argument:
    return Argument(
        value,
        "vector",
        frozenset({"one entry", "list of it", "negative", "plus one half", *FUNCTIONS}),
    )


def number(value: Any, *more: str) -> Argument:
    return Argument(value, "number", frozenset(more))


def count(value: Any, *more: str) -> Argument:
    return Argument(value, "count", frozenset(more))


def flag(value: bool, *more: str) -> Argument:  # noqa: FBT001
    return Argument(value, "flag", frozenset(more))


def thing(value: Any, *more: str) -> Argument:
    return Argument(value, "object", frozenset(more))


def names(*value: str) -> Argument:
    return Argument(list(value), "names", frozenset({"None"}))


def function(value: Callable[..., Any], *more: str) -> Argument:
    return Argument(value, "function", frozenset(more))


def simulating(value: Any = simulator, *more: str) -> Argument:
    return Argument(value, "simulator", frozenset(more))


def text(value: str, *more: str) -> Argument:
    return Argument(value, "text", frozenset(more))


#: No events have no values.
NO_ROWS = ("no rows", "without rows")
SEED = Argument(1, "seed")
BAR = Argument(value=False, kind="flag", taken=frozenset({"None"}))


def target(
    title: str, call: Callable[..., Any], /, *, heavy: Any = False, **arguments: Any
) -> Target:
    """Arguments that are no `Argument` are always the same."""
    varied = {k: v for k, v in arguments.items() if isinstance(v, Argument)}
    setup = {k: v for k, v in arguments.items() if k not in varied}
    return Target(title, call, varied, heavy, setup)


# --- Priors, kernels and other settings ----------------------------------------------------------


def used(prior: Any) -> Any:
    """A prior is drawn from and asked."""
    return prior, prior.sample(4, seed=1), prior.log_prob(np.full(prior.dim, 0.2)), prior.support


def draw_one(key: Any) -> Any:
    return jax.random.uniform(key, (2,))


def log_density_of(theta: Any) -> Any:
    return jnp.sum(0.0 * theta)


def draw_standard(dim: int, key: Any) -> Any:
    return jax.random.uniform(key, (dim,), minval=-1.0)


def on_square(u: Any) -> Any:
    return jnp.where(jnp.max(jnp.abs(u)) <= 1, 0.0, -jnp.inf)


def prior_targets() -> list[Target]:
    p = used
    return [
        target(
            "Uniform",
            lambda **k: p(ist.Uniform(**k)),
            low=vector([0.0, -1.0]),
            high=vector([1.0, 1.0]),
            names=names("a", "b"),
        ),
        target(
            "Normal",
            lambda **k: p(ist.Normal(**k)),
            mean=vector([0.0, -1.0]),
            std=vector([1.0, 2.0]),
            names=names("a", "b"),
        ),
        target(
            "TruncatedNormal",
            lambda **k: p(ist.TruncatedNormal(**k)),
            mean=vector([0.0, -1.0]),
            std=vector([1.0, 2.0]),
            low=vector([-2.0, -2.0]),
            high=vector([2.0, 2.0]),
            names=names("a", "b"),
        ),
        target(
            "Product",
            lambda **k: p(ist.Product(**k)),
            parts=thing([ist.Uniform(0, 1), ist.Normal(0, 1)], "reversed", "twice", "first only"),
            names=names("a", "b"),
        ),
        target(
            "Discrete",
            lambda **k: (ist.Discrete(**k), ist.Discrete(**k).sample(4, seed=1)),
            points=data([[0.0, 1.0], [1.0, 2.0], [3.0, 0.5]]),
            probability=vector([0.2, 0.3, 0.5], "None"),
            names=names("a", "b"),
        ),
        target(
            "CustomPrior",
            lambda **k: p(ist.CustomPrior(**k)),
            draw_one=function(draw_one),
            log_density_of=function(log_density_of),
            low=vector([0.0, 0.0], "None"),
            high=vector([1.0, 1.0], "None"),
            names=names("a", "b"),
        ),
        target("Uniform.sample", PRIOR.sample, n=count(4), seed=SEED),
        target(
            "Uniform.log_prob", PRIOR.log_prob, theta=data(THETA[:5], "without rows", "no rows")
        ),
    ]


def with_kernel(kernel: Any) -> Any:
    return kernel, ist.draw(ist.KSE(kernel), simulator, PRIOR, 4, seed=1).x


def kernel_targets() -> list[Target]:
    kernels = (ist.Delta, ist.Rectangular, ist.Triangular, ist.Epanechnikov)
    found = [
        target(kind.__name__, lambda kind=kind, **k: with_kernel(kind(**k)), width=width(0.3))
        for kind in kernels
    ]
    found += [
        target(
            "Delta (of arrays)", lambda **k: with_kernel(ist.Delta(**k)), width=vector([0.3, 0.4])
        ),
        target(
            "Gaussian",
            lambda **k: with_kernel(ist.Gaussian(**k)),
            width=width(0.3),
            truncation=number(3.0, "None"),
        ),
        target(
            "CustomKernel",
            lambda **k: with_kernel(ist.CustomKernel(**k)),
            width=width(0.3),
            draw_standard=function(draw_standard),
            second_moment=width(1 / 3),
            largest=number(1.0),
            log_standard_density=function(on_square, "None"),
        ),
        target("MultiScale", ist.MultiScale, smallest=number(0.02), largest=number(1.0)),
        target(
            "Factorised", ist.Factorised, alpha=function(lambda t: t), beta=function(lambda t: t)
        ),
        target(
            "CustomPairs",
            ist.CustomPairs,
            draw_pair=function(lambda key: None, "None"),
            draw_partner=Argument(None, "function"),
        ),
    ]
    return found


KSE_KERNEL = ist.Delta(0.3)


def method_targets() -> list[Target]:
    reference = vector([0.0, 0.0], "None")
    pairs = thing(ist.Independent(), "None")
    unit = vector([1.0, 1.0], "None")
    latent = {"reference": reference, "pairs": thing(None)}
    weighted = {"alpha": number(1.0), "unit": unit}
    return [
        target(
            "KCE",
            ist.KCE,
            candidates=thing(ist.MultiScale(), "None"),
            number=count(15),
            latent=flag(value=False),
        ),
        target("KLRE", ist.KLRE, kernel=thing(KSE_KERNEL), loss=thing(ist.Logistic(), "None")),
        target("KSE", ist.KSE, kernel=thing(KSE_KERNEL), difference=thing(ist.Sign(), "None")),
        target(
            "CARL",
            ist.CARL,
            reference=reference,
            pairs=thing(None),
            loss=thing(ist.Square(), "None"),
        ),
        target("CARL of pairs", ist.CARL, pairs=pairs),
        target("DCTR", ist.DCTR, reference=vector([0.0, 0.0])),
        target("LatentLoss", ist.LatentLoss, loss=thing(ist.Square()), **latent),
        target("ALICE", ist.ALICE, **latent),
        target("ROLR", ist.ROLR, edge=number(10.0), **latent),
        target("CASCAL", ist.CASCAL, **weighted, **latent),
        target("ALICES", ist.ALICES, **weighted, **latent),
        target("RASCAL", ist.RASCAL, edge=number(10.0), **weighted, **latent),
        target("SALLY", ist.SALLY, reference=reference, unit=unit),
        target("SALLINO", ist.SALLINO, reference=vector([0.0, 0.0]), unit=unit),
        target("SCANDAL", ist.SCANDAL, **weighted),
        target(
            "Mix",
            ist.Mix,
            methods=thing([(1.0, ist.KCE()), (0.5, ist.CARL())], "reversed", "twice", "first only"),
        ),
        target("ROLRLoss", ist.ROLRLoss, edge=number(10.0)),
        target(
            "MEM",
            ist.MEM,
            latent_log_prob=function(lambda z, t: 0.0),
            transfer=function(lambda x, z: 0.0, "None"),
            name=text("z"),
            samples=count(128),
        ),
        target(
            "JointDensity",
            ist.JointDensity,
            function=function(lambda x, z, theta: 0.0),
            name=text("z"),
        ),
        target("JaxSimulator", ist.JaxSimulator, simulate_one=function(lambda theta, key: theta)),
        target(
            "Latent",
            ist.Latent,
            arrays=thing({"joint_score": THETA}, "empty dictionary", "{'p': 1}", "{1: 2}"),
            joint=thing(None),
        ),
    ]


def network_targets() -> list[Target]:
    features = thing(ist.Raw(), "None")
    architecture = {
        "network": thing(ist.MLP((4,)), *FUNCTIONS),
        "x_features": features,
        "theta_features": thing(ist.Raw()),
    }
    network = {"activation": function(jax.nn.silu), "initial": thing(ist.LecunNormal())}
    return [
        target(
            "MLP",
            ist.MLP,
            widths=Argument(
                (8, 8),
                "object",
                frozenset(
                    {
                        "empty list",
                        "empty tuple",
                        "range",
                        "five numbers",
                        "twice",
                        "first only",
                        "empty array",
                        "set",
                    }
                ),
            ),
            output_bias=flag(value=True),
            **network,
        ),
        target(
            "Residual",
            ist.Residual,
            width=count(8),
            blocks=count(2),
            output_bias=flag(value=False),
            **network,
        ),
        target(
            "TwoTower",
            ist.TwoTower,
            size=count(8),
            x_network=thing(ist.MLP((4,)), *FUNCTIONS),
            theta_network=thing(ist.MLP((4,)), *FUNCTIONS),
        ),
        target(
            "MixtureFlow",
            ist.MixtureFlow,
            layers=count(1),
            components=count(4),
            width=count(8),
            depth=count(2),
            activation=function(jax.nn.silu),
        ),
        target(
            "ParticleSet",
            ist.ParticleSet,
            particles=count(2),
            features=count(2),
            size=count(8),
            particle_network=thing(ist.MLP((4,)), *FUNCTIONS),
            join_network=thing(ist.MLP((4,)), *FUNCTIONS),
            x_features=thing(None),
        ),
        target(
            "PerParticle",
            ist.PerParticle,
            particles=count(2),
            features=count(2),
            padding=number(0.0),
            mask=count(1, "None"),
            scaling=thing(ist.Standardised()),
        ),
        target("Quantile", ist.Quantile, segments=count(8)),
        target("Potential", ist.Potential, **architecture),
        target("DirectScore", ist.DirectScore, **architecture),
        target("DirectRatio", ist.DirectRatio, **architecture),
        target(
            "Flow", ist.Flow, **architecture | {"network": thing(ist.MixtureFlow(), *FUNCTIONS)}
        ),
        target("Cosine", ist.Cosine, final=number(0.1), warm_up=number(0.02)),
        target(
            "Setting",
            ist.Setting,
            method=thing(ist.KCE(), "None"),
            network=thing(ist.MLP((4,)), "None", *FUNCTIONS),
            training=thing(ist.Training()),
            members=count(1),
            name=text("a", "None"),
        ),
        training_target(),
    ]


FUNCTIONS = (
    "function of nothing",
    "function of rubbish",
    "function of NaN",
    "function of another shape",
    "a network",
)


def training_target() -> Target:
    return target(
        "Training",
        ist.Training,
        epochs=count(3, "None"),
        batch_size=count(10, "None"),
        learning_rate=number(0.01),
        schedule=thing(ist.Constant()),
        weight_decay=number(0.1, "None"),
        effort=number(1.0),
        clip=number(1.0, "None"),
        beta1=number(0.9),
        beta2=number(0.99),
        epsilon=number(1e-8),
        validation_fraction=number(0.1),
        test_fraction=number(0.1),
        patience=count(3, "None"),
        keep_best=flag(value=True),
        choose=Argument(value=True, kind="flag", taken=frozenset({"None"})),
        centre=Argument(value=True, kind="flag", taken=frozenset({"None"})),
        shared_batches=flag(value=True),
        progress_bar=BAR,
    )


# --- Events --------------------------------------------------------------------------------------


def weights_of(n: int, benchmarks: np.ndarray) -> np.ndarray:
    a = np.random.default_rng(1).normal(size=(n, 3)) * [1.0, 0.4, 0.3] + [1.5, 0, 0]
    return (a @ np.c_[np.ones(len(benchmarks)), benchmarks].T) ** 2 + 0.1


BENCHMARKS = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [1, 1]], float)
POOL_WEIGHTS = weights_of(200, BENCHMARKS)
POOL_X = np.random.default_rng(2).normal(size=(200, 2))
MORPHING = ist.Morphing.of_degree(2, BENCHMARKS)
POOL = ist.WeightedPool(POOL_X, POOL_WEIGHTS, MORPHING)


def event_targets() -> list[Target]:
    return [
        target(
            "Events",
            ist.Events,
            x=data(X[:20]),
            theta=data(THETA[:20]),
            weight=data(np.linspace(1, 2, 20), "None"),
            latent=thing({"joint_score": THETA[:20]}, "None", "empty dictionary"),
            prior=thing(PRIOR, "None"),
            x_names=names("p", "q"),
            theta_names=names(*NAMES),
        ),
        target(
            "Events.concatenate",
            ist.Events.concatenate,
            parts=thing([EVENTS[:5], EVENTS[5:9]], "twice", "reversed", "first only"),
            prior=thing(PRIOR, "None"),
        ),
        target("Events[]", EVENTS.__getitem__, **positional(EVENTS.__getitem__, data_index())),
        target(
            "simulate",
            ist.simulate,
            simulator=simulating(),
            prior=thing(
                PRIOR,
                "a prior",
                "five numbers",
                "0-d array",
                "0",
                "-1",
                "3",
                "0.25",
                "-2.5",
                "range",
                "an array like JAX",
            ),
            n=count(20),
            store=None,
            engine=None,
            parts=None,
            seed=SEED,
            progress_bar=BAR,
        ),
        target(
            "draw",
            ist.draw,
            method=thing(ist.CARL()),
            simulator=simulating(),
            prior=thing(PRIOR, "a prior"),
            n=count(8),
            seed=SEED,
            progress_bar=BAR,
        ),
        target(
            "Morphing",
            ist.Morphing,
            powers=data(MORPHING.powers),
            benchmarks=data(BENCHMARKS),
            rates=data(np.ones(6), "None"),
            nuisances=count(0),
            response=thing(None),
        ),
        target(
            "Morphing.of_degree",
            ist.Morphing.of_degree,
            degree=count(2),
            benchmarks=data(BENCHMARKS, "one column less"),
            highest=thing(None, "3"),
            rates=data(np.ones(6), "None"),
            nuisances=count(0),
        ),
        target(
            "Morphing.weights_at",
            MORPHING.weights_at,
            theta=data(POINT / 2, "no rows", "list of it"),
        ),
        target(
            "Morphing.rate",
            ist.Morphing.of_degree(2, BENCHMARKS, rates=POOL_WEIGHTS.sum(0)).rate,
            theta=data(POINT / 2, "no rows", "list of it"),
        ),
        target(
            "Morphing.components", MORPHING.components, weights=data(POOL_WEIGHTS, "without rows")
        ),
        target(
            "Morphing.check",
            MORPHING.check,
            weights=data(POOL_WEIGHTS),
            theta=data(BENCHMARKS[:2] / 2),
        ),
        target(
            "Morphing.with_sample",
            MORPHING.with_sample,
            weights=data(POOL_WEIGHTS),
            nuisance=thing(None),
            reach=number(5.0),
        ),
        target(
            "Morphing.latent",
            MORPHING.latent,
            weights=data(POOL_WEIGHTS),
            theta=data(np.full((200, 2), 0.1), "None"),
            nuisance=thing(None),
        ),
        target(
            "WeightedPool",
            ist.WeightedPool,
            x=data(POOL_X),
            weights=data(POOL_WEIGHTS),
            morphing=thing(MORPHING, "None"),
            nuisance=thing(None),
            x_names=names("p", "q"),
            weight_names=names(*"abcdef"),
            theta_names=names("g", "h"),
        ),
        target(
            "WeightedPool.events",
            POOL.events,
            prior=thing(ist.Uniform([-0.5, -0.5], [0.5, 0.5])),
            n=count(20),
            seed=SEED,
            morphing=thing(None),
            progress_bar=BAR,
        ),
        target(
            "nuisance_exponents",
            ist.nuisance_exponents,
            nominal=data(np.linspace(1, 2, 9)),
            up=data(np.linspace(1.1, 2.1, 9)[None]),
            down=data(np.linspace(0.9, 1.9, 9)[None], "None", "[None]"),
        ),
        target(
            "pad_particles",
            ist.pad_particles,
            events=thing(
                [[[1.0, 2.0]], [], [[3.0, 4.0], [5.0, 6.0]]], "twice", "reversed", "first only"
            ),
            particles=count(2),
            names=names("pt", "eta"),
            event=data([[1.0], [2.0], [3.0]], "None"),
            padding=number(0.0),
            truncate=flag(value=False),
        ),
        *reader_targets(),
        *store_targets(),
        *engine_targets(),
    ]


def data_index() -> Argument:
    taken = {
        "slice",
        "True",
        "False",
        "0",
        "-1",
        "3",
        "empty list",
        "range",
        "five numbers",
        "Ellipsis",
        "two texts",
    }
    return Argument(slice(0, 5), "object", frozenset(taken))


def positional(call: Callable[..., Any], argument: Argument) -> dict[str, Argument]:
    name = next(iter(inspect.signature(call).parameters))
    return {name: argument}


# --- Readers -------------------------------------------------------------------------------------

LHE_EVENT = """<event>
 3 1 {weight} 91.2 0.0078 0.118
 2 -1 0 0 501 0 0.0 0.0 500.0 500.0 0.0 0.0 9.0
 -2 -1 0 0 0 501 0.0 0.0 -400.0 400.0 0.0 0.0 9.0
 23 1 1 2 0 0 {px} 4.0 100.0 900.0 91.2 0.0 9.0
<rwgt>
<wgt id='sm'>{px}</wgt>
<wgt id='up'>2.5</wgt>
</rwgt>
</event>
"""
LHE = """<LesHouchesEvents version="3.0">
<header>
<initrwgt>
<weight id='sm'>standard model</weight>
<weight id='up'>coupling at 1</weight>
</initrwgt>
</header>
<init>
2212 2212 6500.0 6500.0 0 0 247000 247000 -4 1
1.0 0.1 1.0 1
</init>
"""


@functools.cache
def folder() -> Path:
    """Small files to read; removed when the process ends."""
    keep = tempfile.TemporaryDirectory()
    KEPT.append(keep)
    path = Path(keep.name)
    events = [LHE_EVENT.format(weight=1.0, px=float(px)) for px in (3, 5, 8)]
    (path / "events.lhe").write_text(LHE + "".join(events) + "</LesHouchesEvents>\n")
    import uproot

    with uproot.recreate(path / "events.root") as file:
        file["tree"] = {"met": np.arange(5.0), "mass": np.linspace(170, 175, 5), "w": np.ones(5)}
    return path


KEPT: list[Any] = []
#: Losses of members that had stopped are NaN.
PADDED = ("NaN at the end", "masked at the end", "table of NaN", "0-d NaN", "nan", "numpy NaN")


def pt(event: Any) -> float:
    return math.hypot(event.particles[2].px, event.particles[2].py)


def a_path(name: str) -> Argument:
    return Argument(folder() / name, "path")


def model_path() -> Argument:
    UNTRAINED.save(folder() / "model.isn")
    return a_path("model.isn")


def reader_targets() -> list[Target]:
    samples = DATA / "madminer"
    observables = thing({"pt": pt})
    return [
        target(
            "read_lhe",
            ist.read_lhe,
            path=a_path("events.lhe"),
            observables=observables,
            theta=data([0.5]),
            prior=thing(None),
            theta_names=Argument(
                ["g"],
                "names",
                frozenset({"None", "text", "digits", "empty text", "surrogate", "zero byte"}),
            ),
        ),
        target(
            "read_lhe_weights",
            ist.read_lhe_weights,
            path=a_path("events.lhe"),
            observables=observables,
            weights=thing(["sm", "up"], "reversed", "None", "first only"),
        ),
        target(
            "read_root",
            ist.read_root,
            path=a_path("events.root"),
            tree=text("tree"),
            x=thing(["met"]),
            theta=thing(["mass"], "five numbers", "0-d array", "range", "an array like JAX"),
            weight=text("w", "None"),
            prior=thing(None),
        ),
        target("read_madminer", ist.read_madminer, path=Argument(samples / "toy.h5", "path")),
        target(
            "read_madminer_samples",
            ist.read_madminer_samples,
            folder=Argument(samples, "path"),
            name=text("ratio"),
            scored=flag(value=False),
            prior=thing(None),
            x_names=names("z0", "z1", "s"),
            theta_names=names("g", "h"),
        ),
        target(
            "load",
            ist.load,
            path=model_path(),
            network=thing(None),
            supplied=thing({}, "None", "{'p': 1}", "{'theta0': 'p'}"),
        ),
        target("Estimator.save", save_to, path=Argument(folder() / "saved.isn", "path")),
    ]


@functools.cache
def a_store() -> Path:
    """A small store, complete."""
    path = folder() / "events"
    ist.simulate(simulator, PRIOR, 60, store=ist.Store(path, name="toy", block_size=20), seed=1)
    return path


def described_store(**options: Any) -> Any:
    """The options of a store, without its folder."""
    store = ist.Store(**options)
    return {k: v for k, v in vars(store).items() if k != "path"} | {"there": store.exists()}


def write_into(**options: Any) -> Any:
    return read(ist.Store(Path(tempfile.mkdtemp(dir=folder())) / "store").write(**options))


def read(events: Any) -> Any:
    """The arrays of events that are read on first use."""
    return {"x": np.array(events.x), "theta": np.array(events.theta), "names": events.x_names}


#: Names of folders that can be created.
NEW_FOLDERS = frozenset({"text", "digits", "path"})


def store_targets() -> list[Target]:
    store = ist.Store(a_store())
    return [
        target(
            "Store",
            described_store,
            path=Argument(a_store(), "path", NEW_FOLDERS),
            name=text("toy", "None"),
            version=text("1", "None"),
            part_seconds=number(20.0),
            block_size=count(20, "None"),
            events_per_part=count(60, "None"),
        ),
        target("Store.status", lambda **o: vars(store.status(**o)), verify=flag(value=False)),
        target(
            "Store.events",
            lambda **options: read(store.events(**options)),
            prior=thing(PRIOR, "None", "a prior"),
            joint=thing(None),
        ),
        target("Store.write", write_into, events=thing(EVENTS[:50]), seed=SEED),
        target(
            "simulate into a store",
            lambda **options: read(ist.simulate(simulator, PRIOR, 60, seed=1, **options)),
            # Stores of their own, with blocks of the usual size.
            store=Argument(a_store(), "path", frozenset({"None", *NEW_FOLDERS})),
            parts=thing((0, 1), "None"),
            engine=thing(None),
        ),
        target(
            "replay",
            lambda **options: read(ist.replay(**options)),
            store=Argument(a_store(), "path"),
            part=count(0),
            row=count(5, "None"),
            simulator=simulating(),
            prior=thing(PRIOR, "None", "a prior"),
        ),
    ]


def engine_targets() -> list[Target]:
    settings = {
        "time_limit": number(60.0, "None"),
        "retries": count(2),
        "failures": thing(ist.Drop(), "None"),
    }
    return [
        target("InProcess", ist.InProcess, failures=settings["failures"]),
        target("ProcessPool", ist.ProcessPool, n=count(2, "None"), **settings),
        target("ProcessPool()", ist.ProcessPool(2), simulator=simulating()),
        target("Dask", ist.Dask, cluster=text("tcp://127.0.0.1:8786", "None"), **settings),
        target("PerWorker", ist.PerWorker, factory=function(lambda: simulator)),
        target(
            "Program",
            ist.Program,
            command=thing(
                ["generate", "{theta}", "{x}", "{seed}"],
                *("first only", "reversed", "twice", "two texts"),
            ),
            theta=text("theta.csv"),
            x=text("x.csv"),
            theta_names=Argument(["a", "b"], "names", frozenset({"None", "first only"})),
            x_names=Argument(["c", "d"], "names", frozenset({"None", "first only"})),
            time_limit=number(60.0, "None"),
            deterministic=flag(value=True),
            keep_failed=flag(value=False),
        ),
    ]


def save_to(path: Any) -> Any:
    UNTRAINED.save(path)
    Path(path).unlink()
    return "saved"


def write_stablehlo(estimator: Any, path: Any) -> Any:
    ist.export.stablehlo(estimator, path)
    Path(path).unlink()
    return "written"


def numpyro_target() -> Target:
    import numpyro
    import numpyro.distributions as dist

    def model(spread: Any, groups: int) -> None:
        centre = numpyro.sample("centre", dist.Normal(0.0, 10.0))
        with numpyro.plate("group", groups):
            numpyro.sample("y", dist.Normal(centre, jnp.exp(spread)))

    def call(**k: Any) -> Any:
        found = ist.from_numpyro(**k)
        return found(np.zeros((3, 2)), np.random.default_rng(1))

    return target(
        "from_numpyro",
        call,
        model=function(model),
        parameters=thing(["spread", "centre"], "reversed"),
        observed=thing(["y"]),
        arguments=thing({"groups": 3}),
    )


# --- Estimators ----------------------------------------------------------------------------------


def small_fit(**options: Any) -> Any:
    defaults = {"network": ist.MLP((4,)), "training": TRAINING, "seed": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ist.fit(EVENTS, **(defaults | options))


TRAINING = ist.Training(epochs=1, batch_size=100, centre=False)
UNTRAINED = random_estimator(ist.Potential(ist.MLP((4,)), ist.Standardised()))
MEMORY = Argument(64.0, "number", frozenset({"None"}))


def estimator_targets() -> list[Target]:
    x, theta, theta1 = data(X[:6]), data(THETA[:6]), data(THETA[6:12])
    found = [
        target("Estimator.potential", EXACT.potential, x=x, theta=theta, memory_mb=MEMORY),
        target("Estimator.score", EXACT.score, x=x, theta=theta, memory_mb=MEMORY),
        target(
            "Estimator.log_ratio",
            EXACT.log_ratio,
            x=x,
            theta0=theta,
            theta1=theta1,
            memory_mb=MEMORY,
        ),
        target(
            "Estimator.potential_grid", EXACT.potential_grid, x=x, thetas=theta, memory_mb=MEMORY
        ),
        target(
            "Estimator.spread",
            EXACT.spread,
            x=x,
            theta=theta,
            theta1=Argument(THETA[6:12], "data", frozenset({"None"})),
            memory_mb=MEMORY,
        ),
        target("ScoreEstimator.score", SCORE.score, x=x, theta=theta, memory_mb=MEMORY),
        target("ScoreEstimator.spread", SCORE.spread, x=x, theta=theta, memory_mb=MEMORY),
        target(
            "RatioEstimator.log_ratio",
            RATIO.log_ratio,
            x=x,
            theta0=theta,
            theta1=theta1,
            memory_mb=MEMORY,
        ),
        target(
            "RatioEstimator.spread",
            RATIO.spread,
            x=x,
            theta0=theta,
            theta1=theta1,
            memory_mb=MEMORY,
        ),
        target(
            "forward_score",
            ist.forward_score,
            model=thing(member()),
            x=data([0.1, 0.2, 0.3], "range"),
            theta=data([1.0, 0.5]),
        ),
    ]
    density = load_stored("nde")
    at = np.zeros((3, len(density.theta_names)))
    seen = density.sample(at, seed=1)
    found += [
        target(
            "DensityEstimator.log_prob",
            density.log_prob,
            x=data(seen),
            theta=data(at),
            memory_mb=MEMORY,
        ),
        target("DensityEstimator.sample", density.sample, theta=data(at), seed=SEED),
    ]
    element = load_stored("mem")
    z = {"samples": count(64, "None"), "seed": SEED}
    x1, t1 = np.full((2, len(element.x_names)), 0.1), np.full((2, len(element.theta_names)), 0.2)
    found += [
        target("MatrixElement.log_prob", element.log_prob, x=data(x1), theta=data(t1), **z),
        target(
            "MatrixElement.log_ratio",
            element.log_ratio,
            x=data(x1),
            theta0=data(t1),
            theta1=data(-t1),
            **z,
        ),
        target("MatrixElement.score", element.score, x=data(x1), theta=data(t1), **z),
    ]
    return found


def member() -> Any:
    """The model of one member."""
    from inferostatic.models.members import with_network

    return with_network(
        UNTRAINED.model,
        jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, UNTRAINED.model.network),
    )


@functools.cache
def load_stored(name: str) -> Any:
    from saved_models import FOLDER, SUPPLIED

    return ist.load(FOLDER / f"{name}.isn", supplied=SUPPLIED)


def fit_targets() -> list[Target]:
    method = thing(ist.CARL(), "None")
    kernel = thing(ist.Delta, "its class")
    fixed = {
        "network": thing(ist.MLP((4,)), "None", "a network"),
        "training": thing(TRAINING, "None"),
    }
    few = EVENTS[:200]
    return [
        target(
            "fit",
            ist.fit,
            heavy=True,
            events=thing(few),
            method=method,
            members=count(1),
            start=thing(None),
            checkpoint=Argument(None, "path"),
            seed=SEED,
            **fixed,
        ),
        target(
            "Checkpoint",
            ist.Checkpoint,
            path=Argument(folder() / "kept", "path", frozenset({"text", "digits", "path"})),
            minutes=number(1.0),
            epochs=count(2, "None"),
        ),
        target(
            "fit with an activation",
            lambda activation: small_fit(network=ist.MLP((4,), activation=activation)),
            heavy=True,
            activation=Argument(jax.nn.silu, "simulator"),
        ),
        target(
            "fit with a width",
            lambda width: small_fit(method=ist.KSE(ist.Delta(width))),
            heavy=True,
            width=width(0.3),
        ),
        target(
            "cross_fit",
            ist.cross_fit,
            heavy=True,
            events=thing(few),
            method=method,
            folds=count(2),
            checkpoint=Argument(None, "path"),
            seed=SEED,
            network=ist.MLP((4,)),
            training=TRAINING,
        ),
        target(
            "compare",
            ist.compare,
            heavy=True,
            events=thing(few),
            settings=thing([SETTING, SETTING], "twice", "first only"),
            seed=SEED,
        ),
        target(
            "choose_width",
            ist.choose_width,
            heavy=True,
            estimator=thing(EXACT),
            events=thing(EVENTS),
            kernel=kernel,
            widths=vector([0.2, 0.4], "None", "list of it", "nested"),
            prior=thing(None),
            n=thing(None, "3"),
            drawn=flag(value=False),
            seed=SEED,
        ),
        target(
            "centre",
            ist.centre,
            heavy=True,
            estimator=thing(small_fit()),
            events=thing(EVENTS),
            seed=SEED,
        ),
        target(
            "centring_report",
            ist.centring_report,
            heavy=True,
            estimator=thing(EXACT),
            events=thing(EVENTS),
            seed=SEED,
        ),
        target(
            "measure_bias",
            ist.measure_bias,
            heavy=True,
            estimator=thing(EXACT),
            events=thing(EVENTS),
        ),
    ]


ANY_EVENTS = frozenset(
    {*FUNCTIONS, "foreign table", "no rows", "three axes", "foreign frame", "frame of duplicates"}
    | {"empty list", "empty tuple", "empty array", "long doubles", "nested", "one column less"}
    | {
        "one column more",
        "flat",
        "one more axis",
        "without rows",
        "frame with one name",
        "ragged",  # of several channels each has its own
        "list of it",
    }
    | {"frame of foreign names", "frame in another order"}
)
LIMIT = ist.CLs(asimov=simulator(np.tile([-3.0, 0.0], (500, 1)), np.random.default_rng(6)))
SETTING = ist.Setting(ist.CARL(), ist.MLP((4,)), TRAINING)


# --- Inference -----------------------------------------------------------------------------------


def one_of(values: Mapping[str, Any], *more: str) -> Argument:
    return Argument(values, "object", frozenset({"None", "empty dictionary", *more}))


def total_rate(theta: Any) -> Any:
    return 10.0 + theta[0]


def inference_targets() -> list[Target]:
    likelihood = thing(LIKELIHOOD)
    start = data(POINT, "None")
    theta = data(POINT)
    found_set = ist.confidence_set(LIKELIHOOD, parameters=[0], grid=np.linspace(-2, 2, 9)[:, None])
    found_fit = ist.maximum_likelihood(LIKELIHOOD)
    found_fisher = ist.fisher(EXACT, SEEN, POINT)
    found_posterior = ist.posterior(LIKELIHOOD, method=ist.Grid(draws=50), seed=1)
    found_limit = ist.upper_limit(LIKELIHOOD, 0, LIMIT)
    calibration = ist.ScoreCalibration(EXACT, BIG)
    found_calibrated = ist.calibrated_fit(LIKELIHOOD, events=calibration)
    level = number(0.9, "None")
    targets = [
        target(
            "Likelihood",
            lambda **k: (lambda one: (one.value(POINT / 2), one.gradient(POINT / 2)))(
                ist.Likelihood(**k)
            ),
            estimator=thing(EXACT),
            x=data(SEEN),
            weight=data(WEIGHT, "None"),
            rate=function(total_rate, "None"),
            constraints=one_of({NAMES[0]: (0.0, 1.0)}),
            fixed=one_of({}),
            bounds=one_of({NAMES[1]: (-2.0, 2.0)}),
        ),
        target(
            "Likelihood of a rate",
            lambda rate: ist.Likelihood(EXACT, SEEN, rate=rate).value(POINT),
            rate=Argument(total_rate, "simulator", frozenset({"None"})),
        ),
        target(
            "Likelihood.fix",
            lambda value: ist.Likelihood(EXACT, SEEN).fix(**{NAMES[0]: value}).value(POINT),
            value=number(0.5),
        ),
        target(
            "Likelihood.bound",
            lambda value: (
                ist.maximum_likelihood(ist.Likelihood(EXACT, SEEN).bound(**{NAMES[0]: value})).theta
            ),
            value=thing((-1.0, 1.0)),
        ),
        target(
            "Likelihood.constrain",
            lambda value: ist.Likelihood(EXACT, SEEN).constrain(**{NAMES[0]: value}).value(POINT),
            value=thing((0.0, 1.0)),
        ),
        *(
            target(f"Likelihood.{name}", getattr(LIKELIHOOD, name), theta=theta)
            for name in (
                "value",
                "gradient",
                "hessian",
                "value_and_gradient",
                "per_event",
                "scores",
                "gradient_covariance",
            )
        ),
        target("Likelihood.values", LIKELIHOOD.values, thetas=data(THETA[:3], *NO_ROWS)),
        target(
            "maximum_likelihood",
            ist.maximum_likelihood,
            likelihood=likelihood,
            start=start,
            starts=count(1),
            minos=flag(value=False),
            throw=flag(value=True),
        ),
        target(
            "maximum_likelihood of events",
            lambda estimator, x: ist.maximum_likelihood(estimator, x),
            estimator=thing(EXACT),
            x=data(SEEN),
        ),
        target(
            "MaximumLikelihood.interval",
            found_fit.interval,
            **{k: level for k in _arguments(found_fit.interval)},
        )
        if hasattr(found_fit, "interval")
        else None,
        target(
            "cross_entropy_fit",
            ist.cross_entropy_fit,
            likelihood=likelihood,
            reference=thing(AT_POINT),
            start=start,
            starts=count(1),
            throw=flag(value=True),
        ),
        target(
            "posterior",
            ist.posterior,
            likelihood=likelihood,
            prior=thing(PRIOR, "None"),
            method=thing(ist.Grid(draws=50), "None"),
            seed=SEED,
            progress_bar=BAR,
        ),
        target(
            "Importance of a posterior",
            lambda **k: ist.posterior(LIKELIHOOD, method=ist.Importance(**k), seed=1),
            draws=count(60),
        ),
        target("Grid", ist.Grid, draws=count(60)),
        target("NUTS", ist.NUTS, draws=count(60), chains=count(2)),
        target("Posterior.interval", found_posterior.interval, level=number(0.9)),
        target(
            "confidence_set",
            ist.confidence_set,
            likelihood=likelihood,
            method=thing(ist.Wilks(), "None"),
            parameters=thing([0], "None", "0", "-1", "False", "True", "list of it"),
            grid=vector(
                np.linspace(-2, 2, 9)[:, None],
                "None",
                "transposed",
                "long doubles",
                "nested",
                "flat",
                "list of it",
                "lists",
            ),
            level=number(0.9),
            seed=SEED,
            progress_bar=BAR,
        ),
        target("ConfidenceSet.interval", found_set.interval, level=level),
        target("ConfidenceSet.accepted", found_set.accepted, level=level),
        target("ConfidenceSet.hull", found_set.hull, level=level),
        target("ConfidenceSet.p_value_at", found_set.p_value_at, theta=vector([0.5])),
        target("ConfidenceSet.contains", found_set.contains, theta=vector([0.5]), level=level),
        target(
            "Neyman",
            ist.Neyman,
            simulator=simulating(),
            toys=count(50),
            pool=count(1000, "None"),
            checkpoint=Argument(None, "path", frozenset({"text", "digits", "path"})),
        ),
        target(
            "confidence_set by Neyman",
            lambda simulator: ist.confidence_set(
                LIKELIHOOD,
                ist.Neyman(simulator, toys=20, pool=300),
                parameters=[0],
                grid=np.array([[0.0], [0.5]]),
                seed=1,
            ),
            heavy=True,
            simulator=simulating(),
        ),
        target(
            "upper_limit",
            ist.upper_limit,
            likelihood=likelihood,
            parameter=Argument(0, "object", frozenset({"-1", "True", "False"})),
            method=thing(LIMIT),
            level=number(0.95),
            background=Argument(-3.0, "vector", frozenset({"None", "negative", "plus one half"})),
            scan=thing(None, "range", "five numbers"),
            seed=SEED,
            progress_bar=BAR,
        ),
        target(
            "upper_limit of Asimov data",
            lambda asimov: ist.upper_limit(LIKELIHOOD, 0, ist.CLs(asimov=asimov)).summary(),
            asimov=data(SIMULATED),
        ),
        target("UpperLimit.test_at", found_limit.test_at, value=width(0.5)),
        *(
            target(
                method.__name__,
                method,
                toys=count(50, "None"),
                simulator=simulating(simulator),
                asimov=Argument(None, "vector", ANY_EVENTS),
                pool=count(1000, "None"),
                calibration=thing(None),
            )
            for method in (ist.CLs, ist.CLsb)
        ),
        target(
            "ScoreCalibration",
            ist.ScoreCalibration,
            heavy=True,
            estimators=thing(EXACT),
            events=thing(BIG),
        ),
        target(
            "NearbySimulation",
            ist.NearbySimulation,
            simulator=simulating(),
            prior=thing(PRIOR, "None", "a prior"),
            fraction=number(0.3),
            most_events=count(5000),
        ),
        target(
            "calibrated_fit",
            ist.calibrated_fit,
            heavy=True,
            likelihood=likelihood,
            events=thing(calibration),
            simulator=thing(None),
            seed=thing(None),
            checkpoint=Argument(None, "path"),
            progress_bar=BAR,
        ),
        target(
            "CalibratedFit.distance",
            found_calibrated.distance,
            theta=data(POINT),
            parameters=thing(None, "True", "False", "0", "-1"),
        ),
        target("CalibratedFit.interval", found_calibrated.interval, level=number(0.9)),
        target(
            "fisher",
            ist.fisher,
            estimator=thing(EXACT),
            x=data(SEEN),
            theta=theta,
            weight=data(WEIGHT, "None"),
            n=thing(None),
            seed=thing(None, "0", "3"),
        ),
        target(
            "fisher by simulation",
            ist.fisher,
            estimator=thing(EXACT),
            x=simulating(),
            theta=theta,
            n=count(50, "None"),
            seed=SEED,
        ),
        target("Fisher.bound", found_fisher.bound, n_events=number(10.0)),
        target("Fisher.sandwich", found_fisher.sandwich, n_events=number(10.0)),
        target(
            "Fisher.project", found_fisher.project, which=thing([0], "0", "-1", "True", "False")
        ),
        target(
            "Fisher.profile", found_fisher.profile, which=thing([0], "0", "-1", "True", "False")
        ),
        target(
            "Fisher.per_event",
            found_fisher.per_event,
            direction=data([1.0, 0.5], "0", "-1", "True", "False"),
        ),
        target(
            "Fisher.concentration",
            found_fisher.concentration,
            direction=data([1.0, 0.5], "0", "-1", "True", "False"),
            fraction=number(0.1),
        ),
        target(
            "score_response",
            ist.score_response,
            estimator=thing(EXACT),
            theta=theta,
            simulator=simulating(),
            n=count(500),
            seed=SEED,
        ),
        target(
            "observable",
            ist.observable,
            estimator=thing(EXACT),
            theta_ref=theta,
            direction=data([1.0, 0.5], "None", "0", "-1", "True", "False"),
            information=thing(None),
        ),
        target("Observable()", OBSERVABLE, **positional(OBSERVABLE, data(SEEN))),
        target(
            "Observable.information",
            OBSERVABLE.information,
            x=data(SEEN),
            weight=data(WEIGHT, "None"),
        ),
        target(
            "reweight",
            ist.reweight,
            estimator=thing(EXACT),
            x=data(SEEN),
            theta_from=theta,
            theta_to=data(POINT + 0.1),
            weight=data(WEIGHT, "None"),
            throw=flag(value=True),
        ),
        target(
            "closure",
            ist.closure,
            heavy=True,
            reweighting=thing(REWEIGHTING),
            x=data(SIMULATED + 0.1),
            weight=data(np.ones(400), "None"),
            checkpoint=Argument(None, "path"),
            seed=SEED,
        ),
        target(
            "Reweighted",
            lambda **k: as_arrays(ist.Reweighted(**k)),
            x=data(SEEN, "one column more", "one column less"),
            weight=data(WEIGHT, "None"),
        ),
        target(
            "Simulated", ist.Simulated, simulator=simulating(), seed=SEED, events=count(100, "None")
        ),
        target(
            "UncertainRate", ist.UncertainRate, rate=function(total_rate), luminosity=number(0.02)
        ),
        target(
            "Templates",
            ist.Templates,
            source=thing(ist.Reweighted(SIMULATED)),
            shift=thing(None, "empty dictionary", "{'p': 1}"),
            bins=thing(None, "3"),
            max_relative_error=number(0.5),
            most_bins=count(5),
            mc_errors=flag(value=True),
        ),
        target(
            "to_pyhf",
            to_pyhf,
            heavy=True,
            observable=thing(OBSERVABLE),
            templates=thing(TEMPLATES),
            observed=data(SEEN, "None"),
            expected=number(12.0, "None"),
            poi=thing(None, "0", "-1"),
            constraints=one_of({}),
        ),
    ]
    return [one for one in targets if one is not None]


def as_arrays(given: Any) -> Any:
    """What was stored as it was given."""
    weight = None if given.weight is None else np.asarray(given.weight, float)
    return np.asarray(given.x, float), weight


def to_pyhf(**k: Any) -> Any:
    return ist.to_pyhf(**k).summary()


def _arguments(call: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(call).parameters)


SIMULATED = simulator(np.tile(POINT, (400, 1)), np.random.default_rng(9))
OBSERVABLE = ist.observable(EXACT, POINT, direction=NAMES[0])
TEMPLATES = ist.Templates(
    ist.Reweighted(simulator(np.tile(POINT, (4000, 1)), np.random.default_rng(8))),
    most_bins=4,
    max_relative_error=0.5,
)
REWEIGHTING = ist.reweight(EXACT, SIMULATED, POINT, POINT + 0.1)
AT_POINT = ist.Events(x=SIMULATED, theta=POINT)
BIG = ist.simulate(simulator, PRIOR, 3000, seed=4)


# --- Checks, plots and toys ----------------------------------------------------------------------


def check_targets() -> list[Target]:
    both = {"estimator": thing(EXACT), "events": thing(EVENTS), "seed": SEED}
    posterior = ist.posterior(LIKELIHOOD, method=ist.Grid(draws=50), seed=1)
    latent = ist.simulate(ist.toys.GaussianChain(), LATENT_PRIOR, 100, seed=1)
    checks = ist.checks
    return [
        target(
            "diagnose",
            ist.diagnose,
            heavy=True,
            n_observed=count(50, "None", "0.25", "plus one half", "1e300", "10**30"),
            **both,
        ),
        target("checks.calibration", checks.calibration, heavy=True, **both),
        target(
            "checks.coverage",
            checks.coverage,
            heavy=True,
            most_events=count(100),
            candidates=count(50),
            checkpoint=Argument(None, "path"),
            progress_bar=BAR,
            **both,
        ),
        target("checks.latent", checks.latent, heavy=True, events=thing(latent), seed=SEED),
        target("checks.mean_score", checks.mean_score, heavy=True, **both),
        target("checks.pair_identities", checks.pair_identities, heavy=True, **both),
        target(
            "checks.posterior_predictive",
            checks.posterior_predictive,
            heavy=True,
            posterior=thing(posterior),
            x=data(SEEN),
            simulator=simulating(),
            statistic=function(np.mean, "None"),
            names=Argument(
                ["mean"],
                "names",
                frozenset({"None", "text", "digits", "empty text", "surrogate", "zero byte"}),
            ),
            draws=count(30),
            seed=SEED,
            progress_bar=BAR,
        ),
        target(
            "checks.recalibrate",
            checks.recalibrate,
            heavy=True,
            method=thing(checks.Isotonic(), "None"),
            **both,
        ),
    ]


LATENT_PRIOR = ist.Uniform([-1.0, 0.1], [1.0, 0.9])


def plot_targets() -> list[Target]:
    plots = ist.plots
    errors = {"a": np.array([1.0, 2.0]), "b": np.array([2.0, 3.0])}
    outline = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]])
    label = Argument("label", "label")
    return [
        target(
            "plots.contours",
            plots.contours,
            outlines=thing({"68%": outline}),
            names=names("a", "b"),
            truth=data([0.5, 0.3], "None"),
        ),
        target(
            "plots.dirichlet_triangles",
            plots.dirichlet_triangles,
            heavy=True,
            thetas=data([[1.0, 2.0, 2.0], [2.0, 3.0, 3.0]]),
            names=names("a", "b", "c"),
            resolution=count(20),
        ),
        target(
            "plots.error_by_instance",
            plots.error_by_instance,
            errors=thing(errors),
            standard_errors=thing(errors),
            title=label,
            published=thing({"a": 1.0}, "None", "empty dictionary"),
            direct=thing(["a"], "None", "empty list", "empty tuple", "set"),
            label=label,
        ),
        target(
            "plots.training_history",
            plots.training_history,
            train_loss=data([3.0, 2.0], *PADDED),
            validation_loss=data([3.1, 2.1], "None", *PADDED),
            title=label,
            label=label,
            best_epoch=thing([1], "None", "empty list", "empty tuple", "empty array"),
            truth=number(1.5, "None"),
        ),
        target(
            "plots.true_against_predicted",
            plots.true_against_predicted,
            heavy=True,
            true=data(X[:30]),
            predicted=data(X[:30] + 0.1),
            names=names("a", "b"),
            label=label,
            bins=count(10),
        ),
    ]


def result_plot_targets() -> list[Target]:
    plots = ist.plots
    diagnosis = ist.diagnose(EXACT, EVENTS)
    choice = ist.choose_width(EXACT, EVENTS, widths=[0.2, 0.4], seed=1)
    fit = ist.maximum_likelihood(LIKELIHOOD)
    region, interval = (
        ist.confidence_set(LIKELIHOOD, ist.Wilks(), parameters=some) for some in (NAMES, NAMES[:1])
    )
    ones = np.ones(2)
    bias = LearnedBias(NAMES, shift=0.1 * ones, bias=ones, error=ones, observed=12, events=500)
    ranks = ist.checks.coverage(EXACT, EVENTS, most_events=100, candidates=50)
    truth = thing(dict(zip(NAMES, POINT, strict=True)), "None", "empty dictionary")
    return [
        target("plots.diagnosis", plots.diagnosis, heavy=True, found=thing(diagnosis)),
        target("plots.width_choice", plots.width_choice, heavy=True, choice=thing(choice)),
        target(
            "plots.limit_scan",
            plots.limit_scan,
            heavy=True,
            limit=thing(ist.upper_limit(LIKELIHOOD, NAMES[0], LIMIT)),
        ),
        target(
            "plots.confidence_region", plots.confidence_region, found=thing(region), truth=truth
        ),
        target(
            "plots.likelihood_scan",
            plots.likelihood_scan,
            scans=thing(interval),
            truth=truth,
        ),
        target("plots.intervals", plots.intervals, results=thing({"fit": fit}), truth=truth),
        target(
            "plots.corner",
            plots.corner,
            results=thing({"fit": fit}),
            names=names(*NAMES),
            parameters=Argument(list(NAMES), "names", frozenset({"None", "first only"})),
            truth=truth,
        ),
        target(
            "plots.pulls",
            plots.pulls,
            values=data(SIMULATED[:40]),
            names=Argument(list(NAMES), "names"),
        ),
        target("plots.learned_bias", plots.learned_bias, bias=thing(bias)),
        target(
            "plots.score_by_observable",
            plots.score_by_observable,
            heavy=True,
            estimator=thing(EXACT),
            events=thing(EVENTS),
            theta=data(POINT, "None"),
        ),
        target("plots.ranks", plots.ranks, record=thing(ranks)),
        target(
            "plots.data_against_simulation",
            plots.data_against_simulation,
            data=data(SEEN),
            simulations=thing({"simulated": SIMULATED}),
            names=names("x", "y"),
        ),
        target(
            "plots.reweighting",
            plots.reweighting,
            found=thing(REWEIGHTING),
            direct=data(SIMULATED, "None"),
        ),
    ]


def export_to(estimator: Any, path: Any, opset: Any, one_graph: Any) -> Any:
    files = ist.export.onnx(estimator, path, opset=opset, one_graph=one_graph)
    for file in set(files.paths.values()):
        file.unlink()
    return sorted(files.paths)


def write_header_to(estimator: Any, path: Any, name: Any, check: Any) -> Any:
    file = ist.export.cpp(estimator, path, name=name, check=check)
    content = file.read_bytes()
    file.unlink()
    return content


def export_targets() -> list[Target]:
    return [
        target(
            "export.stablehlo",
            write_stablehlo,
            heavy=True,
            estimator=thing(UNTRAINED),
            path=Argument(folder() / "model.zip", "path"),
        ),
        target(
            "export.onnx",
            export_to,
            heavy=True,
            estimator=thing(UNTRAINED),
            path=Argument(folder() / "model.onnx", "path"),
            opset=count(17),
            one_graph=flag(value=False),
        ),
        target(
            "export.cpp",
            write_header_to,
            estimator=thing(UNTRAINED),
            path=Argument(folder() / "model.h", "path"),
            name=text("model", "None"),
            check=flag(value=False),
        ),
    ]


class _Random:
    """A fresh generator for every call, so that calls can be compared."""

    def __init__(self, toy: Any, method: str) -> None:
        self.call = getattr(toy, method)

    def __call__(self, theta: Any, rng: Any) -> Any:
        return self.call(theta, np.random.default_rng(1) if rng is None else rng)


def toy_targets() -> list[Target]:
    toys = ist.toys
    made = {
        toys.CorrelatedGaussian: {},
        toys.Dirichlet: {"dim": count(3)},
        toys.FallingSpectrumWithPeak: {
            "low": number(100.0),
            "high": number(180.0),
            "width": number(2.0),
        },
        toys.GaltonBoard: {"rows": count(5)},
        toys.GaussianChain: {
            "length": count(3),
            "coupling": number(0.8),
            "step": number(0.4),
            "reading": number(0.6),
        },
        toys.GaussianMixture: {"width": number(1.0)},
        toys.ManyParameters: {"dim": count(3), "observables": count(4)},
        toys.PoissonCounts: {"bins": count(6)},
        toys.Ring: {"width": number(0.1), "height_width": number(0.3)},
        toys.SmearedSpectrum: {"dim": count(4), "resolution": number(0.7)},
        toys.TwoCouplings: {"smearing": number(0.5), "background": number(0.5)},
    }
    made[toys.CorrelatedGaussian] = {"correlation": number(0.5)}
    found = []
    for kind, arguments in made.items():
        toy = kind()
        low = np.where(np.isfinite(toy.theta_low), toy.theta_low, -1.0)
        high = np.where(np.isfinite(toy.theta_high), toy.theta_high, low + 2.0)
        theta = np.linspace(0.4, 0.6, 4)[:, None] * (high - low) + low
        x = toy(theta, np.random.default_rng(1))
        name = f"toys.{kind.__name__}"
        found += [
            target(name, kind, **arguments),
            target(
                f"{name}()",
                _Random(toy, "__call__"),
                theta=data(theta, *NO_ROWS),
                rng=thing(None, "generator of numbers"),
            ),
            target(
                f"{name}.log_prob",
                toy.log_prob,
                x=data(x, *NO_ROWS),
                theta=data(theta, *NO_ROWS, "range", "five numbers"),
            ),
            target(
                f"{name}.score",
                toy.score,
                x=data(x, *NO_ROWS),
                theta=data(theta, *NO_ROWS, "range", "five numbers"),
            ),
        ]
        if isinstance(toy, toys.AbstractLatentToy):
            found.append(
                target(
                    f"{name}.simulate_latent",
                    _Random(toy, "simulate_latent"),
                    theta=data(theta, *NO_ROWS),
                    rng=thing(None, "generator of numbers"),
                )
            )
    two = toys.TwoCouplings()
    z = np.random.default_rng(3).normal(size=(4, len(two.z_names)))
    found += [
        target("toys.Dirichlet.fisher", toys.Dirichlet().fisher, theta=data([1.0, 2.0, 3.0])),
        target("toys.TwoCouplings.components", two.components, z=data(z, *NO_ROWS)),
        target("toys.TwoCouplings.rate", two.rate, theta=data([0.2, 0.3], *NO_ROWS, "list of it")),
        target(
            "toys.TwoCouplings.weights",
            two.weights,
            z=data(z, *NO_ROWS),
            benchmarks=data(BENCHMARKS, *NO_ROWS),
            theta=data([0.2, 0.3], "None"),
        ),
    ]
    return found


#: Public names that are no target by themselves, and why.
NO_TARGET = {
    "made by the library, methods are targets": "Estimator ScoreEstimator RatioEstimator "
    "DensityEstimator MatrixElement NumpyroSimulator Records History",
    "errors and warnings": "CapabilityError ExportError FarReweighting TaskError TrainingError",
    "without arguments": "Automatic Constant Drop Exponential GlorotUniform Independent "
    "LecunNormal Linear Logistic NDE Natural Raw Savage Sign Square Standardised Wilks Isotonic "
    "HistogramBins",
    "objects": "paper_network paper_ratio_network paper_score_network",
    "records that functions return": "CalibrationCurve Coverage Finding LatentCheck MeanScore "
    "ModelCard "
    "PairIdentities PosteriorPredictive Recalibration",
    "abstract": "AbstractToy AbstractLatentToy",
    "checked by scikit-learn's own checks, and by tests that need PyTorch": "RatioRegressor "
    "TorchEstimator",
}


@functools.cache
def targets() -> tuple[Target, ...]:
    return (
        *prior_targets(),
        *kernel_targets(),
        *method_targets(),
        *network_targets(),
        *event_targets(),
        numpyro_target(),
        *estimator_targets(),
        *fit_targets(),
        *inference_targets(),
        *check_targets(),
        *plot_targets(),
        *result_plot_targets(),
        *export_targets(),
        *toy_targets(),
    )


def light_targets() -> list[Target]:
    """Those whose calls compile nothing."""
    groups = (method_targets, network_targets, event_targets, plot_targets, toy_targets)
    return [one for group in groups for one in group() if not one.heavy]


def missing() -> dict[str, set[str]]:
    """Public names without a target, and arguments that no target has."""
    heads = {part for one in targets() for part in re.split(r"[ .()]", one.name)}
    excused = {name for names in NO_TARGET.values() for name in names.split()}
    modules: list[Any] = [ist, ist.checks, ist.export, ist.plots, ist.toys]
    every = {
        name
        for module in modules
        for name in dir(module)
        if not name.startswith("_") and not inspect.ismodule(getattr(module, name))
    }
    found = {"names": every - heads - excused, "without a reason": excused - every}
    for one in targets():
        if one.function is getattr(ist, one.name, None):
            # The short form of inference takes x beside an estimator; others go to `fit`.
            own = set(inspect.signature(one.function).parameters) - {"x", "options"}
            found[one.name] = own - {*one.arguments, *one.setup}
    return {name: lacking for name, lacking in found.items() if lacking}


def cases() -> list[Case]:
    return [("every public name and argument", find_missing), *cases_of(targets())]


def find_missing() -> Outcome:
    lacking = missing()
    return Outcome("every public name", "silent" if lacking else "same", str(lacking))
