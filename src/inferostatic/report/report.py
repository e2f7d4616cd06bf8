"""`report`: a page of whatever results are handed to it."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from .. import plots
from ..estimator.estimator import AbstractEstimator
from ..events.events import Events
from ..inference.calibrated.calibrated_fit import CalibratedFit
from ..inference.likelihood.cross_entropy import CrossEntropyFit
from ..inference.likelihood.maximum_likelihood import MaximumLikelihood
from ..inference.posterior.posterior import Posterior
from ..inputs import as_text
from ..plots.estimates import Estimates
from ..versions import find_version
from .describe import describe
from .html import write_report
from .section import FigureItem, Section

#: Packages whose versions a report names.
PACKAGES = ("inferostatic", "jax", "equinox", "optax", "numpy", "scipy")

#: What results with estimates are called beside each other.
TITLES: dict[type, str] = {
    MaximumLikelihood: "maximum likelihood",
    CrossEntropyFit: "cross entropy",
    CalibratedFit: "calibrated fit",
    Posterior: "posterior",
}


def report(path: str | os.PathLike[str], *results: object, title: str | None = None) -> Path:
    """Write one self-contained HTML file about results, with a verdict in words first; its path.

    `ist.report("report.html", events, est, diagnosis, fit)`: the sections come in the order of the
    arguments. Nothing is loaded from elsewhere when the file is opened, and every table is in it as
    JSON too.

    Args:
        path: file to write; missing folders are made, an older file is replaced when the new one
            is complete.
        results: events, priors, estimators, diagnoses, fits, confidence sets, limits, posteriors,
            reweightings, closures, coverages, Fisher information; or sections of a report.
        title: of the page.
    """
    if not results:
        raise TypeError(
            "report needs something to report: ist.report(path, events, estimator, diagnosis, …)."
        )
    heading = "Report" if title is None else as_text(title, "title")
    return write_report(
        path, title=heading, sections=collect_sections(results), settings=list_versions()
    )


def collect_sections(results: tuple[object, ...]) -> list[Section]:
    """Sections of all results, in their order; events serve for pictures of the estimators."""
    sets = [one for one in results if isinstance(one, Events)]
    sections: list[Section] = []
    for result in results:
        if isinstance(result, Section):
            sections.append(result)
        elif isinstance(result, AbstractEstimator):
            fitting = [one for one in sets if one.x_names == result.x_names]
            sections += describe(result, events=fitting[0] if fitting else None)
        else:
            # Events bring their prior, which may have been handed over as well.
            sections += [one for one in describe(result) if one not in sections]
    return sections + compare_estimates(results)


def compare_estimates(results: Sequence[object]) -> list[Section]:
    """Estimates of the same parameters side by side, where there are several."""
    chosen = [one for one in results if isinstance(one, Estimates)]
    shared = set.intersection(*(set(one.names) for one in chosen)) if chosen else set()
    if len(chosen) < 2 or not shared:
        return []
    kinds = [TITLES[type(one)] for one in chosen]
    labels = [
        kind if kinds.count(kind) == 1 else f"{kind} {kinds[: k + 1].count(kind)}"
        for k, kind in enumerate(kinds)
    ]
    figure = plots.intervals(dict(zip(labels, chosen, strict=True)))
    caption = "Estimates with their 68% intervals."
    return [Section("Estimates side by side", figures=[FigureItem(figure, caption)])]


def list_versions() -> dict[str, str]:
    """Versions of what made the results."""
    return {name: find_version(name) for name in PACKAGES} | {"python": platform.python_version()}
