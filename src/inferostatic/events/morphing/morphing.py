r"""Morphing: weights of an event at some benchmark points give its rate at every θ.

Where the differential rate is a polynomial in θ, as when an amplitude linear in the couplings is
squared, \(W(\theta) = \sum_c \theta^{p_c} w_c\), weights at enough benchmarks determine the
components \(w_c\) of each event, and with the total rate its latent density at any θ:
\(\ln p_\mathrm{lat} = \ln W(\theta) - \ln\sigma(\theta)\).

The components are computed once, on the host in float64 and in a standardised θ, and these rather
than the weights at benchmarks are the latent array of the events: morphing from benchmark to
benchmark adds and subtracts large numbers, which float32 inside the compiled loop does not bear.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from ...inputs import (
    FLOAT32_MAX,
    Input,
    as_count,
    as_floats,
    as_number,
    as_rows,
    bad_rows,
    kind_of,
    require_finite,
    rounded,
    warn_user,
)
from ...polynomials import list_powers
from ...serial import known
from ..latent import AbstractJoint, Latent
from .nuisance import Exponents, RateResponse, fit_response
from .polynomial_basis import as_powers, choose_standardisation, solve_components

#: Name of the latent array of the components of each event.
COMPONENTS = "components"
#: Name of the latent array of the coefficients of ν in each event's exponent.
NUISANCE_A = "nuisance_a"
#: Name of the latent array of the coefficients of ν² in each event's exponent.
NUISANCE_B = "nuisance_b"
#: Range of nuisance parameters, in units of their variation, on which the rate is fitted.
REACH = 5.0
#: Relative distance (rms) of a polynomial from the weights it was fitted to, above which there is
#: a warning: numerical noise of generators is below it.
WARNED_MISFIT = 0.01
#: The same, above which there is an error.
LARGEST_MISFIT = 0.05


@known
class Morphing(AbstractJoint):
    r"""The latent density of weighted events whose rate is a polynomial in θ.

    With more benchmarks than components the polynomial is a least-squares fit to the weights.
    Nuisance parameters multiply the weight of each event by
    \(\exp\sum_j(a_j\nu_j + b_j\nu_j^2)\) and follow the other parameters in θ.

    An event whose rate at some θ is zero, or has another sign than where the event was drawn, has
    no logarithm there: `log_prob` and the score are NaN, which training reports. `check` finds
    such events beforehand.

    Args:
        powers: of θ in each component, whole numbers of shape (C, d).
        benchmarks: the points whose weights are known, shape (B, d), B ≥ C.
        rates: total rate at each benchmark, shape (B,): a cross section, or the sum of the
            weights of the sample, which `with_sample` fills in.
        nuisances: number of nuisance parameters.
        response: how the rates depend on these, filled in by `with_sample`.

    >>> morphing = Morphing.of_degree(2, [[0.0], [1.0], [2.0]])
    >>> morphing
    Morphing(1 parameter, 3 monomials, 3 benchmarks)
    >>> morphing.weights_at([3.0]).round(6).tolist()
    [1.0, -3.0, 3.0]
    """

    powers: ndarray
    benchmarks: ndarray
    rates: ndarray | None
    response: RateResponse | None
    centre: ndarray
    scale: ndarray
    inverse: ndarray
    rate_components: ndarray | None
    nuisances: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)
    condition: float = eqx.field(static=True)

    def __init__(
        self,
        powers: Input,
        benchmarks: Input,
        *,
        rates: Input | None = None,
        nuisances: int = 0,
        response: RateResponse | None = None,
    ) -> None:
        """Check the basis and solve for the components."""
        self.powers = as_powers(powers)
        points = as_rows(benchmarks, "benchmarks", columns=self.powers.shape[1])
        self.benchmarks = points.astype(np.float64)
        require_finite(self.benchmarks, "benchmarks", "Give finite parameters.")
        if len(points) == 0:
            raise ValueError("benchmarks has no rows; give the points whose weights are known.")
        self.degree = int(self.powers.max())
        self.centre, self.scale = choose_standardisation(self.powers, self.benchmarks)
        self.inverse, self.condition = solve_components(self.terms(self.benchmarks), self.powers)
        self.rates = self.rate_components = None
        if rates is not None:
            self.rates = as_floats(rates, "rates").astype(np.float64)
            if (
                self.rates.shape != (len(self.benchmarks),)
                or not ((self.rates > 0) & (self.rates < np.inf)).all()
            ):
                raise ValueError(
                    f"rates must be {len(self.benchmarks)} positive finite numbers, one for each "
                    f"benchmark; got {rounded(self.rates)}."
                )
            self.rate_components = self.inverse @ self.rates
        if not isinstance(response, RateResponse | None):
            raise TypeError(f"response is filled in by with_sample; got {kind_of(response)}.")
        self.nuisances, self.response = as_count(nuisances, "nuisances", least=0), response

    def __repr__(self) -> str:
        """One line."""
        counts = [(self.dim, "parameter"), (self.nuisances, "nuisance parameter")]
        counts += [(len(self.powers), "monomial"), (len(self.benchmarks), "benchmark")]
        shown = [f"{n} {what}{'s' if n > 1 else ''}" for n, what in counts if n]
        rates = "" if self.rates is None else ", with total rates"
        return f"Morphing({', '.join(shown)}{rates})"

    @classmethod
    def of_degree(
        cls,
        degree: int,
        benchmarks: Input,
        *,
        highest: Sequence[int] | None = None,
        rates: Input | None = None,
        nuisances: int = 0,
    ) -> "Morphing":
        """All monomials up to a total degree, and up to the power `highest` of each parameter."""
        rows = as_rows(benchmarks, "benchmarks", of="parameters")
        if highest is not None and not isinstance(highest, list | tuple | np.ndarray):
            raise TypeError(f"highest must be a list of powers; got {kind_of(highest)}.")
        listed = isinstance(highest, list | tuple) or (
            isinstance(highest, np.ndarray) and highest.ndim == 1
        )
        if highest is not None and (not listed or len(highest) != rows.shape[1]):
            raise ValueError(
                f"highest must hold one power for each of the {rows.shape[1]} parameters; got "
                f"{highest}."
            )
        limits = None if highest is None else [as_count(h, "highest", least=0) for h in highest]
        total = as_count(degree, "degree", least=0)
        powers = list_powers(rows.shape[1], total, limits, most=len(rows) + 1)
        if len(powers) > len(rows):
            raise ValueError(
                f"a polynomial of degree {degree} in {rows.shape[1]} parameters has more "
                f"components than the {len(rows)} benchmarks determine. Add benchmarks, or lower "
                "the degree or the powers of single parameters (highest=)."
            )
        return cls(powers, rows, rates=rates, nuisances=nuisances)

    def stored_fields(self) -> dict[str, Any]:
        """What the constructor takes."""
        names = ("powers", "benchmarks", "rates", "nuisances", "response")
        return {name: getattr(self, name) for name in names}

    @property
    def dim(self) -> int:
        """Number of parameters of the polynomial, without nuisance parameters."""
        return self.powers.shape[1]

    @property
    def names(self) -> tuple[str, ...]:
        """The components, and the nuisance coefficients where there are any."""
        return (COMPONENTS, NUISANCE_A, NUISANCE_B) if self.nuisances else (COMPONENTS,)

    @property
    def uses_x(self) -> bool:
        """Never: all it needs are the weights."""
        return False

    def log_prob(
        self, x: Float[Array, " x_dim"], latent: Mapping[str, Array], theta: Float[Array, " d"]
    ) -> Float[Array, ""]:
        """ln W(θ) − ln σ(θ), where W and σ are positive, NaN elsewhere."""
        if self.rate_components is None or (self.nuisances and self.response is None):
            raise ValueError(
                "the joint density of weighted events needs the total rate at the benchmarks: "
                "use morphing.with_sample(weights), or give rates=."
            )
        terms = self._terms_of_one(theta[: self.dim])
        log_rate = _log_positive(terms @ latent[COMPONENTS])
        total = terms @ jnp.asarray(self.rate_components, terms.dtype)
        if self.response is not None:
            nu = theta[self.dim :]
            log_rate = log_rate + latent[NUISANCE_A] @ nu + latent[NUISANCE_B] @ nu**2
            # Only the change with ν goes through the benchmarks, so that none is lost at ν = 0.
            change = jnp.expm1(self.response.log_change(nu))
            change = jnp.asarray(self.rates, terms.dtype) * change
            total = total + terms @ (jnp.asarray(self.inverse, terms.dtype) @ change)
        return log_rate - _log_positive(total)

    def weights_at(self, theta: Input) -> Float[ndarray, "... B"]:
        """m_b(θ) such that W(θ) = Σ_b m_b(θ) W_b, for one θ of shape (d,) or many, (n, d)."""
        point = as_floats(theta, "theta")
        rows = self._rows(point)
        return (self.terms(rows) @ self.inverse).reshape(*point.shape[:-1], len(self.benchmarks))

    def rate(self, theta: Input) -> Float[ndarray, "..."]:
        """The total rate at one θ or many, nuisance parameters included."""
        if self.rates is None:
            raise ValueError("this morphing has no total rates; use morphing.with_sample(weights).")
        point = as_floats(theta, "theta")
        rows = self._rows(point)
        rates = np.broadcast_to(self.rates, (len(rows), len(self.rates)))
        if self.response is not None and rows.shape[1] > self.dim:
            rates = rates * np.exp(self.response.log_changes(rows[:, self.dim :]))
        values = ((self.terms(rows) @ self.inverse) * rates).sum(axis=1)
        return values.reshape(point.shape[:-1])

    def components(self, weights: Input) -> Float[ndarray, "n C"]:
        """Components w_c of every event, in powers of the standardised θ."""
        return self._weights(weights) @ self.inverse.T

    def rates_of_events(self, weights: Input, theta: Input) -> Float[ndarray, "n m"]:
        """W(θ) of every event at each of some θ, at ν = 0."""
        rows = self._rows(np.atleast_2d(as_floats(theta, "theta")))
        return self.components(weights) @ self.terms(rows).T

    def terms(self, theta: ndarray) -> Float[ndarray, "n C"]:
        """Powers of the standardised θ that multiply the components, for rows of θ."""
        standard = (theta[:, : self.dim] - self.centre) / self.scale
        return np.prod(standard[:, None, :] ** self.powers[None], axis=2)

    def check(self, weights: Input, theta: Input) -> None:
        """Raise where an event's rate at some θ, of shape (d,) or (m, d), is not positive."""
        rows = self._rows(np.atleast_2d(as_floats(theta, "theta")))
        for point in rows:
            good = self.rates_of_events(weights, point)[:, 0] > 0
            if not good.all():
                raise ValueError(
                    f"the morphed rate at θ = {rounded(point)} is not positive in "
                    f"{bad_rows(good)}, where ln p_lat does not exist. Put benchmarks nearer to "
                    "this θ, or remove these events if their weights are noise."
                )

    def with_sample(
        self, weights: Input, nuisance: Exponents | None = None, *, reach: float = REACH
    ) -> "Morphing":
        """The same with the total rates of this sample; rates that it has already stay.

        Args:
            weights: of all its events, shape (n, B).
            nuisance: `nuisance_exponents(…)` of its events.
            reach: largest |ν| at which the rate will be asked for.
        """
        reach = as_number(reach, "reach", above=0)
        table = self._weights(weights)
        exponents = self._exponents(nuisance, len(table))
        totals = table.sum(axis=0)
        response = self.response
        if exponents is not None and (response is None or response.reach < reach):
            response = fit_response(table, exponents, reach)
        if not (totals > 0).all():
            raise ValueError(
                f"the weights of the sample add up to {rounded(totals)} at the benchmarks; every "
                "total rate must be positive."
            )
        self._check_misfit(table)
        return Morphing(
            self.powers,
            self.benchmarks,
            rates=totals if self.rates is None else self.rates,
            nuisances=self.nuisances,
            response=response,
        )

    def _check_misfit(self, table: ndarray) -> None:
        """Warn or refuse where the polynomial misses weights that it was fitted to.

        With as many components as benchmarks it goes through all of them, right or wrong.
        """
        if len(self.benchmarks) <= len(self.powers):
            return
        missed = self.rates_of_events(table, self._rows(self.benchmarks)) - table
        off = np.sqrt(np.mean(np.square(missed), axis=0) / np.mean(np.square(table), axis=0))
        worst = int(np.argmax(off))
        if off[worst] < WARNED_MISFIT:
            return
        message = (
            f"the polynomial misses the weights at benchmark {worst}, θ = "
            f"{rounded(self.benchmarks[worst])}, by {off[worst]:.1%} (rms): raise its "
            "degree, or put the columns of weights in the order of the benchmarks."
        )
        if off[worst] > LARGEST_MISFIT:
            raise ValueError(message)
        warn_user(message)

    def latent(
        self, weights: Input, theta: Input | None = None, nuisance: Exponents | None = None
    ) -> Latent:
        """Latent information of events with these weights.

        The components of each event are divided by their largest, which changes no ratio and no
        score and keeps small weights within float32.

        Args:
            weights: shape (n, B).
            theta: where the events were drawn, shape (n, d) or (d,). An event whose rate there
                is negative stands for the negative part of the rate (its weight in `Events` is
                negative too): its components change sign, and ratios of its rates stay positive.
            nuisance: `nuisance_exponents(…)` of these events.
        """
        components = self.components(weights)
        if theta is not None:
            rows = self._rows(np.atleast_2d(as_floats(theta, "theta")))
            if len(rows) not in (1, len(components)):
                raise ValueError(
                    f"theta must be one point, or one for each of the {len(components)} events; "
                    f"got {len(rows)}."
                )
            drawn = np.sum(components * self.terms(rows), axis=1, keepdims=True)
            components = components * np.where(drawn < 0, -1.0, 1.0)
        largest = np.abs(components).max(axis=1, keepdims=True)
        arrays = {COMPONENTS: components / np.where(largest > 0, largest, 1.0)}
        exponents = self._exponents(nuisance, len(components))
        if exponents is not None:
            arrays |= {NUISANCE_A: exponents.a, NUISANCE_B: exponents.b}
        return Latent(arrays, self)

    def _terms_of_one(self, theta: Float[Array, " d"]) -> Float[Array, " C"]:
        centre, scale = (jnp.asarray(v, theta.dtype) for v in (self.centre, self.scale))
        standard = (theta - centre) / scale
        # Products rather than powers: their derivative is right at 0 too.
        table = [jnp.ones_like(standard)]
        for _ in range(self.degree):
            table.append(table[-1] * standard)
        stacked, powers = jnp.stack(table), jnp.asarray(self.powers)
        terms = jnp.ones(len(self.powers), theta.dtype)
        for j in range(self.dim):
            terms = terms * stacked[powers[:, j], j]
        return terms

    def _rows(self, theta: ndarray) -> ndarray:
        allowed = {self.dim, self.dim + self.nuisances}
        if theta.ndim not in (1, 2) or theta.shape[-1] not in allowed:
            nuisance = f" and {self.nuisances} nuisance parameters" if self.nuisances else ""
            raise ValueError(
                f"θ must have {self.dim} parameters{nuisance}, shape (d,) or (n, d); got shape "
                f"{theta.shape}."
            )
        rows = np.atleast_2d(theta).astype(np.float64)
        good = np.asarray((np.abs(rows) <= FLOAT32_MAX).all(axis=1))
        if not good.all():
            raise ValueError(f"θ must be finite in float32; it is not in {bad_rows(good)}.")
        return rows

    def _weights(self, weights: Input) -> ndarray:
        of = "weights, one per benchmark"
        table = as_rows(weights, "weights", columns=len(self.benchmarks), of=of)
        require_finite(table, "weights", "Repair or remove these events.")
        return table.astype(np.float64)

    def _exponents(self, nuisance: Exponents | None, n: int) -> Exponents | None:
        if (nuisance is not None) != bool(self.nuisances):
            raise ValueError(
                f"this morphing has {self.nuisances} nuisance parameters, and "
                f"{'no' if nuisance is None else 'some'} nuisance exponents were given; use "
                "nuisances= of the morphing and nuisance=ist.nuisance_exponents(…) together."
            )
        if nuisance is None:
            return None
        found = Exponents(*(np.asarray(as_floats(v, "nuisance"), np.float64) for v in nuisance))
        for values in found:
            if values.shape != (n, self.nuisances):
                raise ValueError(
                    f"nuisance exponents must have shape ({n}, {self.nuisances}), (events, "
                    f"nuisance parameters); got {values.shape}."
                )
        return found


def _log_positive(value: Array) -> Array:
    """ln, and NaN in value and derivative alike where the argument is not positive."""
    return jnp.log(value * jnp.where(value > 0, 1.0, jnp.nan).astype(value.dtype))
