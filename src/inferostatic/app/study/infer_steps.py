"""The steps of `infer`: each question about the observed events is a step of its own."""

import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.infer_tables import (
    CalibratedFitTable,
    ConfidenceSetTable,
    InferTable,
    MaximumLikelihoodTable,
    PosteriorTable,
    UpperLimitTable,
)
from .build import find_function
from .data import describe_data, observe
from .folder import Study
from .numbers import number_estimates, number_limit, number_set
from .step import Outcome, StudyStep

if TYPE_CHECKING:
    from .workshop import Workshop

#: A table of `[infer]` that asks something.
Question = (
    MaximumLikelihoodTable
    | ConfidenceSetTable
    | UpperLimitTable
    | PosteriorTable
    | CalibratedFitTable
)


def plan_inference(study: Study, fit: StudyStep) -> Iterator[StudyStep]:
    """A step for each question."""
    infer = study.table.infer
    if infer is None:
        return
    likelihood = infer.model_dump(mode="json", include={"rate", "fixed", "bounds", "constraints"})
    common = {
        "estimator": fit.digest,
        "data": describe_data(study, infer),
        "likelihood": likelihood,
        "seed": study.seeds["infer"],
    }
    for title, question in list_questions(infer):
        settings = question.model_dump(mode="json", exclude_none=True)
        if settings.get("calibration") == "validation":
            settings["events"] = [study.table.simulate.validation, study.seeds["validation"]]
        if _trusts_potential(question):
            settings["bias events"] = [study.table.simulate.validation, study.seeds["validation"]]
        work = functools.partial(_answer, infer=infer, question=question, fit=fit)
        yield StudyStep("infer", title, {**common, "settings": settings}, work)


def list_questions(infer: InferTable) -> Iterator[tuple[str, Question]]:
    """Titles and tables."""
    if infer.maximum_likelihood is not None:
        yield "maximum likelihood", infer.maximum_likelihood
    if infer.calibrated_fit is not None:
        yield "calibrated fit", infer.calibrated_fit
    for number, one in enumerate(infer.confidence_set, 1):
        of = "all parameters" if one.parameters is None else ", ".join(one.parameters)
        yield f"confidence set {number}, {of}", one
    for number, limit in enumerate(infer.upper_limit, 1):
        yield f"upper limit {number}, {limit.parameter}", limit
    if infer.posterior is not None:
        yield "posterior", infer.posterior


def _answer(
    workshop: "Workshop", folder: Path, *, infer: InferTable, question: Question, fit: StudyStep
) -> Outcome:
    from ...inference.likelihood.likelihood import Likelihood

    estimator = workshop.estimator(fit.folder(workshop.study))
    if _trusts_potential(question):
        estimator = _measure_bias(workshop, estimator)
    observed = observe(workshop, infer, estimator.x_names)
    likelihood = Likelihood(
        estimator,
        observed.x,
        weight=observed.weight,
        rate=None if infer.rate is None else find_function(workshop.study, infer.rate),
        constraints={name: (pair[0], pair[1]) for name, pair in infer.constraints.items()} or None,
        fixed=infer.fixed or None,
        bounds={name: (pair[0], pair[1]) for name, pair in infer.bounds.items()} or None,
    )
    match question:
        case MaximumLikelihoodTable():
            outcome = _fit_likelihood(likelihood, question)
        case CalibratedFitTable():
            outcome = _fit_calibrated(workshop, folder, likelihood, question)
        case ConfidenceSetTable():
            outcome = _find_set(workshop, folder, likelihood, question)
        case UpperLimitTable():
            outcome = _find_limit(workshop, likelihood, question)
        case PosteriorTable():
            outcome = _find_posterior(workshop, likelihood, question)
    known: dict[str, Any] = {}
    if infer.simulated is not None:
        known["truth"] = infer.simulated.theta
    if isinstance(question, MaximumLikelihoodTable | CalibratedFitTable | PosteriorTable):
        known["level"] = question.level
    return dataclasses.replace(outcome, context=known)


def _trusts_potential(question: Question) -> bool:
    """Whether the answer takes the learned potential for the truth, and may so be biased."""
    match question:
        case CalibratedFitTable():
            return False
        case ConfidenceSetTable():
            return question.method == "Wilks"
        case UpperLimitTable():
            return question.distribution == "asymptotic"
        case _:
            return True


