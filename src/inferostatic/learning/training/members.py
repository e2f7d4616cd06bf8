"""Members of an ensemble: rows of flat weights, several trained side by side, members joined."""

import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ...checkpoint import NotSaved
from ...cores import count_cores
from ...estimator.history import History
from ...host import on_host, to_device
from ...models.architecture import AbstractArchitecture, Shapes
from ...models.features.feature_map import AbstractFeatureMap, IdentityMap
from ...models.features.features import AbstractFeatures
from ...models.members import with_network
from ...models.potential import AbstractModel
from ...progress import Advance
from ...streams import Purpose, Stream
from ..dataset.dataset import AbstractDataset, Split
from ..methods import AbstractMethod
from .devices import count_devices
from .options import Training, count_steps
from .run import TrainingResult
from .saved_training import NOWHERE, Place, Story
from .steps import Job, is_small
from .train import train_members
from .validation import Task

#: Networks trained at a time, at most: each holds its batches in memory.
MOST_THREADS = 8

_Result = TypeVar("_Result")


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A model of one or more trained members.

    Attributes:
        model: with the weights of all members.
        shapes: what was learned from the events, such as features.
        history: of the training.
        event_losses: loss of every validation event for every member, shape (members, events).
    """

    model: AbstractModel
    shapes: Shapes
    history: History
    event_losses: np.ndarray

    @property
    def members(self) -> int:
        """How many."""
        return len(self.event_losses)


@dataclasses.dataclass(frozen=True)
class MemberSetting:
    """What may differ between networks that are trained by one compiled program.

    Attributes:
        features: of x.
        weight_decay: per unit of learning rate.
        start: number of the member whose initial weights are taken.
    """

    features: AbstractFeatures
    weight_decay: float
    start: int = 0


@dataclasses.dataclass(frozen=True)
class LearningProblem:
    """What is to be learned: a method, the events, their split, and the seed of all randomness.

    `advance` reports steps of all trainings to one display; `story` is where they are kept.
    """

    method: AbstractMethod
    dataset: AbstractDataset
    split: Split
    seed: int
    advance: Advance | None = None
    story: Story = dataclasses.field(default_factory=lambda: Story(NotSaved()))

    def build_task(
        self,
        template: AbstractModel,
        maps: Sequence[AbstractFeatureMap],
        training: Training,
        decay: Array | None,
        place: Place = NOWHERE,
    ) -> Task:
        """The training of members like the template, with these features for all or for each."""
        # Examples come with their features.
        bare = eqx.tree_at(lambda m: m.x_features, template, IdentityMap())
        steps = count_steps(training, len(self.split.train))
        distribution = self.dataset.distribution
        job = Job(bare, self.method, distribution, training.adam, steps, decay, len(maps) > 1)
        examples = self.dataset.examples(maps)
        return Task(job, training, examples, self.split, self.seed, self.advance, place)


def train_side_by_side(
    problem: LearningProblem,
    groups: Sequence[tuple[AbstractArchitecture, Sequence[MemberSetting]]],
    training: Training,
    *,
    title: str,
) -> list[list[TrainedModel]]:
    """One network for each setting of each architecture, on the same batches.

    Those of an architecture share a program. Programs are compiled at the same time, too.
    """
    planned = [_plan_group(problem, *group, training, title) for group in groups]
    # The first of each architecture come first, so that all programs are compiled at once.
    order = sorted(
        (row, column) for column, group in enumerate(planned) for row in range(len(group))
    )
    jobs = [planned[column][row] for row, column in order]
    # Programs that run on several devices at a time would wait for each other's.
    alone = count_devices() > 1
    done = [job(problem) for job in jobs] if alone else run_in_threads(problem, jobs)
    trained = dict(zip(order, done, strict=True))
    return [
        [one for row in range(len(group)) for one in trained[row, column]]
        for column, group in enumerate(planned)
    ]


def _plan_group(
    problem: LearningProblem,
    architecture: AbstractArchitecture,
    settings: Sequence[MemberSetting],
    training: Training,
    title: str,
) -> list[Callable[[LearningProblem], list[TrainedModel]]]:
    """The trainings of one architecture: one for each network, or a single one of all."""
    kinds = list(dict.fromkeys(setting.features for setting in settings))
    choices = [dataclasses.replace(architecture, x_features=kind) for kind in kinds]
    learned = [problem.dataset.learn_shapes(one, problem.split.train) for one in choices]
    shapes = [learned[kinds.index(setting.features)] for setting in settings]
    keys = [derive_member_key(problem.seed, setting.start) for setting in settings]
    template, weights = draw_weights(architecture, shapes[0], keys)
    decay = np.array([setting.weight_decay for setting in settings], np.float32)
    stage = problem.story.begin_stage(title)

    def train(problem: LearningProblem, rows: slice) -> list[TrainedModel]:
        maps = [shape.x_features for shape in shapes[rows]]
        maps = maps if len(kinds) > 1 else maps[:1]
        task = problem.build_task(
            template, maps, training, jax.device_put(decay[rows]), stage.place(rows)
        )
        result = train_members(task, weights[rows], title=title)
        return [_take_member(template, s, result, j) for j, s in enumerate(shapes[rows])]

    if not trains_in_threads(template):
        return [functools.partial(train, rows=slice(None))]
    return [functools.partial(train, rows=slice(j, j + 1)) for j in range(len(settings))]


def _take_member(
    template: AbstractModel, shapes: Shapes, result: TrainingResult, member: int
) -> TrainedModel:
    one = slice(member, member + 1)
    own = eqx.tree_at(lambda m: m.x_features, template, shapes.x_features)
    history = dataclasses.replace(
        result.history,
        train_loss=result.history.train_loss[:, one],
        validation_loss=result.history.validation_loss[:, one],
        best_epoch=result.history.best_epoch[one],
    )
    model = insert_weights(own, np.asarray(result.weights)[one])
    return TrainedModel(model, shapes, history, result.event_losses[one])


def trains_in_threads(template: AbstractModel) -> bool:
    """Whether networks are best trained one in each thread, all by one compiled program.

    On a CPU the products of one network hardly use more than one core, and stacked ones take up to
    twice the time; only small networks gain by being stacked, as all do on an accelerator. Several
    devices divide stacked members, or batches, among themselves.
    """
    return jax.default_backend() == "cpu" and count_devices() == 1 and not is_small(template)


def count_threads() -> int:
    """Networks that are trained at a time: one on each core that this process may use."""
    return min(count_cores(), MOST_THREADS)


class _StoppedError(Exception):
    """Another thread failed, or the user interrupted."""


def run_in_threads(
    problem: LearningProblem, trainings: Sequence[Callable[[LearningProblem], _Result]]
) -> list[_Result]:
    """The results of trainings that run at the same time; one that fails ends the others."""
    if len(trainings) == 1:
        return [trainings[0](problem)]
    stop, whole = threading.Event(), problem.advance

    def advance(steps: int, note: str = "") -> None:
        if stop.is_set():
            raise _StoppedError
        if whole is not None:
            whole(steps, note)

    own = dataclasses.replace(problem, advance=advance)
    with ThreadPoolExecutor(count_threads()) as pool:
        futures = [pool.submit(training, own) for training in trainings]
        try:
            # Whichever fails first is raised, not the first in order.
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            # At once: the epochs under way may take longer than the system waits.
            problem.story.saved.save()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def join_members(first: TrainedModel, others: TrainedModel) -> TrainedModel:
    """Both sets of members as one model; they have the same features and were trained alike."""
    template, weights = extract_weights(first.model)
    weights = np.concatenate([weights, extract_weights(others.model)[1]])
    one, two = first.history, others.history
    longer = one if len(one.seconds) > len(two.seconds) else two
    history = dataclasses.replace(
        longer,
        train_loss=_put_beside(one.train_loss, two.train_loss),
        validation_loss=_put_beside(one.validation_loss, two.validation_loss),
        best_epoch=np.concatenate([one.best_epoch, two.best_epoch]),
        warnings=tuple(dict.fromkeys((*one.warnings, *two.warnings))),
    )
    losses = np.concatenate([first.event_losses, others.event_losses])
    return TrainedModel(insert_weights(template, weights), first.shapes, history, losses)


def _put_beside(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Losses of all members; of one that stopped earlier, NaN for the epochs it did not run."""
    epochs = max(len(one), len(two))
    columns = np.full((epochs, one.shape[1] + two.shape[1]), np.nan)
    columns[: len(one), : one.shape[1]] = one
    columns[: len(two), one.shape[1] :] = two
    return columns


