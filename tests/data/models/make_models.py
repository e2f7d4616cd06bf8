"""Write the model files of this folder, one of every kind that can be saved.

Written with version 0.1.0 of the library, most in version 1 of the model-file format; kept so that
older files keep loading. `test_model_files.py` loads each of them and compares what it answers with
`expected.json`, which holds what the estimators answered when they were saved.

Run `python tests/data/models/make_models.py` from the root of the repository, in the environment
of `make .venv`. Files that are there already are never written again, nor are their answers: a
file written anew by a later version would prove nothing about older ones. When a class is added
that can be saved, add a file with it here and run this once. The networks are tiny and trained for
two epochs: nothing about their answers is good, only that they stay what they are.
"""

import dataclasses
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import inferostatic as ist  # noqa: E402
import saved_models as users  # noqa: E402

CHAIN = ist.toys.GaussianChain()
BOX = ist.Uniform([-1.0, -0.5], [1.0, 0.5], names=["mean", "log_width"])
FEW = ist.Training(epochs=2, batch_size=64, progress_bar=False)
#: One network for most methods and priors: the test then compiles it once.
SMALL = ist.Potential(ist.MLP((4,), activation=jnp.tanh), ist.Standardised())
TINY_FLOW = ist.MixtureFlow(layers=1, components=2, width=4, depth=1)
EVENTS = 400
#: Rows for which answers are kept.
ROWS = 4


def chain_events(prior: Any = BOX, n: int = EVENTS) -> ist.Events:
    """Events of a Gaussian chain, with their latent variables."""
    return ist.simulate(CHAIN, prior, n, seed=1, progress_bar=False)


def bent_events() -> ist.Events:
    """Observables that span decades, one of them negative, a fraction, and one with heavy tails."""
    plain = chain_events()
    spread = 4 * plain.x[:, 0]
    fraction = 1 / (1 + np.exp(-4 * plain.x[:, 1]))
    x = np.column_stack([np.exp(spread), fraction, np.sinh(spread), -np.exp(2 * spread)])
    return ist.Events(x=x, theta=plain.theta, prior=BOX, x_names=["pt", "part", "tail", "debt"])


