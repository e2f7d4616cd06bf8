"""From events to an estimator, step by step; `fit` and the matrix-element method both begin here.

Data source, defaults, model, training, estimator, centring: each is a function below or a module
beside this one.
"""

import dataclasses
import functools

import jax
import numpy as np

from ..archive import package_versions
from ..estimator.density import DensityEstimator
from ..estimator.estimator import AbstractEstimator, Estimator, RatioEstimator, ScoreEstimator
from ..estimator.provenance import Provenance
from ..events.events import Events
from ..inputs import warn_user
from ..models.architecture import AbstractArchitecture, Shapes
from ..models.direct import RatioModel, ScoreModel
from ..models.features.columns import odd_columns
from ..models.features.per_particle import PerParticle
from ..models.flows.flow import DensityModel
from ..models.members import with_centring
from ..models.potential import AbstractModel, PotentialModel
from ..progress import progress
from ..supervision.candidates import CandidateSets
from ..weights import effective_size
from .arguments import (
    FitOptions,
    as_architecture,
    check_capability,
    check_centre,
    check_start,
    resolve_method,
)
from .centring import centre_after_training
from .dataset.build import build_dataset
from .dataset.dataset import AbstractDataset
from .defaults.choose import (
    Defaults,
    choose_defaults,
    complete_training,
    count_planned_steps,
)
from .draw import Records
from .measure_bias import choose_test_rows, measure_on_rows
from .methods import AbstractMethod, Method
from .training.checks import check_targets
from .training.members import (
    LearningProblem,
    TrainedModel,
    derive_member_key,
    draw_weights,
    extract_weights,
    insert_weights,
    join_members,
    run_in_threads,
    trains_in_threads,
)
from .training.options import Training
from .training.train import train_members

#: Which estimator is built around which model.
ESTIMATORS: dict[type[AbstractModel], type[AbstractEstimator]] = {
    PotentialModel: Estimator,
    DensityModel: DensityEstimator,
    ScoreModel: ScoreEstimator,
    RatioModel: RatioEstimator,
}


@dataclasses.dataclass(frozen=True)
class InitialModel:
    """A model before training: a template of one member, and weights of all that are trained."""

    template: AbstractModel
    shapes: Shapes
    weights: np.ndarray


def train_estimator(
    events: Events | Records, method: object, options: FitOptions
) -> AbstractEstimator:
    """Train a model on these events, by the default method where there is none."""
    choice = resolve_method(events, method, options.start)
    dataset = build_dataset(events, choice.method)
    architecture = _resolve_architecture(events, choice.method, len(dataset), options)
    test = choose_test_rows(events, architecture, options.training)
    split = dataset.split(options.training.validation_fraction, options.seed, test)
    problem = LearningProblem(choice.method, dataset, split, options.seed, story=options.story)
    warnings = _warn_odd_columns(dataset, events.x_names, architecture)
    steps = count_planned_steps(
        problem,
        architecture,
        options.training,
        options.members,
        open_network=_is_network_open(choice.method, options),
    )
    with progress("fit", steps, show=options.training.progress_bar) as advance:
        problem = dataclasses.replace(problem, advance=advance)
        defaults = _resolve_defaults(problem, architecture, options)
        trained = _train(problem, defaults, options)
    history = dataclasses.replace(
        trained.history,
        choices=(*choice.reasons, *defaults.reasons),
        resumed=options.story.saved.resumed,
        warnings=(*warnings, *trained.history.warnings),
    )
    trained = dataclasses.replace(trained, history=history)
    estimator = build_estimator(events, problem, defaults.architecture, defaults.training, trained)
    estimator = dataclasses.replace(estimator, provenance=record_provenance(events, options))
    return finish_estimator(estimator, events, problem, options.training, test)


def finish_estimator(
    estimator: AbstractEstimator,
    events: Events | Records,
    problem: LearningProblem,
    training: Training,
    test: np.ndarray,
) -> AbstractEstimator:
    """The trained estimator centred, where that is wanted, and its bias measured by test events."""
    centred = centre_after_training(
        estimator, events, problem.dataset, training, problem.seed, test
    )
    return measure_on_rows(centred, events, test)


def record_provenance(events: Events | Records, options: FitOptions) -> Provenance:
    """Of which events an estimator is made, with which seed and by which versions."""
    effective = None
    if isinstance(events, Events) and events.weighted:
        effective = effective_size(np.asarray(events.weight))
    return Provenance(
        events=len(events),
        effective_events=effective,
        origin=events.origin,
        seed=options.seed,
        packages=package_versions(),
        continued=options.start is not None,
    )


