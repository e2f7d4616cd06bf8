r"""The response of statistics to θ, learned from events: their mean with its error, and covariance.

A mean is a polynomial. Up to some degree its coefficients are free, because a prior that
pulls curvature towards zero is a bias where it has the same sign everywhere; beyond, they have a
normal prior. How large they are, and how fast they fall with the degree, follows from the evidence
of the events and is averaged over. So the error includes what the polynomial could still hide, and
events are not wasted on terms that are not there.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from ..polynomials import evaluate_legendre, list_degrees
from ..serial import known

#: Events whose terms are computed at a time: a table of 100 terms then takes 3 MB.
CHUNK = 4096
#: Variances that the first coefficients with a prior may have, in units of one event's scatter:
#: from unmeasurable with 10⁸ events to larger than the scatter itself.
VARIANCES = np.logspace(-8, 2, 21)
#: Factors by which these variances may fall with each degree: from rough to nearly linear means.
FALLS = (0.03, 0.1, 0.3, 0.7)
#: Step of numerical derivatives, in coordinates of order one: rounding and the third order are
#: both below 1e-8.
STEP = 1e-4
#: Numbers in the matrices that are held at a time: one for each event takes much for wide x.
MATRIX_NUMBERS = 1_000_000
#: Dimension of the Krylov space in which an exponential acts on one vector: with eigenvalues that
#: differ by 10, variances by e²⁰, its error is below 1e-5. Narrower values take all eigenvectors.
KRYLOV = 16
#: Fewest events of a cell from which one covariance is taken: its elements are known to 10%.
CELL = 200
#: Times that a covariance is learned, each time from what the times before left over.
ROUNDS = 3


@known
@dataclasses.dataclass(frozen=True)
class PolynomialCoordinates:
    """u = (θ − centre) · matrix, of order one where the events are.

    Attributes:
        centre: shape (d,).
        matrix: shape (d, k), with a column for each parameter in which the events differ.
        radius: of the ball where the events are, in u; None for the cube from −1 to 1.
    """

    centre: np.ndarray
    matrix: np.ndarray
    radius: float | None = None

    @classmethod
    def of_box(cls, low: np.ndarray, high: np.ndarray) -> "PolynomialCoordinates":
        """From −1 to 1 between two corners, for the parameters in which they differ."""
        varied = high > low
        matrix = np.diag(2 / np.where(varied, high - low, 1.0))
        return cls((low + high) / 2, matrix[:, varied])

    @classmethod
    def of_normal(
        cls, centre: np.ndarray, covariance: np.ndarray, free: np.ndarray | None = None
    ) -> "PolynomialCoordinates":
        """From −1 to 1 within two standard deviations of events that fill an ellipsoid.

        The covariance is that of the k parameters at the indices `free`, all by default.
        """
        kept = np.arange(len(centre)) if free is None else free
        matrix = np.zeros((len(centre), len(kept)))
        matrix[kept] = np.linalg.inv(np.linalg.cholesky(covariance)).T / 2
        return cls(centre, matrix, float(np.sqrt(len(kept) + 2)) / 2)

    @property
    def dim(self) -> int:
        """Number of coordinates, k."""
        return self.matrix.shape[1]

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """u of points, shape (n, d) -> (n, k)."""
        return (theta - self.centre) @ self.matrix

    def clip_to_events(self, u: np.ndarray) -> np.ndarray:
        """The nearest coordinates where there are events."""
        if self.radius is None:
            return np.clip(u, -1, 1)
        length = np.linalg.norm(u, axis=1, keepdims=True)
        return u * np.minimum(1, self.radius / np.maximum(length, np.finfo(float).tiny))


@known
@dataclasses.dataclass(frozen=True)
class MeanResponse:
    """m(θ), p values, with its error.

    Attributes:
        coordinates: in which it is a polynomial.
        degrees: of each term, shape (terms, d).
        coefficients: shape (terms, p).
        covariance: of the coefficients, shape (p, terms, terms); different values are independent.
        events: from which it was learned.
    """

    coordinates: PolynomialCoordinates
    degrees: np.ndarray
    coefficients: np.ndarray
    covariance: np.ndarray
    events: int

    def __call__(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """m(θ) and the variances of its values, shapes (p,)."""
        terms = self._terms(theta[None])[0]
        return terms @ self.coefficients, np.einsum("k,pkl,l->p", terms, self.covariance, terms)

    def at(self, theta: np.ndarray) -> np.ndarray:
        """m at many points, shape (n, d) -> (n, p)."""
        parts = [
            self._terms(theta[first : first + CHUNK]) @ self.coefficients
            for first in range(0, len(theta), CHUNK)
        ]
        return np.concatenate(parts)

    def slopes(self, theta: np.ndarray) -> np.ndarray:
        """∂m/∂θ, shape (p, d), by central differences, which are exact enough in float64."""
        steps = np.linalg.pinv(self.coordinates.matrix) * STEP
        points = np.concatenate([theta + steps, theta - steps])
        up, down = np.split(self._terms(points) @ self.coefficients, 2)
        return (up - down).T / (2 * STEP) @ self.coordinates.matrix.T

    def _terms(self, theta: np.ndarray) -> np.ndarray:
        """The terms at many points; beyond the events they are continued as straight lines.

        A polynomial there is anything, and a fit on its way might take that for its goal.
        """
        u = self.coordinates(theta)
        near = self.coordinates.clip_to_events(u)
        terms = evaluate_legendre(near, self.degrees)
        length = np.linalg.norm(u - near, axis=1)
        far = length > 1e-9
        if far.any():
            step = (u - near)[far] * (STEP / length[far, None])
            up = evaluate_legendre(near[far] + step, self.degrees)
            down = evaluate_legendre(near[far] - step, self.degrees)
            terms[far] += (up - down) * (length[far, None] / (2 * STEP))
        return terms


def learn_mean(
    theta: np.ndarray,
    values: np.ndarray,
    coordinates: PolynomialCoordinates,
    *,
    degree: int,
    free: int = 2,
    weight: np.ndarray | None = None,
) -> MeanResponse:
    """Learn the mean of values, shape (n, p), whose scatter about it does not depend on θ.

    It is a polynomial of the coordinates, of the highest `degree` that the number of terms allows;
    coefficients up to degree `free` have no prior.
    """
    degrees = list_degrees(coordinates.dim, degree)
    given = np.ones(len(theta)) if weight is None else weight
    # An effective event counts as one.
    share = given * given.sum() / np.square(given).sum()
    terms, count = len(degrees), values.shape[1]
    gram, products = np.zeros((terms, terms)), np.zeros((terms, count))
    squares = np.zeros(count)
    for first in range(0, len(theta), CHUNK):
        rows = slice(first, first + CHUNK)
        design = evaluate_legendre(coordinates(theta[rows]), degrees)
        weighted = design * share[rows, None]
        gram += weighted.T @ design
        products += weighted.T @ values[rows]
        squares += share[rows] @ np.square(values[rows])
    freedom = max(share.sum() - terms, 1.0)
    fitted = np.linalg.pinv(gram, hermitian=True) @ products
    scatter = np.maximum(squares - np.sum(products * fitted, axis=0), 1e-12 * squares) / freedom
    scatter = np.maximum(scatter, np.finfo(float).tiny)
    coefficients, covariance = _average_posteriors(gram, products / np.sqrt(scatter), degrees, free)
    return MeanResponse(
        coordinates=coordinates,
        degrees=degrees,
        coefficients=coefficients * np.sqrt(scatter),
        covariance=covariance * scatter[:, None, None],
        events=len(theta),
    )


def _average_posteriors(
    gram: np.ndarray, products: np.ndarray, degrees: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (terms, p) and covariances (p, terms, terms), averaged over their sizes."""
    # Terms are in order of their degrees.
    degree = degrees.sum(axis=1)
    free = int(np.sum(degree <= most))
    first = np.linalg.pinv(gram[:free, :free], hermitian=True)
    taken = first @ gram[:free, free:]
    rest = gram[free:, free:] - gram[free:, :free] @ taken
    left = products[free:] - taken.T @ products[:free]
    high, spread = _shrink(rest, left, degree[free:] - most - 1)
    coefficients = np.concatenate([first @ products[:free] - taken @ high, high])
    covariance = np.zeros((products.shape[1], *gram.shape))
    covariance[:, :free, :free] = first + taken @ spread @ taken.T
    covariance[:, :free, free:] = -taken @ spread
    covariance[:, free:, :free] = np.swapaxes(covariance[:, :free, free:], 1, 2)
    covariance[:, free:, free:] = spread
    return coefficients, covariance


