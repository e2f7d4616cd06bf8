"""Files of MadMiner: weighted events in HDF5, and training sets of its sample augmenter.

In its ratio sets y = 0 means that x was drawn at θ₀, r_xz is p(θ₀)/p(θ₁), and t_xz is the joint
score at θ₀ *for both labels*; sets of its doubly parameterised methods also hold the score at θ₁.
Here a joint score belongs to the θ that made the event, so it is taken from the file for that θ.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...inputs import Input, as_flag, as_floats, as_path, as_text, bad_rows, in_short, warn_user
from ...packages import import_package
from ...world.priors.prior import AbstractPrior
from ..events import Events
from ..latent import JOINT_SCORE, LOG_JOINT_RATIO, PARTNER, SCORE_OFF_REFERENCE, Latent
from ..morphing.morphing import Morphing
from ..morphing.nuisance import Exponents, nuisance_exponents
from ..morphing.weighted_pool import WeightedPool
from ..origin import Origin

#: How MadMiner writes that a benchmark of a nuisance parameter is absent.
ABSENT = ("None", "")


def read_madminer(path: str | Path) -> WeightedPool:
    """The weighted events of a MadMiner file, with its morphing and nuisance parameters.

    The samples generated at different benchmarks each add up to the whole rate; they are scaled
    by their share of the events, as MadMiner does, so that together they do. All benchmarks serve
    the morphing, those beyond the number of components by least squares (MadMiner uses the first
    ones only, which is the same for weights without noise).

    Needs h5py: `pip install 'inferostatic[readers]'`.

    Args:
        path: an HDF5 file with analysed events, such as its `LHEReader` or `DelphesReader` saves.
    """
    h5py = import_package("h5py", "reading MadMiner files uses h5py", "readers")
    path = as_path(path)
    with _open(h5py, path) as file:
        weights = _read(file, "samples/weights", path, "Has the analysis of events been run?")
        x = _read(file, "samples/observations", path, "Has the analysis been run?")
        parameters = _names(_read(file, "parameters/names", path))
        benchmarks = _names(_read(file, "benchmarks/names", path))
        values = _read(file, "benchmarks/values", path)
        needed = "Only files with a morphing set-up can be used."
        powers = _read(file, "morphing/components", path, needed)
        observables = _names(_read_or(file, "observables/names", []))
        none = np.zeros(len(benchmarks))
        is_nuisance = np.asarray(_read_or(file, "benchmarks/is_nuisance", none), bool)
        is_reference = np.asarray(_read_or(file, "benchmarks/is_reference", []), bool)
        origin = _read_or(file, "samples/sampling_benchmarks", [])
        systematics = _systematics(file)
    if weights.shape[1] != len(benchmarks):
        raise ValueError(
            f"{path} lists {len(benchmarks)} benchmarks and {weights.shape[1]} weights for each "
            "event; run the analysis of events again with the final benchmarks."
        )
    weights = weights * _sample_shares(np.asarray(origin, np.int64), len(weights))[:, None]
    column = {name: weights[:, i] for i, name in enumerate(benchmarks)}
    reference = [n for n, here in zip(benchmarks, is_reference, strict=False) if here]
    physics = ~is_nuisance
    return WeightedPool(
        x=np.asarray(x, np.float64),
        weights=weights[:, physics],
        x_names=tuple(observables),
        weight_names=tuple(n for n, here in zip(benchmarks, physics, strict=True) if here),
        morphing=Morphing(powers, values[physics], nuisances=len(systematics)),
        theta_names=(*parameters, *systematics),
        nuisance=_exponents(column, systematics, reference, path),
    )


def _sample_shares(origin: np.ndarray, n: int) -> np.ndarray:
    """What the events of every sample are multiplied by: its share; 1 for background, at −1."""
    if len(origin) != n:
        return np.ones(n)
    signal = origin >= 0
    counts = np.bincount(origin[signal]) if signal.any() else np.zeros(1)
    return np.where(signal, counts[np.maximum(origin, 0)] / max(counts.sum(), 1), 1.0)


def _systematics(file: Mapping[str, Any]) -> dict[str, tuple[str, str | None]]:
    """Names of the benchmarks at ν = +1 and −1 by nuisance parameter."""
    found = {}
    names = _names(_read_or(file, "nuisance_parameters/names", []))
    ups = _names(_read_or(file, "nuisance_parameters/benchmark_positive", []))
    downs = _names(_read_or(file, "nuisance_parameters/benchmark_negative", []))
    for name, up, down in zip(names, ups, downs, strict=True):
        if up in ABSENT:
            raise ValueError(f"the nuisance parameter {name!r} has no benchmark at ν = +1.")
        found[name] = (up, None if down in ABSENT else down)
    return found


def _exponents(
    column: Mapping[str, np.ndarray],
    systematics: Mapping[str, tuple[str, str | None]],
    reference: Sequence[str],
    path: str | Path,
) -> Exponents | None:
    if not systematics:
        return None
    if len(reference) != 1:
        raise ValueError(
            f"{path} has nuisance parameters and {len(reference)} reference benchmarks; one is "
            "needed, to which their weights refer."
        )
    ups = [column[up] for up, _ in systematics.values()]
    downs = [None if down is None else column[down] for _, down in systematics.values()]
    return nuisance_exponents(column[reference[0]], ups, downs)


def _open(h5py: Any, path: str | Path) -> Any:  # noqa: ANN401
    if Path(path).is_dir():
        raise ValueError(
            f"{str(path)!r} is a folder; for sets of .npy files use ist.read_madminer_samples, or "
            "pass one HDF5 file in it."
        )
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    if not h5py.is_hdf5(str(path)):
        raise ValueError(
            f"{str(path)!r} is not an HDF5 file; pass one that MadMiner saved, or for sets of .npy "
            "files use ist.read_madminer_samples with their folder."
        )
    try:
        return h5py.File(str(path), "r")
    except OSError as error:
        raise ValueError(
            f"{str(path)!r} cannot be opened, because it is damaged, ends early or is still being "
            f"written; save it again ({in_short(error)})."
        ) from error


def _read(file: Mapping[str, Any], key: str, path: str | Path, hint: str = "") -> np.ndarray:
    if key not in file:
        raise ValueError(f"{path} is not a complete MadMiner file: it has no {key!r}. {hint}")
    return file[key][()]


def _read_or(file: Mapping[str, Any], key: str, default: Input) -> np.ndarray:
    return file[key][()] if key in file else np.asarray(default)


def _names(values: np.ndarray) -> list[str]:
    return [v.decode() if isinstance(v, bytes) else str(v) for v in values]


def read_madminer_samples(
    folder: str | Path,
    name: str | None = None,
    *,
    scored: bool = False,
    prior: AbstractPrior | None = None,
    x_names: Sequence[str] | None = None,
    theta_names: Sequence[str] | None = None,
) -> Events:
    """A training or test set of MadMiner's `SampleAugmenter`.

    Events have the θ they were drawn at. Ratio sets give the other θ of each pair as latent
    `partner`, and `log_joint_ratio`, ln p_lat at the event's θ less that at the partner; files of
    scores give `joint_score`, at the event's θ. A set against one θ₁ with scores at θ₀ alone, such
    as `sample_train_ratio` writes, has them as `joint_score_off_reference`, which methods with
    `reference=θ₁` learn from.

    Args:
        folder: where `x_<name>.npy` and the others lie.
        name: what MadMiner was given as `filename=`; default the only one there is.
        scored: of a ratio set keep only the events whose joint score at their own θ was stored,
            with it and without the ratios. `sample_train_ratio` stores it at θ₀ alone, so those are
            the events with y = 0. `sample_train_more_ratios` stores both.
        prior: the distribution that the θ of the events were drawn from.
        x_names: names of the columns of x.
        theta_names: names of the columns of θ.
    """
    folder, scored = as_path(folder, "folder"), as_flag(scored, "scored")
    if name is not None:
        as_text(name, "name")
    _require_folder(folder)
    name = _only_name(folder) if name is None else name
    arrays = {path.name[: -len(f"_{name}.npy")]: path for path in _files(folder, name)}
    if "x" not in arrays:
        raise FileNotFoundError(
            f"there is no file {str(Path(folder) / f'x_{name}.npy')!r}; {_sets(folder)}. Say which "
            "one by name=."
        )
    found = {key: as_floats(_load(path), path.name) for key, path in arrays.items()}
    n = len(found["x"])
    for key, values in found.items():
        if len(values) != n:
            raise ValueError(
                f"x_{name}.npy has {n} rows and {key}_{name}.npy {len(values)}; they do not belong "
                "together."
            )
    theta, latent, rows = (
        _read_ratio_set(found, name, scored=scored) if "y" in found else _read_plain_set(found)
    )
    _cut_scores(latent, theta.shape[1])
    return Events(
        x=found["x"][rows],
        theta=theta[rows],
        latent=Latent({key: values[rows] for key, values in latent.items()}),
        prior=prior,
        x_names=x_names,
        theta_names=theta_names,
    ).with_origin(Origin(source=f"the MadMiner set {name}"))


class _Set(NamedTuple):
    """θ and latent arrays of a set, and a mask of the events to use."""

    theta: np.ndarray
    latent: dict[str, np.ndarray]
    rows: np.ndarray


def _read_plain_set(found: Mapping[str, np.ndarray]) -> _Set:
    """Sets with one θ for each event."""
    if "theta" not in found:
        raise ValueError(f"a set without y needs a file theta_…; got {', '.join(sorted(found))}.")
    latent = {JOINT_SCORE: found["t_xz"]} if "t_xz" in found else {}
    return _Set(found["theta"], latent, np.ones(len(found["x"]), bool))


def _read_ratio_set(found: Mapping[str, np.ndarray], name: str, *, scored: bool) -> _Set:
    """Sets of pairs."""
    absent = [key for key in ("theta0", "theta1") if key not in found]
    if absent:
        raise ValueError(f"a set with y_{name}.npy needs {absent[0]}_{name}.npy too.")
    y = found["y"].reshape(-1)
    if not np.isin(y, [0, 1]).all():
        raise ValueError(f"y_{name}.npy must hold the labels 0 and 1.")
    from_1 = (y == 1)[:, None]
    theta = np.where(from_1, found["theta1"], found["theta0"])
    latent = {PARTNER: np.where(from_1, found["theta0"], found["theta1"])}
    if "r_xz" in found:
        ratio = found["r_xz"].reshape(-1)
        if not (ratio > 0).all():
            raise ValueError(
                f"r_xz_{name}.npy is not positive in {bad_rows(ratio > 0)}, so that it has no "
                "logarithm; negative weights were morphed there. Remove those rows of all files."
            )
        latent[LOG_JOINT_RATIO] = np.where(y == 1, -1.0, 1.0) * np.log(ratio)
    rows = np.ones(len(y), bool)
    if "t_xz0" in found and "t_xz1" in found:
        latent[JOINT_SCORE] = np.where(from_1, found["t_xz1"], found["t_xz0"])
    elif "t_xz" in found and not from_1.any():
        latent[JOINT_SCORE] = found["t_xz"]
    elif "t_xz" in found and scored:
        # Pairs whose event always comes from the same side teach no ratio.
        latent, rows = {JOINT_SCORE: found["t_xz"]}, ~from_1[:, 0]
    elif "t_xz" in found and (found["theta1"] == found["theta1"][0]).all():
        latent[SCORE_OFF_REFERENCE] = np.where(from_1, 0.0, found["t_xz"])
    elif "t_xz" in found:
        warn_user(
            f"t_xz_{name}.npy holds joint scores at θ₀, and {int(from_1.sum())} of {len(y)} events "
            "were drawn at θ₁; the scores are left out. Use scored=True to keep the events drawn "
            "at θ₀ with their scores."
        )
    return _Set(theta, latent, rows)


def _cut_scores(latent: dict[str, np.ndarray], dim: int) -> None:
    """Leave out scores of nuisance parameters that are no part of θ."""
    for name in {JOINT_SCORE, SCORE_OFF_REFERENCE} & latent.keys():
        count = latent[name].shape[1]
        if count > dim:
            warn_user(
                f"the joint scores have {count} components and θ has {dim}: the last "
                f"{count - dim}, of nuisance parameters that were kept at 0, are left out."
            )
            latent[name] = latent[name][:, :dim]


def _files(folder: str | Path, name: str) -> list[Path]:
    kinds = ("x", "y", "theta", "theta0", "theta1", "r_xz", "t_xz", "t_xz0", "t_xz1")
    paths = [Path(folder) / f"{kind}_{name}.npy" for kind in kinds]
    return [path for path in paths if path.is_file()]


def _load(path: Path) -> np.ndarray:
    try:
        return np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"{str(path)!r} cannot be read as an array of NumPy ({in_short(error)}); make the set "
            "again."
        ) from error


def _require_folder(folder: str | Path) -> None:
    path = Path(folder)
    if path.is_file():
        raise ValueError(
            f"{str(folder)!r} is a file; pass the folder where x_<name>.npy and the others lie, "
            f"such as {str(path.parent)!r}, and the name= of the set. For an HDF5 file use "
            "ist.read_madminer."
        )
    if not path.is_dir():
        raise FileNotFoundError(
            f"there is no folder {str(folder)!r}; pass the one where x_<name>.npy and the others "
            "lie."
        )


def _set_names(folder: str | Path) -> list[str]:
    return sorted(path.name[2:-4] for path in Path(folder).glob("x_*.npy"))


def _sets(folder: str | Path) -> str:
    """The sets there are, for a message."""
    names = _set_names(folder)
    several = "set" if len(names) == 1 else "sets"
    return f"{str(folder)!r} has {len(names)} {several}, {', '.join(names) or 'no file x_….npy'}"


def _only_name(folder: str | Path) -> str:
    names = _set_names(folder)
    if len(names) != 1:
        raise ValueError(f"{_sets(folder)}; say which one by name=.")
    return names[0]
