"""Library objects from the tables of a study: prior, simulator, method, network, training."""

import dataclasses
import importlib
import itertools
import os
import shutil
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..config.study_tables import FitTable, StudyTable
from ..simulator_file import SimulatorFileError, import_file
from .folder import Study

if TYPE_CHECKING:
    from ...learning.methods import AbstractMethod
    from ...learning.training.options import Training
    from ...world.priors.prior import AbstractPrior


def build_prior(table: StudyTable) -> "AbstractPrior":
    """The prior, with the names of its parameters."""
    from ...world.priors.discrete import Discrete
    from ...world.priors.prior import Normal, Uniform
    from ...world.priors.product import Product
    from ...world.priors.truncated_normal import TruncatedNormal

    # The table has made sure that a uniform prior has both of its bounds.
    bounds = {name: (one.low or 0.0, one.high or 0.0) for name, one in table.prior.items()}
    names, tables = list(table.prior), list(table.prior.values())
    if all(one.values is not None for one in tables):
        points = list(itertools.product(*(one.values or () for one in tables)))
        return Discrete(points, names=names)
    if all(one.mean is None for one in tables):
        low, high = zip(*bounds.values(), strict=True)
        return Uniform(low, high, names=names)
    parts: list[AbstractPrior] = []
    for name, one in table.prior.items():
        if one.mean is None or one.std is None:
            parts.append(Uniform(*bounds[name], names=[name]))
        elif one.low is None and one.high is None:
            parts.append(Normal(one.mean, one.std, names=[name]))
        else:
            edges = {"low": one.low, "high": one.high}
            given = {key: edge for key, edge in edges.items() if edge is not None}
            parts.append(TruncatedNormal(one.mean, one.std, **given, names=[name]))
    return Product(parts, names=names)


def load_simulator(study: Study) -> Any:  # noqa: ANN401
    """The simulator; this imports the user's file or module."""
    from ...world.program import Program
    from ...world.simulator import require_simulator

    table = study.table.simulator
    if table.command is not None:
        _require_program(study, table.command[0])
        return Program(
            [_fill_word(study, word) for word in table.command],
            theta=table.theta,
            x=table.x,
            theta_names=list(study.table.prior),
            x_names=table.x_names,
            time_limit=table.time_limit,
            deterministic=table.deterministic,
        )
    simulator = find_function(study, table.function)
    if isinstance(simulator, type):
        raise ValueError(
            f"the simulator is the class {simulator.__name__}; name an instance of it."
        )
    try:
        require_simulator(simulator)
    except TypeError as error:
        raise ValueError(f"the simulator of the study is none: {error}") from error
    if table.x_names is None:
        return simulator
    if not isinstance(simulator, types.FunctionType):
        raise ValueError(
            "simulator.x_names in study.toml is for a plain function or a program; this simulator "
            f"is a {type(simulator).__name__}, which names its observables itself."
        )
    return NamedFunction(simulator, tuple(table.x_names))


def _require_program(study: Study, word: str) -> None:
    """Refuse a program that lies in the study's folder and was named as one on PATH."""
    alone = os.path.basename(word) == word
    if alone and (study.folder / word).is_file() and shutil.which(word) is None:
        raise ValueError(
            f"the program {word!r} of simulator.command is not on PATH; to run the file of the "
            f'study\'s folder write "./{word}" there.'
        )


@dataclasses.dataclass(frozen=True)
class NamedFunction:
    """A simulator that is a function, with names for its observables."""

    function: Callable[[Any, Any], Any]
    names: tuple[str, ...]

    def __call__(self, theta: Any, rng: Any) -> Any:  # noqa: ANN401
        """The observables as a table with these names."""
        from ...inputs import as_floats, column_names
        from ...world.program import NamedColumns
        from ...world.simulator import SimulatorOutputError

        made = self.function(theta, rng)
        own = column_names(made)
        try:
            values = as_floats(made, "the simulator's x")
        except (TypeError, ValueError) as error:
            raise SimulatorOutputError(str(error)) from error
        if own is not None and own != self.names:
            raise SimulatorOutputError(
                f"the simulator returns columns {', '.join(own)}, but simulator.x_names in "
                f"study.toml are {', '.join(self.names)}. Remove x_names there: a data frame "
                "names its columns itself."
            )
        if values.ndim != 2 or values.shape[1] != len(self.names):
            raise SimulatorOutputError(
                f"the simulator returns shape {values.shape}, but simulator.x_names in study.toml "
                f"has {len(self.names)} names: {', '.join(self.names)}."
            )
        return NamedColumns(values, self.names)


def find_function(study: Study, name: str) -> Any:  # noqa: ANN401
    """A function of the simulator's file, or of its module."""
    table = study.table.simulator
    if table.module is not None:
        place, _, own = table.module.partition(":")
        name = own if name == table.function else name
        if str(study.folder.absolute()) not in sys.path:
            sys.path.insert(0, str(study.folder.absolute()))
        try:
            found: Any = importlib.import_module(place)
        except (Exception, SystemExit) as error:
            raise SimulatorFileError(f"{place} could not be imported: {error}") from error
    else:
        assert table.file is not None
        place = str(study.folder / table.file)
        found = import_file(place, f"a function `{name}`")
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise ValueError(f"{place} defines no `{name}`.")
    return found


def _fill_word(study: Study, word: str) -> str | os.PathLike[str]:
    """The folder in place of {study}; a file there with its whole path, as the folder changes."""
    file = study.find_word(word)
    return word.replace("{study}", str(study.folder.absolute())) if file is None else file


def build_method(table: FitTable) -> "AbstractMethod | None":
    """The method; None for the default."""
    from ...learning import methods
    from ...supervision import kernels

    known = {
        "delta": kernels.Delta,
        "rectangular": kernels.Rectangular,
        "triangular": kernels.Triangular,
        "epanechnikov": kernels.Epanechnikov,
        "gaussian": kernels.Gaussian,
    }
    if table.method in ("KLRE", "KSE"):
        assert table.kernel is not None
        kernel = known[table.kernel](table.width)
        return methods.KLRE(kernel) if table.method == "KLRE" else methods.KSE(kernel)
    return {"KCE": methods.KCE, "CARL": methods.CARL, None: lambda: None}[table.method]()


def build_network(table: FitTable) -> Any:  # noqa: ANN401
    """The network; None for the default."""
    from ...models.networks.networks import MLP, Residual

    network = table.network
    if network is None:
        return None
    if network.kind == "mlp":
        return MLP() if network.widths is None else MLP(tuple(network.widths))
    given: dict[str, Any] = {"width": network.width, "blocks": network.blocks}
    return Residual(**{key: value for key, value in given.items() if value is not None})


def build_training(table: FitTable) -> "Training | None":
    """The training; None where the file gives none of its settings."""
    from ...learning.training.options import Training

    keys = ("effort", "epochs", "batch_size", "learning_rate", "weight_decay", "patience")
    given = {key: getattr(table, key) for key in keys if getattr(table, key) is not None}
    return Training(**given) if given else None
