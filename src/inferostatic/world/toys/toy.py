"""The interface of a toy simulator: it draws events and knows their exact density and score.

The public methods of `AbstractToy` check shapes, the domain of theta and the support of x, and
then call the private formulas of the concrete toy, which therefore read like their equations.
"""

import abc
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float64
from numpy.typing import ArrayLike

from ...inputs import as_count, as_floats, as_number, finite_rows

#: Parameters with one row per event.
Theta = Float64[np.ndarray, "n theta_dim"]
#: Events, one per row.
X = Float64[np.ndarray, "n x_dim"]
#: One number for each event.
PerEvent = Float64[np.ndarray, "n"]
#: The open range of each parameter by its name.
Domain = dict[str, tuple[float, float]]
#: Range of a parameter without bounds.
FREE = (-np.inf, np.inf)
#: Range of a positive parameter.
POSITIVE = (0.0, np.inf)
#: Range of a parameter between 0 and 1.
FRACTION = (0.0, 1.0)
#: Rows that a message lists at most.
_ROWS_NAMED = 5
#: Largest whole number that a toy takes, of columns, rows or bins.
MOST_WHOLE = 100_000


class AbstractToy(abc.ABC):
    r"""A simulator with exact truth: events, $\ln p(x;\theta)$ and $s = \nabla_\theta \ln p$.

    A concrete toy supplies the names of x, the open domain of theta, and four formulas that may
    rely on checked float64 arrays with one row per event: `_draw`, `_log_prob`, `_score` and
    `_check_support`.
    """

    @property
    @abc.abstractmethod
    def x_names(self) -> tuple[str, ...]:
        """Names of the D observables, in the order of the columns of x."""

    @abc.abstractmethod
    def _domain(self) -> Domain:
        """The open domain of theta, in the order of its columns."""

    @abc.abstractmethod
    def _draw(self, theta: Theta, rng: np.random.Generator) -> X:
        """One event for each row of theta."""

    @abc.abstractmethod
    def _log_prob(self, x: X, theta: Theta) -> PerEvent:
        """The normalised log density, row by row."""

    @abc.abstractmethod
    def _score(self, x: X, theta: Theta) -> Theta:
        """The gradient of the log density with respect to theta, row by row."""

    @abc.abstractmethod
    def _check_support(self, x: X) -> None:
        """Raise ValueError if a row of x, already known to be finite, is outside the support."""

    @property
    def theta_names(self) -> tuple[str, ...]:
        """Names of the d parameters, in the order of the columns of theta."""
        return tuple(self._domain())

    @property
    def theta_low(self) -> Float64[np.ndarray, "theta_dim"]:
        """Lower bounds of the open domain of theta, shape (d,); may be -inf."""
        return np.array([low for low, _ in self._domain().values()])

    @property
    def theta_high(self) -> Float64[np.ndarray, "theta_dim"]:
        """Upper bounds of the open domain of theta, shape (d,); may be +inf."""
        return np.array([high for _, high in self._domain().values()])

    def __call__(self, theta: ArrayLike, rng: np.random.Generator) -> X:
        r"""Draw one event $x \sim p(x;\theta)$ for each row of theta, shape (n, D) in float64.

        Args:
            theta: Parameters, shape (n, d), strictly inside the domain.
            rng: The source of randomness, for instance `np.random.default_rng(7)`.

        Example:
            >>> from inferostatic.world.toys import CorrelatedGaussian
            >>> toy = CorrelatedGaussian()
            >>> toy([[0.0, 1.0, 0.1], [5.0, 1.0, 0.1]], np.random.default_rng(7)).round(2)
            array([[0.02, 1.03],
                   [4.93, 0.91]])
        """
        table = self._check_parameters(theta, rng)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            x = self._draw(table, rng)
        refuse_infinite_events(x, table)
        return x

    def log_prob(self, x: ArrayLike, theta: ArrayLike) -> PerEvent:
        r"""The exact normalised log density $\ln p(x;\theta)$, shape (n,), all finite.

        Args:
            x: Events, shape (n, D), inside the support.
            theta: Parameters, shape (n, d), or a single theta of shape (d,) for all events.

        Example:
            >>> from inferostatic.world.toys import Dirichlet
            >>> Dirichlet().log_prob([[0.2, 0.3, 0.5]], [1.0, 2.0, 2.0]).round(4)
            array([1.2809])
        """
        return self._evaluate(self._log_prob, x, theta, "log density")

    def score(self, x: ArrayLike, theta: ArrayLike) -> Theta:
        r"""The exact score $s(x;\theta) = \nabla_\theta \ln p(x;\theta)$, shape (n, d), all finite.

        Args:
            x: Events, shape (n, D), inside the support.
            theta: Parameters, shape (n, d), or a single theta of shape (d,) for all events.

        Example:
            >>> from inferostatic.world.toys import Dirichlet
            >>> Dirichlet().score([[0.2, 0.3, 0.5]], [1.0, 2.0, 2.0]).round(4)
            array([[ 0.4739, -0.1206,  0.3902]])
        """
        return self._evaluate(self._score, x, theta, "score")

    def _evaluate(
        self, formula: Callable[[X, Theta], np.ndarray], x: ArrayLike, theta: ArrayLike, what: str
    ) -> np.ndarray:
        events, parameters = self._one_theta_per_event(x, theta)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            values = formula(events, parameters)
        refuse_rows(
            ~finite_rows(values),
            events,
            expected=f"x at which the {what} is finite in float64",
            remedy="Remove such events, or take x and theta further from the limits of float64",
        )
        return values

    def _check_parameters(self, theta: ArrayLike, rng: object) -> Theta:
        """θ of events to be simulated."""
        if not isinstance(rng, np.random.Generator):
            raise TypeError(
                f"rng must be a numpy.random.Generator, got {type(rng).__name__}; "
                "pass np.random.default_rng(seed)."
            )
        table = as_float64(theta, "theta")
        theta_dim = len(self.theta_names)
        if table.ndim != 2 or table.shape[1] != theta_dim:
            raise ValueError(
                f"theta must have shape (n, {theta_dim}) with columns "
                f"{', '.join(self.theta_names)}, one row per event to simulate; got shape "
                f"{table.shape}. Write theta[None, :] for a single event, or "
                "np.tile(theta, (n, 1)) for n events at one theta."
            )
        self._check_domain(table)
        return table

    def _one_theta_per_event(self, x: ArrayLike, theta: ArrayLike) -> tuple[X, Theta]:
        events, parameters = as_float64(x, "x"), as_float64(theta, "theta")
        x_dim, theta_dim = len(self.x_names), len(self.theta_names)
        if events.ndim != 2 or events.shape[1] != x_dim:
            raise ValueError(
                f"x must have shape (n, {x_dim}) with columns {', '.join(self.x_names)}; got shape "
                f"{events.shape}. Write x[None, :] for a single event, or x[:, None] for many "
                "events of one observable."
            )
        if parameters.ndim not in (1, 2) or parameters.shape[-1] != theta_dim:
            raise ValueError(
                f"theta must have shape (n, {theta_dim}), or ({theta_dim},) for one theta shared "
                f"by all events, with columns {', '.join(self.theta_names)}; got shape "
                f"{parameters.shape}. Give each theta all {theta_dim} parameters in this order."
            )
        if parameters.ndim == 2 and len(parameters) != len(events):
            raise ValueError(
                f"x and theta must have equally many rows; got {len(events)} rows of x and "
                f"{len(parameters)} of theta. Give one theta per event, or a single theta of "
                f"shape ({theta_dim},), such as theta[0], for all of them."
            )
        self._check_domain(np.atleast_2d(parameters))
        refuse_infinite(events, "x")
        self._check_support(events)
        return events, np.broadcast_to(parameters, (len(events), theta_dim))

    def _check_domain(self, theta: Theta) -> None:
        ranges = self._domain().items()
        domain = ", ".join(f"{low:g} < {name} < {high:g}" for name, (low, high) in ranges)
        # Written as "not inside", since NaN compares false with everything.
        refuse_rows(
            np.any(~((theta > self.theta_low) & (theta < self.theta_high)), axis=1),
            theta,
            name="theta",
            expected=f"theta strictly inside its domain, {domain}",
            remedy="Keep theta inside it, with a margin if a kernel displaces theta",
        )


