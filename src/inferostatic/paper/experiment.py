"""The paper's experiment, exactly: six networks, three tasks, five instances (its Section 5).

Dirichlet distribution in three dimensions, θ uniform on [0.5, 5)³. Each technique has its own task;
every trained network is evaluated on every task it can perform, on two sets: one for the loss it
reaches, one for its error against the exact score or ratio.
"""

import concurrent.futures
import dataclasses
import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..estimator.estimator import AbstractEstimator, Estimator, RatioEstimator, ScoreEstimator
from ..inputs import as_count, as_seed
from ..learning.draw import Records, draw
from ..learning.fit import fit
from ..learning.methods import CARL, KLRE, KSE, Method
from ..learning.training.options import Constant, Training
from ..models.architecture import (
    AbstractArchitecture,
    paper_network,
    paper_ratio_network,
    paper_score_network,
)
from ..models.networks.networks import parameter_count
from ..progress import progress
from ..streams import Purpose, Stream
from ..supervision.kernels import Delta, Rectangular
from ..supervision.records import LabelledPair, ScoreTarget
from ..world.priors.prior import Uniform
from ..world.toys import Dirichlet

#: Task → the method that draws its records.
TASKS: Mapping[str, Method] = {"T1": KSE(Delta(0.25)), "T2": KLRE(Rectangular(0.4)), "T3": CARL()}
#: Column → the task it is trained on and its network, in the order of the paper's table.
COLUMNS: Mapping[str, tuple[str, AbstractArchitecture]] = {
    "KSE-ISN": ("T1", paper_network),
    "KSE-Dir": ("T1", paper_score_network),
    "KLRE-ISN": ("T2", paper_network),
    "KLRE-Dir": ("T2", paper_ratio_network),
    "CARL-ISN": ("T3", paper_network),
    "CARL-Dir": ("T3", paper_ratio_network),
}
#: What is measured of each network on each task.
METRICS = ("loss", "error")
#: Medians over five instances in the paper's results table.
PUBLISHED: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "T1": {
        "KSE-ISN": {"loss": 15.515, "error": 0.279},
        "KSE-Dir": {"loss": 15.540, "error": 0.337},
        "KLRE-ISN": {"loss": 15.695, "error": 0.506},
        "CARL-ISN": {"loss": 15.594, "error": 0.376},
    },
    "T2": {
        "KSE-ISN": {"loss": 0.683, "error": 0.049},
        "KLRE-ISN": {"loss": 0.687, "error": 0.082},
        "KLRE-Dir": {"loss": 0.691, "error": 0.120},
        "CARL-ISN": {"loss": 0.684, "error": 0.063},
        "CARL-Dir": {"loss": 0.697, "error": 0.177},
    },
    "T3": {
        "KSE-ISN": {"loss": 0.431, "error": 3.667},
        "KLRE-ISN": {"loss": 0.472, "error": 7.073},
        "KLRE-Dir": {"loss": 0.690, "error": 16.721},
        "CARL-ISN": {"loss": 0.424, "error": 3.272},
        "CARL-Dir": {"loss": 0.442, "error": 5.825},
    },
    "truth": {"T1": {"loss": 15.515}, "T2": {"loss": 0.680}, "T3": {"loss": 0.415}},
}
#: Trainings run side by side; each is a single compiled loop that leaves the interpreter free.
WORKERS = 2
#: Instances at most: figures show each, and the paper has five.
MOST_INSTANCES = 1000
#: Events of a set at most, a thousand times the paper's.
MOST_EVENTS = 10**8
#: Epochs at most, some thousand times the paper's.
MOST_EPOCHS = 10**5
#: Memory of one event of a set and of its evaluation, in bytes.
BYTES_EACH = 200
#: Trained networks by column and instance.
Networks = Mapping[tuple[str, int], AbstractEstimator]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """True and predicted values on the error set, for a heat map."""

    true: np.ndarray
    predicted: np.ndarray


@dataclasses.dataclass(frozen=True)
class PaperResults:
    """Everything the experiment found.

    Attributes:
        scores: task → column → metric → one value for each instance; with `standard_error` of
            each error from the finite evaluation set.
        truth: task → loss of the exact score or ratio.
        settings: what was run.
        predictions: `score` of the KSE-ISN and `ratio` of the KLRE-ISN with the lowest loss.
        histories: column → training and validation loss, each (instances, epochs).
    """

    scores: Mapping[str, Mapping[str, Mapping[str, list[float]]]]
    truth: Mapping[str, float]
    settings: Mapping[str, Any]
    predictions: Mapping[str, Prediction]
    histories: Mapping[str, tuple[np.ndarray, np.ndarray]]

    def table(self) -> dict[str, Any]:
        """The content of `table.json`."""
        return {
            **self.scores,
            "truth": {task: {"loss": loss} for task, loss in self.truth.items()},
            "published": PUBLISHED,
            "settings": self.settings,
        }

    def median(self, task: str, column: str, metric: str) -> float | None:
        """Median over the instances, None where the network cannot perform the task."""
        found = self.scores[task].get(column)
        return None if found is None else float(np.median(found[metric]))


