"""What no single field shows: names of parameters, edges of priors, options that exclude others."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from .faults import Fault, show_value
from .infer_tables import CalibratedFitTable, InferTable, UpperLimitTable
from .study_tables import FitTable, ParameterTable, SimulatorTable, StudyTable

#: Characters that the name of a parameter may have.
LONGEST_NAME = 100
#: Points of a prior of discrete parameters, at most.
MOST_POINTS = 100_000


def check_study(study: StudyTable) -> Iterator[Fault]:
    """All that is wrong with it."""
    names = list(study.prior)
    yield from _check_simulator(study.simulator, names)
    yield from _check_prior(study.prior)
    yield from _check_fit(study.fit)
    if study.infer is not None:
        yield from _check_infer(study, study.infer, names)
    for number, table in enumerate(study.reweight):
        for key, values in (("start", table.start), ("to", table.to)):
            yield from _check_theta(("reweight", number, key), values, names)


def list_missing_packages(study: StudyTable) -> list[str]:
    """Optional packages that the study needs and that are not installed."""
    needed = set()
    if study.infer is not None:
        if study.infer.maximum_likelihood is not None:
            needed.add("iminuit")
        posterior = study.infer.posterior
        if posterior is not None and _uses_nuts(study, posterior.method):
            needed |= {"blackjax", "arviz"}
        if str(study.infer.data).endswith(".root"):
            needed.add("uproot")
    if study.simulator.command is not None and ".root" in study.simulator.x:
        needed.add("uproot")
    return sorted(name for name in needed if find_spec(name) is None)


def _uses_nuts(study: StudyTable, method: str | None) -> bool:
    assert study.infer is not None
    free = len(study.prior) - len(study.infer.fixed)
    return method == "NUTS" or (method is None and free > 2)


def _check_simulator(table: SimulatorTable, names: list[str]) -> Iterator[Fault]:
    path = ("simulator",)
    given = [key for key in ("file", "module", "command") if getattr(table, key) is not None]
    if len(given) != 1:
        got = " and ".join(given) or "none of them"
        yield Fault(path, f"must have one of file, module and command; got {got}.")
        return
    if table.module is not None:
        module, _, function = table.module.partition(":")
        parts = [*module.split("."), *function.split(".")]
        if not all(part.isidentifier() for part in parts):
            text = f'must be "package.module:function"; got {show_value(table.module)}.'
            yield Fault((*path, "module"), text)
    if table.file is not None:
        if not table.function.isidentifier():
            text = f"must be the name of a function; got {show_value(table.function)}."
            yield Fault((*path, "function"), text)
        if not table.file.endswith(".py") or "\0" in table.file:
            text = f"must be a Python file, with .py at its end; got {show_value(table.file)}."
            yield Fault((*path, "file"), text)
    if table.command is not None:
        for name in names:
            if "," in name or '"' in name:
                text = "is a column of a file that a program reads: leave out commas and quotes."
                yield Fault(("prior", name), text)
    else:
        own = SimulatorTable.model_fields
        for key in ("theta", "x", "time_limit", "deterministic"):
            if getattr(table, key) != own[key].default:
                text = "is for a program: give it with command, or leave it out."
                yield Fault((*path, key), text)


def _check_prior(prior: Mapping[str, ParameterTable]) -> Iterator[Fault]:
    for name, table in prior.items():
        path = ("prior", name)
        if not name or len(name) > LONGEST_NAME or not name.isprintable() or name != name.strip():
            text = f"is no name: at most {LONGEST_NAME} printable characters, no space at the ends."
            yield Fault(path, text)
        given = {key for key, value in table if value is not None}
        if given not in KINDS:
            got = ", ".join(sorted(given)) or "nothing"
            text = (
                "must have low and high (uniform), mean and std (normal), mean, std and an edge or "
                f"two (normal within edges), or values (discrete); got {got}."
            )
            yield Fault(path, text)
        elif table.low is not None and table.high is not None and not table.low < table.high:
            text = f"must lie below high; got {table.low:g} and {table.high:g}."
            yield Fault((*path, "low"), text)
    discrete = [name for name, table in prior.items() if table.values is not None]
    if discrete and len(discrete) < len(prior):
        text = "has values, and others have not: all parameters must be discrete, or none."
        yield Fault(("prior", discrete[0]), text)
    points = 1
    for table in prior.values():
        points *= len(table.values or [0])
    if points > MOST_POINTS:
        yield Fault(("prior",), f"has {points:,} points in all; at most {MOST_POINTS:,}.")


#: What an entry of `[prior]` may have.
KINDS = (
    {"low", "high"},
    {"mean", "std"},
    {"mean", "std", "low"},
    {"mean", "std", "high"},
    {"mean", "std", "low", "high"},
    {"values"},
)


def _check_fit(table: FitTable) -> Iterator[Fault]:
    if table.method in ("KLRE", "KSE"):
        for key in ("kernel", "width"):
            if getattr(table, key) is None:
                yield Fault(("fit", key), f"is missing; {table.method} needs one.")
    else:
        for key in ("kernel", "width"):
            if getattr(table, key) is not None:
                text = 'is for method = "KLRE" or "KSE"; leave it out, or choose one of them.'
                yield Fault(("fit", key), text)
    network = table.network
    if network is not None:
        own = {"mlp": ("widths",), "residual": ("width", "blocks")}[network.kind]
        for key in {"widths", "width", "blocks"} - set(own):
            if getattr(network, key) is not None:
                text = f"is not for a network of this kind, which takes {' and '.join(own)}."
                yield Fault(("fit", "network", key), text)
        if any(not 1 <= width <= 10_000 for width in network.widths or ()):
            text = f"must be whole numbers from 1 to 10,000; got {show_value(network.widths)}."
            yield Fault(("fit", "network", "widths"), text)


def _check_infer(study: StudyTable, table: InferTable, names: list[str]) -> Iterator[Fault]:
    path = ("infer",)
    if (table.data is None) == (table.simulated is None):
        got = "neither" if table.data is None else "both"
        text = f"must have data, the name of a file, or the table [infer.simulated]; got {got}."
        yield Fault(path, text)
    if table.data is not None and not table.data.endswith((".csv", ".npy", ".parquet", ".root")):
        text = f"must end with .csv, .npy, .parquet or .root; got {show_value(table.data)}."
        yield Fault((*path, "data"), text)
    if table.simulated is not None:
        yield from _check_theta((*path, "simulated", "theta"), table.simulated.theta, names)
        for key in ("tree", "weight"):
            if getattr(table, key) is not None:
                yield Fault((*path, key), "is for a file of data; leave it out.")
    if table.rate is not None and study.simulator.command is not None:
        text = "is a function in the simulator's file; a program has none."
        yield Fault((*path, "rate"), text)
    for key in ("fixed", "bounds", "constraints"):
        for name in getattr(table, key):
            yield from _check_name((*path, key, name), name, names)
    for number, one in enumerate(table.confidence_set):
        for name in one.parameters or ():
            where = (*path, "confidence_set", number, "parameters")
            yield from _check_name(where, name, names)
    for number, limit in enumerate(table.upper_limit):
        where = (*path, "upper_limit", number, "parameter")
        yield from _check_name(where, limit.parameter, names)
    asked: list[tuple[tuple[str | int, ...], UpperLimitTable | CalibratedFitTable]] = [
        ((*path, "upper_limit", n), limit) for n, limit in enumerate(table.upper_limit)
    ]
    if table.calibrated_fit is not None:
        asked.append(((*path, "calibrated_fit"), table.calibrated_fit))
    for where, one in asked:
        if one.calibration == "validation" and study.simulate.validation == 0:
            text = 'is "validation", but simulate.validation is 0: simulate some events for it.'
            yield Fault((*where, "calibration"), text)


def _check_name(path: tuple[str | int, ...], name: str, names: list[str]) -> Iterator[Fault]:
    if name not in names:
        known = ", ".join(show_value(one) for one in names[:20])
        yield Fault(path, f"is no parameter of the prior, which has {known}.")


def _check_theta(
    path: tuple[str | int, ...], values: Mapping[str, float], names: list[str]
) -> Iterator[Fault]:
    for name in values:
        yield from _check_name((*path, name), name, names)
    missing = [show_value(name) for name in names if name not in values]
    if missing:
        yield Fault(path, f"must have a value for each parameter; {', '.join(missing)} lacks.")
