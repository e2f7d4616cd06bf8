r"""Identities that joint scores and ratios obey exactly, whatever the simulator.

A joint score of the wrong sign or unit, a ratio turned upside down, a density that is not
normalised: training would go on and learn something else. Each of these breaks one of the means
below, which are all 0 for events simulated at their θ, at any θ and for any prior π of θ.

- \(E[t\,h(\theta)] = 0\) for the joint score t;
- \(E[f(x)(t_i g + \partial_i g + g\,\partial_i\ln\pi)] = 0\) for any f and any g(θ) that vanishes
  at the edges of π: \(\mathrm{Cov}(t, x) = dE[x]/d\theta\), averaged over θ, without derivatives
  of means;
- \(E[(y - y^*)\,g] = 0\) for a fair label y of exchangeable pairs and its mean
  \(y^* = 1/(1 + r_\mathrm{lat})\) given the latent variables; and \(E[r_\mathrm{lat}] = 1\).
"""

import dataclasses
import itertools
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..events.events import Events
from ..events.latent import JOINT_SCORE, LOG_JOINT_RATIO, PARTNER, AbstractJoint
from ..inputs import bad_rows, finite_rows, rounded, warn_user
from ..streams import Purpose, Stream
from ..world.priors.discrete import Discrete
from ..world.priors.prior import AbstractPrior

#: Events that are looked at.
MOST_EVENTS = 20_000
#: Standard errors from 0 that call for a warning.
SUSPICIOUS = 5.0
#: Standard errors from 0 beyond which latent information is refused.
IMPOSSIBLE = 10.0
#: Shortest step of θ to a partner, as a fraction of the prior's width.
SHORTEST = 0.02
#: Longest step for which the plain mean E[r] is taken: the variance of far ratios may be infinite.
SHORT = 0.1
#: Longest step of all.
LONGEST = 1.0
#: Fraction of events for which a partner a short step away is impossible, which calls for a
#: warning.
NO_OVERLAP = 0.5
#: Effective fraction of the events from which the plain mean of ratios is a test.
ENOUGH = 0.2
#: Observables whose products with each other are looked at.
MOST_CROSSED = 8
#: Standard errors from which a mean of x is seen to move with θ.
VISIBLE = 4.0
#: A log ratio at which the partner is as good as impossible.
FAR = 30.0

_Latent = dict[str, Array]


@dataclasses.dataclass(frozen=True)
class Identity:
    """A mean that must vanish.

    Attributes:
        name: in words.
        z: the mean in standard errors.
        hint: what would explain the deviation, in words.
        tried: of how many such means it is the worst.
    """

    name: str
    z: float
    hint: str = ""
    tried: int = 1


def some_events(events: Events) -> Events:
    """As many as are looked at, the same in every call."""
    if len(events) <= MOST_EVENTS:
        return events
    rng = Stream(0, Purpose.LATENT_EVENTS).generator()
    rows = rng.choice(len(events), MOST_EVENTS, replace=False)
    return events[np.sort(rows)]


def joint_scores(events: Events) -> np.ndarray:
    """Joint scores at the events' own θ: stored, or from the joint density."""
    if JOINT_SCORE in events.latent:
        return np.asarray(events.latent[JOINT_SCORE], np.float64)
    joint = events.latent.joint
    assert joint is not None
    scores = np.asarray(_scores(joint, *_arrays(events, joint)), np.float64)
    good = finite_rows(scores)
    if not good.all():
        raise ValueError(
            f"the joint density gives a score that is NaN or infinite in {bad_rows(good)}, at θ = "
            f"{rounded(events.theta[~good][0])}. A density of 0 or below has no logarithm: events "
            "must be possible at the θ they were simulated at."
        )
    return scores


def joint_identities(events: Events, *, seed: int = 0) -> list[Identity]:
    """All identities that these events can be asked about."""
    events = some_events(events)
    prior = events.stored_prior() if events.prior is None else events.prior
    found: list[Identity] = []
    if JOINT_SCORE in events.latent or events.latent.joint is not None:
        scores = joint_scores(events)
        found += _of_scores(events, scores, prior)
        if not isinstance(prior, Discrete):
            found += _of_slopes(events, scores, prior)
    if events.latent.joint is not None:
        found += _of_fresh_pairs(events, events.latent.joint, prior, seed)
    elif LOG_JOINT_RATIO in events.latent and PARTNER in events.latent:
        log_ratio = np.asarray(events.latent[LOG_JOINT_RATIO], np.float64)
        partner = np.asarray(events.latent[PARTNER], np.float64)
        found += _of_pairs(events, log_ratio, partner, np.abs(log_ratio) < np.inf)
    return found


def require_identities(events: Events) -> None:
    """Refuse joint quantities that violate an identity for certain, warn where they seem to."""
    worst = max(joint_identities(events), key=lambda one: abs(one.z), default=None)
    if worst is None or abs(worst.z) < SUSPICIOUS:
        return
    message = (
        f"the latent information of these events violates an identity: {worst.name} is "
        f"{worst.z:+.1f} standard errors from 0. {worst.hint}"
    )
    if abs(worst.z) > IMPOSSIBLE:
        raise ValueError(message)
    warn_user(message)


