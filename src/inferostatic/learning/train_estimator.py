"""From events to an estimator, step by step; `fit` and the matrix-element method both begin here.

Data source, defaults, model, training, estimator, centring: each is a function below or a module
beside this one.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array

from ..estimator.density import DensityEstimator
from ..estimator.estimator import AbstractEstimator, Estimator, RatioEstimator, ScoreEstimator
from ..events.events import Events
from ..inputs import warn_user
from ..models.architecture import AbstractArchitecture, Shapes
from ..models.direct import RatioModel, ScoreModel
from ..models.features.columns import odd_columns
from ..models.features.per_particle import PerParticle
from ..models.flows.flow import DensityModel
from ..models.members import with_centring
from ..models.potential import AbstractModel, PotentialModel
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
from .dataset.dataset import AbstractDataset, Split
from .defaults.choose import Defaults, choose_defaults, complete_training
from .defaults.network_size import choose_members
from .draw import Records
from .methods import AbstractMethod
from .training.checks import check_targets
from .training.members import TrainedModel, join_members, without_features
from .training.options import Training, count_steps
from .training.steps import Job
from .training.train import train_members
from .training.weights import derive_member_key, draw_weights, extract_weights, insert_weights

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
    weights: Array


def train_estimator(
    events: Events | Records, method: object, options: FitOptions
) -> AbstractEstimator:
    """Train a model on these events, by the default method where there is none."""
    choice = resolve_method(events, method, options.start)
    dataset = build_dataset(events, choice.method)
    split = dataset.split(options.training.validation_fraction, options.seed)
    architecture = _resolve_architecture(events, choice.method, len(dataset), options)
    warnings = _warn_odd_columns(dataset, events.x_names, architecture)
    defaults = _resolve_defaults(architecture, choice.method, dataset, split, options)
    initial = _initialise(defaults, dataset, split, options)
    trained = _train(initial, choice.method, dataset, split, defaults, options.seed)
    estimator = build_estimator(
        events,
        choice.method,
        dataset,
        defaults.architecture,
        trained,
        defaults.training,
        choices=(*choice.reasons, *defaults.reasons),
        warnings=warnings,
    )
    return centre_after_training(
        estimator, events, dataset.x, dataset.weight, options.training, options.seed
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
    architecture: AbstractArchitecture,
    method: AbstractMethod,
    dataset: AbstractDataset,
    split: Split,
    options: FitOptions,
) -> Defaults:
    """A started fit keeps its features; nothing is tried out for it."""
    training, seed = options.training, options.seed
    if options.start is not None:
        complete = complete_training(training, len(dataset), len(split.train))
        model = options.start.model
        reasons = ()
        if isinstance(model, PotentialModel) and model.centring is not None:
            reasons = ("started without the function of θ by which the estimator was centred",)
        return Defaults(architecture, complete, reasons)
    return choose_defaults(architecture, method, dataset, split, training, seed)


def _initialise(
    defaults: Defaults, dataset: AbstractDataset, split: Split, options: FitOptions
) -> InitialModel:
    """The weights of the start, or fresh ones for all members that are not trained yet."""
    start = options.start
    if start is not None:
        template, weights = extract_weights(with_centring(start.model, None))
        return InitialModel(template, start.shapes, weights)
    members = options.members
    if members is None:
        members = choose_members(len(dataset), options.training)
    shapes = dataset.learn_shapes(defaults.architecture, split.train)
    keys = [derive_member_key(options.seed, member) for member in range(members)]
    template, weights = draw_weights(defaults.architecture, shapes, keys)
    # The network that won the trials is the first member.
    return InitialModel(template, shapes, weights if defaults.ready is None else weights[1:])


def _train(
    initial: InitialModel,
    method: AbstractMethod,
    dataset: AbstractDataset,
    split: Split,
    defaults: Defaults,
    seed: int,
) -> TrainedModel:
    """Train the members that are not trained yet."""
    ready, training, weights = defaults.ready, defaults.training, initial.weights
    if ready is not None and len(weights) == 0:
        return ready
    decay = jnp.full(len(weights), training.weight_decay) if training.weight_decay else None
    job = Job(
        without_features(initial.template),
        method,
        dataset.distribution,
        training,
        count_steps(training, len(split.train)),
        decay,
    )
    examples = dataset.examples([initial.shapes.x_features])
    check_targets(job, examples, seed)
    result = train_members(job, weights, examples, split, seed)
    model = insert_weights(initial.template, result.weights)
    trained = TrainedModel(model, initial.shapes, result.history, result.event_losses)
    return trained if ready is None else join_members(ready, trained)


def build_estimator(
    events: Events | Records,
    method: AbstractMethod,
    dataset: AbstractDataset,
    architecture: AbstractArchitecture,
    trained: TrainedModel,
    training: Training,
    *,
    choices: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
) -> AbstractEstimator:
    """The estimator around a trained model."""
    history = dataclasses.replace(
        trained.history, choices=choices, warnings=(*warnings, *trained.history.warnings)
    )
    return ESTIMATORS[type(trained.model)](
        model=trained.model,
        architecture=architecture,
        shapes=trained.shapes,
        method=method,
        prior=dataset.prior,
        region=dataset.region(),
        x_names=events.x_names,
        theta_names=events.theta_names,
        history=history,
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