def _shrink(
    gram: np.ndarray, products: np.ndarray, degree: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same for coefficients with a prior, whose variance falls with the degree."""
    evidences, means, bases, variances = [], [], [], []
    for fall in FALLS:
        root = np.sqrt(fall) ** degree
        # In these directions coefficients of any common size are independent of each other.
        sizes, vectors = np.linalg.eigh(root[:, None] * gram * root)
        sizes = np.maximum(sizes, 0)
        inner = vectors.T @ (root[:, None] * products)
        left = 1 / (1 / VARIANCES[:, None] + sizes)
        evidence = left[:, :, None] * np.square(inner) / 2
        evidences.append(
            evidence.sum(axis=1) - np.log1p(VARIANCES[:, None] * sizes).sum(axis=1)[:, None] / 2
        )
        base = root[:, None] * vectors
        bases.append(base)
        variances.append(left)
        means.append(np.einsum("kl,hlp->hkp", base, left[:, :, None] * inner))
    share = np.exp(np.array(evidences) - np.max(evidences, axis=(0, 1)))
    share /= share.sum(axis=(0, 1))
    stacked = np.array(means)
    mean = np.einsum("fhp,fhkp->kp", share, stacked)
    covariance = np.einsum("fhp,fhkp,fhlp->pkl", share, stacked - mean, stacked - mean)
    for number, base in enumerate(bases):
        within = np.einsum("hp,hl->pl", share[number], variances[number])
        covariance += np.einsum("kl,pl,ml->pkm", base, within, base)
    return mean, covariance


@known
@dataclasses.dataclass(frozen=True)
class SmoothCovariance:
    """How the covariance of values changes with θ, by what makes it the identity.

    Each factor is the exponential of a symmetric matrix whose elements are polynomials, so that
    the covariance is positive definite everywhere.

    Attributes:
        coordinates: of the polynomials.
        degrees: of each term, shape (terms, d).
        factors: coefficients of the exponents, each of shape (terms, p, p); the last acts last.
        low, high: of the coordinates where it was learned; beyond, it stays as it is there.
        limits: of the size of each exponent, the largest that was seen.
    """

    coordinates: PolynomialCoordinates
    degrees: np.ndarray
    factors: tuple[np.ndarray, ...]
    low: np.ndarray
    high: np.ndarray
    limits: tuple[float, ...] = ()

    def whitening(self, theta: np.ndarray) -> np.ndarray:
        """W(θ), shape (n, p, p), with W C Wᵀ = 1, at points of shape (n, d)."""
        size = self.factors[0].shape[1]
        result = np.broadcast_to(np.eye(size), (len(theta), size, size))
        for logs, limit in self._exponents(theta):
            values, vectors = np.linalg.eigh(logs)
            values = np.clip(values, -limit, limit)
            factor = (vectors * np.exp(values)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
            result = factor @ result
        return result

    def whiten(self, theta: np.ndarray, values: np.ndarray) -> np.ndarray:
        """W(θ) v for a v at each point, shape (n, p), with few W in memory at a time."""
        rows = max(1, MATRIX_NUMBERS // values.shape[1] ** 2)
        white = np.array(values, np.float64)
        for start in range(0, len(values), rows):
            part = slice(start, start + rows)
            if values.shape[1] <= KRYLOV:
                white[part] = np.einsum("nab,nb->na", self.whitening(theta[part]), values[part])
                continue
            for logs, limit in self._exponents(theta[part]):
                white[part] = _apply_exponential(logs, white[part], limit)
        return white

    def _exponents(self, theta: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
        """The exponent of each factor, shape (n, p, p), and the limit of its size."""
        u = np.clip(self.coordinates(theta), self.low, self.high)
        terms = evaluate_legendre(u, self.degrees)
        for coefficients, limit in zip(self.factors, self.limits, strict=True):
            shape = coefficients.shape[1:]
            yield (terms @ coefficients.reshape(len(terms.T), -1)).reshape(-1, *shape), limit


def _apply_exponential(logs: np.ndarray, values: np.ndarray, limit: float) -> np.ndarray:
    """exp(L) v for each of many symmetric L, shape (n, p, p), by the Lanczos method.

    The eigenvectors of all L would take p/16 times as many operations, and then some.
    """
    count, size = values.shape
    basis = np.zeros((count, KRYLOV, size))
    small = np.zeros((count, KRYLOV, KRYLOV))
    length = np.linalg.norm(values, axis=1, keepdims=True)
    vector = values / np.maximum(length, np.finfo(float).tiny)
    for j in range(KRYLOV):
        basis[:, j] = vector
        image = (logs @ vector[:, :, None])[:, :, 0]
        whole = np.linalg.norm(image, axis=1, keepdims=True)
        found = basis[:, : j + 1]
        # Twice, because once leaves what rounding brings in.
        for again in (False, True):
            parts = (found @ image[:, :, None])[:, :, 0]
            image = image - (parts[:, None, :] @ found)[:, 0]
            if not again:
                small[:, j, : j + 1] = small[:, : j + 1, j] = parts
        rest = np.linalg.norm(image, axis=1, keepdims=True)
        # Where nothing is left, the space is complete.
        vector = np.where(rest > 1e-12 * whole, image / np.maximum(rest, np.finfo(float).tiny), 0)
    sizes, vectors = np.linalg.eigh(small)
    weights = np.exp(np.clip(sizes, -limit, limit)) * vectors[:, 0]
    inside = (vectors @ weights[:, :, None])[:, :, 0]
    return length * (inside[:, None, :] @ basis)[:, 0]


def learn_covariance(
    theta: np.ndarray,
    values: np.ndarray,
    coordinates: PolynomialCoordinates,
    *,
    degree: int,
    weight: np.ndarray | None = None,
) -> SmoothCovariance:
    """Learn how the covariance of values, shape (n, p), changes with θ, from cells of events.

    Within a cell it may change much, and is then that of the largest values; so what is left after
    a first attempt is learned again.
    """
    given = np.ones(len(theta)) if weight is None else weight
    u = coordinates(theta)
    cells = split_into_cells(u, np.arange(len(u)), CELL)
    # Three cells for each coefficient, or the covariance is taken to change less with θ.
    while degree and len(list_degrees(coordinates.dim, degree)) * 3 > len(cells):
        degree -= 1
    degrees = list_degrees(coordinates.dim, degree)
    shares = [given[rows] / given[rows].sum() for rows in cells]
    centres = np.array([share @ u[rows] for share, rows in zip(shares, cells, strict=True)])
    design = evaluate_legendre(centres, degrees)
    found = SmoothCovariance(coordinates, degrees, (), centres.min(axis=0), centres.max(axis=0))
    white = values
    while len(found.factors) < ROUNDS:
        logs = [_half_log(white[rows], share) for share, rows in zip(shares, cells, strict=True)]
        flat = np.reshape(logs, (len(cells), -1))
        coefficients = np.linalg.lstsq(design, flat, rcond=None)[0].reshape(-1, *logs[0].shape)
        limit = float(np.max(np.abs(np.linalg.eigvalsh(logs))))
        found = dataclasses.replace(
            found, factors=(*found.factors, coefficients), limits=(*found.limits, limit)
        )
        if len(found.factors) < ROUNDS:
            last = dataclasses.replace(found, factors=(coefficients,), limits=(limit,))
            white = last.whiten(theta, white)
    return found


def _half_log(values: np.ndarray, share: np.ndarray) -> np.ndarray:
    """−½ ln of the covariance of weighted values."""
    centred = values - share @ values
    covariance = (centred.T * share) @ centred / max(1 - np.sum(share**2), 1e-3)
    size, vectors = safe_eigh(covariance)
    return (vectors * (-0.5 * np.log(size))) @ vectors.T


def safe_eigh(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, none of them much smaller than the largest, and eigenvectors."""
    size, vectors = np.linalg.eigh(covariance)
    return np.maximum(size, 1e-12 * max(size[-1], np.finfo(float).tiny)), vectors


def split_into_cells(u: np.ndarray, rows: np.ndarray, size: int) -> list[np.ndarray]:
    """Halve events across their widest direction until cells have fewer than twice this size."""
    if len(rows) < 2 * size:
        return [rows]
    spread = np.ptp(u[rows], axis=0)
    order = rows[np.argsort(u[rows, np.argmax(spread)], kind="stable")]
    half = len(order) // 2
    return split_into_cells(u, order[:half], size) + split_into_cells(u, order[half:], size)
