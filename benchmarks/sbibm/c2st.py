"""C2ST, a classifier two-sample test, as sbibm 1.1.0 defines it."""

import numpy as np


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
    try:
        from sklearn.model_selection import KFold, cross_val_score
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
    split = KFold(n_splits=folds, shuffle=True, random_state=seed)
    # More threads than one slow such small matrices down, severalfold beside other work.
    with threadpool_limits(1):
        scores = cross_val_score(classifier, data, target, cv=split, scoring="accuracy")
    return float(np.mean(scores))
