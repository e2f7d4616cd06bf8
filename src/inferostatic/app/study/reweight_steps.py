"""The steps `reweight`: events of one θ as events of another, and whether that closes."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.study_tables import ReweightTable
from .data import simulate_once
from .folder import Study
from .numbers import number_reweighting
from .step import Outcome, StudyStep

if TYPE_CHECKING:
    from .workshop import Workshop


def plan_reweighting(study: Study, fit: StudyStep) -> Iterator[StudyStep]:
    """A step for each pair of θ."""
    for number, table in enumerate(study.table.reweight, 1):
        inputs = {
            "estimator": fit.digest,
            "settings": table.model_dump(mode="json"),
            "seed": study.seeds["reweight"],
        }
        work = functools.partial(_reweight, table=table, fit=fit)
        yield StudyStep("reweight", f"reweighting {number}", inputs, work)


def _reweight(
    workshop: "Workshop", folder: Path, *, table: ReweightTable, fit: StudyStep
) -> Outcome:
    from ...checks.closure import closure
    from ...inference.observables.reweight import reweight

    study = workshop.study
    estimator = workshop.estimator(fit.folder(study))
    start, to = ([point[name] for name in study.table.prior] for point in (table.start, table.to))
    seed = study.seeds["reweight"]
    # One stream for each of both, or events at both would share their random numbers.
    x, direct = (
        simulate_once(workshop, folder / name, theta, table.events, one, estimator.x_names)
        for name, theta, one in (("start.npy", start, seed), ("to.npy", to, seed ^ 1))
    )
    found = reweight(estimator, x, start, to)
    check = closure(found, direct, checkpoint=workshop.checkpoint(folder), seed=seed)
    text = f"{found.summary()}\n{check.summary()}"
    return Outcome((found, check), number_reweighting(found, check), text)
