"""Posteriors and reweightings as sections of a report."""

import numpy as np

from ... import plots
from ...inference.observables.reweight import REFUSED, Reweighting
from ...inference.posterior.posterior import Posterior
from ..section import FigureItem, Level, Section, Table, Verdict
from .context import Context, join_notes, join_verdicts, sentence
from .fits import bias_figure, bias_table, corner_figure, judge_bias

#: Methods of sampling, by the names that posteriors have for them.
METHODS = {"nuts": "NUTS", "grid": "a grid", "importance": "importance sampling"}


def describe_posterior(found: Posterior, context: Context) -> list[Section]:
    """Means, intervals, and whether the sampling can be relied on."""
    how, truth = found.sampling, context.true_values(found.names)
    columns = ["parameter", "mean", "standard deviation"]
    header = [*columns, *context.interval_columns, "R-hat", "ESS"]
    ends = found.interval(context.interval_level)
    rows: list[list[str | float | None]] = []
    for k, (name, (low, high)) in enumerate(zip(found.names, ends, strict=True)):
        spread = float(found.std[k]) if found.std[k] > 0 else "fixed"
        row = [name, float(found.mean[k]), spread, float(low), float(high)]
        row += [_finite(how.r_hat[k]), _finite(how.ess[k])]
        rows.append(row if truth is None else [*row, float(truth[k])])
    if truth is not None:
        header.append("truth")
    tables = [Table(header, rows)]
    tables += [] if found.bias is None else [bias_table(found.bias)]
    remarks = None
    if how.remarks:
        remarks = Verdict(Level.CAUTION, " ".join(map(sentence, how.remarks)))
    verdict = join_verdicts(remarks, judge_bias(found.bias, found.notes))
    method = METHODS.get(how.method, how.method)
    events = f"{found.events:,} event{'' if found.events == 1 else 's'}"
    text = f"Posterior given {events}, {len(found.samples):,} samples by {method}."
    text = join_notes((text, *found.notes))
    figures = [*corner_figure(found, context), *bias_figure(found.bias)]
    return [Section(context.heading("Posterior"), text, tables, figures, verdict)]


def describe_reweighting(found: Reweighting, context: Context) -> list[Section]:
    """What the weights are worth."""
    rows = [
        ["effective sample size", found.effective_size, found.input_effective_size],
        ["mean of the ratio", found.normalisation, 1.0],
        ["its standard error", found.normalisation_error, None],
        ["tail index of the weights", _finite(found.tail_index), None],
        ["share of the heaviest event", found.largest_share, None],
    ]
    edges = [
        [name, float(share)] for name, share in zip(found.x_names, found.edge_share, strict=True)
    ]
    tables = [
        Table(("quantity", "reweighted", "before, or exact"), rows, number_format=".5g"),
        Table(
            ("observable", "share of the weight"),
            edges,
            "Weight of the outermost events: large where the events do not reach what is asked for",
        ),
    ]
    level = Level.GOOD
    text = f"{found.effective_fraction:.1%} of the effective events are left."
    if found.remarks:
        level, text = Level.CAUTION, " ".join(map(sentence, found.remarks))
    if found.effective_fraction < REFUSED:
        level = Level.BAD
    heading = context.heading("Reweighting")
    about = f"{len(found.weight):,} events of one θ with the weights of another."
    item = FigureItem(
        plots.reweighting(found),
        "Events before reweighting (points) and after; below, the ratio of the two.",
    )
    return [Section(heading, about, tables, [item], Verdict(level, text))]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
