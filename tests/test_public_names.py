"""The public surface, literally: a name or an argument cannot come, go or move by accident."""

import ast
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import inferostatic as ist

PUBLIC = """
ALICE ALICES Automatic CARL CASCAL CLs CLsb CapabilityError Checkpoint Constant Cosine CustomKernel
CustomPairs CustomPrior DCTR Dask Delta DensityEstimator DirectRatio DirectScore Discrete Drop
Epanechnikov Estimator Events Exponential Factorised FarReweighting Flow Gaussian GlorotUniform Grid
History Importance InProcess Independent JaxSimulator JointDensity KCE KLRE KSE Latent LatentLoss
LecunNormal Likelihood Linear Logistic MEM MLP MatrixElement Mix MixtureFlow ModelCard Morphing
MultiScale NDE NUTS Natural NearbySimulation Neyman Normal NumpyroSimulator ParticleSet PerParticle
PerWorker Potential ProcessPool Product Program Quantile RASCAL ROLR ROLRLoss RatioEstimator Raw
Records Rectangular Residual Reweighted SALLINO SALLY SCANDAL Savage ScoreCalibration ScoreEstimator
Setting Sign Simulated Square Standardised Store TaskError Templates Training TrainingError
Triangular TruncatedNormal TwoTower UncertainRate Uniform WeightedPool Wilks calibrated_fit centre
centring_report checks choose_width closure compare confidence_set cross_entropy_fit cross_fit
diagnose draw export fisher fit forward_score from_numpyro load maximum_likelihood measure_bias
nuisance_exponents observable pad_particles paper_network paper_ratio_network paper_score_network
plots posterior read_lhe read_lhe_weights read_madminer read_madminer_samples read_root replay
report reweight score_response simulate to_pyhf toys upper_limit
""".split()


def test_the_public_names_are_these() -> None:
    assert dir(ist) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value: Any = getattr(ist, name)
    if not name.startswith("paper_"):
        assert inspect.getdoc(value)


def test_type_checkers_see_the_same_names() -> None:
    source = inspect.getsource(ist)
    (static,) = (node for node in ast.parse(source).body if isinstance(node, ast.If))
    imported = [node for node in static.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: (node.module, alias.name) for node in imported for alias in node.names}
    homes = {name: (module, name) for name, module in ist._HOMES.items()}
    modules = {name: (None, name) for name in ("checks", "export", "plots")}
    assert seen == homes | modules | {
        "report": ("report.report", "report"),
        "toys": ("world", "toys"),
    }


def test_a_star_brings_all_names() -> None:
    brought: dict[str, Any] = {}
    exec("from inferostatic import *", brought)
    assert sorted(brought.keys() - {"__builtins__"}) == sorted(PUBLIC)


def test_a_name_that_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match="module 'inferostatic' has no attribute 'posteriour'"):
        _ = ist.posteriour  # type: ignore[attr-defined]


