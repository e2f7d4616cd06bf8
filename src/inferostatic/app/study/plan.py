"""The steps of a study, in their order."""

from .events_step import plan_events
from .fit_step import plan_diagnosis, plan_fit
from .folder import Study
from .infer_steps import plan_inference
from .reweight_steps import plan_reweighting
from .step import StudyStep

#: The commands that do steps, in their order.
NAMES = ("simulate", "fit", "diagnose", "infer", "reweight")


def plan(study: Study) -> list[StudyStep]:
    """All steps; reads files, but runs nothing of the user's."""
    fit = plan_fit(study)
    diagnosis = plan_diagnosis(study, fit)
    return [
        plan_events(study),
        fit,
        *([] if diagnosis is None else [diagnosis]),
        *plan_inference(study, fit),
        *plan_reweighting(study, fit),
    ]
