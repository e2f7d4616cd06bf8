"""Events and priors as sections of a report."""

import numpy as np

from ...chunks import spread_rows
from ...events.events import Events
from ...memory_map import read_rows
from ...weights import effective_size
from ...world.priors.discrete import Discrete
from ...world.priors.prior import AbstractPrior
from ..section import Section, Table
from .context import Context

#: Events that the table looks at, at most: more would not change its digits.
MOST_READ = 100_000


def describe_events(events: Events, context: Context) -> list[Section]:
    """How many events there are, and the ranges of their columns."""
    rows = spread_rows(len(events), MOST_READ)
    x, theta, weight = (read_rows(part, rows) for part in (events.x, events.theta, events.weight))
    points = len(np.unique(theta, axis=0))
    at = "one θ" if points == 1 else f"{points:,} different θ" if points < 100 else "many θ"
    text = f"{len(events):,} simulated events of {_count(x.shape[1], 'observable')}, at {at}."
    if not np.all(weight == 1):
        size = effective_size(weight) * len(events) / len(rows)
        text += f" They have weights, and are worth {size:,.0f} events of equal weight"
        text += "; some are negative." if (weight < 0).any() else "."
    if len(rows) < len(events):
        text += f" The numbers below are those of {len(rows):,} of them, evenly spread."
    if len(events.latent):
        text += f" Latent information: {', '.join(sorted(events.latent))}."
    columns = [
        *((name, "observable", column) for name, column in zip(events.x_names, x.T, strict=True)),
        *(
            (name, "parameter", column)
            for name, column in zip(events.theta_names, theta.T, strict=True)
        ),
    ]
    table = Table(
        ("column", "kind", "lowest", "16%", "median", "84%", "highest"),
        [[name, kind, *_quantiles(column)] for name, kind, column in columns],
        "Columns of the events, without their weights",
    )
    sections = [Section(context.heading("Events"), text, [table])]
    if events.prior is not None:
        sections += describe_prior(events.prior, Context())
    return sections


def describe_prior(prior: AbstractPrior, context: Context) -> list[Section]:
    """Support, mean and standard deviation of each parameter."""
    low, high = prior.support
    mean, std = prior.centre_and_scale
    rows = [
        [name, float(a), float(b), float(m), float(s)]
        for name, a, b, m, s in zip(prior.names, low, high, mean, std, strict=True)
    ]
    table = Table(("parameter", "from", "to", "mean", "standard deviation"), rows)
    text = f"{type(prior).__name__} in {_count(prior.dim, 'parameter')}"
    if isinstance(prior, Discrete):
        text += f", {len(prior.points)} points"
    return [Section(context.heading("Prior"), f"{text}.", [table])]


def _quantiles(column: np.ndarray) -> list[float]:
    return [float(value) for value in np.quantile(column, [0, 0.16, 0.5, 0.84, 1])]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