def noisy(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """θ and noise."""
    return theta + rng.normal(size=theta.shape)


def particles(features: int) -> ist.Events:
    """Up to three particles in every event, and one observable of the whole event."""
    rng = np.random.default_rng(3)
    theta = BOX.sample(EVENTS, seed=3)
    slots = rng.normal(size=(EVENTS, 3, features)) + theta[:, :1, None]
    present = np.arange(3) < rng.integers(0, 4, size=EVENTS)[:, None]
    slots[..., -1] = np.where(features == 3, 1.0, slots[..., -1])
    slots = np.where(present[..., None], slots, 0.0 if features == 3 else -9.0)
    x = np.column_stack([slots.reshape(EVENTS, -1), rng.normal(size=EVENTS) + theta[:, 1]])
    return ist.Events(x=x, theta=theta, prior=BOX)


def with_reference(point: list[float]) -> ist.Events:
    """Events of the prior and some at one point."""
    at_point = ist.Discrete([point], names=BOX.names)
    return ist.Events.concatenate([chain_events(), chain_events(at_point, 200)], prior=BOX)


def one_latent_variable() -> ist.Events:
    """z ~ N(θ, 1/4) and x ~ N(z, 1/4)."""
    rng = np.random.default_rng(5)
    theta = rng.uniform(-1, 1, (EVENTS, 1))
    z = theta + 0.5 * rng.normal(size=theta.shape)
    prior = ist.Uniform(-1, 1, names=["mean"])
    return ist.Events(
        x=z + 0.5 * rng.normal(size=z.shape), theta=theta, prior=prior, latent={"z": z}
    )


def fitted(events: Any, method: Any = None, network: Any = SMALL, **options: Any) -> Any:
    """A short training."""
    method = ist.KCE(number=3) if method is None and isinstance(events, ist.Events) else method
    options = {"training": FEW, "seed": 2} | options
    return events, ist.fit(events, method, network=network, **options)


def from_files() -> Any:
    """A training that leaves the events in their files."""
    events = chain_events()
    with tempfile.TemporaryDirectory() as folder:
        arrays = {}
        for name, array in (("x", events.x), ("theta", events.theta)):
            np.save(f"{folder}/{name}.npy", array.astype(np.float32))
            arrays[name] = np.load(f"{folder}/{name}.npy", mmap_mode="r")
        mapped = ist.Events(x=arrays["x"], theta=arrays["theta"], prior=BOX)
        # However few they are.
        with mock.patch("inferostatic.learning.dataset.build.READ_WHOLE", 0):
            return events, fitted(mapped)[1]


def from_numpyro() -> Any:
    """A simulator written in NumPyro."""
    import numpyro
    import numpyro.distributions as dist

    def model(mean: Any, log_width: Any) -> None:
        z = numpyro.sample("z", dist.Normal(mean, jnp.exp(log_width)))
        numpyro.sample("x", dist.Normal(z * jnp.ones(2), 0.5).to_event(1))

    simulator = ist.from_numpyro(model, parameters=["mean", "log_width"], observed=["x"])
    return fitted(chain_events_of(simulator), ist.ALICES())


def chain_events_of(simulator: Any, prior: Any = BOX) -> ist.Events:
    """Events of another simulator."""
    return ist.simulate(simulator, prior, EVENTS, seed=1, progress_bar=False)


def at_benchmarks(*, known: bool) -> ist.Events:
    """Events at three parameter points, whose law is told or not."""
    points = ist.Discrete([[-1.0, 0.0], [0.0, 0.5], [1.0, -0.5]], [0.5, 0.25, 0.25], BOX.names)
    events = chain_events_of(noisy, points)
    return ist.Events(x=events.x, theta=events.theta, prior=points if known else None)


def mlp(activation: Any, **options: Any) -> ist.MLP:
    """One narrow layer."""
    return ist.MLP((4,), activation=activation, **options)


def constant_column() -> ist.Events:
    """Events about which training has something to remark."""
    plain = chain_events()
    return ist.Events(x=np.column_stack([plain.x, np.ones(EVENTS)]), theta=plain.theta, prior=BOX)


def joined(method: Any, network: Any = SMALL) -> Callable[[], Any]:
    """Trained on events and events at a reference point."""
    return lambda: fitted(with_reference([0.5, 0.25]), method, network)


def plain(method: Any, network: Any = SMALL, **options: Any) -> Callable[[], Any]:
    """Trained on events of the chain."""
    return lambda: fitted(chain_events(), method, network, **options)


def bent(network: Any, method: Any = None, **options: Any) -> Callable[[], Any]:
    """Trained on events with observables of every shape."""
    return lambda: fitted(bent_events(), method, network, **options)


def of_prior(prior: Any) -> Callable[[], Any]:
    """Trained on events of this prior."""
    return lambda: fitted(chain_events_of(noisy, prior))


def drawn(method: Any, network: Any) -> Callable[[], Any]:
    """Trained on records, by a network of the paper."""
    return lambda: fitted(ist.draw(method, noisy, BOX, EVENTS, seed=1), None, network)


def with_measured_means() -> tuple[ist.Events, Any]:
    """A potential whose mean score, and the means of x, were measured."""
    events = chain_events()
    estimator = ist.fit(events, network=SMALL, training=FEW, members=1, seed=5)
    return events, ist.measure_bias(estimator, chain_events(n=600))


def with_card() -> tuple[ist.Events, Any]:
    """A potential whose card holds all that a card can."""
    events = ist.simulate(noisy, BOX, EVENTS, seed=1, progress_bar=False)
    events = events.made_by("noisy", version="1.0")
    estimator = ist.fit(events, network=SMALL, training=FEW, members=1, seed=5)
    others = ist.simulate(noisy, BOX, 2000, seed=2, progress_bar=False)
    return events, estimator.with_diagnosis(ist.diagnose(estimator, others, n_observed=10))


MODELS: dict[str, Callable[[], Any]] = {
    "bias-measured": with_measured_means,
    "card": with_card,
    # Features and networks.
    "features-chosen": bent(
        ist.Potential(ist.Residual(6, 1)),
        training=dataclasses.replace(FEW, choose=True, epochs=4),
        members=2,
    ),
    "features-automatic": bent(ist.Potential(mlp(jax.nn.silu))),
    "features-natural": bent(ist.Potential(mlp(jax.nn.silu), ist.Natural())),
    "features-quantile": bent(ist.Potential(mlp(jax.nn.silu), ist.Quantile(5))),
    "features-quantile-of-plain": plain(None, ist.Potential(mlp(jax.nn.silu), ist.Quantile(5))),
    "features-standardised": plain(None),
    "features-raw": lambda: fitted(
        constant_column(), None, ist.Potential(mlp(jax.nn.selu), ist.Raw(), ist.Raw())
    ),
    "network-mlp": plain(
        None,
        ist.Potential(
            mlp(jax.nn.softplus, initial=ist.LecunNormal(), output_bias=False), ist.Standardised()
        ),
    ),
    "network-residual-three-members": plain(
        None, ist.Potential(ist.Residual(4, 2), ist.Standardised()), members=3
    ),
    "network-two-tower": plain(
        None,
        ist.Potential(ist.TwoTower(3, mlp(jax.nn.gelu), mlp(jax.nn.elu)), ist.Standardised()),
    ),
    "network-particle-set": lambda: fitted(
        particles(3),
        None,
        ist.ParticleSet(
            3,
            3,
            size=2,
            particle_network=mlp(jax.nn.relu),
            join_network=mlp(jax.nn.mish),
            x_features=ist.PerParticle(3, 3, mask=2, scaling=ist.Natural()),
        ),
    ),
    "network-particle-set-two-tower": lambda: fitted(
        particles(2),
        None,
        ist.ParticleSet(
            3,
            2,
            size=2,
            particle_network=mlp(jax.nn.celu),
            join_network=ist.TwoTower(2, mlp(jax.nn.sigmoid), ist.Residual(3, 1)),
            x_features=ist.PerParticle(3, 2, padding=-9.0),
        ),
    ),
    "network-of-a-user": plain(None, ist.Potential(users.vector_network, ist.Standardised())),
    "network-of-a-user-in-pairs": plain(None, ist.Potential(users.pair_network, ist.Raw())),
    "activation-of-a-user": plain(None, ist.Potential(mlp(users.wave), ist.Standardised())),
    "centred": plain(None, training=dataclasses.replace(FEW, centre=True)),
    # Direct networks and those of the paper.
    "direct-score": plain(
        ist.KSE(ist.Delta(0.2)), ist.DirectScore(mlp(jnp.tanh), ist.Standardised()), members=2
    ),
    "direct-ratio": plain(
        ist.CARL(), ist.DirectRatio(mlp(jnp.tanh), ist.Standardised()), members=2
    ),
    "paper": drawn(ist.KLRE(ist.Rectangular(0.4)), ist.paper_network),
    "paper-score": drawn(ist.KSE(ist.Delta(0.25), ist.Sign()), ist.paper_score_network),
    "paper-ratio": drawn(ist.CARL(), ist.paper_ratio_network),
    # Methods.
    "kce-independent": plain(ist.KCE(ist.Independent(), number=2)),
    "kce-kernel": plain(ist.KCE(ist.Rectangular([0.4, 0.2]), number=2)),
    "kce-scales": plain(ist.KCE(ist.MultiScale(0.1, 0.9), number=2)),
    "klre-triangular": plain(ist.KLRE(ist.Triangular(0.3), ist.Exponential())),
    "klre-epanechnikov": plain(ist.KLRE(ist.Epanechnikov(0.3), ist.Savage())),
    "klre-gaussian": plain(ist.KLRE(ist.Gaussian(0.2, truncation=2.0), ist.Square())),
    "klre-width-of-a-user": plain(ist.KLRE(ist.Rectangular(users.width_by_theta))),
    "kse-linear": plain(ist.KSE(ist.Rectangular(0.2))),
    "kse-factorised": plain(
        ist.KSE(
            ist.Rectangular(0.2),
            ist.Factorised(*(users.SUPPLIED[f"Factorised.{name}"] for name in ("alpha", "beta"))),
        )
    ),
    "kse-kernel-of-a-user": plain(
        ist.KSE(
            ist.CustomKernel(
                0.2,
                users.draw_on_a_disc,
                0.25,
                largest=1.0,
                log_standard_density=users.log_density_on_a_disc,
            )
        )
    ),
    "carl": plain(ist.CARL()),
    "carl-pairs-of-a-user": plain(ist.CARL(pairs=ist.CustomPairs(draw_partner=users.draw_partner))),
    "carl-reference-point": joined(ist.CARL(reference=[0.5, 0.25], loss=ist.Square())),
    "dctr-reference-point": joined(ist.DCTR([0.5, 0.25])),
    "dctr-reference-sample": plain(ist.DCTR(chain_events(ist.Discrete([[0.0, 0.0]]), 100))),
    "mix": plain(ist.Mix([(1.0, ist.KCE(number=2)), (0.1, ist.KSE(ist.Epanechnikov(0.1)))])),
    # Methods that learn from latent variables.
    "latent-kce": plain(ist.KCE(number=2, latent=True)),
    "latent-loss": plain(ist.LatentLoss(ist.Savage())),
    "alice": plain(ist.ALICE()),
    "alice-reference": joined(ist.ALICE(reference=[0.5, 0.25])),
    "alices": plain(ist.ALICES(0.5)),
    "rolr": plain(ist.ROLR(edge=8.0)),
    "cascal": plain(ist.CASCAL(0.5, unit=[1.0, 0.5])),
    "rascal": plain(ist.RASCAL(0.5)),
    "sally": plain(ist.SALLY()),
    "sally-reference": joined(
        ist.SALLY(reference=[0.5, 0.25]), ist.DirectScore(mlp(jnp.tanh), ist.Standardised())
    ),
    "sallino": joined(
        ist.SALLINO(reference=[0.5, 0.25], unit=0.5),
        ist.DirectScore(mlp(jnp.tanh), ist.Standardised()),
    ),
    "numpyro": from_numpyro,
    # Densities.
    "nde": bent(ist.Flow(TINY_FLOW), ist.NDE()),
    "nde-two-members": plain(
        ist.NDE(),
        ist.Flow(ist.MixtureFlow(layers=0, components=2, width=4, depth=1), ist.Standardised()),
        members=2,
    ),
    "nde-quantile": bent(ist.Flow(TINY_FLOW, ist.Quantile(4)), ist.NDE()),
    "nde-flow-of-a-user": plain(ist.NDE(), ist.Flow(users.autoregressive_flow, ist.Raw())),
    "nde-without-prior": lambda: fitted(at_benchmarks(known=False), ist.NDE(), ist.Flow(TINY_FLOW)),
    "scandal": plain(ist.SCANDAL(0.5), ist.Flow(TINY_FLOW, ist.Standardised(), ist.Raw())),
    "kce-of-a-flow": plain(None, ist.Flow(TINY_FLOW)),
    "mem": lambda: fitted(
        one_latent_variable(), ist.MEM(users.latent_log_prob, samples=128), ist.Flow(TINY_FLOW)
    ),
    "mem-transfer-given": lambda: fitted(
        one_latent_variable(),
        ist.MEM(users.latent_log_prob, transfer=users.transfer_log_prob),
        ist.Flow(TINY_FLOW),
    ),
    # Priors.
    "prior-normal": of_prior(ist.Normal([0.0, 1.0], [1.0, 0.5], names=["a", "b"])),
    "prior-truncated": of_prior(
        ist.TruncatedNormal([0.0, 1.0], [1.0, 0.5], [-1.0, -np.inf], [np.inf, 2.0])
    ),
    "prior-product": of_prior(
        ist.Product([ist.Uniform(0, 1), ist.Normal(0, 2)], names=["flat", "round"])
    ),
    "prior-discrete": lambda: fitted(at_benchmarks(known=True)),
    "prior-unknown": lambda: fitted(at_benchmarks(known=False), ist.CARL()),
    "prior-of-a-user": of_prior(
        ist.CustomPrior(
            users.draw_theta,
            users.log_density_of_theta,
            low=[-1.0, -0.5],
            high=[1.0, 0.5],
            names=["c", "d"],
        )
    ),
    # Ways of training.
    "training-told": plain(
        None,
        training=ist.Training(
            epochs=3,
            batch_size=100,
            learning_rate=2e-3,
            schedule=ist.Constant(),
            weight_decay=0.01,
            clip=None,
            beta1=0.8,
            beta2=0.99,
            epsilon=1e-7,
            validation_fraction=0.25,
            patience=2,
            keep_best=False,
            choose=False,
            centre=False,
            shared_batches=False,
            progress_bar=False,
        ),
        members=2,
    ),
    "training-schedule": plain(
        None, training=dataclasses.replace(FEW, schedule=ist.Cosine(0.1, 0.2))
    ),
    "training-without-validation": plain(
        None, training=dataclasses.replace(FEW, validation_fraction=0.0)
    ),
    "training-from-files": from_files,
}


def asked(events: Any, estimator: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A few events, and twice as many θ from where the estimator was trained."""
    x = np.asarray(events.x[:ROWS], np.float64)
    if hasattr(estimator, "region"):
        low, high = estimator.region.theta_low, estimator.region.theta_high
    else:
        low, high = estimator.theta_low, estimator.theta_high
    theta = getattr(events, "theta", None)
    theta = BOX.sample(2 * ROWS, seed=7) if theta is None else theta[: 2 * ROWS]
    theta = np.clip(np.asarray(theta, np.float64), low, high)
    return x, theta[:ROWS], theta[ROWS:]


def questions(name: str, estimator: Any) -> tuple[str, ...]:
    """What is asked of it: everything, as far as that is not compiled for this file alone.

    A ratio is a difference of potentials, and draws are those of a flow, whichever it is.
    """
    offered = [question for question in users.QUESTIONS if hasattr(estimator, question)]
    shared = getattr(estimator, "architecture", None) == SMALL or name == "nde"
    if "potential" in offered and not shared:
        offered.remove("log_ratio")
    if "sample" in offered and name not in ("nde", "nde-flow-of-a-user"):
        offered.remove("sample")
    return tuple(offered)


def main() -> None:
    """Write the files that are missing."""
    path = users.FOLDER / "expected.json"
    expected = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name, make in MODELS.items():
        file = users.FOLDER / f"{name}.isn"
        if file.exists() and name in expected:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            events, estimator = make()
        at = asked(events, estimator)
        expected[name] = {
            "at": [part.tolist() for part in at],
            "answers": users.answers(estimator, at, questions(name, estimator)),
            "told": users.told(estimator, at[1]),
        }
        estimator.save(file)
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in expected.items()]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        print(f"{file.name}  {file.stat().st_size / 1000:.1f} kB  {estimator}")


if __name__ == "__main__":
    main()
