"""Train an estimator of another package, and write what it says about the evaluation sets.

    python accuracy_worker.py {sbi-nre-b,sbi-bnre,madminer-carl} in.npz out.npz --seed 0

The input, events and sets of points, is described in `answers.py`. The output holds a score or ln r
for each set (`<variant>/<set>`), the wall and CPU seconds and the epochs of the training, and the
versions.
"""

import argparse
import random
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import torch
from answers import Array, Estimator, measure_time, predict


@dataclass(frozen=True)
class Trained:
    """One training, and the ways its network is evaluated."""

    variants: dict[str, Estimator]
    times: dict[str, float]
    epochs: int
    versions: str


class SbiRatio:
    """A classifier of sbi, whose logit is ln p(x; θ) up to a function of x."""

    def __init__(self, classifier: torch.nn.Module) -> None:
        self.classifier = classifier

    def score(self, x: Array, theta: Array) -> Array:
        """The gradient of the logit."""
        point = _tensor(theta).requires_grad_()
        (slope,) = torch.autograd.grad(self.classifier(point, _tensor(x)).sum(), point)
        return slope.numpy()

    def log_ratio(self, x: Array, theta0: Array, theta1: Array) -> Array:
        """The difference of two logits."""
        with torch.no_grad():
            one, two = (self.classifier(_tensor(t), _tensor(x)).double() for t in (theta0, theta1))
        return (one - two).numpy()


def sbi_ratio(name: str, inputs: Mapping[str, Array], seed: int, epochs: int | None) -> Trained:
    """Train sbi's NRE_B or BNRE with every default.

    `epochs`, only for trying things out, bounds the training.
    """
    from sbi import inference

    _seed_everything(seed)
    # A progress bar of thousands of lines says nothing here; it changes nothing else.
    trainer: Any = getattr(inference, name)(show_progress_bars=False)

    def train() -> torch.nn.Module:
        trainer.append_simulations(_tensor(inputs["theta"]), _tensor(inputs["x"]))
        return trainer.train(**({} if epochs is None else {"max_num_epochs": epochs}))

    classifier, times = measure_time(train)
    return Trained(
        variants={"default": SbiRatio(classifier)},
        times=times,
        epochs=trainer.summary["epochs_trained"][-1],
        versions=_versions("sbi", "torch"),
    )


class MadMinerRatio:
    """MadMiner's doubly parameterised network, evaluated as MadMiner does it."""

    def __init__(self, estimator: Any) -> None:  # noqa: ANN401
        self.estimator = estimator

    def score(self, x: Array, theta: Array) -> Array:
        """The gradient of ln r(x; θ0, θ1) with respect to θ0, at θ1 = θ0.

        Any θ1 would do for an exact ratio; the nearest one asks least of the network.
        """
        # MadMiner's own evaluate_score=True ends with an error for double networks, because it
        # differentiates twice through a graph kept for once. Hence the same network, directly.
        one, two = _tensor(theta), _tensor(theta)
        inputs = _tensor(self.estimator._transform_inputs(x))
        # It may have been trained on a GPU.
        _, _, slope, _ = self.estimator.model.cpu()(one, two, inputs, track_score=True)
        return slope.detach().numpy()

    def log_ratio(self, x: Array, theta0: Array, theta1: Array) -> Array:
        """Ln r, θ0 over θ1."""
        log_r, _, _ = self.estimator.evaluate_log_likelihood_ratio(
            x, theta0, theta1, test_all_combinations=False
        )
        return log_r


class CorrectedMadMinerRatio:
    """The same network, with θ scaled at evaluation as it was in training.

    MadMiner 0.9.6 trains double networks on standardised θ but evaluates them at θ as it is given.
    """

    def __init__(self, estimator: Any) -> None:  # noqa: ANN401
        self.shipped = MadMinerRatio(estimator)
        self.mean: Array = estimator.theta_scaling_means
        self.spread: Array = estimator.theta_scaling_stds

    def score(self, x: Array, theta: Array) -> Array:
        """The gradient, back in the units of θ."""
        return self.shipped.score(x, self._scaled(theta)) / self.spread

    def log_ratio(self, x: Array, theta0: Array, theta1: Array) -> Array:
        """Ln r, θ0 over θ1."""
        return self.shipped.log_ratio(x, self._scaled(theta0), self._scaled(theta1))

    def _scaled(self, theta: Array) -> Array:
        return (theta - self.mean) / self.spread


def madminer_carl(inputs: Mapping[str, Array], seed: int, epochs: int | None) -> Trained:
    """Train MadMiner's doubly parameterised CARL.

    The network is that of MadMiner's tutorial on likelihood ratios. The rest is left at its
    default, also the 50 epochs, of which the tutorial takes only 10.
    """
    from madminer.ml import DoubleParameterizedRatioEstimator

    _seed_everything(seed)
    estimator: Any = DoubleParameterizedRatioEstimator(n_hidden=(60, 60), activation="tanh")
    (losses, _), times = measure_time(
        lambda: estimator.train(
            method="carl",
            **labelled(inputs, seed),
            # Eight processes that load batches, the default, give the same result more slowly.
            n_workers=0,
            verbose="none",
            **({} if epochs is None else {"n_epochs": epochs}),
        )
    )
    return Trained(
        variants={
            "shipped": MadMinerRatio(estimator),
            "corrected": CorrectedMadMinerRatio(estimator),
        },
        times=times,
        epochs=len(losses),
        versions=_versions("madminer", "torch"),
    )


def labelled(inputs: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Stored events as labelled samples: each event once, half of them with y = 0.

    An event's own θ is θ0 where y = 0 and θ1 where y = 1; the other one is drawn from the prior.
    """
    theta = np.asarray(inputs["theta"], np.float64)
    other = np.random.default_rng(seed).uniform(inputs["low"], inputs["high"], theta.shape)
    # MadMiner compares y with outputs of shape (n, 1).
    y = (np.arange(len(theta)) % 2)[:, None]
    return {
        "x": np.asarray(inputs["x"], np.float64),
        "y": y.astype(np.float64),
        "theta0": np.where(y == 0, theta, other),
        "theta1": np.where(y == 0, other, theta),
    }


def _tensor(values: Array) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values, np.float32).copy())


def _seed_everything(seed: int) -> None:
    """Seed whatever a package may draw from: weights, splits, batches."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _versions(*packages: str) -> str:
    return ", ".join(f"{name} {metadata.version(name)}" for name in packages)


def main() -> None:
    """Train, evaluate, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peer", choices=["sbi-nre-b", "sbi-bnre", "madminer-carl"])
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--seed", type=int, default=0)
    # Only to try the worker out in seconds.
    parser.add_argument("--events", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--epochs", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()

    with np.load(options.source) as file:
        inputs = dict(file)
    for name in ("x", "theta"):
        inputs[name] = inputs[name][: options.events]
    match options.peer:
        case "sbi-nre-b":
            trained = sbi_ratio("NRE_B", inputs, options.seed, options.epochs)
        case "sbi-bnre":
            trained = sbi_ratio("BNRE", inputs, options.seed, options.epochs)
        case _:
            trained = madminer_carl(inputs, options.seed, options.epochs)
    found: dict[str, Any] = {
        f"{variant}/{name}": values
        for variant, estimator in trained.variants.items()
        for name, values in predict(estimator, inputs).items()
    }
    about = {"epochs": trained.epochs, "versions": trained.versions}
    np.savez(options.target, **found, **trained.times, **about)


if __name__ == "__main__":
    main()
