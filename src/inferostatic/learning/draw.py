"""The paper's flowcharts: choose θ (and its partner) first, simulate there, keep fixed records."""

import dataclasses

import jax
import numpy as np

from ..events.origin import Origin, name_simulator
from ..inputs import as_count, as_names, as_seed, bad_rows, finite_rows, kind_of, require_float32
from ..summary import (
    AbstractSummarised,
    Summary,
    count,
    list_names,
    tabulate_arrays,
    tabulate_facts,
)
from ..supervision.records import AbstractRecord
from ..world.priors.prior import AbstractPrior
from ..world.simulator import Simulator, require_simulator
from .methods import AbstractMethod, Method


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Records(AbstractSummarised):
    """Supervised examples for `fit`: events, what is asked of each, and by which method."""

    x: np.ndarray
    record: AbstractRecord
    method: Method
    prior: AbstractPrior
    x_names: tuple[str, ...]
    #: Where the events come from, as far as it is known.
    origin: Origin | None = None

    def __post_init__(self) -> None:
        """Nothing that is not finite enters training."""
        for name, leaf in vars(self.record).items():
            good = finite_rows(np.asarray(leaf))
            if not good.all():
                raise ValueError(
                    f"{name} of the drawn records is NaN or infinite in {bad_rows(good)}; check "
                    "the kernel's width there."
                )
        require_float32(self.x, self.x_names, "x")

    @property
    def theta_names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.prior.names

    def checkpoint_identity(self) -> object:
        """What checkpoints compare: all that a training depends on."""
        return self.x, self.record, self.method, self.prior, self.x_names

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        """Number, names and method, in a line."""
        return (
            f"Records({count(len(self), 'record')} for {self.method}, "
            f"x: {list_names(self.x_names)}; theta: {list_names(self.theta_names)})"
        )

    def _summarise(self) -> Summary:
        facts = {
            "method": str(self.method),
            "each holds": list_names(vars(self.record)),
            "prior of theta": repr(self.prior),
        }
        observables = tabulate_arrays("observable", self.x_names, self.x)
        title = f"{count(len(self), 'supervised record')}"
        return Summary(title, (tabulate_facts(facts), *observables))

    def __getitem__(self, rows: slice) -> "Records":
        """A slice of the records."""
        record = jax.tree.map(lambda leaf: leaf[rows], self.record)
        return dataclasses.replace(self, x=self.x[rows], record=record)


def draw(
    method: Method,
    simulator: Simulator,
    prior: AbstractPrior,
    n: int,
    *,
    seed: int,
    progress_bar: bool | None = None,
) -> Records:
    """Simulate `n` supervised records exactly as the method's flowchart says.

    KSE simulates at θ + ε and KLRE at θ_y, a little outside the prior: the simulator's valid domain
    must cover that.
    """
    if not isinstance(method, Method):
        kind = "a Mix" if isinstance(method, AbstractMethod) else type(method).__name__
        raise TypeError(
            f"draw takes one method, such as ist.KSE(ist.Delta(0.25)); got {kind}. "
            "Mixed methods train on stored events: ist.fit(ist.simulate(…), ist.Mix(…))."
        )
    if not isinstance(prior, AbstractPrior):
        raise TypeError(f"prior must be a prior such as ist.Uniform; got {kind_of(prior)}.")
    require_simulator(simulator)
    n, seed = as_count(n, "n"), as_seed(seed)
    drawn = method.supervision.draw(simulator, prior, n, seed=seed, show=progress_bar)
    names = as_names(drawn.x_names, drawn.x.shape[1], "x")
    origin = Origin(name_simulator(simulator), seed=seed)
    return Records(drawn.x, drawn.record, method, prior, names, origin)
