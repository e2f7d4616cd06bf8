"""`compare`: several settings on the same events, ranked by one measure.

Losses of different methods cannot be compared, so every setting is judged by the same question:
find the true θ among fifteen others, at all scales (the loss of multi-scale KCE), for events that
no setting has seen and with candidates that are the same for all. Differences between settings are
taken event by event, which makes them far more precise than the losses.
"""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from scipy.special import logsumexp

from ..estimator.estimator import AbstractEstimator, Estimator, RatioEstimator
from ..events.events import Events
from ..inputs import as_count, as_seed, as_text, kind_of, warn_user
from ..models.architecture import AbstractArchitecture, DirectScore
from ..models.features.features import Automatic
from ..models.networks.networks import NetworkChoice, parameter_count
from ..streams import Purpose, Stream
from ..summary import AbstractSummarised, Summary, SummaryTable, count, shorten
from ..supervision.records import CandidateSet
from ..supervision.supervision import supervise_many
from .arguments import as_architecture, as_method, check_capability
from .dataset.build import build_dataset
from .defaults.choose import complete_training
from .defaults.method import choose_method
from .defaults.trials import find_excess_and_error, wants_trials
from .fit import fit
from .measure_bias import choose_test_rows
from .methods import KCE, AbstractMethod, Method
from .train_estimator import build_estimator, finish_estimator
from .training.members import LearningProblem, MemberSetting, train_side_by_side
from .training.options import Training

#: Part of the events that no setting is trained on.
TEST_FRACTION = 0.2
#: Such events, at most.
MOST_TESTED = 20_000
#: Candidate sets in all by which settings are compared.
ASKED = 40_000
#: Candidate sets of one event, at most.
ASKED_EACH = 8


@dataclasses.dataclass(frozen=True)
class Setting:
    """One way to train, as `fit` takes it.

    Args:
        method: such as `ist.KCE()`.
        network: such as `ist.Residual(64, 3)` or `ist.Potential(…)`.
        training: such as `ist.Training(weight_decay=0.1)`.
        members: networks averaged.
        name: shown in the table; made up from the rest by default.
    """

    method: AbstractMethod | None = None
    network: Any = None
    training: Training = dataclasses.field(default_factory=Training)
    members: int = 1
    name: str | None = None

    def __post_init__(self) -> None:
        """Refuse what `fit` would refuse, before anything is trained."""
        if not isinstance(self.training, Training):
            raise TypeError(f"training must be ist.Training(…); got {kind_of(self.training)}.")
        as_count(self.members, "members")
        as_method(self.method)
        as_architecture(self.network, 1)
        if self.name is not None:
            as_text(self.name, "name")


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison(AbstractSummarised):
    """The outcome of `compare`, the best setting first.

    Attributes:
        names: of the settings.
        loss: mean loss on the test events, shape (settings,).
        excess: loss above that of the best setting, shape (settings,).
        error: standard error of the excess, over events.
        seconds: of training; settings trained in one batch share its time.
        parameters: weights in one network.
        estimators: what came out, in the same order.
    """

    names: tuple[str, ...]
    loss: np.ndarray
    excess: np.ndarray
    error: np.ndarray
    seconds: np.ndarray
    parameters: np.ndarray
    estimators: tuple[AbstractEstimator, ...]

    @property
    def best(self) -> AbstractEstimator:
        """The estimator with the lowest loss."""
        return self.estimators[0]

    def __repr__(self) -> str:
        """The best setting and the next, in a line."""
        names = [shorten(name) for name in self.names]
        text = f"best of {count(len(names), 'setting')}: {names[0]}, loss {self.loss[0]:.5f}"
        if len(names) > 1:
            text += f"; next {names[1]}, {self.excess[1]:+.5f} ± {self.error[1]:.5f}"
        return f"Comparison({text})"

    def __str__(self) -> str:
        """The summary."""
        return self.summary()

    def _summarise(self) -> Summary:
        rows = range(len(self.names))
        columns = {
            "setting": list(self.names),
            "loss": [f"{loss:.5f}" for loss in self.loss],
            "above the best": [
                f"{self.excess[j]:+.5f} ± {self.error[j]:.5f}" if j else "best" for j in rows
            ],
            "weights": [f"{number:d}" for number in self.parameters],
            "seconds": [f"{seconds:.1f}" for seconds in self.seconds],
        }
        title = f"Comparison of {count(len(self.names), 'setting')}, the best first"
        return Summary(title, (SummaryTable(columns),))


