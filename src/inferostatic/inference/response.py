"""How statistics of events respond to θ, learned from simulated events, with its own error.

A statistic t(x) need not be anything in particular: its mean at θ, m(θ) = E[t | θ], is what
simulated events tell, as a polynomial in θ fitted by least squares. The error of the fit, from
finitely many events, is kept as the covariance of the coefficients (a sandwich, because the
scatter of t depends on θ).
"""

import dataclasses
import itertools

import numpy as np

#: Polynomials that are tried.
DEGREES = (1, 2, 3, 4)
CHUNK = 8192
#: Events near a point from which the scatter of the statistics is taken, at least and at most.
FEWEST_NEAR, MOST_NEAR = 500, 10_000
#: Parts of the events, those nearest to the point, on which polynomials are fitted.
PARTS = (1.0, 0.4, 0.15)
#: Degree and part of those that are flexible enough to show the bias of the others.
FLEXIBLE = ((3, 0.15), (3, 0.4), (2, 0.15))
#: Of the information in any direction, the part that must be left when noise is taken off.
LEAST_LEFT = 0.1
#: Events for each term of a polynomial, at least.
EVENTS_PER_TERM = 50


@dataclasses.dataclass(frozen=True)
class Response:
    """m(θ) and its covariance.

    Attributes:
        centre, scale: of θ, in which the polynomial is written.
        exponents: of each term, shape (terms, d).
        coefficients: shape (terms, p).
        covariance: of the coefficients, shape (terms, p, terms, p).
        scatter: covariance of t at the point where it is needed, shape (p, p).
        events: number of simulated events.
        near: number of events from which the scatter was taken.
        degree: of the polynomial.
    """

    centre: np.ndarray
    scale: np.ndarray
    exponents: np.ndarray
    coefficients: np.ndarray
    covariance: np.ndarray
    scatter: np.ndarray
    events: int
    near: int
    degree: int

    def terms(self, theta: np.ndarray) -> np.ndarray:
        """Of θ, shape (n, terms)."""
        return _terms((theta - self.centre) / self.scale, self.exponents)

    def mean(self, theta: np.ndarray) -> np.ndarray:
        """m(θ), shape (p,)."""
        return (self.terms(theta[None]) @ self.coefficients)[0]

    def error(self, theta: np.ndarray) -> np.ndarray:
        """Covariance of m(θ) by the finite number of simulated events, shape (p, p)."""
        terms = self.terms(theta[None])[0]
        return np.einsum("k,kalb,l->ab", terms, self.covariance, terms)

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        """∂m/∂θ, shape (p, d)."""
        return (self._slopes(theta) @ self.coefficients).T

    def _slopes(self, theta: np.ndarray) -> np.ndarray:
        """∂/∂θ of the terms, shape (d, terms)."""
        place = (theta - self.centre) / self.scale
        rows = []
        for j in range(len(theta)):
            lower = self.exponents.copy()
            lower[:, j] = np.maximum(lower[:, j] - 1, 0)
            rows.append(self.exponents[:, j] * _terms(place[None], lower)[0] / self.scale[j])
        return np.stack(rows)

    def information(self, theta: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """Of means with this covariance about θ: JᵀV⁻¹J less what noise of J adds to it.

        A square is larger on average if what is squared is noisy. Where nothing is left, the noise
        is not taken off.
        """
        inverse = np.linalg.inv(covariance)
        jacobian, slopes = self.jacobian(theta), self._slopes(theta)
        plain = jacobian.T @ inverse @ jacobian
        noise = np.einsum("ik,kalb,ab,jl->ij", slopes, self.covariance, inverse, slopes)
        corrected = plain - noise
        values = np.linalg.eigvals(np.linalg.solve(plain, corrected)).real
        return corrected if values.min() > LEAST_LEFT else plain

    def first(self, count: int) -> "Response":
        """Of the first statistics only."""
        return dataclasses.replace(
            self,
            coefficients=self.coefficients[:, :count],
            covariance=self.covariance[:, :count, :, :count],
            scatter=self.scatter[:count, :count],
        )


def mean_of(responses: list[Response]) -> Response:
    """The response of the mean of statistics whose responses come from different events."""
    first = responses[0]
    if len(responses) == 1:
        return first
    number = len(responses)
    return dataclasses.replace(
        first,
        coefficients=sum(r.coefficients for r in responses) / number,
        covariance=sum(r.covariance for r in responses) / number**2,
        # Each is that of the mean statistic already, seen on other events.
        scatter=sum(r.scatter for r in responses) / number,
        events=sum(r.events for r in responses),
        near=sum(r.near for r in responses),
    )


def respond(
    theta: np.ndarray,
    statistics: np.ndarray,
    at: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    degree: int | None = None,
    judged: int | None = None,
    observed: int = 1000,
) -> Response:
    """Fit the response of statistics t, shape (n, p), of events simulated at θ, shape (n, d).

    Args:
        theta: of each event.
        statistics: of each event.
        at: the point near which the response is needed.
        weight: of each event.
        degree: of the polynomial; that with the least error at the point unless given, fitted to
            all events or to those nearby.
        observed: number of observed events whose mean will be compared.
        judged: number of statistics, the first ones, by which that is done; all unless given.
    """
    weight = np.ones(len(theta)) if weight is None else weight / weight.mean()
    scale = np.maximum(theta.std(axis=0), np.finfo(float).tiny)
    centre, place = at, (theta - at) / scale
    if degree is None:
        degree, part = _chosen(place, statistics[:, :judged], weight, observed)
        rows = np.sort(_nearest(place, max(1, int(part * len(place)))))
        place, statistics, weight = place[rows], statistics[rows], weight[rows]
    exponents = exponents_of(theta.shape[1], degree)
    matrix, vector = _normal(place, statistics, weight, exponents)
    inverse = np.linalg.pinv(matrix, hermitian=True)
    coefficients = inverse @ vector
    covariance = _sandwich(place, statistics, weight, exponents, coefficients, inverse)
    count = int(np.clip(len(place) // 10, FEWEST_NEAR, MOST_NEAR))
    nearest = _nearest(place, count)
    residual = statistics[nearest]
    design = _terms(place[nearest], exponents)
    # What is left of the mean's change over the neighbourhood is taken out.
    residual = residual - design @ np.linalg.lstsq(design, residual, rcond=None)[0]
    share = weight[nearest] / weight[nearest].sum()
    scatter = (residual * share[:, None]).T @ residual
    scatter *= len(nearest) / max(len(nearest) - len(exponents), 1)
    return Response(
        centre=centre,
        scale=scale,
        exponents=exponents,
        coefficients=coefficients,
        covariance=covariance,
        scatter=scatter,
        events=len(place),
        near=len(nearest),
        degree=degree,
    )


def exponents_of(dim: int, degree: int) -> np.ndarray:
    """Of all monomials up to a total degree, the constant first."""
    return np.array(
        [
            np.bincount(chosen, minlength=dim) if chosen else np.zeros(dim, int)
            for total in range(degree + 1)
            for chosen in itertools.combinations_with_replacement(range(dim), total)
        ]
    )


def _terms(place: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    powers = place[:, :, None] ** np.arange(exponents.max(initial=0) + 1)
    result = np.ones((len(place), len(exponents)))
    for j in range(place.shape[1]):
        result *= powers[:, j][:, exponents[:, j]]
    return result


def _normal(
    place: np.ndarray, statistics: np.ndarray, weight: np.ndarray, exponents: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    matrix = np.zeros((len(exponents), len(exponents)))
    vector = np.zeros((len(exponents), statistics.shape[1]))
    for first in range(0, len(place), CHUNK):
        rows = slice(first, first + CHUNK)
        design = _terms(place[rows], exponents)
        weighted = design * weight[rows, None]
        matrix += weighted.T @ design
        vector += weighted.T @ statistics[rows]
    return matrix, vector


def _sandwich(
    place: np.ndarray,
    statistics: np.ndarray,
    weight: np.ndarray,
    exponents: np.ndarray,
    coefficients: np.ndarray,
    inverse: np.ndarray,
) -> np.ndarray:
    terms, count = coefficients.shape
    middle = np.zeros((terms * count, terms * count))
    for first in range(0, len(place), CHUNK):
        rows = slice(first, first + CHUNK)
        design = _terms(place[rows], exponents)
        residual = statistics[rows] - design @ coefficients
        each = (design * weight[rows, None])[:, :, None] * residual[:, None, :]
        each = each.reshape(len(design), -1)
        middle += each.T @ each
    middle *= len(place) / max(len(place) - terms, 1)
    return np.einsum(
        "ij,jakb,kl->ialb", inverse, middle.reshape(terms, count, terms, count), inverse
    )


def _nearest(place: np.ndarray, count: int) -> np.ndarray:
    distance = np.sum(place**2, axis=1)
    count = min(count, len(place))
    return np.argpartition(distance, count - 1)[:count]


def _chosen(
    place: np.ndarray, statistics: np.ndarray, weight: np.ndarray, events: int
) -> tuple[int, float]:
    """The degree, and the part of the events, with the least error of m and its slopes.

    Variances are known for each choice. Bias shows as a difference to the most flexible choice that
    is larger than the scatter of that difference, which is known as well because all are fitted to
    the same events. Errors of m count in units of its scatter over `events` observed ones, those of
    slopes in units of a fifth of the slopes.
    """
    choices = {}
    for part in PARTS:
        rows = np.sort(_nearest(place, int(part * len(place))))
        for degree in DEGREES:
            if len(exponents_of(place.shape[1], degree)) * EVENTS_PER_TERM <= len(rows):
                choices[degree, part] = rows
    if not choices:
        return 1, 1.0
    reference = next((key for key in FLEXIBLE if key in choices), max(choices))
    found, each = _at_point(place, statistics, weight, choices[reference], reference[0])
    scatter = statistics[_nearest(place, FEWEST_NEAR)]
    slopes = np.broadcast_to(_slope_unit(found[1:]), found[1:].shape)
    unit = np.concatenate([scatter.var(axis=0)[None] / events + np.finfo(float).tiny, slopes])
    costs = {}
    for key, rows in choices.items():
        other, parts = _at_point(place, statistics, weight, rows, key[0])
        variance = np.sum(parts**2, axis=0)
        bias = np.maximum((other - found) ** 2 - np.sum((parts - each) ** 2, axis=0), 0)
        costs[key] = float(np.sum((variance + bias) / unit))
    return min(costs, key=lambda key: costs[key])


def _slope_unit(slopes: np.ndarray) -> np.ndarray:
    """The square of a fifth of a typical slope of each statistic."""
    return np.sum(slopes**2, axis=0) / 25 + np.finfo(float).tiny


def _at_point(
    place: np.ndarray, statistics: np.ndarray, weight: np.ndarray, rows: np.ndarray, degree: int
) -> tuple[np.ndarray, np.ndarray]:
    """m and its slopes at the point, shape (1 + d, p), and each event's part in their error."""
    number = 1 + place.shape[1]
    exponents = exponents_of(place.shape[1], degree)
    matrix, vector = _normal(place[rows], statistics[rows], weight[rows], exponents)
    inverse = np.linalg.pinv(matrix, hermitian=True)
    coefficients = inverse @ vector
    each = np.zeros((len(statistics), number, statistics.shape[1]))
    for first in range(0, len(rows), CHUNK):
        part = rows[first : first + CHUNK]
        design = _terms(place[part], exponents)
        pull = (design @ inverse[:, :number]) * weight[part, None]
        each[part] = pull[:, :, None] * (statistics[part] - design @ coefficients)[:, None, :]
    return coefficients[:number], each
