"""Toys in a checkpoint: the statistics of all toys at a point, by the point."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from ...checkpoint import AbstractSavedWork, Step
from ...fingerprint import Fingerprint, digest, identify
from ..likelihood.likelihood import Likelihood
from .toy_fits import ToyFitter
from .toy_polynomials import Nodes
from .toys import ToyMaker, ToySource


def identify_toys(
    likelihood: Likelihood,
    simulator: ToySource | Sequence[ToySource],
    toys: int,
    pool: int | None,
    seed: int,
) -> dict[str, Fingerprint]:
    """All that the statistics of toys depend on."""
    model = likelihood.model
    parts: dict[str, object] = {
        "estimators": [channel.estimators for channel in model.channels],
        "rates": [channel.rate for channel in model.channels],
        "observed events": (likelihood.data.x, likelihood.data.weight, likelihood.weighted),
        "constraints": model.constraints,
        "bounds and fixed parameters": (model.low, model.high, model.names),
        "simulator": simulator,
        "toys": toys,
        "pool": pool,
        "seed": seed,
    }
    return identify(parts)


@dataclasses.dataclass(frozen=True, eq=False)
class SavedToys:
    """A fitter of toys that finds again what it did before, also in another process."""

    fitter: ToyFitter
    saved: AbstractSavedWork

    def statistic(
        self, theta: np.ndarray, indices: list[int], maker: ToyMaker | None = None
    ) -> np.ndarray:
        """The likelihood ratio statistic of the toys at θ, shape (t,)."""
        fitter, own = self.fitter, maker or self.fitter.maker
        key = f"toys-{digest((theta, indices, own.pool_times, own.pool_least))}"
        found = self.saved.recall(key)
        if found is not None:
            self._restore(found, own)
            return found.arrays["statistic"]
        before, seen = (fitter.fits, fitter.failed), {k: len(v) for k, v in fitter.seen.items()}
        statistic = fitter.statistic(theta, indices, own)
        # Where the maxima of toys lay guides the fits at the next points.
        new = [
            (kind, one) for kind, ones in fitter.seen.items() for one in ones[seen.get(kind, 0) :]
        ]
        values = {
            "fits": fitter.fits - before[0],
            "failed": fitter.failed - before[1],
            "seen": [list(kind) for kind, _ in new],
        }
        arrays = {"statistic": statistic}
        for i, (_, (at, shift, nodes)) in enumerate(new):
            arrays |= {f"at-{i}": at, f"shift-{i}": shift}
            arrays |= {f"centre-{i}": nodes.centre, f"spread-{i}": nodes.spread}
        for i, source in enumerate(own.sources):
            arrays[f"source-{i}"] = source.pack_usage()
        self.saved.keep(key, lambda: Step(values, arrays))
        return statistic

    def _restore(self, found: Step, maker: ToyMaker) -> None:
        fitter, arrays = self.fitter, found.arrays
        fitter.fits += found.values["fits"]
        fitter.failed += found.values["failed"]
        for i, kind in enumerate(found.values["seen"]):
            nodes = Nodes(arrays[f"centre-{i}"], arrays[f"spread-{i}"])
            one = arrays[f"at-{i}"], arrays[f"shift-{i}"], nodes
            fitter.seen.setdefault(tuple(kind), []).append(one)
        for i, source in enumerate(maker.sources):
            source.restore_usage(arrays[f"source-{i}"])