def _resolve_architecture(
    events: Events | Records, method: AbstractMethod, count: int, options: FitOptions
) -> AbstractArchitecture:
    """That of the start, the one given, or the default one for so many events."""
    start = options.start
    if start is not None:
        check_start(start, events, options)
        architecture = start.architecture
    else:
        architecture = as_architecture(options.network, count, method)
        check_capability(method, architecture)
    check_centre(options.training, events, architecture)
    if start is not None:
        check_capability(method, start.model)
    return architecture


def _resolve_defaults(
    problem: LearningProblem, architecture: AbstractArchitecture, options: FitOptions
) -> Defaults:
    """A started fit keeps its features; nothing is tried out for it."""
    if options.start is None:
        return choose_defaults(
            problem,
            architecture,
            options.training,
            members=options.members,
            open_network=_is_network_open(problem.method, options),
        )
    count = len(problem.split.train)
    complete = complete_training(options.training, len(problem.dataset), count)
    model = options.start.model
    reasons = ()
    if isinstance(model, PotentialModel) and model.centring is not None:
        reasons = ("started without the function of θ by which the estimator was centred",)
    return Defaults(architecture, complete, reasons, missing=0)


def _is_network_open(method: AbstractMethod, options: FitOptions) -> bool:
    """Whether networks compete: what each is worth was measured for candidate sets alone."""
    sets = isinstance(method, Method) and isinstance(method.supervision, CandidateSets)
    return options.network is None and options.start is None and sets


def _initialise(problem: LearningProblem, defaults: Defaults, options: FitOptions) -> InitialModel:
    """The weights of the start, or fresh ones for all members that are not trained yet."""
    start = options.start
    if start is not None:
        template, weights = extract_weights(with_centring(start.model, None))
        return InitialModel(template, start.shapes, weights)
    shapes = problem.dataset.learn_shapes(defaults.architecture, problem.split.train)
    keys = [derive_member_key(options.seed, defaults.begun + j) for j in range(defaults.missing)]
    template, weights = draw_weights(defaults.architecture, shapes, keys)
    return InitialModel(template, shapes, weights)


def _train(problem: LearningProblem, defaults: Defaults, options: FitOptions) -> TrainedModel:
    """Train the members that are not trained yet."""
    ready, training = defaults.ready, defaults.training
    if ready is not None and defaults.missing == 0:
        return ready
    initial = _initialise(problem, defaults, options)
    weights = initial.weights
    template, shapes = initial.template, initial.shapes
    stage = problem.story.begin_stage("members")

    def train(problem: LearningProblem, rows: slice = slice(None)) -> TrainedModel:
        decay = None
        if training.weight_decay:
            decay = jax.device_put(np.full(len(weights[rows]), training.weight_decay, np.float32))
        place = stage.place(rows)
        task = problem.build_task(template, [shapes.x_features], training, decay, place)
        if rows.start in (None, 0):
            check_targets(task)
        result = train_members(task, weights[rows])
        model = insert_weights(template, result.weights)
        return TrainedModel(model, shapes, result.history, result.event_losses)

    if trains_in_threads(template) and training.shared_batches and training.patience is None:
        each = [functools.partial(train, rows=slice(j, j + 1)) for j in range(len(weights))]
        trained = functools.reduce(join_members, run_in_threads(problem, each))
    else:
        # Members that stop together, or have batches of their own, need each other.
        trained = train(problem)
    return trained if ready is None else join_members(ready, trained)


def build_estimator(
    events: Events | Records,
    problem: LearningProblem,
    architecture: AbstractArchitecture,
    training: Training,
    trained: TrainedModel,
) -> AbstractEstimator:
    """The estimator around a trained model."""
    return ESTIMATORS[type(trained.model)](
        model=trained.model,
        architecture=architecture,
        shapes=trained.shapes,
        method=problem.method,
        prior=problem.dataset.prior,
        region=problem.dataset.region(),
        x_names=events.x_names,
        theta_names=events.theta_names,
        history=trained.history,
        training=training,
    )


def _warn_odd_columns(
    dataset: AbstractDataset, names: tuple[str, ...], architecture: AbstractArchitecture
) -> tuple[str, ...]:
    # Slots for particles that no event has are empty on purpose.
    padded = isinstance(architecture.x_features, PerParticle)
    remarks = [] if padded else odd_columns(dataset.x, names)
    for remark in remarks:
        warn_user(remark)
    return tuple(remarks)
