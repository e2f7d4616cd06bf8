r"""`choose_width`: bias and noise of Kernel Score Estimation at each width.

KSE converges to \(s^\mathrm{KSA}\), not to the score. With \(p\to e^{\hat\varphi}\) for a trained
potential both are known exactly, at any width and without expanding in it: the paper's expansion
(`eq:bias`) overstates the mean squared bias of its own experiment forty-fold.
"""

import dataclasses
import math
import warnings
from collections.abc import Callable

import numpy as np

from ..bounds import rounding_slack, within
from ..estimator.estimator import Estimator
from ..events.events import Events
from ..inputs import Input, as_count, as_flag, as_floats, as_seed, kind_of, require_order
from ..progress import Advance, progress
from ..streams import Purpose, Stream
from ..summary import AbstractSummarised, Summary, SummaryTable
from ..supervision.kernels import AbstractKernel, Delta
from ..supervision.quadrature import Approximation, KernelSum, draw_standard, kernel_sum, merge
from ..supervision.supervision import find_prior, refuse_discrete, trusted_region
from ..weights import effective_size
from ..world.priors.prior import AbstractPrior

#: Effective number c of fitted numbers in the noise c·variance/n of a fit to stored events, whose
#: displacements are redrawn in every epoch. Measured with the default network and training on toys
#: (benchmarks/widths.py), where c lies within a factor of two or three of it. The best width goes
#: with its sixth root.
STORED_COMPLEXITY = 15.0
#: The same of drawn records.
DRAWN_COMPLEXITY = 60.0
#: Widths examined by default.
NUMBER = 10
#: Ratio of the largest of them to the smallest.
SPAN = 10.0
#: The largest of them: λ√μ₂ in standard deviations of the prior.
LARGEST = 0.5
#: Its reach, at most, as a part of the simulated range, which it takes away on either side where
#: no prior= was given.
MOST_ERODED = 0.1
#: Events that must be left after weighting, effectively.
FEWEST = 100
#: Rows (events times points) in one evaluation.
ROWS = 1 << 17

KernelFamily = Callable[..., AbstractKernel]


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class WidthChoice(AbstractSummarised):
    """What Kernel Score Estimation would make of each width.

    Squared errors are means over the parameters, in your units of the score; where the scales of
    the prior differ, each parameter is first put on their geometric mean.

    Attributes:
        widths: λ, shape (m, d): one row for each width examined, one column for each parameter.
        bias: mean of (s^KSA − s)², with x drawn at θ + ε as KSE's training data are, shape (m,).
        bias_error: its statistical error, shape (m,).
        bias_at_theta: the same mean with x drawn at θ itself, shape (m,).
        variance: mean variance of the regression target given x and θ, shape (m,).
        saturation: fraction of |s^KSA| above 0.9 of the largest possible target, shape (m,).
        predicted_error: expected mean squared error of a KSE fit to `n` events, shape (m,).
        bias_by_parameter: `bias` for each parameter, in its own units, shape (m, d).
        kernels: the kernels examined.
        n: training events that `predicted_error` is for.
        drawn: whether they are drawn records, not stored events.
        theta_low, theta_high: the region of θ that was averaged over, the same for all widths.
        theta_names: names of the parameters.
    """

    widths: np.ndarray
    bias: np.ndarray
    bias_error: np.ndarray
    bias_at_theta: np.ndarray
    variance: np.ndarray
    saturation: np.ndarray
    predicted_error: np.ndarray
    bias_by_parameter: np.ndarray
    kernels: tuple[AbstractKernel, ...]
    n: int
    drawn: bool
    theta_low: np.ndarray
    theta_high: np.ndarray
    theta_names: tuple[str, ...]

    @property
    def best(self) -> int:
        """Row of the width with the smallest predicted error."""
        return int(np.argmin(self.predicted_error))

    @property
    def recommended(self) -> float | tuple[float, ...]:
        """The width with the smallest predicted error: a number, or one for each parameter."""
        return _as_one(self.widths[self.best])

    @property
    def kernel(self) -> AbstractKernel:
        """The kernel with the recommended width, for `ist.KSE(choice.kernel)`."""
        return self.kernels[self.best]

    @property
    def remark(self) -> str:
        """What to mind about the recommendation; empty where there is nothing."""
        size = self.widths.prod(axis=1)
        if len(size) == 1 or size.min() < size[self.best] < size.max():
            return ""
        end = "largest" if size[self.best] == size.max() else "smallest"
        room = ", which may take events simulated wider" if end == "largest" else ""
        return f"It is the {end} width examined: give widths= beyond it{room}."

    @property
    def _events(self) -> str:
        return f"{self.n:,} {'drawn records' if self.drawn else 'stored events'}"

    def _summarise(self) -> Summary:
        columns = {
            "width": [_text(_as_one(row)) for row in self.widths],
            "squared bias": [
                f"{b:.3g} ± {e:.1g}" for b, e in zip(self.bias, self.bias_error, strict=True)
            ],
            "with x at θ": [f"{b:.3g}" for b in self.bias_at_theta],
            "variance": [f"{v:.4g}" for v in self.variance],
            "saturated": [f"{s:.2%}" for s in self.saturation],
            "predicted error": [f"{p:.3g}" for p in self.predicted_error],
        }
        title = (
            f"{type(self.kernel).__name__} kernel, Kernel Score Estimation from {self._events}; "
            f"mean squares over θ from {_text(_as_one(self.theta_low))} to "
            f"{_text(_as_one(self.theta_high))}"
        )
        columns[""] = ["<" if row == self.best else "" for row in range(len(self.widths))]
        recommended = f"Recommended: {_text(self.recommended)}. {self.remark}".rstrip()
        return Summary(title, (SummaryTable(columns, left=("",)), recommended))

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        first, last = (_text(_as_one(row)) for row in self.widths[[0, -1]])
        return (
            f"WidthChoice({type(self.kernel).__name__}({_text(self.recommended)}); predicted error "
            f"{self.predicted_error[self.best]:.3g} from {self._events}; {len(self.widths)} "
            f"width{'s' if len(self.widths) > 1 else ''}, {first} to {last})"
        )