def derive_member_key(seed: int, member: int) -> PRNGKeyArray:
    """From which a member's initial weights are drawn."""
    return Stream(seed, Purpose.WEIGHTS).key(member)


def draw_weights(
    architecture: AbstractArchitecture, shapes: Shapes, keys: Sequence[PRNGKeyArray]
) -> tuple[AbstractModel, np.ndarray]:
    """A model of one member as a template, and initial weights, one row for each key."""
    with on_host():
        built = [architecture.build(shapes, key=key) for key in keys]
        weights = np.stack([_flatten(model.network, axes=0) for model in built])
    return to_device(built[0]), weights


def extract_weights(model: AbstractModel) -> tuple[AbstractModel, np.ndarray]:
    """The same of a model of several members, whose arrays have an axis of members in front."""
    # The first member as it is: a new build could differ in arrays that are not trained.
    trained, static = eqx.partition(model.network, eqx.is_inexact_array)
    trained = jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)[0]), trained)
    static = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, static)
    return with_network(model, eqx.combine(trained, static)), _flatten(model.network, axes=1)


def _flatten(network: Any, *, axes: int) -> np.ndarray:  # noqa: ANN401
    """All trained numbers in a row, as `ravel_pytree` orders them, behind so many axes."""
    arrays = map(np.asarray, jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)))
    return np.concatenate([a.reshape(*a.shape[:axes], -1) for a in arrays], axis=-1)


def insert_weights(template: AbstractModel, weights: Array | np.ndarray) -> AbstractModel:
    """The template with the members' weights stacked."""
    # By NumPy, which compiles nothing.
    arrays, static = eqx.partition(template.network, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(arrays)
    ends = np.cumsum([leaf.size for leaf in leaves])
    parts = np.split(np.asarray(weights), ends[:-1], axis=1)
    stacked = [
        jax.device_put(part.reshape(-1, *leaf.shape).astype(leaf.dtype))
        for part, leaf in zip(parts, leaves, strict=True)
    ]
    # Arrays that are not trained, such as integer buffers, are repeated for every member.
    static = jax.tree.map(
        lambda leaf: jnp.stack([leaf] * len(weights)) if eqx.is_array(leaf) else leaf, static
    )
    return with_network(template, eqx.combine(structure.unflatten(stacked), static))
