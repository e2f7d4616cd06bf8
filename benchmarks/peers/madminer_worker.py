"""Train one of MadMiner's methods on given arrays, as shipped or corrected, and write what it says.

    python madminer_worker.py alices corrected in.npz out.npz --seed 0

`carl` to `alices` are doubly parameterised ratios and read `x`, `theta0`, `theta1`, `y` (0 where x
came from θ0), `log_r_xz` = ln p(x,z;θ0) − ln p(x,z;θ1) and the joint scores `t_xz0`, `t_xz1` at θ0
and θ1, whichever the method needs. `nde` and `scandal` read `x`, its own `theta` and the joint
score `t` there, `sally` reads `x_ref` and `t_ref` at one θ. All are asked about `test_x`: ratios at
`test_theta0` and `test_theta1` (`log_r`), scores and densities at `test_theta` where that is given
(`score`, `log_p`); sally for the score at its own θ. Written as well: `seconds` of the training,
`epochs`, `steps`, `weights` (how many) and `versions`. What ends with an error is left out, and
`failed` says why. `--seconds` times the steps of a short training instead.

*Shipped* is the documented call with every default. *Corrected* makes the same calls with

- θ, and for densities also x, standardised beforehand: MadMiner forgets at evaluation the scaling
  of θ, takes that of x twice in ratios of densities, and leaves its Jacobian out of densities;
- the joint score at θ1 negated, since it is compared with the θ1-derivative of ln r;
- the weights of the best epoch copied, where MadMiner keeps a reference to those that change;
- the variables of a flow in reversed order in every other layer, as was meant.
"""

import argparse
import copy
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Protocol

import numpy as np
import torch
from madminer.ml import DoubleParameterizedRatioEstimator, LikelihoodEstimator, ScoreEstimator
from madminer.utils.ml.models.maf import ConditionalMaskedAutoregressiveFlow
from madminer.utils.ml.trainer import Trainer

Array = np.ndarray
Arrays = Mapping[str, Array]

_PAIRS = {"x", "y", "theta0", "theta1"}
_TEST = {"test_x", "test_theta0", "test_theta1"}
_SCORES = {"t_xz0", "t_xz1"}
#: What each method reads.
RATIOS = {
    "carl": _PAIRS | _TEST,
    "rolr": _PAIRS | _TEST | {"log_r_xz"},
    "alice": _PAIRS | _TEST | {"log_r_xz"},
    "cascal": _PAIRS | _TEST | _SCORES,
    "rascal": _PAIRS | _TEST | _SCORES | {"log_r_xz"},
    "alices": _PAIRS | _TEST | _SCORES | {"log_r_xz"},
}
DENSITIES = {"nde": {"x", "theta"} | _TEST, "scandal": {"x", "theta", "t"} | _TEST}
METHODS = RATIOS | DENSITIES | {"sally": {"x_ref", "t_ref", "test_x"}}


@dataclass(frozen=True)
class Scale:
    """Standardisation by hand; the identity leaves everything as it is given."""

    mean: Array
    spread: Array

    @classmethod
    def of(cls, values: Array) -> "Scale":
        """To mean 0 and spread 1, after which MadMiner's own scaling does nothing."""
        return cls(values.mean(axis=0), values.std(axis=0))

    @classmethod
    def identity(cls, size: int) -> "Scale":
        """No scaling."""
        return cls(np.zeros(size), np.ones(size))

    def __call__(self, values: Array) -> Array:
        """The standardised values."""
        return (values - self.mean) / self.spread


class Peer(Protocol):
    """One of MadMiner's estimators, and what may be asked of it after its training."""

    estimator: Any

    def train(self, **settings: object) -> tuple[Array, Array]:
        """Train, and return the losses of all epochs."""
        ...

    def answers(self) -> dict[str, Callable[[], dict[str, Array]]]:
        """The questions to which the inputs hold test points."""
        ...


