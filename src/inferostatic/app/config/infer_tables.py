"""The tables of `[infer]`: observed data, and what is asked of them."""

from typing import Literal

from .table import MOST, AbstractTable, Level, Pairs, Text, Values, entry

#: Probability within one standard deviation of a normal distribution.
ONE_SIGMA = 0.6826894921370859
#: What a level must be.
LEVEL = "a number between 0 and 1, the confidence level"

#: What a calibration must be.
CALIBRATION = '"simulator", which simulates near the estimate, or "validation", the stored events'


class SimulatedDataTable(AbstractTable):
    """`[infer.simulated]`: events simulated at a known θ in place of observed ones."""

    theta: Values = entry("a table with a value for each parameter")
    events: int = entry(f"a whole number from 1 to {MOST:,}", ge=1, le=MOST)


class MaximumLikelihoodTable(AbstractTable):
    """`[infer.maximum_likelihood]`."""

    starts: int = entry("a whole number from 1 to 1000, the starting points", 1, ge=1, le=1000)
    minos: bool = entry("true for asymmetric errors, or false", default=False)
    level: Level = entry(LEVEL, ONE_SIGMA)


class ConfidenceSetTable(AbstractTable):
    """`[[infer.confidence_set]]`."""

    parameters: list[Text] | None = entry(
        "a list of parameters; the others are profiled", None, min_length=1
    )
    method: Literal["Wilks", "Neyman"] = entry('"Wilks" or "Neyman"', "Wilks")
    toys: int = entry("a whole number from 1 to 10,000,000", 1000, ge=1, le=10**7)
    level: Level = entry(LEVEL, ONE_SIGMA)


class UpperLimitTable(AbstractTable):
    """`[[infer.upper_limit]]`."""

    parameter: Text = entry("the name of a parameter")
    method: Literal["CLs", "CLs+b"] = entry('"CLs" or "CLs+b"', "CLs")
    distribution: Literal["calibrated", "toys", "asymptotic"] = entry(
        '"calibrated" by simulated events, "toys" or "asymptotic"', "calibrated"
    )
    calibration: Literal["simulator", "validation"] = entry(CALIBRATION, "simulator")
    toys: int = entry("a whole number from 1 to 10,000,000", 1000, ge=1, le=10**7)
    background: float | None = entry("a number, the parameter's value without signal", None)
    level: Level = entry(LEVEL, 0.95)


class PosteriorTable(AbstractTable):
    """`[infer.posterior]`, under the study's prior."""

    method: Literal["grid", "NUTS", "importance"] | None = entry(
        '"grid", "NUTS" or "importance"', None
    )
    draws: int | None = entry("a whole number from 1 to 10,000,000", None, ge=1, le=10**7)
    level: Level = entry(LEVEL, ONE_SIGMA)


class CalibratedFitTable(AbstractTable):
    """`[infer.calibrated_fit]`."""

    calibration: Literal["simulator", "validation"] = entry(CALIBRATION, "simulator")
    level: Level = entry(LEVEL, ONE_SIGMA)


class InferTable(AbstractTable):
    """`[infer]`: the data, the likelihood, and the questions."""

    data: Text | None = entry("the name of a .csv, .npy, .parquet or .root file", None)
    tree: Text | None = entry("the name of a tree in a ROOT file", None)
    weight: Text | None = entry("the name of the column with the weights of the events", None)
    simulated: SimulatedDataTable | None = entry("a table", None)
    rate: Text | None = entry(
        "the name of a function of θ in the simulator's file, the expected number of events", None
    )
    fixed: Values = entry("a table with values of parameters", {})
    bounds: Pairs = entry("a table with [low, high] of parameters", {})
    constraints: Pairs = entry("a table with [mean, standard deviation] of parameters", {})
    maximum_likelihood: MaximumLikelihoodTable | None = entry("a table", None)
    confidence_set: list[ConfidenceSetTable] = entry(
        "tables, each headed by [[infer.confidence_set]]", [], max_length=100
    )
    upper_limit: list[UpperLimitTable] = entry(
        "tables, each headed by [[infer.upper_limit]]", [], max_length=100
    )
    posterior: PosteriorTable | None = entry("a table", None)
    calibrated_fit: CalibratedFitTable | None = entry("a table", None)