def _of_scores(events: Events, scores: np.ndarray, prior: AbstractPrior) -> Iterator[Identity]:
    """E[t h(θ)] for h = 1 and every standardised component of θ."""
    centre, scale = prior.centre_and_scale
    away = (events.theta - centre) / np.where(np.asarray(scale) > 0, scale, 1.0)
    names = events.theta_names
    hint = "The joint score must be ∇θ ln p(x, z; θ) at the θ that the event was simulated at."
    for i, name in enumerate(names):
        yield Identity(f"E[t_{name}]", _z(events.weight * scores[:, i]), hint)
        for k, other in enumerate(names):
            if away[:, k].std() > 0:
                z = _z(events.weight * scores[:, i] * away[:, k])
                yield Identity(f"E[t_{name} {other}]", z, hint)


def _of_slopes(events: Events, scores: np.ndarray, prior: AbstractPrior) -> Iterator[Identity]:
    """Cov(t, x) = dE[x]/dθ, with bounded functions of x, averaged over the inner part of θ."""
    bump, slope = _bumps(prior, np.asarray(events.theta, np.float64))
    functions, names = _functions_of_x(events)
    weight = events.weight
    functions = functions - np.average(functions, axis=0, weights=weight)
    for i, name in enumerate(events.theta_names):
        stated = (weight * scores[:, i] * bump)[:, None] * functions
        moved = (weight * slope[:, i])[:, None] * functions
        off = _z_of_columns(stated + moved)
        worst = int(np.argmax(np.abs(off)))
        label = f"Cov(t_{name}, {names[worst]}) − dE[{names[worst]}]/d{name}"
        if np.abs(_z_of_columns(moved)).max() < VISIBLE:
            label += f" (untested: no mean of x is seen to move with {name})"
        yield Identity(label, float(off[worst]), _scale_hint(name, stated, moved), len(names))


def _functions_of_x(events: Events) -> tuple[np.ndarray, list[str]]:
    """Bounded functions whose means measure locations, widths and correlations of x, and names."""
    middle = np.median(events.x, axis=0)
    spread = np.quantile(events.x, 0.84, axis=0) - np.quantile(events.x, 0.16, axis=0)
    place = np.tanh((events.x - middle) / np.where(spread > 0, spread, 1.0))
    columns, names = [place, np.square(place)], list(events.x_names)
    names += [f"{name}²" for name in events.x_names]
    for j, k in itertools.combinations(range(min(place.shape[1], MOST_CROSSED)), 2):
        columns.append(place[:, [j]] * place[:, [k]])
        names.append(f"{events.x_names[j]} {events.x_names[k]}")
    return np.concatenate(columns, axis=1), names


def _scale_hint(name: str, stated: np.ndarray, moved: np.ndarray) -> str:
    """By which factor the joint score would have to be multiplied, with its error, if one does."""
    if not stated.any():
        return "The joint score says nothing of x."
    errors = np.maximum(stated.std(axis=0), moved.std(axis=0))
    given, needed = (
        np.divide(part, errors, out=np.zeros_like(errors), where=errors > 0)
        for part in (stated.mean(axis=0), -moved.mean(axis=0))
    )
    factor = float(given @ needed / (given @ given))
    left = factor * stated + moved
    if np.abs(_z_of_columns(left)).max() > SUSPICIOUS:
        return (
            f"No factor repairs the joint score of {name}: are its rows in the order of the "
            "events, and its columns in that of θ?"
        )
    if factor < 0:
        return f"The joint score of {name} seems to have the wrong sign (a factor {factor:.2g})."
    each = np.divide(left, errors, out=np.zeros_like(left), where=errors > 0) @ given
    error = float(each.std() / np.sqrt(len(each)) / (given @ given))
    return (
        f"The joint score of {name} would have to be multiplied by {factor:.4g} ± {error:.2g}: is "
        "it in the units of θ that the events have?"
    )


