"""The tables of `study.toml`, except those of `[infer]`."""

from typing import Literal

from .infer_tables import InferTable
from .table import MOST, AbstractTable, Text, Values, entry

#: Version of the format of `study.toml`.
FORMAT = 1


class SimulatorTable(AbstractTable):
    """`[simulator]`: a function in a file, an importable name, or a program."""

    file: Text | None = entry("the name of a Python file in the study's folder", None)
    function: Text = entry("the name of the function in that file", "simulator")
    module: Text | None = entry('an importable name, "package.module:function"', None)
    command: list[Text] | None = entry(
        'a program and its arguments, such as ["./generate", "{theta}", "{x}", "{seed}"]',
        None,
        min_length=1,
        max_length=1000,
    )
    theta: Text = entry("the name of the file with θ, ending with .csv, .npy or .json", "theta.csv")
    x: Text = entry(
        "the name of the file with x, ending with .csv, .npy, .parquet or .root", "x.csv"
    )
    x_names: list[Text] | None = entry(
        "a list of names of the observables, for a program columns of its file",
        None,
        min_length=1,
    )
    time_limit: float | None = entry("seconds above 0 that one run may take", None, gt=0, le=1e9)
    deterministic: bool = entry(
        "true for a program without random numbers, or false", default=False
    )
    version: str = entry("a text that you change when the simulator changes", "", max_length=1000)


class ParameterTable(AbstractTable):
    """An entry of `[prior]`: uniform, normal, normal within edges, or discrete."""

    low: float | None = entry("a number, the lower edge", None)
    high: float | None = entry("a number, the upper edge", None)
    mean: float | None = entry("a number, the mean of a normal distribution", None)
    std: float | None = entry("a number above 0, its standard deviation", None, gt=0)
    values: list[float] | None = entry(
        "a list of numbers, each as probable as the others", None, min_length=1, max_length=10_000
    )


class SimulateTable(AbstractTable):
    """`[simulate]`: how many events."""

    events: int = entry(f"a whole number from 1 to {MOST:,}, the events to train on", ge=1, le=MOST)
    validation: int = entry(
        f"a whole number from 0 to {MOST:,}, further events that check the estimator",
        0,
        ge=0,
        le=MOST,
    )
    workers: int | None = entry(
        "a whole number from 1 to 4096, the worker processes", None, ge=1, le=4096
    )


class NetworkTable(AbstractTable):
    """`[fit.network]`: which network."""

    kind: Literal["mlp", "residual"] = entry('"mlp" or "residual"')
    widths: list[int] | None = entry(
        "a list of whole numbers, the widths of the layers of an mlp", None, min_length=1
    )
    width: int | None = entry(
        "a whole number from 1 to 10,000, the width of a residual network", None, ge=1, le=10_000
    )
    blocks: int | None = entry(
        "a whole number from 1 to 1000, the blocks of a residual network", None, ge=1, le=1000
    )


class FitTable(AbstractTable):
    """`[fit]`: method, network and training; all of it has defaults."""

    method: Literal["KCE", "KLRE", "KSE", "CARL"] | None = entry(
        '"KCE", "KLRE", "KSE" or "CARL"', None
    )
    kernel: Literal["delta", "rectangular", "triangular", "epanechnikov", "gaussian"] | None = (
        entry('"delta", "rectangular", "triangular", "epanechnikov" or "gaussian"', None)
    )
    width: float | None = entry("a number above 0, the width of the kernel", None, gt=0)
    network: NetworkTable | None = entry("a table", None)
    members: int | None = entry(
        "a whole number from 1 to 100, the networks that are averaged", None, ge=1, le=100
    )
    effort: float | None = entry(
        "a number above 0, what the defaults may cost: 0.1 for a quick look, 1 by default",
        None,
        gt=0,
        le=1000,
    )
    epochs: int | None = entry(
        "a whole number from 1 to 1,000,000, the passes over the events", None, ge=1, le=10**6
    )
    batch_size: int | None = entry(
        f"a whole number from 1 to {MOST:,}, the events in a step", None, ge=1, le=MOST
    )
    learning_rate: float | None = entry("a number above 0 and up to 10", None, gt=0, le=10)
    weight_decay: float | None = entry("a number from 0 to 1000", None, ge=0, le=1000)
    patience: int | None = entry(
        "a whole number from 1 to 1,000,000, the epochs without a better validation loss after "
        "which training stops",
        None,
        ge=1,
        le=10**6,
    )


class DiagnoseTable(AbstractTable):
    """`[diagnose]`: for how many observed events the estimator is judged."""

    observed: int | None = entry(
        f"a whole number from 1 to {MOST:,}, the observed events for which it is judged",
        None,
        ge=1,
        le=MOST,
    )


class ReweightTable(AbstractTable):
    """`[[reweight]]`: events of one θ as events of another one."""

    start: Values = entry("a table with a value for each parameter, where events are simulated")
    to: Values = entry("a table with a value for each parameter, what they should stand for")
    events: int = entry(
        "a whole number from 200 to 100,000,000, the events at each of both", 5000, ge=200, le=10**8
    )


class StudyTable(AbstractTable):
    """The whole file."""

    format: int = entry(f"{FORMAT}, the version of the format of this file", ge=FORMAT, le=FORMAT)
    title: str = entry("a text of at most 200 characters", "", max_length=200)
    seed: int = entry("a whole number from 0 to 4,294,967,295", ge=0, lt=2**32)
    simulator: SimulatorTable = entry("a table")
    prior: dict[str, ParameterTable] = entry(
        "a table with an entry for each parameter, such as mass = { low = 0.5, high = 2.0 }",
        min_length=1,
        max_length=1000,
    )
    simulate: SimulateTable = entry("a table")
    fit: FitTable = entry("a table", FitTable())
    diagnose: DiagnoseTable = entry("a table", DiagnoseTable())
    infer: InferTable | None = entry("a table", None)
    reweight: list[ReweightTable] = entry("tables, each headed by [[reweight]]", [], max_length=100)