def choose_width(
    estimator: Estimator,
    events: Events,
    kernel: KernelFamily = Delta,
    widths: Input | None = None,
    *,
    prior: AbstractPrior | None = None,
    n: int | None = None,
    drawn: bool = False,
    seed: int,
) -> WidthChoice:
    r"""Bias and noise of Kernel Score Estimation at each width, and the width to take.

    From a stored event (θ', x), ε ~ K and θ = θ' − ε, weighted by π(θ)/π(θ'): then (θ, x) follow
    the distribution of KSE's own training data (form 1, `eq:ksa`), in which x is made at θ + ε. On
    it,

    $$\text{bias} = s^\mathrm{KSA}[\hat\varphi] - \nabla\hat\varphi, \qquad
    \text{variance} = E[y^2\mid x,\theta] - (s^\mathrm{KSA})^2 \;
    (= 1/\lambda^2 - (s^\mathrm{KSA})^2 \text{ for the delta kernel}),$$

    with the linear difference function, are exact for the learned potential: sums over corners or
    quadrature points, up to 2048 of them (11 parameters with the delta kernel, 5 with others), and
    beyond that, or for a `CustomKernel`, over 1024 displacements drawn for each event. The
    recommended width minimises the mean squared bias plus the noise of a fit. That is taken as
    cV/n with the variance V and, measured for the default network, c = 15 for stored events and 60
    for drawn records; or rather as cVS/(cV + nS), since a fit to mere noise loses no more than
    the mean square S of the score. For half the noise, as in an ensemble, give twice the `n`.

    All widths are compared at the same θ: the simulated region less the largest reach, or the
    `prior` given, which must leave that much room on every side. θ near the edge of what was
    simulated is therefore left out, and a bias that is largest there goes unnoticed: simulate wider
    and give `prior`.

    Args:
        estimator: a trained potential, from any method; the default fit is a good one.
        events: stored events with their prior; those it was trained on will do, and for kernels
            other than `ist.Delta`, which take longer, a part of them: `events[:20_000]`.
        kernel: a family of kernels, such as `ist.Delta` or `ist.Triangular`, or a function of the
            width, such as `lambda width: ist.Gaussian(width, truncation=3)`.
        widths: in the units of θ: a list of numbers, each for all parameters, or of rows with one
            number for each parameter. By default ten, in proportion to the standard deviations of
            the prior, so that they differ between parameters where these do.
        prior: of θ to average over; that of the events by default.
        n: events that KSE will be trained with; as many as `events` by default.
        drawn: KSE will be trained on records from `ist.draw`, whose displacements are fixed, and
            not on stored events, whose displacements are new in every epoch.
        seed: of the displacements.

    Example:
        `choice = ist.choose_width(ist.fit(events, seed=1), events, seed=2)`, `print(choice)`,
        `ist.fit(events, ist.KSE(choice.kernel), seed=3)`.
    """
    _check_objects(estimator, events, prior)
    drawn = as_flag(drawn, "drawn")
    seed, n = as_seed(seed), as_count(len(events) if n is None else n, "n")
    stored_prior = find_prior(events)
    region = _find_simulated_region(estimator, events, stored_prior)
    target = stored_prior if prior is None else prior
    _check_family(kernel)
    rules = _rules(kernel, widths, target, region, given=prior is not None)
    region = _common_region(rules, target, region, given=prior is not None)
    scale = target.centre_and_scale[1]
    complexity = DRAWN_COMPLEXITY if drawn else STORED_COMPLEXITY
    total = len(rules) * len(events)
    estimator.warn_outside(events.x)
    with progress("examining widths", total) as advance:
        rows = []
        for rule in rules:
            theta, weight = _displace(rule, events, stored_prior, target, region, seed)
            _check_left(rule, weight)
            used = weight != 0
            advance(int(np.sum(~used)))
            found = _approximate(estimator, events.x[used], theta[used], rule, seed, advance)
            rows.append(_averages(found, weight[used], scale, complexity / n))
    means = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return WidthChoice(
        widths=np.array([rule.widths for rule in rules]),
        kernels=tuple(rule.kernel for rule in rules),
        n=n,
        drawn=drawn,
        theta_low=region.low,
        theta_high=region.high,
        theta_names=estimator.theta_names,
        **means,
    )


