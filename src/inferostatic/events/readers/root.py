"""Events out of a ROOT tree with one number for each event and branch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...inputs import Input, as_floats, as_path, as_text, describe_missing, in_short
from ...packages import import_package
from ...world.priors.prior import AbstractPrior
from ..events import Events
from ..origin import Origin


def read_root(
    path: str | Path,
    tree: str,
    *,
    x: Sequence[str],
    theta: Sequence[str] | Input,
    weight: str | None = None,
    prior: AbstractPrior | None = None,
) -> Events:
    """Events of a ROOT file, read through uproot.

    Needs uproot: `pip install 'inferostatic[readers]'`.

    Args:
        path: the file.
        tree: name of the tree, such as `"Events"`.
        x: branches of observables. One with k numbers for each event gives k columns.
        theta: branches of parameters; or the parameters themselves, one θ of shape (d,) for all
            events or one for each.
        weight: branch of the event weights, of either sign.
        prior: the distribution that `theta` was drawn from.
    """
    uproot = import_package("uproot", "reading ROOT files uses uproot", "readers")
    path, tree = as_path(path), as_text(tree, "tree")
    if weight is not None:
        as_text(weight, "weight")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    by_branch = _are_names(theta)
    x = [x] if isinstance(x, str) else x
    if not isinstance(x, list | tuple) or not x or not _are_names(x):
        raise TypeError(f"x must be names of branches, such as x=['pt', 'eta']; got {x!r}.")
    x = list(x)
    parameters = ([theta] if isinstance(theta, str) else list(theta)) if by_branch else []  # type: ignore[call-overload]
    try:
        opened = uproot.open(str(path))
    except Exception as error:  # uproot's kinds differ with what it meets first
        raise ValueError(
            f"{path} is not a ROOT file, or it is damaged ({in_short(error)}); pass a .root file."
        ) from error
    with opened as file:
        trees = [key.split(";")[0] for key in file]
        if tree not in trees:
            raise ValueError(f"{path} has these objects, and {describe_missing(tree, trees)}.")
        branches = [*x, *parameters, *([weight] if weight else [])]
        columns = {branch: _column(file[tree], branch) for branch in branches}
    events_x, x_names = _table(x, columns)
    if by_branch:
        points, theta_names = _table([str(p) for p in parameters], columns)
    else:
        points, theta_names = as_floats(theta, "theta"), None
    return Events(
        x=events_x,
        theta=points,
        weight=columns[weight] if weight else None,
        prior=prior,
        x_names=x_names,
        theta_names=theta_names,
    ).with_origin(Origin(source=f"{tree} of the ROOT file {Path(path).name}"))


def _are_names(theta: object) -> bool:
    if isinstance(theta, str):
        return True
    if not isinstance(theta, list | tuple) or not theta:
        return False
    return all(isinstance(name, str) for name in theta)


def _column(table: Any, branch: str) -> np.ndarray:  # noqa: ANN401
    if branch not in table.keys():  # noqa: SIM118
        raise ValueError(
            f"the tree has these branches, and {describe_missing(branch, table.keys())}."
        )
    try:
        values = table[branch].array(library="np")
    except ValueError as error:
        # What some versions of uproot say of such a branch; others give an array of arrays.
        if "RegularArray" not in str(error):
            raise
        values = np.empty(0, object)
    if values.dtype == object:
        raise ValueError(
            f"branch {branch!r} has a varying number of values for each event. Read such branches "
            f"with uproot, tree[{branch!r}].array(), and make columns of them with "
            "ist.pad_particles, or compute one number for each event first."
        )
    return as_floats(values, f"branch {branch!r}")


def _table(names: list[str], columns: dict[str, np.ndarray]) -> tuple[np.ndarray, list[str]]:
    """The columns of some branches side by side, with their names."""
    parts, titles = [], []
    for name in names:
        values = columns[name].reshape(len(columns[name]), -1)
        parts.append(values)
        several = columns[name].ndim > 1
        titles += [f"{name}[{i}]" for i in range(values.shape[1])] if several else [name]
    return np.concatenate(parts, axis=1), titles