def _bumps(prior: AbstractPrior, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """g(θ), and ∂g + g ∂ln π, where g and its slope vanish at the edges of π."""
    scale = np.asarray(prior.centre_and_scale[1], np.float64)
    low, high = prior.support
    bump = np.ones(len(theta))
    log_slope = np.asarray(_log_slopes(prior, _in_jax(theta)), np.float64)
    for edge, sign in ((low, 1.0), (high, -1.0)):
        with np.errstate(invalid="ignore", divide="ignore"):
            distance = np.maximum(sign * (theta - edge), 0.0) / scale
            factor = np.where(np.isfinite(edge), distance / (1 + distance), 1.0)
            slope = np.where(np.isfinite(edge), 2 * sign / (scale * distance * (1 + distance)), 0.0)
        bump = bump * np.prod(factor, axis=1) ** 2
        log_slope = log_slope + slope
    inside = (bump > 0)[:, None]
    return bump, np.where(inside, bump[:, None] * np.where(inside, log_slope, 0), 0)


@eqx.filter_jit
def _log_slopes(prior: AbstractPrior, theta: Array) -> Array:
    return jax.vmap(jax.grad(prior.log_density))(theta)


def _of_fresh_pairs(
    events: Events, joint: AbstractJoint, prior: AbstractPrior, seed: int
) -> Iterator[Identity]:
    x, latent, theta = _arrays(events, joint)
    keys = jax.random.split(Stream(seed, Purpose.LATENT_PAIRS).key(), len(events))
    partner, fraction, log_ratio = (
        np.asarray(a, np.float64) for a in _ratios(joint, prior, x, latent, theta, keys)
    )
    bad = np.isnan(log_ratio) | np.isneginf(log_ratio)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"the joint density is 0, negative or NaN in {bad_rows(~bad)}, at θ = "
            f"{rounded(events.theta[row])} or at {rounded(partner[row])}: events must be possible "
            "at the θ they were simulated at, and densities must not be negative anywhere."
        )
    near = fraction < SHORT
    if isinstance(prior, Discrete):
        near = np.zeros(len(near), bool)
    apart = np.mean(log_ratio[near] > FAR) if near.any() else 0.0
    if apart > NO_OVERLAP:
        warn_user(
            f"for {apart:.0%} of the events a θ less than {SHORT:.0%} of the prior's width away is "
            "practically impossible given their latent variables: the joint densities of "
            "neighbouring θ do not overlap, and joint ratios tell no more than labels. Take fewer "
            "latent variables into the density, or a narrower prior."
        )
    yield from _of_pairs(events, log_ratio, partner, near)


def _of_pairs(
    events: Events, log_ratio: np.ndarray, partner: np.ndarray, near: np.ndarray
) -> Iterator[Identity]:
    """E[(y − y*) g], where a = ln p_lat(own θ) − ln p_lat(partner) and y* = sigmoid(−a)."""
    weight = events.weight
    other = _sigmoid(-log_ratio)
    upside_down = abs(_z(weight * _sigmoid(log_ratio) * np.tanh(log_ratio / 2)))
    z = _z(weight * other * np.tanh(log_ratio / 2))
    hint = (
        "The joint ratio seems to be upside down: it is ln p(x, z) at the event's own θ less that "
        "at the partner."
        if upside_down < abs(z)
        else "The joint ratios are too large or too small."
    )
    yield Identity("E[(y − y*)(1 − 2y*)]", z, hint)
    normalised = (
        "Is the joint density normalised over (x, z) at every θ, with the total rate divided out?"
    )
    for k, name in enumerate(events.theta_names):
        step = events.theta[:, k] - partner[:, k]
        if step.any():
            z = _z(weight * other * step)
            yield Identity(f"E[(y − y*)({name}_0 − {name}_1)]", z, normalised)
    ratio = np.exp(-np.clip(log_ratio[near], -FAR, None))
    # With few effective events the mean of such a skewed number is no test of anything.
    if ratio.sum() ** 2 > ENOUGH * near.sum() * np.square(ratio).sum():
        yield Identity("E[r] − 1 of near pairs", _z(weight[near] * (ratio - 1)), normalised)


@eqx.filter_jit
def _ratios(
    joint: AbstractJoint, prior: AbstractPrior, x: Array, latent: _Latent, theta: Array, keys: Array
) -> tuple[Array, Array, Array]:
    """Partners at all distances, how far they may be, and ln p_lat(own θ) − ln p_lat(partner)."""
    low, high = jnp.log(SHORTEST), jnp.log(LONGEST)

    def one(x: Array, latent: _Latent, theta: Array, key: Array) -> tuple[Array, Array, Array]:
        scale, move = jax.random.split(key)
        fraction = jnp.exp(low + (high - low) * jax.random.uniform(scale))
        partner = prior.step(theta, fraction, key=move)
        values = [joint.log_prob(x, latent, point) for point in (theta, partner)]
        return partner, fraction, values[0] - values[1]

    return jax.vmap(one)(x, latent, theta, keys)


@eqx.filter_jit
def _scores(joint: AbstractJoint, x: Array, latent: _Latent, theta: Array) -> Array:
    return jax.vmap(joint.score)(x, latent, theta)


def _arrays(events: Events, joint: AbstractJoint) -> tuple[Array, dict[str, Array], Array]:
    latent = {name: _in_jax(events.latent[name]) for name in joint.names}
    return _in_jax(events.x), latent, _in_jax(events.theta)


def _in_jax(array: np.ndarray) -> Array:
    return jnp.asarray(array, jnp.float32)


def _sigmoid(value: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(value / 2))


def _z(terms: np.ndarray) -> float:
    """The mean in standard errors."""
    return float(_z_of_columns(terms[:, None])[0])


def _z_of_columns(terms: np.ndarray) -> np.ndarray:
    """The mean of every column in standard errors."""
    if len(terms) < 2:
        return np.zeros(terms.shape[1])
    error = terms.std(axis=0, ddof=1) / np.sqrt(len(terms))
    return np.divide(terms.mean(axis=0), error, out=np.zeros_like(error), where=error > 0)
