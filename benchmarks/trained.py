"""Default estimators for benchmarks of inference, trained once and kept in benchmarks/.cache."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import inferostatic as ist
from counting import PRIOR as COUNTING_PRIOR
from counting import simulator as counting_simulator
from exact_errors import PAPER_BOX, WIDE_BOX

CACHE: Final = Path(__file__).parent.absolute() / ".cache"


@dataclass(frozen=True)
class Recipe:
    """How an estimator is trained: everything that is not said here is the library's default."""

    simulator: Any
    prior: ist.Uniform
    events: int
    event_seed: int
    seed: int


def _dirichlet(events: int, seed: int, box: tuple[list[float], list[float]] = WIDE_BOX) -> Recipe:
    return Recipe(ist.toys.Dirichlet(), ist.Uniform(*box), events, 1000 + seed, seed)


DIRICHLET: Final = {
    "dirichlet-100000-0": _dirichlet(100_000, 0),
    "dirichlet-100000-1": _dirichlet(100_000, 1),
    "dirichlet-100000-2": _dirichlet(100_000, 2),
    "dirichlet-narrow-100000-0": _dirichlet(100_000, 0, PAPER_BOX),
    "dirichlet-1000000-0": _dirichlet(1_000_000, 0),
}
COUNTING: Final = {
    f"counting-{events}": Recipe(counting_simulator, COUNTING_PRIOR, events, 1, 0)
    for events in (200_000, 1_000_000)
}


@cache
def trained(name: str) -> ist.Estimator:
    """The estimator of this name, from the cache or trained now."""
    path = CACHE / f"{name}.isn"
    if not path.exists():
        recipe = {**DIRICHLET, **COUNTING}[name]
        print(f"training {name}, to be kept in {path}", flush=True)
        events = ist.simulate(recipe.simulator, recipe.prior, recipe.events, seed=recipe.event_seed)
        estimator = ist.fit(events, seed=recipe.seed)
        CACHE.mkdir(exist_ok=True)
        estimator.save(path)
    return ist.load(path)
