"""`Training`: the knobs of a fit in one record."""

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array

from ...inputs import as_count, as_flag, as_number, kind_of
from ...serial import known

#: Bounds of the numbers of a training: outside them Adam diverges or divides by zero.
BOUNDS: Mapping[str, Mapping[str, float]] = {
    "effort": {"above": 0},
    "learning_rate": {"above": 0},
    "weight_decay": {"least": 0},
    "clip": {"above": 0},
    "beta1": {"least": 0, "below": 1},
    "beta2": {"least": 0, "below": 1},
    "epsilon": {"above": 0},
    "validation_fraction": {"least": 0, "below": 1},
    "test_fraction": {"least": 0, "below": 1},
}

#: Steps of one compiled call, at most, where epochs are shorter: between calls Python takes as long
#: as a few steps.
STEPS_TOGETHER = 120


class AbstractSchedule(eqx.Module):
    """How the learning rate changes during training."""

    @abc.abstractmethod
    def over(self, peak: float, steps: int | Array) -> optax.Schedule:
        """The learning rate at each of `steps` steps, a number that compiled programs share."""


@known
class Constant(AbstractSchedule):
    """The same learning rate throughout."""

    def over(self, peak: float, steps: int | Array) -> optax.Schedule:
        """Constant."""
        del steps
        return optax.constant_schedule(peak)


@known
class Cosine(AbstractSchedule):
    """A short linear warm-up, then half a cosine down to `final` times the peak.

    Args:
        final: last learning rate, as a fraction of the peak.
        warm_up: fraction of all steps spent rising.
    """

    final: float = eqx.field(static=True, default=0.0)
    warm_up: float = eqx.field(static=True, default=0.02)

    def __check_init__(self) -> None:
        """Fractions."""
        for name in ("final", "warm_up"):
            as_number(getattr(self, name), name, least=0, most=1)

    def over(self, peak: float, steps: int | Array) -> optax.Schedule:
        """Up, then down."""
        rise = jnp.clip(jnp.floor(self.warm_up * steps), 1, jnp.maximum(steps - 1, 1))
        fall = jnp.maximum(steps - rise, 1)

        def rate(count: Any) -> Array:  # noqa: ANN401
            up = 0.1 + 0.9 * count / rise
            part = 0.5 * (1 + jnp.cos(jnp.pi * jnp.clip((count - rise) / fall, 0, 1)))
            return peak * jnp.where(count < rise, up, self.final + (1 - self.final) * part)

        return rate


