"""The steps `fit` and `diagnose`: an estimator from the events, and what checks say of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .build import build_method, build_network, build_training
from .folder import Study, describe_prior
from .numbers import number_diagnosis, number_estimator
from .step import Outcome, StudyStep
from .workshop import MODEL

if TYPE_CHECKING:
    from .workshop import Workshop


def plan_fit(study: Study) -> StudyStep:
    """The step `fit`."""
    inputs = {
        "simulator": study.simulator_identity,
        "prior": describe_prior(study.table),
        "events": study.table.simulate.events,
        "event seed": study.seeds["training"],
        "fit": study.table.fit.model_dump(mode="json", exclude_none=True),
        "seed": study.seeds["fit"],
    }
    return StudyStep("fit", "fit", inputs, _fit)


def plan_diagnosis(study: Study, fit: StudyStep) -> StudyStep | None:
    """The step `diagnose`; None without validation events."""
    n = study.table.simulate.validation
    if not n:
        return None
    observed = count_observed(study)
    inputs = {
        "estimator": fit.digest,
        "validation": n,
        "event seed": study.seeds["validation"],
        "observed": observed,
        "seed": study.seeds["diagnose"],
    }

    def diagnose(workshop: "Workshop", folder: Path) -> Outcome:
        from ...checks.diagnose import diagnose as run_checks

        estimator = workshop.estimator(fit.folder(study))
        events = workshop.events("validation", n)
        seed = study.seeds["diagnose"]
        found = run_checks(estimator, events, n_observed=observed, seed=seed)
        # A copy: the file of the fit is what other steps depend on, and stays as it is.
        estimator.with_diagnosis(found).save(folder / MODEL)
        return Outcome((found,), number_diagnosis(found), found.summary())

    return StudyStep("diagnose", "diagnose", inputs, diagnose)


def count_observed(study: Study) -> int | None:
    """Observed events for which the estimator is judged, where the file says how many."""
    infer = study.table.infer
    if study.table.diagnose.observed is not None:
        return study.table.diagnose.observed
    simulated = None if infer is None else infer.simulated
    return None if simulated is None else simulated.events


def _fit(workshop: "Workshop", folder: Path) -> Outcome:
    from ...learning.fit import fit

    table = workshop.study.table
    events = workshop.events("training", table.simulate.events)
    estimator: Any = fit(
        events,
        build_method(table.fit),
        network=build_network(table.fit),
        members=table.fit.members,
        training=build_training(table.fit),
        checkpoint=workshop.checkpoint(folder),
        seed=workshop.study.seeds["fit"],
    )
    estimator.save(folder / MODEL)
    context = {"events": events}
    return Outcome((estimator,), number_estimator(estimator), repr(estimator), context)
