"""Asimov data sets: what the background predicts, given or simulated."""

import dataclasses
from typing import Any

import numpy as np

from ...events.simulate import simulate_at
from ...inputs import as_event_rows, as_rows, call_function, require_finite
from ...streams import Purpose, Stream
from ...world.simulator import require_simulator
from ..likelihood.likelihood import Likelihood
from ..likelihood.model import Channel, DataSets
from .limit_methods import LimitMethod
from .observed_fit import ObservedFit, fit_near
from .toys import for_each_channel

#: An Asimov set of simulated events has this many times the observed events.
ASIMOV_TIMES = 100
#: And at least this many events.
ASIMOV_LEAST = 50_000


def predict_asimov(
    likelihood: Likelihood,
    observed: ObservedFit,
    theta: np.ndarray,
    method: LimitMethod,
    seed: int,
    *,
    fits: int,
    show: bool | None,
) -> tuple[ObservedFit | None, list[str]]:
    """The data set that θ predicts, its constraints measured at θ too, for so many fits of it."""
    channels, totals = observed.model.channels, [w[0].sum() for w in likelihood.data.weight]
    expected = [
        total if channel.rate is None else float(channel.expected(theta)[0])
        for channel, total in zip(channels, totals, strict=True)
    ]
    if method.asimov is not None:
        sets, notes = _read_given(method.asimov, channels, theta), ["Asimov data as given"]
    elif method.simulator is None or (
        likelihood.events == 1 and all(channel.rate is None for channel in channels)
    ):
        return None, []
    else:
        sets, notes = _simulate_asimov(method, likelihood, theta, expected, seed)
    weights = tuple(
        np.full((1, len(x)), number / len(x)) for x, number in zip(sets, expected, strict=True)
    )
    data = DataSets(tuple(x[None] for x in sets), weights, theta[None])
    near = dataclasses.replace(observed, theta=theta)
    return fit_near(observed.model.measure(theta), data, near, fits, show=show), notes


def _read_given(given: Any, channels: tuple[Channel, ...], theta: np.ndarray) -> list[np.ndarray]:  # noqa: ANN401
    made: Any = given
    if callable(given):
        made = call_function(given, "asimov, a function of θ", theta.copy())
    every = list(made) if len(channels) > 1 and isinstance(made, list | tuple) else [made]
    if len(every) != len(channels):
        raise ValueError(
            f"asimov must be a list with the data of each of {len(channels)} channels; got "
            f"{len(every)}."
        )
    sets = []
    for one, channel in zip(every, channels, strict=True):
        x = as_event_rows(one, channel.x_names, "asimov")
        x = as_rows(x, "asimov", columns=len(channel.x_names), of="observables")
        require_finite(x, "asimov", "Give finite observables.")
        if len(x) == 0:
            raise ValueError("asimov has no rows; give the event that the background predicts.")
        sets.append(x)
    return sets


def _simulate_asimov(
    method: LimitMethod, likelihood: Likelihood, theta: np.ndarray, expected: list[float], seed: int
) -> tuple[list[np.ndarray], list[str]]:
    channels = likelihood.model.channels
    simulators = for_each_channel(method.simulator, channels, "Asimov data need a simulator")
    sets, shares = [], []
    for number, (simulator, channel) in enumerate(zip(simulators, channels, strict=True)):
        require_simulator(simulator)
        count = max(ASIMOV_LEAST, ASIMOV_TIMES * likelihood.data.x[number].shape[1])
        thetas = np.repeat(theta[list(channel.indices)][None], count, axis=0)
        stream = Stream(seed, Purpose.ASIMOV, (number,))
        names = channel.x_names
        sets.append(simulate_at(simulator, thetas, stream, x_names=names, progress_bar=False))
        shares.append(expected[number] / count)
    note = (
        f"Asimov data: {sum(map(len, sets)):,} simulated events of weight {max(shares):.3g}; they "
        f"shift the median expected limit by up to {np.sqrt(max(shares)):.2g} standard errors"
    )
    return sets, [note]
