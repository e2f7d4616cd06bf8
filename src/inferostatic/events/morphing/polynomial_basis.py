"""The basis of a morphing: which monomials of θ, in which standardised θ, from which benchmarks."""

import numpy as np
from numpy import ndarray

from ...inputs import Input, as_rows, rounded

#: Largest condition number of a basis: it multiplies the relative errors of the weights.
LARGEST_CONDITION = 1e6

#: Largest power of a parameter: a rate is of the second or fourth, and float64 bears few more.
MOST_POWER = 100


def as_powers(powers: Input) -> ndarray:
    """Exponents of each component, checked, as whole numbers of shape (C, d)."""
    table = as_rows(powers, "powers", of="parameters")
    whole = np.rint(np.nan_to_num(table, nan=-1.0, posinf=-1.0)).astype(np.int64)
    allowed = (whole == table) & (whole >= 0) & (whole <= MOST_POWER)
    if not allowed.all() or table.size == 0:
        raise ValueError(
            f"powers must be whole numbers from 0 to {MOST_POWER}, one row for each component and "
            f"one column for each parameter; got {rounded(table)}."
        )
    if len(np.unique(whole, axis=0)) < len(whole):
        raise ValueError(f"every component may be listed once; got powers {whole.tolist()}.")
    return whole


def choose_standardisation(powers: ndarray, benchmarks: ndarray) -> tuple[ndarray, ndarray]:
    """Centre and scale of θ in which the same components span the same polynomials.

    A shift of a parameter mixes each power of it with all lower ones, so it is allowed only where
    these are components too; a change of scale is always.
    """
    listed = {tuple(row) for row in powers.tolist()}
    centre = np.zeros(powers.shape[1])
    for j, unit in enumerate(np.eye(powers.shape[1], dtype=int)):
        lower = [tuple(row - unit) for row in powers if row[j] > 0]
        if all(row in listed for row in lower):
            column = benchmarks[:, j]
            centre[j] = (column.min() + column.max()) / 2
    reach = np.abs(benchmarks - centre).max(axis=0)
    return centre, np.where(reach > 0, reach, 1.0)


def solve_components(terms: ndarray, powers: ndarray) -> tuple[ndarray, float]:
    """The pseudo-inverse that takes weights at benchmarks to components; its condition number."""
    count, needed = terms.shape
    if count < needed:
        raise ValueError(
            f"{needed} components need at least {needed} benchmarks; got {count}. Add benchmarks, "
            "or list fewer powers."
        )
    _, values, directions = np.linalg.svd(terms, full_matrices=False)
    condition = float(values[0] / values[-1]) if values[-1] > 0 else float("inf")
    if condition > LARGEST_CONDITION:
        weak = np.abs(directions[-1])
        confused = powers[weak > 0.3 * weak.max()].tolist()
        raise ValueError(
            f"these benchmarks do not determine the components: the condition number is "
            f"{condition:.2g}, and at most {LARGEST_CONDITION:.0e} is allowed, because it "
            "multiplies the errors of the weights. The components with powers "
            f"{', '.join(map(str, confused))} can hardly be distinguished: move or add "
            "benchmarks so that they differ in these, further from each other and not on one line, "
            "or leave a component out."
        )
    return np.linalg.pinv(terms), condition