def arguments(function: Callable[..., Any]) -> str:
    """The arguments with defaults but without annotations; * stands before keyword-only ones."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


SIGNATURES: dict[Callable[..., Any], str] = {
    ist.Events: "(*, x, theta, weight=None, latent=None, prior=None, x_names=None, "
    "theta_names=None)",
    ist.fit: "(events, method=None, *, network=None, members=None, training=None, start=None, "
    "checkpoint=None, seed)",
    ist.Checkpoint: "(path, *, minutes=1.0, epochs=None)",
    ist.compare: "(events, settings, *, seed)",
    ist.Setting: "(method=None, network=None, training=<factory>, members=1, name=None)",
    ist.load: "(path, network=None, *, supplied=None)",
    ist.simulate: "(simulator, prior, n, *, store=None, engine=None, parts=None, seed, "
    "progress_bar=None)",
    ist.Store: "(path, *, name=None, version=None, part_seconds=20.0, block_size=None, "
    "events_per_part=None)",
    ist.Store.events: "(self, *, prior=None, joint=None)",
    ist.Store.status: "(self, *, verify=False)",
    ist.Store.write: "(self, events, *, seed)",
    ist.replay: "(store, part, row=None, *, simulator, prior=None)",
    ist.ProcessPool: "(n=None, *, time_limit=None, retries=1, failures=None)",
    ist.Dask: "(cluster=None, *, time_limit=None, retries=1, failures=None)",
    ist.InProcess: "(*, failures=None)",
    ist.PerWorker: "(factory)",
    ist.Program: "(command, *, theta='theta.csv', x='x.csv', theta_names=None, x_names=None, "
    "time_limit=None, deterministic=False, keep_failed=False)",
    ist.LatentLoss: "(loss, *, reference=None, pairs=None)",
    ist.ALICE: "(*, reference=None, pairs=None)",
    ist.ROLR: "(*, reference=None, pairs=None, edge=10.0)",
    ist.CASCAL: "(alpha=1.0, *, reference=None, pairs=None, unit=None)",
    ist.ALICES: "(alpha=1.0, *, reference=None, pairs=None, unit=None)",
    ist.RASCAL: "(alpha=1.0, *, reference=None, pairs=None, unit=None, edge=10.0)",
    ist.SALLY: "(*, reference=None, unit=None)",
    ist.SALLINO: "(*, reference, unit=None)",
    ist.draw: "(method, simulator, prior, n, *, seed, progress_bar=None)",
    ist.choose_width: "(estimator, events, kernel=<class "
    "'inferostatic.supervision.kernels.Delta'>, widths=None, *, prior=None, n=None, drawn=False, "
    "seed)",
    ist.Likelihood: "(estimator, x, *, weight=None, rate=None, constraints=None, fixed=None, "
    "bounds=None)",
    ist.maximum_likelihood: "(likelihood, *, start=None, starts=1, minos=False, throw=True)",
    ist.cross_entropy_fit: "(likelihood, x=None, *, reference, start=None, starts=1, throw=True)",
    ist.centre: "(estimator, events, *, seed=0)",
    ist.centring_report: "(estimator, events, *, seed=0)",
    ist.calibrated_fit: "(likelihood, x=None, *, events=None, simulator=None, seed=None, "
    "checkpoint=None, progress_bar=None)",
    ist.NearbySimulation: "(simulator, prior=None, fraction=0.3, most_events=2000000)",
    ist.cross_fit: "(events, method=None, *, folds=4, checkpoint=None, seed, **options)",
    ist.posterior: "(likelihood, prior=None, method=None, *, seed, progress_bar=None)",
    ist.Grid: "(draws=8000)",
    ist.NUTS: "(draws=8000, chains=8)",
    ist.Importance: "(draws=8000)",
    ist.diagnose: "(estimator, events, *, n_observed=None, seed=0)",
    ist.confidence_set: "(likelihood, method=None, *, parameters=None, grid=None, "
    "level=0.6826894921370859, seed=0, progress_bar=None)",
    ist.Wilks: "()",
    ist.Neyman: "(simulator, toys=1000, pool=None, checkpoint=None)",
    ist.upper_limit: "(likelihood, parameter, method, *, level=0.95, background=None, "
    "scan=None, seed=0, progress_bar=None)",
    ist.CLs: "(toys=None, simulator=None, asimov=None, pool=None, calibration=None)",
    ist.CLsb: "(toys=None, simulator=None, asimov=None, pool=None, calibration=None)",
    ist.fisher: "(estimator, x, theta, *, weight=None, n=None, seed=None)",
    ist.score_response: "(estimator, theta, simulator, *, n=100000, seed)",
    ist.to_pyhf: "(observable, templates, *, observed=None, expected=None, poi=None, "
    "constraints=None)",
    ist.Templates: "(source, shift=None, bins=None, max_relative_error=0.1, most_bins=20, "
    "mc_errors=True)",
    ist.Simulated: "(simulator, seed, events=None)",
    ist.report: "(path, *results, title=None)",
    ist.reweight: "(estimator, x, theta_from, theta_to, *, weight=None, throw=True)",
    ist.closure: "(reweighting, x, *, weight=None, checkpoint=None, seed)",
    ist.observable: "(estimator, theta_ref, *, direction=None, information=None)",
    ist.Estimator.potential: "(self, x, theta, *, memory_mb=None)",
    ist.Estimator.score: "(self, x, theta, *, memory_mb=None)",
    ist.Estimator.log_ratio: "(self, x, theta0, theta1, *, memory_mb=None)",
    ist.Estimator.potential_grid: "(self, x, thetas, *, memory_mb=None)",
    ist.Estimator.spread: "(self, x, theta, theta1=None, *, memory_mb=None)",
    ist.ScoreEstimator.spread: "(self, x, theta, *, memory_mb=None)",
    ist.RatioEstimator.spread: "(self, x, theta0, theta1, *, memory_mb=None)",
    ist.Estimator.save: "(self, path)",
    ist.pad_particles: "(events, *, particles, names=None, event=None, padding=0.0, "
    "truncate=False)",
}


@pytest.mark.parametrize(
    "function", SIGNATURES, ids=lambda f: getattr(f, "__qualname__", f.__name__)
)
def test_the_arguments_are_these(function: Callable[..., Any]) -> None:
    assert arguments(function) == SIGNATURES[function]


def test_the_knobs_of_training_are_these() -> None:
    knobs = inspect.signature(ist.Training).parameters
    assert list(knobs) == [
        "effort",
        "epochs",
        "batch_size",
        "learning_rate",
        "schedule",
        "weight_decay",
        "clip",
        "beta1",
        "beta2",
        "epsilon",
        "validation_fraction",
        "test_fraction",
        "patience",
        "keep_best",
        "choose",
        "centre",
        "shared_batches",
        "progress_bar",
    ]
    assert {p.kind for p in knobs.values()} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("module", [ist.checks, ist.plots, ist.toys], ids=lambda m: m.__name__)
def test_modules_list_what_they_offer_and_nothing_else(module: Any) -> None:
    names = dir(module)
    assert names == sorted(set(names))
    assert len(names) > 10
    for name in names:
        assert getattr(module, name).__module__.startswith("inferostatic."), name
        assert not inspect.ismodule(getattr(module, name)), name
