"""The arguments of `fit`, checked before anything is trained."""

import dataclasses
from typing import Any

from ..checkpoint import NotSaved
from ..estimator.estimator import AbstractEstimator
from ..events.events import Events
from ..inputs import as_count, as_seed, kind_of
from ..models.architecture import AbstractArchitecture, Potential
from ..models.flows.flow import Flow
from ..models.networks.networks import Residual
from ..models.potential import AbstractModel
from ..supervision.records import Capability
from ..weights import warn_few_effective
from .defaults.method import MethodChoice, choose_method
from .defaults.sizes import choose_network_size
from .draw import Records
from .methods import KCE, AbstractMethod
from .training.options import Training
from .training.saved_training import Story


@dataclasses.dataclass(frozen=True)
class FitOptions:
    """The arguments of `fit` besides the events and the method; `story` is for its checkpoint."""

    network: Any
    members: int | None
    training: Training
    start: AbstractEstimator | None
    seed: int
    story: Story = dataclasses.field(default_factory=lambda: Story(NotSaved()))


def check_options(
    network: object, members: object, training: object, start: object, seed: object
) -> FitOptions:
    """The options, or an error that says what to change."""
    training = Training() if training is None else training
    if not isinstance(training, Training):
        raise TypeError(f"training must be ist.Training(…); got {kind_of(training)}.")
    if start is not None and not isinstance(start, AbstractEstimator):
        raise TypeError(
            f"start must be a trained estimator, from ist.fit or ist.load; got {kind_of(start)}."
        )
    count = None if members is None else as_count(members, "members")
    return FitOptions(network, count, training, start, as_seed(seed))


def check_events(events: object) -> None:
    """Refuse what cannot be learned from."""
    if not isinstance(events, Events | Records):
        raise TypeError(
            "fit takes ist.Events (or ist.simulate(…)) or records from ist.draw(…); got "
            f"{type(events).__name__}."
        )
    if isinstance(events, Events):
        warn_few_effective(events.weight, "the events' weight")


def resolve_method(
    events: Events | Records, method: object, start: AbstractEstimator | None
) -> MethodChoice:
    """The method that was given, that of the records or of the start, or the default one."""
    if isinstance(events, Records):
        if method is not None and method != events.method:
            raise ValueError(
                f"these records were drawn for {events.method}; fit them without a method, or "
                "draw new ones."
            )
        return MethodChoice(events.method)
    if method is None and start is not None:
        return MethodChoice(start.method)
    return choose_method(events) if method is None else MethodChoice(as_method(method))


def as_method(method: object) -> AbstractMethod:
    """The method, plain KCE where there is none."""
    if method is None:
        return KCE()
    if not isinstance(method, AbstractMethod):
        raise TypeError(f"method must be such as ist.KCE() or ist.CARL(); got {method!r}.")
    return method


def as_architecture(
    network: object, events: int, method: AbstractMethod | None = None
) -> AbstractArchitecture:
    """The architecture around a network, the default one of the method where there is none."""
    if network is None and method is not None and Capability.DENSITY in method.capabilities:
        return Flow()
    if network is None:
        return Potential(Residual(*choose_network_size(events)))
    if isinstance(network, AbstractArchitecture):
        return network
    if callable(network) and not isinstance(network, type):
        return Potential(network)
    raise TypeError(
        "network must be such as ist.MLP((64, 64)), ist.Potential(…), ist.Flow(…), "
        f"ist.DirectScore(…), ist.DirectRatio(…), or a function (in_size, out_size, *, key); got "
        f"{kind_of(network) if isinstance(network, type) else repr(network)}."
    )


def check_start(start: AbstractEstimator, events: Events | Records, options: FitOptions) -> None:
    """Refuse to continue from an estimator of another problem."""
    if options.network is not None:
        raise ValueError("give either start= or network=: a started fit keeps its network.")
    pairs = (start.x_names, events.x_names), (start.theta_names, events.theta_names)
    if any(len(ours) != len(theirs) for ours, theirs in pairs):
        raise ValueError(
            f"the estimator to start from has {len(start.x_names)} observables and "
            f"{len(start.theta_names)} parameters, the events {len(events.x_names)} and "
            f"{len(events.theta_names)}."
        )
    for ours, theirs in pairs:
        if ours != theirs and set(ours) == set(theirs):
            raise ValueError(
                f"the estimator to start from has the columns {', '.join(ours)}, the events the "
                f"same in another order, {', '.join(theirs)}; reorder the events' columns."
            )
    if options.members not in (None, start.members):
        raise ValueError(
            f"the estimator to start from has {start.members} members, not {options.members}."
        )


def check_capability(method: AbstractMethod, model: AbstractModel | AbstractArchitecture) -> None:
    """Refuse a method that asks for what the model does not offer."""
    missing = method.capabilities - model.capabilities
    if missing:
        wanted = " and ".join(sorted(c.value for c in missing))
        offered = " and ".join(sorted(c.value for c in model.capabilities))
        remedy = "a potential (the default network, or ist.Potential(…))"
        if Capability.DENSITY in missing:
            remedy = "a flow (the default network of this method, or ist.Flow(…))"
        raise TypeError(
            f"{method} trains {wanted}, but this network offers only {offered}. Use {remedy}, "
            "which offers everything."
        )


def check_centre(
    training: Training, events: Events | Records, architecture: AbstractArchitecture
) -> None:
    """Refuse `centre=True` where there is nothing to centre, or nothing to centre it with."""
    if not training.centre:
        return
    if Capability.DENSITY in architecture.capabilities:
        raise ValueError(
            "centre=True would break the normalisation of a density, whose mean score is 0 by "
            "itself; leave it out."
        )
    if not isinstance(events, Events) or Capability.POTENTIAL not in architecture.capabilities:
        raise ValueError(
            "centre=True needs a potential and stored ist.Events, whose x were simulated at their "
            "θ; leave it out, or fit events instead of records."
        )