def _check_objects(estimator: object, events: object, prior: object) -> None:
    if not isinstance(estimator, Estimator):
        raise TypeError(
            "choose_width needs a potential (ist.Estimator), which ist.fit(events, seed=…) trains "
            f"by default; got {kind_of(estimator)}."
        )
    if not isinstance(events, Events):
        raise TypeError(f"events must be ist.Events, from ist.simulate(…); got {kind_of(events)}.")
    if events.prior is None:
        raise ValueError(
            "choose_width displaces the stored θ, for which their prior must be known, but these "
            "events have no prior=. Give ist.Events(…, prior=…), the distribution of their θ."
        )
    if prior is not None and not isinstance(prior, AbstractPrior):
        raise TypeError(f"prior must be a prior such as ist.Uniform; got {kind_of(prior)}.")
    for one in (events.prior, events.prior if prior is None else prior):
        refuse_discrete(one, "choose_width, like Kernel Score Estimation,")
    for what, ours, theirs in (
        ("observables", estimator.x_names, events.x_names),
        ("parameters", estimator.theta_names, events.theta_names),
    ):
        if len(ours) != len(theirs):
            raise ValueError(
                f"the estimator has {len(ours)} {what} and the events {len(theirs)}; give events "
                "of the problem that it was trained on."
            )
        require_order(theirs, ours, what)
    if prior is not None and prior.dim != len(estimator.theta_names):
        raise ValueError(
            f"prior has {prior.dim} parameters and the estimator {len(estimator.theta_names)}."
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _Box:
    low: np.ndarray
    high: np.ndarray


def _find_simulated_region(
    estimator: Estimator, events: Events, stored_prior: AbstractPrior
) -> _Box:
    """Where the events lie and the potential can be trusted."""
    low, high = trusted_region(stored_prior, events.theta)
    trained = estimator.region
    box = _Box(np.maximum(low, trained.theta_low), np.minimum(high, trained.theta_high))
    if not (box.low < box.high).all():
        raise ValueError(
            f"the events lie at θ from {low.tolist()} to {high.tolist()}, the estimator was "
            f"trained from {trained.theta_low.tolist()} to {trained.theta_high.tolist()}: they "
            "have nothing in common."
        )
    return box


# Which widths, and where ----------------------------------------------------------------------


def _check_family(kernel: object) -> None:
    if isinstance(kernel, AbstractKernel) or not callable(kernel):
        raise TypeError(
            "kernel must be a family such as ist.Delta, without a width, or a function of the "
            f"width such as lambda width: ist.Gaussian(width, truncation=3); got {kernel!r}. "
            "Widths go to widths=."
        )


def _rules(
    kernel: KernelFamily, widths: Input | None, target: AbstractPrior, region: _Box, *, given: bool
) -> list[KernelSum]:
    if widths is None:
        unit = kernel_sum(_kernel(kernel, 1.0), target.dim)
        rows = _default_widths(unit, target, region, given=given)
    else:
        rows = _check_widths(widths, target.dim)
    rules = [kernel_sum(_kernel(kernel, _as_one(row)), target.dim) for row in rows]
    low, high = target.support
    bounded = bool(np.isfinite(np.concatenate([low, high])).any())
    if bounded and any(math.isinf(rule.kernel.reach) for rule in rules):
        raise ValueError(
            "an unbounded kernel on a bounded prior would need events simulated outside it; cut it "
            "off: kernel=lambda width: ist.Gaussian(width, truncation=3)."
        )
    return rules


def _kernel(family: KernelFamily, width: float | tuple[float, ...]) -> AbstractKernel:
    try:
        made = family(width)
    except TypeError as error:
        raise TypeError(
            "kernel must make a kernel from a width alone, as ist.Delta does; calling it failed "
            f"with: {error}. Bind its other arguments: kernel=lambda width: …"
        ) from error
    if not isinstance(made, AbstractKernel):
        raise TypeError(
            "kernel must be a family of kernels such as ist.Delta, ist.Rectangular or "
            f"ist.Triangular; calling it gave {kind_of(made)}."
        )
    return made


def _check_widths(widths: Input, dim: int) -> np.ndarray:
    """One row for each width, shape (m, d)."""
    array = np.atleast_1d(as_floats(widths, "widths")).astype(np.float64)
    if array.ndim > 2 or array.size == 0 or (array.ndim == 2 and array.shape[1] != dim):
        raise ValueError(
            f"widths must be a list of numbers, or of rows of {dim}, one for each parameter; got "
            f"shape {array.shape}. For one width that differs between parameters give [[…]]."
        )
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"widths must be positive and finite; got {array.tolist()}.")
    return array if array.ndim == 2 else np.repeat(array[:, None], dim, axis=1)