def refuse_rows(
    bad: Bool[np.ndarray, "n"],
    values: Float64[np.ndarray, "n dim"],
    *,
    name: str = "x",
    expected: str,
    remedy: str,
) -> None:
    """Raise ValueError naming the first rows of `values` that are marked as bad, if any is.

    The message says what a good row of the array of this name is, and what to change.

    Example:
        >>> refuse_rows(
        ...     np.array([False, True]),
        ...     np.array([[1.0], [-2.0]]),
        ...     name="x",
        ...     expected="positive x",
        ...     remedy="Remove such rows",
        ... )
        Traceback (most recent call last):
        ValueError: Expected positive x; got x[1] = [-2.0] (bad rows: 1). Remove such rows.
    """
    rows = np.flatnonzero(bad)
    if rows.size == 0:
        return
    named = ", ".join(str(row) for row in rows[:_ROWS_NAMED])
    more = f" and {rows.size - _ROWS_NAMED} more" if rows.size > _ROWS_NAMED else ""
    raise ValueError(
        f"Expected {expected}; got {name}[{rows[0]}] = {values[rows[0]].tolist()} "
        f"(bad rows: {named}{more}). {remedy}."
    )


def refuse_infinite_events(drawn: Float64[np.ndarray, "n dim"], theta: Theta) -> None:
    """Raise ValueError naming the first theta at which what was drawn is not finite."""
    refuse_rows(
        ~finite_rows(drawn),
        theta,
        name="theta",
        expected="theta at which events are finite numbers in float64",
        remedy="Take theta further from the limits of float64",
    )


def refuse_infinite(values: Float64[np.ndarray, "n dim"], name: str) -> None:
    """Raise ValueError naming the first rows that are not finite."""
    refuse_rows(
        ~finite_rows(values),
        values,
        name=name,
        expected=f"finite numbers in {name}",
        remedy="Remove these events, or find out why they are not numbers",
    )


def require_positive(value: float, name: str, remedy: str) -> None:
    """Raise ValueError unless a setting of a toy is a positive finite number."""
    try:
        as_number(value, name, above=0)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be a positive finite number, got {value!r}; {remedy}."
        ) from error


def require_whole_number(value: object, name: str, least: int, remedy: str) -> None:
    """Raise ValueError unless a setting of a toy is an int of at least `least`."""
    try:
        as_count(value, name, least=least, most=MOST_WHOLE)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be a whole number of at least {least}, got {str(value)[:40]}; {remedy}, "
            f"at most {MOST_WHOLE:,}."
        ) from error


def as_float64(values: ArrayLike, name: str) -> Float64[np.ndarray, "..."]:
    """The values as an array of float64; raises ValueError where they are none."""
    try:
        return as_floats(values, name).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be a rectangular array of real numbers; got {type(values).__name__}, "
            f"which NumPy cannot convert ({error}). Give every row the same number of columns."
        ) from error
