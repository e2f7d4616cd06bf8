"""Trained estimators as sections of a report."""

import numpy as np

from ... import plots
from ...estimator.estimator import AbstractEstimator, Estimator, ScoreEstimator
from ...estimator.history import History
from ..section import FigureItem, Level, Section, Table, Verdict
from .context import Context, sentence


def describe_estimator(estimator: AbstractEstimator, context: Context) -> list[Section]:
    """What it offers, where it was trained, and how training went."""
    region, history = estimator.region, estimator.history
    networks = "one network" if estimator.members == 1 else f"{estimator.members} networks averaged"
    text = (
        f"{type(estimator).__name__} of {', '.join(estimator.theta_names)} from "
        f"{', '.join(estimator.x_names)}, trained by {estimator.method}; {networks}."
    )
    rows = [
        [name, kind, float(low), float(high)]
        for names, kind, lows, highs in (
            (estimator.theta_names, "parameter", region.theta_low, region.theta_high),
            (estimator.x_names, "observable", region.x_low, region.x_high),
        )
        for name, low, high in zip(names, lows, highs, strict=True)
    ]
    caption = "Region in which it was trained; beyond it the network extrapolates"
    where = Table(("column", "kind", "from", "to"), rows, caption)
    # A diagnosis has a section of its own, also where the estimator was not given a copy of it.
    hidden = {"offers", *(() if estimator.diagnosis is not None else ("diagnosis",))}
    facts = [[name, said] for name, said in estimator.card.facts().items() if name not in hidden]
    card = Table(("", "what is known"), facts, "Card of the model, as every file of it holds it")
    figures = []
    if context.events is not None and isinstance(estimator, Estimator | ScoreEstimator):
        figures.append(
            FigureItem(
                plots.score_by_observable(estimator, context.events),
                "The learned score in the middle of the trained region, by observable: mean and "
                "68% of the events.",
            )
        )
    return [
        Section(context.heading("Estimator"), text, [where, card], figures),
        *describe_history(history, Context()),
    ]


def describe_history(history: History, context: Context) -> list[Section]:
    """Losses per epoch, why training stopped, and what was chosen."""
    epochs, members = history.train_loss.shape
    text = (
        f"{epochs} epoch{'' if epochs == 1 else 's'} in {history.seconds.sum():.1f} s. "
        f"{sentence(history.stopped)}"
    )
    if history.choices:
        text += "\n\n" + " ".join(map(sentence, history.choices))
    index = np.clip(history.best_epoch - 1, 0, epochs - 1)
    each = np.arange(members)
    rows = [
        [f"{k + 1}", int(history.best_epoch[k]), float(train), _finite(float(validation))]
        for k, train, validation in zip(
            each,
            history.train_loss[index, each],
            history.validation_loss[index, each],
            strict=True,
        )
    ]
    table = Table(("network", "epoch kept", "training loss", "validation loss"), rows)
    verdict = None
    if history.warnings:
        verdict = Verdict(Level.CAUTION, " ".join(map(sentence, history.warnings)))
    figures = []
    if np.isfinite(history.train_loss).any():
        figures.append(
            FigureItem(
                plots.training_history(history),
                "Loss of each epoch; a circle marks the epoch whose weights are used.",
            )
        )
    return [Section(context.heading("Training"), text, [table], figures, verdict)]


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