def paper_training(epochs: int) -> Training:
    """Adam with Keras' defaults, batches of 20, the last epoch's weights."""
    return Training(
        epochs=epochs,
        batch_size=20,
        learning_rate=1e-3,
        schedule=Constant(),
        epsilon=1e-7,
        weight_decay=0.0,
        clip=None,
        validation_fraction=0.1,
        keep_best=False,
        progress_bar=False,
    )


def check_settings(*, instances: int, events: int, epochs: int, seed: int) -> None:
    """Refuse an experiment that cannot be run on this machine."""
    instances = as_count(instances, "instances", most=MOST_INSTANCES)
    events = as_count(events, "events", most=MOST_EVENTS)
    if events < 20:
        raise ValueError(
            f"events must be at least 20, so that 10% of them can validate; got {events}."
        )
    as_count(epochs, "epochs", most=MOST_EPOCHS)
    as_seed(seed)
    needed = len(TASKS) * (instances + 2) * events * BYTES_EACH
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):  # a system that does not say
        return
    if needed > memory:
        raise ValueError(
            f"events={events:,} with instances={instances} need {needed / 1e9:,.0f} GB of memory, "
            f"and this machine has {memory / 1e9:,.0f} GB; reduce either."
        )


def reproduce(
    *,
    instances: int = 5,
    events: int = 100_000,
    epochs: int = 20,
    seed: int = 0,
    progress_bar: bool | None = None,
) -> PaperResults:
    """Run the whole experiment.

    Args:
        instances: training sets and initialisations for each network.
        events: size of every training and evaluation set.
        epochs: passes over each training set.
        seed: everything random follows from it.
        progress_bar: force the display on or off.
    """
    check_settings(instances=instances, events=events, epochs=epochs, seed=seed)
    seeds = Stream(seed, Purpose.PAPER).seeds(3 * instances + 6 + 6 * instances)
    numbers = iter(seeds)
    train = {task: [next(numbers) for _ in range(instances)] for task in TASKS}
    test = {task: (next(numbers), next(numbers)) for task in TASKS}
    starts = {column: [next(numbers) for _ in range(instances)] for column in COLUMNS}
    training = paper_training(epochs)
    total = len(TASKS) * (instances + 2) + 2 * len(COLUMNS) * instances
    with progress("reproducing the paper", total, show=progress_bar) as advance:

        def simulate_set(task: str, number: int) -> Records:
            records = _draw_records(task, events, number)
            advance(1, f"simulated {TASKS[task]}")
            return records

        sets = {task: [simulate_set(task, s) for s in train[task]] for task in TASKS}
        tests = {task: [simulate_set(task, s) for s in test[task]] for task in TASKS}

        def train_one(column: str, instance: int) -> AbstractEstimator:
            task, network = COLUMNS[column]
            start = starts[column][instance]
            estimator = fit(sets[task][instance], network=network, training=training, seed=start)
            advance(1, f"trained {column}")
            return estimator

        jobs = [(column, i) for column in COLUMNS for i in range(instances)]
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            estimators = pool.map(lambda job: train_one(*job), jobs)
            networks = dict(zip(jobs, estimators, strict=True))
        scores: dict[str, dict[str, dict[str, list[float]]]] = {task: {} for task in TASKS}
        for (column, _), estimator in networks.items():
            for task, (loss_set, error_set) in tests.items():
                if not _can_perform(estimator, task):
                    continue
                empty = {"loss": [], "error": [], "standard_error": []}
                entry = scores[task].setdefault(column, empty)
                errors = _compute_errors(estimator, error_set)
                entry["loss"].append(_compute_loss(estimator, loss_set))
                entry["error"].append(float(errors.mean()))
                entry["standard_error"].append(float(errors.std() / np.sqrt(len(errors))))
            advance(1, f"evaluated {column}")
    return PaperResults(
        scores=scores,
        truth={task: _compute_loss(None, tests[task][0]) for task in TASKS},
        settings=_describe_settings(instances, events, training, seed, networks),
        predictions=_choose_predictions(scores, networks, tests),
        histories=_collect_histories(networks),
    )