@known
@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained.

    What is left at None is set from the number of events (`learning/defaults/`): more events, more
    steps and larger batches.

    Attributes:
        effort: how much work the defaults below may cost, 1 by default. 0.1 is a quick look:
            with up to 15,000 events the better of two networks, which differ in their weight decay;
            with more one network, trained for a third of the time, and nothing is tried out. 4
            trains six networks where two are the default; with more than 15,000 events four, each
            for one and a half times as many steps.
        epochs: passes over the training events.
        batch_size: events in one step.
        learning_rate: of Adam, at its peak.
        schedule: `Cosine()` or `Constant()`.
        weight_decay: decoupled decay (AdamW) of weight matrices; biases are left alone.
        clip: largest norm of a gradient; None for no clipping.
        beta1, beta2, epsilon: of Adam.
        validation_fraction: part of the events that validate, at most 100,000 events.
        test_fraction: part of the events, at most 20,000, that has no part in training, choosing,
            stopping or centring, and measures the bias of the score; none where it would be fewer
            than 200 events.
        patience: stop after this many epochs without a better validation loss; None never stops.
        keep_best: return the weights of the best epoch by validation loss where it is better than
            the last one by more than two standard errors, and otherwise the last: the lowest of
            many noisy losses is low by chance.
        choose: try out features, weight decay and, with many events, the kind of network, where
            they were not given, and take the best by validation loss. None does so unless `epochs`
            is given or the effort is small.
        centre: subtract a function of θ alone, found on all events, so that the mean score at every
            θ is 0, as it must be. None does so after training by KCE on 500 events or more, if
            settings are chosen (`choose`).
        shared_batches: all members see the same batches; otherwise each has its own order.
        progress_bar: force the display on or off.
    """

    effort: float = 1.0
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float = 5e-3
    schedule: AbstractSchedule = dataclasses.field(default_factory=Cosine)
    weight_decay: float | None = None
    clip: float | None = 1.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    validation_fraction: float = 0.1
    test_fraction: float = 0.05
    patience: int | None = None
    keep_best: bool = True
    choose: bool | None = None
    centre: bool | None = None
    shared_batches: bool = True
    progress_bar: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.schedule, AbstractSchedule):
            raise TypeError(
                f"schedule must be ist.Cosine() or ist.Constant(); got {kind_of(self.schedule)}."
            )
        for name in ("epochs", "batch_size", "patience"):
            if getattr(self, name) is not None:
                self._assign(name, as_count(getattr(self, name), name))
        for name, bounds in BOUNDS.items():
            if not (name in ("clip", "weight_decay") and getattr(self, name) is None):
                self._assign(name, as_number(getattr(self, name), name, **bounds))
        for name in ("keep_best", "choose", "centre", "shared_batches", "progress_bar"):
            # None asks for the default, where the field has one.
            if not (getattr(self, name) is None and name in ("choose", "centre", "progress_bar")):
                as_flag(getattr(self, name), name)
        if self.patience is not None and self.validation_fraction == 0:
            raise ValueError("patience needs validation events; set validation_fraction above 0.")

    def _assign(self, name: str, value: float) -> None:
        """Plain numbers in place of NumPy's, which files and messages show as they are."""
        object.__setattr__(self, name, value)

    @property
    def adam(self) -> "Adam":
        """The part of the settings that a compiled step depends on."""
        return Adam(
            self.learning_rate, self.schedule, self.clip, self.beta1, self.beta2, self.epsilon
        )


@dataclasses.dataclass(frozen=True)
class Adam:
    """The optimiser of a training; the attributes are those of `Training`."""

    learning_rate: float
    schedule: AbstractSchedule
    clip: float | None
    beta1: float
    beta2: float
    epsilon: float

    def build(
        self, steps: int | Array, decays: Array | None
    ) -> optax.GradientTransformationExtraArgs:
        """Adam on one flat vector of weights.

        `decays` is 1 where weight decay applies, whose strength is handed to every update so that
        members may differ in it; None for no decay at all.
        """
        parts = [] if self.clip is None else [optax.clip_by_global_norm(self.clip)]
        parts.append(optax.scale_by_adam(self.beta1, self.beta2, self.epsilon))
        if decays is not None:
            parts.append(_decay(decays))
        parts.append(optax.scale_by_learning_rate(self.schedule.over(self.learning_rate, steps)))
        return optax.with_extra_args_support(optax.chain(*parts))


def count_steps(training: Training, training_events: int) -> int:
    """Steps of a training whose epochs and batches are known."""
    assert training.batch_size is not None
    assert training.epochs is not None
    batch = min(training.batch_size, training_events)
    return training.epochs * math.ceil(training_events / batch)


def count_epochs_together(training: Training, training_events: int) -> int:
    """Epochs that may be made by one compiled call: those that make `STEPS_TOGETHER` steps.

    It divides the number of epochs, so that all calls of a training share a program.
    """
    epochs, block = training.epochs or 1, _find_block(training, training_events)
    return epochs if epochs < block else math.gcd(epochs, block)


def round_epochs(training: Training, epochs: float, training_events: int) -> Training:
    """The training with about so many epochs: whole calls, where there is more than one."""
    block = _find_block(training, training_events)
    if epochs < block:
        block = 1
    return dataclasses.replace(training, epochs=max(1, round(epochs / block)) * block)


def _find_block(training: Training, training_events: int) -> int:
    """Epochs that make `STEPS_TOGETHER` steps, at least one."""
    one = dataclasses.replace(training, epochs=1)
    return max(1, STEPS_TOGETHER // count_steps(one, training_events))


def _decay(decays: Array) -> optax.GradientTransformationExtraArgs:
    """Decay towards zero, with a strength given at every update."""

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:  # noqa: ANN401
        return updates + extra["decay"] * decays * params, state

    return optax.GradientTransformationExtraArgs(optax.init_empty_state, update)
