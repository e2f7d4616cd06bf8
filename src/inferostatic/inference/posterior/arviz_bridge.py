"""ArviZ, loaded on first use: R-hat and effective sample size of chains, and `InferenceData`."""

import warnings
from typing import Any

import numpy as np

from ...packages import import_package

#: Fewest draws of a chain for which its diagnostics have a meaning.
FEWEST_DRAWS = 8


def load_arviz() -> Any:  # noqa: ANN401
    """The package, or how to get it."""
    with warnings.catch_warnings():
        # It announces its next version once a day.
        warnings.simplefilter("ignore", FutureWarning)
        return import_package("arviz", "chains are judged and handed on by ArviZ", "inference")


def judge_chains(chains: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rank-normalised split R-hat and bulk effective sample size of each parameter, shapes (d,).

    Of draws of shape (chains, draws, d), as defined by Vehtari, Gelman, Simpson, Carpenter and
    Bürkner (arXiv:1903.08008).
    """
    if chains.shape[1] < FEWEST_DRAWS:
        return np.full(chains.shape[2], np.nan), np.full(chains.shape[2], np.nan)
    arviz = load_arviz()
    dataset = arviz.convert_to_dataset({"theta": chains})
    found = arviz.rhat(dataset)["theta"].values, arviz.ess(dataset, method="bulk")["theta"].values
    return np.asarray(found[0], np.float64), np.asarray(found[1], np.float64)