def _draw_records(task: str, events: int, seed: int) -> Records:
    prior = Uniform([0.5] * 3, [5.0] * 3, names=("theta_1", "theta_2", "theta_3"))
    return draw(TASKS[task], Dirichlet(3), prior, events, seed=seed, progress_bar=False)


def _can_perform(estimator: AbstractEstimator, task: str) -> bool:
    wanted = ScoreEstimator if task == "T1" else RatioEstimator
    return isinstance(estimator, Estimator | wanted)


def _predict(estimator: AbstractEstimator | None, records: Records) -> np.ndarray:
    """The network's score or log ratio on these records, or the exact one."""
    record, exact = records.record, Dirichlet(3)
    with warnings.catch_warnings():
        # Tasks 1 and 2 evaluate a little outside the prior by design, small runs also outside
        # the range of x.
        warnings.filterwarnings("ignore", "theta lies outside the trained region")
        warnings.filterwarnings("ignore", ".*lie outside the range of x seen in training")
        if isinstance(record, ScoreTarget):
            theta = np.asarray(record.theta, np.float64)
            if estimator is None:
                return exact.score(records.x, theta)
            assert isinstance(estimator, Estimator | ScoreEstimator)
            return estimator.score(records.x, theta)
        assert isinstance(record, LabelledPair)
        theta0 = np.asarray(record.theta0, np.float64)
        theta1 = np.asarray(record.theta1, np.float64)
        if estimator is None:
            return exact.log_prob(records.x, theta0) - exact.log_prob(records.x, theta1)
        assert isinstance(estimator, Estimator | RatioEstimator)
        return estimator.log_ratio(records.x, theta0, theta1)


def _compute_loss(estimator: AbstractEstimator | None, records: Records) -> float:
    """Mean task loss, in float64 and written out anew rather than taken from training."""
    predicted, record = _predict(estimator, records), records.record
    if isinstance(record, ScoreTarget):
        return float(np.mean(np.square(predicted - np.asarray(record.target, np.float64))))
    assert isinstance(record, LabelledPair)
    label = np.asarray(record.label, np.float64)
    # Label 0 means x came from θ0, where ln r is large: softplus(−ln r).
    return float(np.mean(np.logaddexp(0, np.where(label > 0, predicted, -predicted))))


def _compute_errors(estimator: AbstractEstimator, records: Records) -> np.ndarray:
    """Squared error of each event against the exact value, averaged over components."""
    squared = np.square(_predict(estimator, records) - _predict(None, records))
    return squared.reshape(len(records), -1).mean(axis=1)


def _choose_predictions(
    scores: Mapping[str, Any], networks: Networks, tests: Mapping[str, Any]
) -> dict[str, Prediction]:
    chosen = {"score": ("KSE-ISN", "T1"), "ratio": ("KLRE-ISN", "T2")}
    result = {}
    for name, (column, task) in chosen.items():
        best = networks[column, int(np.argmin(scores[task][column]["loss"]))]
        records = tests[task][1]
        result[name] = Prediction(_predict(None, records), _predict(best, records))
    return result


def _collect_histories(networks: Networks) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    result = {}
    for column in COLUMNS:
        histories = [e.history for (name, _), e in networks.items() if name == column]
        result[column] = (
            np.stack([history.train_loss[:, 0] for history in histories]),
            np.stack([history.validation_loss[:, 0] for history in histories]),
        )
    return result


def _describe_settings(
    instances: int, events: int, training: Training, seed: int, networks: Networks
) -> dict[str, Any]:
    counts = {column: parameter_count(networks[column, 0].model.network) for column in COLUMNS}
    return {
        "distribution": "Dirichlet, 3 dimensions",
        "prior": "uniform on [0.5, 5)^3",
        "T1": "KSE: delta kernel, width 0.25, linear difference function, squared error",
        "T2": "KLRE: rectangular kernel, width 0.4, logistic loss",
        "T3": "CARL: independent pairs, logistic loss",
        "hidden_layers": [8, 16, 8],
        "activation": "selu",
        "inputs": "raw",
        "parameters": {
            "ISN": counts["KSE-ISN"],
            "direct score": counts["KSE-Dir"],
            "direct ratio": counts["KLRE-Dir"],
        },
        "optimiser": "Adam",
        "learning_rate": training.learning_rate,
        "beta1": training.beta1,
        "beta2": training.beta2,
        "epsilon": training.epsilon,
        "epochs": training.epochs,
        "batch_size": training.batch_size,
        "weights": "best epoch" if training.keep_best else "last epoch",
        "validation_fraction": training.validation_fraction,
        "instances": instances,
        "training_events": events,
        "evaluation_events": events,
        "seed": seed,
    }