def _measure_bias(workshop: "Workshop", estimator: Any) -> Any:  # noqa: ANN401
    """The estimator with its bias as the validation events show it, where they are the most."""
    from ...checks.validation_events import suppress_repeated_warnings
    from ...estimator.estimator import Estimator
    from ...estimator.measured_mean import FEWEST_EVENTS
    from ...learning.measure_bias import measure_bias

    if not isinstance(estimator, Estimator):
        return estimator
    n, known = workshop.study.table.simulate.validation, estimator.score_bias
    if n <= (FEWEST_EVENTS if known is None else known.events):
        return estimator
    with suppress_repeated_warnings():
        return measure_bias(estimator, workshop.events("validation", n))


def _fit_likelihood(likelihood: Any, table: MaximumLikelihoodTable) -> Outcome:  # noqa: ANN401
    from ...inference.likelihood.maximum_likelihood import maximum_likelihood

    found = maximum_likelihood(likelihood, starts=table.starts, minos=table.minos)
    ends = found.interval(table.level)
    more = {"log likelihood": found.log_likelihood}
    numbers = number_estimates(found.names, found.theta, found.errors, ends, more)
    return Outcome((found,), numbers, found.summary())


def _fit_calibrated(
    workshop: "Workshop",
    folder: Path,
    likelihood: Any,  # noqa: ANN401
    table: CalibratedFitTable,
) -> Outcome:
    from ...inference.calibrated.calibrated_fit import calibrated_fit

    found = calibrated_fit(
        likelihood,
        checkpoint=workshop.checkpoint(folder),
        **_calibrate(workshop, table),
    )
    more = {"p-value": found.p_value}
    ends = found.interval(table.level)
    numbers = number_estimates(found.names, found.theta, found.errors, ends, more)
    return Outcome((found,), numbers, found.summary(table.level))


def _calibrate(workshop: "Workshop", table: CalibratedFitTable) -> dict[str, Any]:
    if table.calibration == "validation":
        return {"events": workshop.events("validation", workshop.study.table.simulate.validation)}
    return {"simulator": workshop.simulator, "seed": workshop.study.seeds["infer"]}


def _find_set(
    workshop: "Workshop",
    folder: Path,
    likelihood: Any,  # noqa: ANN401
    table: ConfidenceSetTable,
) -> Outcome:
    from ...inference.confidence.confidence_set import confidence_set
    from ...inference.confidence.neyman import Neyman
    from ...inference.confidence.wilks import Wilks

    method: Neyman | Wilks = Wilks()
    if table.method == "Neyman":
        checkpoint = workshop.checkpoint(folder)
        method = Neyman(workshop.simulator, toys=table.toys, checkpoint=checkpoint)
    found = confidence_set(
        likelihood,
        method,
        parameters=table.parameters,
        level=table.level,
        seed=workshop.study.seeds["infer"],
    )
    return Outcome((found,), number_set(found), found.summary())


def _find_limit(
    workshop: "Workshop",
    likelihood: Any,  # noqa: ANN401
    table: UpperLimitTable,
) -> Outcome:
    from ...inference.confidence.limit_methods import CLs, CLsb
    from ...inference.confidence.upper_limit import upper_limit

    options: dict[str, Any] = {"simulator": workshop.simulator}
    if table.distribution == "toys":
        options["toys"] = table.toys
    elif table.distribution == "calibrated":
        validation = workshop.study.table.simulate.validation
        stored = table.calibration == "validation"
        events = workshop.events("validation", validation) if stored else workshop.simulator
        options = {"calibration": events}
    method = CLs(**options) if table.method == "CLs" else CLsb(**options)
    found = upper_limit(
        likelihood,
        table.parameter,
        method,
        level=table.level,
        background=table.background,
        seed=workshop.study.seeds["infer"],
    )
    return Outcome((found,), number_limit(found), found.summary())


def _find_posterior(
    workshop: "Workshop",
    likelihood: Any,  # noqa: ANN401
    table: PosteriorTable,
) -> Outcome:
    from ...inference.posterior.grid import Grid
    from ...inference.posterior.importance import Importance
    from ...inference.posterior.nuts import NUTS
    from ...inference.posterior.posterior import posterior

    known = {"grid": Grid, "NUTS": NUTS, "importance": Importance}
    options = {} if table.draws is None else {"draws": table.draws}
    name = table.method
    if name is None and options:
        name = "grid" if int(likelihood.free.sum()) <= 2 else "NUTS"
    method = None if name is None else known[name](**options)
    seed = workshop.study.seeds["infer"]
    found = posterior(likelihood, workshop.prior, method, seed=seed)
    numbers = number_estimates(found.names, found.mean, found.std, found.interval(table.level), {})
    return Outcome((found,), numbers, found.summary())
