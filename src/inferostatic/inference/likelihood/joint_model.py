"""The model of two independent data sets: channels that share parameters by name."""

import dataclasses

import numpy as np

from .constraints import Constraints
from .model import Channel, LikelihoodModel


def join_models(one: LikelihoodModel, two: LikelihoodModel) -> LikelihoodModel:
    """The model of the sum of two log likelihoods."""
    names = (*one.names, *(name for name in two.names if name not in one.names))
    size = len(names)
    low, high = np.full(size, -np.inf), np.full(size, np.inf)
    mean, precision = np.zeros(size), np.zeros(size)
    fixed = np.zeros(size, bool)
    channels: list[Channel] = []
    for part in (one, two):
        own = np.array([names.index(name) for name in part.names])
        low[own], high[own] = np.maximum(low[own], part.low), np.minimum(high[own], part.high)
        fixed[own] |= ~part.free
        theirs = part.constraints
        for index, m, p in zip(own, theirs.mean, theirs.precision, strict=True):
            if p > 0 and precision[index] > 0 and (m, p) != (mean[index], precision[index]):
                raise ValueError(
                    f"both likelihoods constrain {names[index]}, to different values. One "
                    "measurement must be given the same in both (it counts once); combine two "
                    "measurements beforehand and give the result in one."
                )
            if p > 0:
                mean[index], precision[index] = m, p
        for channel in part.channels:
            indices = tuple(int(own[i]) for i in channel.indices)
            channels.append(dataclasses.replace(channel, indices=indices))
    # Regions that only touch would fix a parameter that nobody fixed.
    empty = (low > high) | ((low == high) & ~fixed)
    if empty.any():
        raise ValueError(
            f"the regions, bounds or fixed values of {', '.join(np.array(names)[empty])} do not "
            "overlap, so the likelihoods cannot be added."
        )
    return LikelihoodModel(tuple(channels), names, low, high, Constraints(mean, precision))