def compare(
    events: Events,
    settings: Sequence[Setting | AbstractMethod | AbstractArchitecture | NetworkChoice],
    *,
    seed: int,
) -> Comparison:
    """Train several settings on the same events and rank them on events that none has seen.

    A fifth of the events, 20,000 at most, is kept for the ranking. Settings that differ only in
    features and weight decay are trained as one compiled batch.

    Args:
        events: stored events; a prior= is needed for candidates at small scales.
        settings: `ist.Setting(…)`, or simply a method or a network.
        seed: everything random follows from it.
    """
    if not isinstance(events, Events):
        raise TypeError(f"compare takes ist.Events (or ist.simulate(…)); got {kind_of(events)}.")
    if isinstance(settings, str) or not isinstance(settings, Sequence) or not settings:
        raise TypeError(
            "compare takes a list of settings, such as [ist.KCE(), ist.Setting(ist.CARL(), "
            f"network=ist.MLP((32, 32)))]; got {kind_of(settings)}."
        )
    seed = as_seed(seed)
    checked = [_check_setting(setting) for setting in settings]
    if any(setting.method is None for setting in checked):
        default = choose_method(events).method
        checked = [s if s.method else dataclasses.replace(s, method=default) for s in checked]
    order = Stream(seed, Purpose.COMPARE_SPLIT).generator().permutation(len(events))
    tested = min(round(TEST_FRACTION * len(events)), MOST_TESTED)
    if tested < 2:
        raise ValueError(f"{len(events)} events are too few to keep a fifth of them for a test.")
    test, rest = events[np.sort(order[:tested])], events[np.sort(order[tested:])]
    estimators: dict[int, AbstractEstimator] = {}
    seconds = np.zeros(len(checked))
    for group in _groups(checked, len(rest)):
        made = _fit_group([checked[j] for j in group], rest, seed)
        for j, estimator in zip(group, made, strict=True):
            estimators[j] = estimator
            seconds[j] = estimator.history.seconds.sum() / len(group)
    test_sets = _TestSets(test, seed)
    losses = np.stack([test_sets.losses(estimators[j]) for j in range(len(checked))])
    ranked = np.argsort(losses.mean(axis=1), kind="stable")
    excess, error = find_excess_and_error(losses, int(ranked[0]))
    return Comparison(
        names=tuple(_names(checked)[j] for j in ranked),
        loss=losses.mean(axis=1)[ranked],
        excess=excess[ranked],
        error=error[ranked],
        seconds=seconds[ranked],
        parameters=np.array(
            [parameter_count(estimators[j].model.network) // estimators[j].members for j in ranked]
        ),
        estimators=tuple(estimators[j] for j in ranked),
    )


def _check_setting(thing: Any) -> Setting:  # noqa: ANN401
    if isinstance(thing, AbstractMethod):
        thing = Setting(thing)
    elif thing is None:
        raise TypeError("a setting is None; write ist.Setting() for the default fit.")
    elif not isinstance(thing, Setting):
        thing = Setting(network=thing)
    method = as_method(thing.method)
    architecture = as_architecture(thing.network, 0, method)
    check_capability(method, architecture)
    if isinstance(architecture, DirectScore):
        raise TypeError(
            "a direct score network gives no ratios, by which settings are compared; compare "
            "potentials (ist.Potential(…)) or direct ratio networks."
        )
    return thing


def _names(settings: list[Setting]) -> list[str]:
    """Each setting's own name, or what sets it apart, with a number where that is not enough."""
    names = []
    for setting in settings:
        parts = [str(as_method(setting.method))]
        if setting.network is not None:
            network = setting.network
            inner = network.network if isinstance(network, AbstractArchitecture) else network
            parts.append(getattr(inner, "__name__", None) or _short(inner))
            if isinstance(network, AbstractArchitecture):
                parts.append(type(network.x_features).__name__)
        if setting.training.weight_decay is not None:
            parts.append(f"weight decay {setting.training.weight_decay:g}")
        if setting.members > 1:
            parts.append(f"{setting.members} members")
        names.append(setting.name or ", ".join(parts))
    return [
        name if names.count(name) == 1 else f"{name} ({names[: j + 1].count(name)})"
        for j, name in enumerate(names)
    ]


def _short(network: Any) -> str:  # noqa: ANN401
    sizes = getattr(network, "widths", None) or [
        getattr(network, field) for field in ("width", "blocks", "size") if hasattr(network, field)
    ]
    return f"{type(network).__name__}({', '.join(str(size) for size in sizes)})"


def _groups(settings: list[Setting], events: int) -> list[list[int]]:
    """Settings that can be trained as one batch: alike but for features and weight decay."""
    groups: dict[Any, list[int]] = {}
    for j, setting in enumerate(settings):
        method = as_method(setting.method)
        architecture = as_architecture(setting.network, events, method)
        open_ = isinstance(architecture.x_features, Automatic)
        open_ = open_ or setting.training.weight_decay is None
        alone = wants_trials(setting.training) and open_
        alone = alone or setting.members > 1 or not setting.training.shared_batches
        alike = dataclasses.replace(setting.training, weight_decay=None, choose=None)
        bare = dataclasses.replace(architecture, x_features=Automatic())
        key = j if alone else (str(bare), str(method), repr(alike))
        same = groups.setdefault(key, [])
        # Equal in every number, beyond their printed names.
        if same and not eqx.tree_equal(as_method(settings[same[0]].method), method):
            groups[j] = [j]
        else:
            same.append(j)
    return list(groups.values())


def _fit_group(group: list[Setting], events: Events, seed: int) -> list[AbstractEstimator]:
    if len(group) == 1:
        (one,) = group
        options = {"network": one.network, "members": one.members, "training": one.training}
        return [fit(events, one.method, **options, seed=seed)]
    method = as_method(group[0].method)
    dataset = build_dataset(events, method)
    count = len(dataset)
    architectures = [as_architecture(setting.network, count, method) for setting in group]
    test = choose_test_rows(events, architectures[0], group[0].training)
    split = dataset.split(group[0].training.validation_fraction, seed, test)
    plans = [complete_training(setting.training, count, len(split.train)) for setting in group]
    settings = [
        MemberSetting(architecture.x_features, plan.weight_decay or 0.0)
        for architecture, plan in zip(architectures, plans, strict=True)
    ]
    title = f"training {len(group)} settings of {method}"
    problem = LearningProblem(method, dataset, split, seed)
    groups = [(architectures[0], settings)]
    (trained,) = train_side_by_side(problem, groups, plans[0], title=title)
    built = [
        build_estimator(events, problem, *parts)
        for parts in zip(architectures, plans, trained, strict=True)
    ]
    return [
        finish_estimator(estimator, events, problem, setting.training, test)
        for estimator, setting in zip(built, group, strict=True)
    ]


class _TestSets:
    """Test events with candidate sets that are the same for every setting."""

    def __init__(self, test: Events, seed: int) -> None:
        self.test = test
        self.times = max(1, min(ASKED // len(test), ASKED_EACH))
        method = KCE(number=15)
        assert isinstance(method, Method)
        supply = method.supply(test)
        keys = jax.random.split(Stream(seed, Purpose.COMPARE_RECORDS).key(), self.times * len(test))
        rows = jax.tree.map(lambda leaf: np.repeat(leaf, self.times, axis=0), supply.rows)
        sets = supervise_many(method.supervision, rows, supply.distribution, keys)
        assert isinstance(sets, CandidateSet)
        self.thetas = np.asarray(sets.thetas)
        self.weight = supply.weight / supply.weight.mean()
        if (self.weight < 0).any():
            warn_user("some test events have negative weights; errors of the table allow for them.")

    def losses(self, estimator: AbstractEstimator) -> np.ndarray:
        """Weighted loss of every test event."""
        _, points, dim = self.thetas.shape
        flat = self.thetas.reshape(-1, dim)
        x = np.repeat(self.test.x, self.times * points, axis=0)
        with warnings.catch_warnings():
            # Of events kept for the test, a few always lie beyond the range of x in training.
            warnings.filterwarnings("ignore", ".* outside the range of x", UserWarning)
            if isinstance(estimator, Estimator):
                phi = estimator.potential(x, flat)
            elif isinstance(estimator, RatioEstimator):
                phi = estimator.log_ratio(x, flat, np.repeat(self.thetas[:, 0], points, axis=0))
            else:
                raise TypeError(f"{kind_of(estimator)} gives no ratios to compare.")
        phi = phi.reshape(-1, points)
        loss = logsumexp(phi, axis=1) - phi[:, 0]
        return self.weight * loss.reshape(-1, self.times).mean(axis=1)
