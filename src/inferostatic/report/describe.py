"""Results as sections of a report, by their type."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..checks.closure import Closure
from ..checks.coverage import Coverage
from ..checks.diagnose import Diagnosis
from ..estimator.estimator import AbstractEstimator
from ..estimator.history import History
from ..events.events import Events
from ..inference.arguments import as_level
from ..inference.calibrated.calibrated_fit import CalibratedFit
from ..inference.confidence.confidence_set import ConfidenceSet
from ..inference.confidence.upper_limit import UpperLimit
from ..inference.information.fisher_information import FisherInformation
from ..inference.likelihood.cross_entropy import CrossEntropyFit
from ..inference.likelihood.maximum_likelihood import MaximumLikelihood
from ..inference.likelihood.profile import Profile
from ..inference.observables.reweight import Reweighting
from ..inference.posterior.posterior import Posterior
from ..inputs import as_number, as_text, kind_of
from ..world.priors.prior import AbstractPrior
from .descriptions import checks, estimators, events, fits, posteriors
from .descriptions.context import Context
from .section import Section

#: What can be handed to a report: how a message names it, its type, and what makes sections of it.
DESCRIPTIONS: dict[str, tuple[type, Callable[[Any, Context], list[Section]]]] = {
    "events": (Events, events.describe_events),
    "a prior": (AbstractPrior, events.describe_prior),
    "an estimator": (AbstractEstimator, estimators.describe_estimator),
    "its history": (History, estimators.describe_history),
    "a diagnosis": (Diagnosis, checks.describe_diagnosis),
    "a coverage": (Coverage, checks.describe_coverage),
    "a closure": (Closure, checks.describe_closure),
    "a maximum-likelihood fit": (MaximumLikelihood, fits.describe_fit),
    "a cross-entropy fit": (CrossEntropyFit, fits.describe_fit),
    "a calibrated fit": (CalibratedFit, fits.describe_calibrated),
    "a profile likelihood": (Profile, fits.describe_profile),
    "a confidence set": (ConfidenceSet, fits.describe_set),
    "an upper limit": (UpperLimit, fits.describe_limit),
    "a Fisher information": (FisherInformation, fits.describe_information),
    "a posterior": (Posterior, posteriors.describe_posterior),
    "a reweighting": (Reweighting, posteriors.describe_reweighting),
}


def describe(
    result: object,
    *,
    title: str | None = None,
    truth: Mapping[str, float] | None = None,
    events: Events | None = None,
    level: float | None = None,
) -> list[Section]:
    """A result as sections of a report: tables, figures and a verdict.

    Args:
        result: events, a prior, an estimator, a diagnosis, a fit, a confidence set, a limit, a
            posterior, a reweighting, a closure, a coverage or a Fisher information.
        title: heading of the first section in place of the default one.
        truth: the true values of the parameters by name, where they are known; they are marked in
            the figures, and tables have pulls.
        events: simulated events for pictures of an estimator.
        level: confidence level of the intervals in tables of fits and posteriors; default 0.6827.
            With one, those of a maximum-likelihood fit are shown as well, by MINOS.
    """
    for kind, write in DESCRIPTIONS.values():
        if isinstance(result, kind):
            known = None
            if truth is not None:
                known = {
                    as_text(k, "truth"): as_number(v, f"truth[{k!r}]") for k, v in truth.items()
                }
            heading = None if title is None else as_text(title, "title")
            asked = None if level is None else as_level(level)
            context = Context(heading, known, events, asked)
            with np.errstate(invalid="ignore", divide="ignore"):
                return write(result, context)
    raise TypeError(
        f"a report is made of {', '.join(DESCRIPTIONS)}, or sections; got {kind_of(result)}."
    )