def _default_widths(
    unit: KernelSum, target: AbstractPrior, region: _Box, *, given: bool
) -> np.ndarray:
    """Ten widths in proportion to the prior's scale, as large as there is room for."""
    scale = target.centre_and_scale[1] / np.sqrt(np.asarray(unit.kernel.variance))
    room = MOST_ERODED * (region.high - region.low)
    if given:
        low, high = target.support
        bounded = np.isfinite(low) & np.isfinite(high)
        left = np.minimum(low - region.low, region.high - high)
        room = np.where(bounded, left, room)
    largest = min(LARGEST, float(np.min(room / (scale * unit.reach))))
    if largest <= 0.01 * LARGEST:
        raise ValueError(
            "there is no room to displace θ: the prior given reaches to the edge of the simulated "
            f"region, {region.low.round(4).tolist()} to {region.high.round(4).tolist()}. Simulate "
            "wider than the prior, or leave prior= out to examine the inner part."
        )
    # A hair less than the room, which float32 edges may have rounded up.
    factors = (1 - 1e-6) * largest * np.geomspace(1 / SPAN, 1.0, NUMBER)
    return factors[:, None] * scale


def _common_region(
    rules: list[KernelSum], target: AbstractPrior, region: _Box, *, given: bool
) -> _Box:
    """The θ at which every displacement of every width was simulated."""
    reach = np.max([rule.reach for rule in rules], axis=0)
    inner = _Box(region.low + reach, region.high - reach)
    if not (inner.low < inner.high).all():
        raise ValueError(
            f"the widest kernel reaches {reach.round(4).tolist()} and the simulated region is only "
            f"{region.low.round(4).tolist()} to {region.high.round(4).tolist()}: no θ has all its "
            "displacements inside it. Give smaller widths or simulate wider."
        )
    if not given:
        return inner
    low, high = target.support
    slack = rounding_slack(region.low, region.high)
    below = np.isneginf(low) | (low >= inner.low - slack)
    if not (below & (np.isposinf(high) | (high <= inner.high + slack))).all():
        raise ValueError(
            f"the widest kernel reaches {reach.round(4).tolist()} from θ in the prior given, "
            f"{low.round(4).tolist()} to {high.round(4).tolist()}, and so leaves the simulated "
            f"region, {region.low.round(4).tolist()} to {region.high.round(4).tolist()}. Give "
            "smaller widths, simulate wider, or leave prior= out to examine the inner part."
        )
    return _Box(np.maximum(low, inner.low), np.minimum(high, inner.high))