class Ratio:
    """ln r(x; θ0, θ1) = ln p(x; θ0) − ln p(x; θ1)."""

    def __init__(
        self, method: str, inputs: Arrays, network: dict[str, Any], *, corrected: bool
    ) -> None:
        self.method, self.inputs, self.corrected = method, inputs, corrected
        self.estimator: Any = DoubleParameterizedRatioEstimator(**network)
        both = np.concatenate([inputs["theta0"], inputs["theta1"]])
        self.theta = Scale.of(both) if corrected else Scale.identity(both.shape[1])

    def train(self, **settings: object) -> tuple[Array, Array]:
        """Train on labelled pairs."""
        inputs, reads = self.inputs, RATIOS[self.method]
        joint: dict[str, Array] = {}
        if "log_r_xz" in reads:
            joint["r_xz"] = np.exp(inputs["log_r_xz"])
        if "t_xz0" in reads:
            sign = -1 if self.corrected else 1
            joint["t_xz0"] = self.theta.spread * inputs["t_xz0"]
            joint["t_xz1"] = self.theta.spread * inputs["t_xz1"] * sign
        return self.estimator.train(
            self.method,
            x=inputs["x"],
            y=inputs["y"],
            theta0=self.theta(inputs["theta0"]),
            theta1=self.theta(inputs["theta1"]),
            **joint,
            **settings,
        )

    def answers(self) -> dict[str, Callable[[], dict[str, Array]]]:
        """The ratio, and the score as its slope."""
        score = {"score": self._score} if "test_theta" in self.inputs else {}
        return {"log_r": self._log_r} | score

    def _log_r(self) -> dict[str, Array]:
        points = (self.theta(self.inputs[name]) for name in ("test_theta0", "test_theta1"))
        log_r, _, _ = self.estimator.evaluate_log_likelihood_ratio(
            self.inputs["test_x"], *points, test_all_combinations=False
        )
        return {"log_r": log_r}

    def _score(self) -> dict[str, Array]:
        """The θ0-derivative of ln r at θ1 = θ0, where the ratio asks least of the network."""
        x, theta = self.inputs["test_x"], self.theta(self.inputs["test_theta"])
        if not self.corrected:
            _, score, _ = self.estimator.evaluate_log_likelihood_ratio(
                x, theta, theta, test_all_combinations=False, evaluate_score=True
            )
            return {"score": score}
        # The above ends with an error, because it frees a graph that it needs twice.
        one, two = _tensor(theta), _tensor(theta)
        scaled = _tensor(self.estimator._transform_inputs(x))
        # It may have been trained on a GPU.
        _, _, slope, _ = self.estimator.model.cpu()(one, two, scaled, track_score=True)
        return {"score": slope.detach().numpy() / self.theta.spread}


class Density:
    """ln p(x; θ) of a masked autoregressive flow."""

    def __init__(
        self, method: str, inputs: Arrays, network: dict[str, Any], *, corrected: bool
    ) -> None:
        self.method, self.inputs = method, inputs
        self.estimator: Any = LikelihoodEstimator(**network)
        x, theta = inputs["x"], inputs["theta"]
        if not corrected:
            self.x, self.theta = Scale.identity(x.shape[1]), Scale.identity(theta.shape[1])
            return
        self.x, self.theta = Scale.of(x), Scale.of(theta)
        self.estimator.model = ConditionalMaskedAutoregressiveFlow(
            n_conditionals=theta.shape[1],
            n_inputs=x.shape[1],
            n_hiddens=self.estimator.n_hidden,
            n_mades=self.estimator.n_mades,
            activation=self.estimator.activation,
            batch_norm=False,
            # MadMiner reverses an order given in numbers, but never its default, "sequential".
            input_order=np.arange(1, x.shape[1] + 1),
        )

    def train(self, **settings: object) -> tuple[Array, Array]:
        """Train on events with their own θ."""
        inputs = self.inputs
        joint = {"t_xz": self.theta.spread * inputs["t"]} if self.method == "scandal" else {}
        return self.estimator.train(
            self.method,
            x=self.x(inputs["x"]),
            theta=self.theta(inputs["theta"]),
            **joint,
            **settings,
        )

    def answers(self) -> dict[str, Callable[[], dict[str, Array]]]:
        """The ratio, the density and the score."""
        density = {"log_p": self._log_p} if "test_theta" in self.inputs else {}
        return {"log_r": self._log_r} | density

    def _log_r(self) -> dict[str, Array]:
        points = (self.theta(self.inputs[name]) for name in ("test_theta0", "test_theta1"))
        log_r, _, _ = self.estimator.evaluate_log_likelihood_ratio(
            self.x(self.inputs["test_x"]), *points, test_all_combinations=False
        )
        return {"log_r": log_r}

    def _log_p(self) -> dict[str, Array]:
        theta = self.theta(self.inputs["test_theta"])
        log_p, score = self.estimator.evaluate_log_likelihood(
            self.x(self.inputs["test_x"]), theta, test_all_combinations=False, evaluate_score=True
        )
        # Contrary to its documentation, it returns all scores in one row.
        score = score.reshape(theta.shape) / self.theta.spread
        return {"log_p": log_p - np.log(self.x.spread).sum(), "score": score}


class LocalScore:
    """The score at one θ."""

    def __init__(self, method: str, inputs: Arrays, network: dict[str, Any]) -> None:
        self.method, self.inputs = method, inputs
        self.estimator: Any = ScoreEstimator(**network)

    def train(self, **settings: object) -> tuple[Array, Array]:
        """Train on joint scores."""
        given = {"x": self.inputs["x_ref"], "t_xz": self.inputs["t_ref"]}
        return self.estimator.train(self.method, **given, **settings)

    def answers(self) -> dict[str, Callable[[], dict[str, Array]]]:
        """The score; it has no ratio."""
        return {"score": lambda: {"score": self.estimator.evaluate_score(self.inputs["test_x"])}}


def peer(method: str, inputs: Arrays, network: dict[str, Any], *, corrected: bool) -> Peer:
    """The estimator of a method."""
    if method in RATIOS:
        return Ratio(method, inputs, network, corrected=corrected)
    if method in DENSITIES:
        return Density(method, inputs, network, corrected=corrected)
    return LocalScore(method, inputs, network)


