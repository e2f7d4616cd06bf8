"""Columns of x that carry no information of their own."""

import numpy as np

from ...inputs import row_slices

#: Rows compared at first; only columns that agree there are compared in full.
FIRST_LOOK = 1000


def odd_columns(x: np.ndarray, names: tuple[str, ...]) -> list[str]:
    """Remarks on constant and duplicated observables; an empty list if there are none."""
    remarks: list[str] = []
    if len(x) < 2:
        return remarks
    first = np.asarray(x[:FIRST_LOOK])
    still = np.flatnonzero((first == first[:1]).all(axis=0)).tolist()
    constant = [int(j) for j in still if _agree(x, j, None)]
    if constant:
        remarks.append(
            f"{_list_observables(names, constant)} the same value in every event and can be left "
            "out."
        )
    seen: dict[bytes, int] = {}
    for j in range(x.shape[1]):
        if j in constant:
            continue
        other = seen.setdefault(first[:, j].tobytes(), j)
        if other != j and _agree(x, j, other):
            remarks.append(
                f"the observable {names[j]} equals {names[other]} in every event and can be left "
                "out."
            )
    return remarks


def _agree(x: np.ndarray, j: int, other: int | None) -> bool:
    """Whether a column equals another one, or without one its first value, in every event.

    Rows are compared in pieces, because x may be a file.
    """
    for rows in row_slices(x):
        part = x[rows]
        if not (part[:, j] == (x[0, j] if other is None else part[:, other])).all():
            return False
    return True


def _list_observables(names: tuple[str, ...], which: list[int]) -> str:
    if len(which) == 1:
        return f"the observable {names[which[0]]} has"
    return f"the observables {', '.join(names[j] for j in which)} each have"
