"""What `fit` chooses by itself: features and weight decay, by the loss on held-out events.

Candidates are trained side by side in one compiled batch, for a shorter time and, where events are
many, on a part of them. All are judged on the same held-out events with the same candidate sets,
so differences between them are far less noisy than the losses themselves.
"""

import dataclasses

import numpy as np

from ..models.architecture import AbstractArchitecture
from ..models.features.feature_map import Affine
from ..models.features.features import AbstractFeatures, Automatic, Natural, Quantile, Standardised
from .dataset.dataset import Split, Supplied
from .dataset.mapped import Chunks, some_rows
from .methods import AbstractMethod
from .training.members import Candidate, Trained, side_by_side
from .training.options import Training
from .training.plan import SHRINKS, USUAL_SHRINK, planned, tries_out, with_shrink

#: Events up to which candidates are trained on all of them, and how many they get beyond that.
TRY_ALL, TRY_ON = 15_000, 10_000
#: Part of the epochs for which candidates for the features are trained, and those for the weight
#: decay where they get only a part of the events. On all events they are trained to the end,
#: because too little decay shows only there, and the best of them is kept.
FEATURE_PART, DECAY_PART = 0.25, 0.5
#: Standard errors by which a candidate must be better to displace one that is preferred: features
#: that extrapolate further, and the usual decay; on all events the strongest decay is preferred,
#: unless latent information makes targets so precise that the best is simply taken.
CLEARLY, WITHIN = 3.0, 1.0
#: Nats by which other features must be better as well: in a short training some only learn faster.
WORTH = 0.01
#: Held-out events below which nothing can be told apart.
FEWEST_HELD = 20


@dataclasses.dataclass(frozen=True)
class Choice:
    """What was chosen, in words why, and a network trained so already, if there is one."""

    architecture: AbstractArchitecture
    training: Training
    reasons: tuple[str, ...] = ()
    ready: Trained | None = None


@dataclasses.dataclass(frozen=True)
class _Trial:
    """Events and a training to try candidates with."""

    method: AbstractMethod
    supply: Supplied
    split: Split
    training: Training
    seed: int

    def __call__(
        self,
        architecture: AbstractArchitecture,
        settings: list[tuple[AbstractFeatures, float]],
        part: float,
        what: str,
    ) -> list[Trained]:
        """Networks with these features and shrinks, trained for a part of the epochs."""
        epochs = max(1, round(part * (self.training.epochs or 1)))
        short = dataclasses.replace(self.training, epochs=epochs)
        count = len(self.split.train)
        candidates = [
            Candidate(features, with_shrink(short, shrink, count).weight_decay or 0.0)
            for features, shrink in settings
        ]
        return side_by_side(
            architecture,
            self.method,
            self.supply,
            self.split,
            short,
            candidates,
            self.seed,
            title=f"choosing {what}",
        )


def chosen(
    architecture: AbstractArchitecture,
    method: AbstractMethod,
    supply: Supplied,
    split: Split,
    training: Training,
    seed: int,
) -> Choice:
    """The architecture with its features, and the training with its weight decay."""
    plan = planned(training, len(supply.weight), len(split.train))
    open_features = isinstance(architecture.x_features, Automatic)
    open_decay = training.weight_decay is None
    possible = tries_out(training) and len(split.validation) >= FEWEST_HELD
    if not possible or not (open_features or open_decay):
        return Choice(architecture, plan)
    supply_part, split_part = _part(supply, split)
    count = len(split_part.train)
    everything = count == len(split.train)
    trial_plan = plan if everything else planned(training, count, count)
    trial = _Trial(method, supply_part, split_part, trial_plan, seed)
    reasons, ready = [], None
    if open_features:
        kinds = _features(supply_part.x[some_rows(split_part.train, count)])
        settings = [(kind, USUAL_SHRINK) for kind in kinds]
        tried = trial(architecture, settings, FEATURE_PART, "features")
        judged = np.concatenate([one.judged for one in tried])
        best = first_within_error(judged, CLEARLY, WORTH)
        reasons.append(told("features", [type(k).__name__ for k in kinds], judged, best))
        architecture = dataclasses.replace(architecture, x_features=kinds[best])
    if open_decay:
        shrinks = SHRINKS[::-1] if everything else (USUAL_SHRINK, *_unusual())
        settings = [(architecture.x_features, shrink) for shrink in shrinks]
        part = 1.0 if everything else DECAY_PART
        tried = trial(architecture, settings, part, "weight decay")
        judged = np.concatenate([one.judged for one in tried])
        informed = supply.rows is not None and bool(supply.rows.latent)
        within = (0.0 if informed else WITHIN) if everything else CLEARLY
        best = first_within_error(judged, within)
        plan = with_shrink(plan, shrinks[best], len(split.train))
        ready = tried[best] if everything else None
        names = [f"shrinking by e^{shrink:g}" for shrink in shrinks]
        reasons.append(told("weight decay", names, judged, best))
    return Choice(architecture, plan, tuple(reasons), ready)


def _unusual() -> list[float]:
    return [shrink for shrink in SHRINKS if shrink != USUAL_SHRINK]


def _part(supply: Supplied, split: Split) -> tuple[Supplied, Split]:
    """The events that candidates are tried on; the held-out ones stay as they are."""
    if len(supply.weight) <= TRY_ALL and not isinstance(split.train, Chunks):
        return supply, split
    train = some_rows(split.train, TRY_ON)
    index = np.concatenate([train, split.validation])
    within = np.arange(len(index))
    return supply.part(index), Split(within[: len(train)], within[len(train) :])


def _features(x: np.ndarray) -> list[AbstractFeatures]:
    """Features worth trying on such events, the preferred one first."""
    natural = Natural()
    if isinstance(natural.learn(x), Affine):
        return [Standardised(), Quantile()]
    return [natural, Standardised(), Quantile()]


def first_within_error(judged: np.ndarray, errors: float, worth: float = 0.0) -> int:
    """The first candidate whose loss is within so many standard errors, or `worth`, of the lowest.

    Candidates come in the order of preference, and `judged` holds losses of the same events.
    """
    best = int(np.argmin(judged.mean(axis=1)))
    excess, error = excess_and_error(judged, best)
    return int(np.flatnonzero(excess <= np.maximum(errors * error, worth))[0])


def excess_and_error(judged: np.ndarray, best: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean loss above that of `best`, and its standard error over events, for each candidate."""
    excess = judged - judged[best]
    error = excess.std(axis=1, ddof=1) / np.sqrt(judged.shape[1])
    return excess.mean(axis=1), error


def told(what: str, names: list[str], judged: np.ndarray, best: int) -> str:
    """The choice in words, with what it was chosen among."""
    excess, error = excess_and_error(judged, best)
    others = ", ".join(
        f"{name} {value:+.4f} ± {sigma:.4f}"
        for j, (name, value, sigma) in enumerate(zip(names, excess, error, strict=True))
        if j != best
    )
    return f"{what}: {names[best]}; held-out loss of the others, relative to it: {others}"
