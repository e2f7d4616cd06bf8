"""C2ST, a classifier two-sample test, as sbibm 1.1.0 defines it."""

import multiprocessing
import os
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Pending:
    """A C2ST that is being worked on: the accuracy of each fold."""

    folds: list[Future[float]]

    def result(self) -> float:
        """Wait for it."""
        return float(np.mean([fold.result() for fold in self.folds]))


def processes() -> ProcessPoolExecutor:
    """As many processes as there are cores, for the folds of many tests."""
    # Not forked: a copy of a process in which JAX has started threads may hang.
    return ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"))


def c2st(reference: np.ndarray, samples: np.ndarray, *, seed: int = 1, folds: int = 5) -> float:
    """Accuracy at which a classifier tells `samples` from `reference`; 0.5 is best, 1 is worst.

    A network with two hidden layers of 10·d ReLU each is trained on four fifths and judged on the
    rest, five times round. Both samples are first scaled by mean and standard deviation of
    `reference`. Everything else is scikit-learn's default, and float32, as in sbibm.

    Args:
        reference: draws from the true posterior, shape (n, d).
        samples: draws to judge, shape (m, d); as many as `reference`, or 0.5 is not the best.
        seed: of the classifier and of the folds; 1 in sbibm.
        folds: number of parts for the cross-validation.
    """
    accuracies = [fold_accuracy(reference, samples, seed, folds, fold) for fold in range(folds)]
    return float(np.mean(accuracies))


def begin_c2st(
    pool: Executor, reference: np.ndarray, samples: np.ndarray, *, seed: int = 1, folds: int = 5
) -> Pending:
    """The same, with a process for each fold."""
    arguments = (reference, samples, seed, folds)
    return Pending([pool.submit(fold_accuracy, *arguments, fold) for fold in range(folds)])


def fold_accuracy(
    reference: np.ndarray, samples: np.ndarray, seed: int, folds: int, fold: int
) -> float:
    """Accuracy on one part of a classifier trained on the others."""
    try:
        from sklearn.model_selection import KFold
        from sklearn.neural_network import MLPClassifier
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise ImportError("C2ST needs scikit-learn: pip install scikit-learn.") from error
    reference, samples = (np.asarray(draws, np.float32) for draws in (reference, samples))
    mean, std = reference.mean(axis=0), reference.std(axis=0, ddof=1)
    data = np.concatenate([(reference - mean) / std, (samples - mean) / std])
    target = np.concatenate([np.zeros(len(reference)), np.ones(len(samples))])
    width = 10 * reference.shape[1]
    classifier = MLPClassifier(
        activation="relu",
        hidden_layer_sizes=(width, width),
        max_iter=10_000,
        solver="adam",
        random_state=seed,
    )
    parts = KFold(n_splits=folds, shuffle=True, random_state=seed).split(data)
    train, test = list(parts)[fold]
    # More threads than one slow such small matrices down, severalfold beside other work.
    with threadpool_limits(1):
        classifier.fit(data[train], target[train])
        return float(np.mean(classifier.predict(data[test]) == target[test]))