@dataclass(frozen=True)
class Epoch:
    """How long an epoch took, and how long it waited for its batches."""

    steps: int
    seconds: float
    cpu_seconds: float
    loading: float


def watch_epochs() -> list[Epoch]:
    """A list to which MadMiner's trainer adds every epoch that it completes."""
    seen: list[Epoch] = []
    plain, timer = Trainer.epoch, "load training batch"

    def epoch(self: Any, number: int, labels: list[str], loader: Any, *rest: object) -> Any:  # noqa: ANN401
        waited = self.timer.get(timer, 0.0)
        began, cpu = time.perf_counter(), time.process_time()
        losses = plain(self, number, labels, loader, *rest)
        taken, cpu_taken = time.perf_counter() - began, time.process_time() - cpu
        seen.append(Epoch(len(loader), taken, cpu_taken, self.timer[timer] - waited))
        return losses

    Trainer.epoch = epoch
    return seen


def copy_best_weights() -> None:
    """Let early stopping keep the weights of the best epoch, and not what becomes of them."""
    plain = Trainer.check_early_stopping

    def check(self: Any, loss: Any, kept: Any, *rest: object) -> Any:  # noqa: ANN401
        best_loss, best, best_epoch = plain(self, loss, kept, *rest)
        return best_loss, best if best is kept else copy.deepcopy(best), best_epoch

    Trainer.check_early_stopping = check


def timed(estimator: Peer, epochs: int) -> dict[str, Any]:
    """Seconds of a step, the median over epochs of which the first is not counted."""
    seen = watch_epochs()
    estimator.train(n_epochs=epochs + 1, n_workers=0, validation_split=None, verbose="none")
    if len(seen) <= epochs:
        raise RuntimeError(_ended(len(seen), epochs + 1))
    names = {"seconds": "seconds", "cpu_seconds": "cpu_seconds", "loading": "loading_seconds"}
    found = {
        f"{name}_per_step": np.median([getattr(one, field) / one.steps for one in seen[1:]])
        for field, name in names.items()
    }
    return found | {"steps": sum(one.steps for one in seen[1:])}


def trained(estimator: Peer, epochs: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Train, ask, and collect what was said and what went wrong."""
    found: dict[str, Any] = {}
    failed: list[str] = []
    seen = watch_epochs()
    began = time.perf_counter()
    estimator.train(n_epochs=epochs, verbose="none", **settings)
    found |= {"seconds": time.perf_counter() - began, "epochs": len(seen)}
    found["steps"] = sum(one.steps for one in seen)
    if len(seen) < epochs:
        failed.append(f"training: {_ended(len(seen), epochs)}")
    for name, answer in estimator.answers().items():
        try:
            said = answer()
        except Exception as error:  # noqa: BLE001
            failed.append(f"{name}: {_sentence(error)}")
        else:
            found |= {key: np.asarray(values, np.float64) for key, values in said.items()}
    return found | ({"failed": "\n".join(failed)} if failed else {})


def _ended(epochs: int, asked: int) -> str:
    return f"ended after {epochs} of {asked} epochs, as MadMiner does when it meets NaN"


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _tensor(values: Array) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values, np.float32).copy())


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("variant", choices=["shipped", "corrected"])
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="default: 50, MadMiner's own; 5 to be timed")
    parser.add_argument("--hidden", type=int, nargs="+", help="default: one layer of 100")
    parser.add_argument(
        "--workers",
        type=int,
        help="processes that load batches; default: 0 when corrected, MadMiner's 8 when shipped, "
        "which changes nothing but the time",
    )
    parser.add_argument("--seconds", action="store_true", help="only time the steps")
    options = parser.parse_args(arguments)
    corrected = options.variant == "corrected"

    torch.set_num_threads(1)
    # MadMiner draws from NumPy (splits, flows) and from PyTorch (networks, batches).
    random.seed(options.seed)
    np.random.seed(options.seed)
    torch.manual_seed(options.seed)
    with np.load(options.source) as file:
        inputs = dict(file)
    if missing := METHODS[options.method] - set(inputs):
        parser.error(
            f"{options.method} reads {', '.join(sorted(missing))}, not in {options.source}"
        )
    network = {} if options.hidden is None else {"n_hidden": tuple(options.hidden)}
    estimator = peer(options.method, inputs, network, corrected=corrected)
    if corrected:
        copy_best_weights()
    workers = 0 if corrected and options.workers is None else options.workers
    settings = {} if workers is None else {"n_workers": workers}
    found: dict[str, Any]
    try:
        if options.seconds:
            found = timed(estimator, options.epochs or 5)
        else:
            found = trained(estimator, options.epochs or 50, settings)
    except Exception as error:  # noqa: BLE001
        found = {"failed": f"training: {_sentence(error)}"}
    model = estimator.estimator.model
    if model is not None:
        found["weights"] = sum(weights.numel() for weights in model.parameters())
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("madminer", "torch"))
    np.savez(options.target, **found, versions=versions)


if __name__ == "__main__":
    main()