def _displace(
    rule: KernelSum,
    events: Events,
    stored_prior: AbstractPrior,
    target: AbstractPrior,
    region: _Box,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """θ = θ' − ε and its weight w π(θ)/π(θ'), 0 outside the region."""
    # The same u for every width, so that their differences are not those of the draws.
    u = draw_standard(
        rule.kernel, len(events), len(rule.widths), stream=Stream(seed, Purpose.CHOOSE_WIDTH, (1,))
    )
    theta = events.theta - u * rule.widths
    inside = within(theta, region.low, region.high).all(axis=1)
    weight = np.zeros(len(events))
    log_made = stored_prior.log_prob(events.theta[inside])
    log_wanted = target.log_prob(theta[inside])
    # An edge rounded to float32 can leave a θ' on it without a density.
    ratio = np.exp(np.where(np.isfinite(log_made), log_wanted - log_made, -np.inf))
    weight[inside] = events.weight[inside] * ratio
    return theta, weight


def _check_left(rule: KernelSum, weight: np.ndarray) -> None:
    effective = effective_size(weight)
    if effective < FEWEST:
        raise ValueError(
            f"only {effective:.0f} of {len(weight):,} events, effectively, lie where all widths up "
            f"to the largest can be examined (at {rule.kernel}); at least {FEWEST} are needed. "
            "Give more events, smaller widths or a wider prior=."
        )


def _approximate(
    estimator: Estimator,
    x: np.ndarray,
    theta: np.ndarray,
    rule: KernelSum,
    seed: int,
    advance: Advance,
) -> Approximation:
    """What the learned potential says of one kernel at each (x, θ), in chunks."""
    points = len(rule.log_weight)
    rows = max(1, ROWS // points)
    parts = []
    for start in range(0, len(x), rows):
        some_x, some_theta = x[start : start + rows], theta[start : start + rows]
        count = len(some_x)
        u = rule.displacements(count, stream=Stream(seed, Purpose.CHOOSE_WIDTH, (2, start)))
        displaced = (some_theta[:, None] + u * rule.widths).reshape(count * points, -1)
        with warnings.catch_warnings():
            # What there is to say about these events was said of them as a whole; here the rows
            # are not the user's, and no θ lies outside the trained region.
            warnings.simplefilter("ignore", UserWarning)
            phi = estimator.potential(np.repeat(some_x, points, axis=0), displaced)
            here = estimator.potential(some_x, some_theta)
            score = estimator.score(some_x, some_theta)
        parts.append(rule.approximate(phi.reshape(count, points), here, score, u))
        advance(count)
    return merge(parts)


def _averages(
    found: Approximation, weight: np.ndarray, scale: np.ndarray, noisiness: float
) -> dict[str, np.ndarray | np.floating]:
    share = weight / weight.sum()
    at_theta = weight * found.density_ratio
    common = np.square(scale / np.exp(np.mean(np.log(scale))))
    bias, variance = share @ found.squared_bias, share @ found.variance
    each = found.squared_bias @ common / len(common)
    noise, signal = noisiness * variance, np.maximum(share @ found.squared_score, 0.0)
    fitted = noise * signal / (noise + signal)
    return {
        "bias": common @ bias / len(common),
        "bias_error": np.sqrt(np.sum(np.square(share * (each - share @ each)))),
        "bias_at_theta": at_theta @ each / at_theta.sum(),
        "variance": common @ variance / len(common),
        "saturation": np.mean(share @ found.saturated),
        "predicted_error": common @ (bias + fitted) / len(common),
        "bias_by_parameter": bias,
    }


def _as_one(values: np.ndarray) -> float | tuple[float, ...]:
    """One number where all are the same to rounding, else all of them."""
    if np.ptp(values) <= 1e-6 * np.abs(values).max():
        return float(values[0])
    return tuple(float(value) for value in values)


def _text(value: float | tuple[float, ...]) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(f'{number:.3g}' for number in value)})"
    return f"{value:.3g}"
