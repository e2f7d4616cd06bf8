"""Latent information is a teacher with the same answer: the exact potential is stationary.

Every latent method is held against the exact problem in which half of the noise is visible. Each
wrong variant (a sign, a unit, a score at another θ) must fail the same test.
"""

import dataclasses
import re
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_problem import (
    BOX,
    DIRECTIONS,
    FAILS,
    PASSES,
    WithLatent,
    gradient_z,
    log_p,
    score,
    supervised_gradients,
)
from jaxtyping import Array

import inferostatic as ist
from inferostatic.learning.methods import AbstractMethod, Method, MixedMethod
from inferostatic.supervision.latent import FromJoint, JointScore
from inferostatic.supervision.pairs import KernelPairs, LabelledPairs
from inferostatic.supervision.records import Capability, LabelledPair
from parameters import slow, slow_but

N = 60_000
PROBLEM = WithLatent()


def is_told(told: str | float, message: str) -> bool:
    """Words of a message, or the factor that it states, within 4 of the errors that it states."""
    if isinstance(told, str):
        return told in message
    stated = re.search(r"multiplied by (\S+) ± (\S+):", message)
    return stated is not None and abs(float(stated[1]) - told) < 4 * float(stated[2]) < 0.2 * told


def largest(z: np.ndarray) -> float:
    return float(np.abs(z).max())


@pytest.fixture(scope="module")
def events() -> ist.Events:
    return ist.simulate(PROBLEM, BOX, N, seed=1, progress_bar=False)


@pytest.fixture(scope="module")
def with_reference(events: ist.Events) -> ist.Events:
    half = N // 2
    theta = np.tile([0.25, 0.1], (half, 1))
    x, z = PROBLEM.simulate_latent(theta, np.random.default_rng(3))
    latent = ist.Latent({"z": z}, events.latent.joint)
    parts = [events[:half], ist.Events(x=x, theta=theta, latent=latent)]
    return ist.Events.concatenate(parts, prior=BOX)


METHODS: dict[str, Any] = {
    "ALICE": ist.ALICE(),
    "latent square": ist.LatentLoss(ist.Square()),
    "latent exponential": ist.LatentLoss(ist.Exponential()),
    "latent Savage": ist.LatentLoss(ist.Savage()),
    # The default edge, 10, moves the minimiser: z = 4 on average with so many events, 0 with 40.
    "latent ROLR": ist.LatentLoss(ist.ROLRLoss(edge=40.0)),
    "ROLR": ist.ROLR(),
    "latent KCE": ist.KCE(number=7, latent=True),
    "latent KCE, fixed": ist.KCE(ist.Rectangular([0.8, 0.5]), number=3, latent=True),
    "CASCAL": ist.CASCAL(0.3),
    "RASCAL": ist.RASCAL(0.3),
    "ALICES": ist.ALICES(0.3),
    "ALICES, unit": ist.ALICES(0.3, unit=[2.0, 0.5]),
    "SALLY": ist.SALLY(),
    "mixed": ist.Mix([(1.0, ist.ALICES()), (0.5, ist.KCE(number=2)), (0.2, ist.SALLY())]),
}


@pytest.mark.parametrize(
    "name",
    slow_but(
        METHODS,
        "ALICE",
        "latent square",
        "ROLR",
        "latent KCE",
        "CASCAL",
        "RASCAL",
        "SALLY",
        "mixed",
    ),
)
def test_the_exact_potential_is_stationary(events: ist.Events, name: str) -> None:
    assert largest(gradient_z(METHODS[name], events)) < PASSES


@pytest.mark.parametrize(
    "method",
    [
        ist.ALICE(reference=[0.25, 0.1]),
        slow(ist.ROLR(reference=[0.25, 0.1])),
        slow(ist.LatentLoss(ist.Square(), reference=[0.25, 0.1])),
        ist.CASCAL(reference=[0.25, 0.1]),
        slow(ist.ALICES(reference=[0.25, 0.1])),
        slow(ist.RASCAL(reference=[0.25, 0.1])),
    ],
    ids=str,
)
def test_so_it_is_against_a_reference(with_reference: ist.Events, method: AbstractMethod) -> None:
    assert largest(gradient_z(method, with_reference)) < PASSES


class _Inverted(FromJoint):
    """The joint ratio upside down."""

    def _build_record(self, pair: LabelledPair, log_ratio: Array) -> Any:
        return super()._build_record(pair, -log_ratio)


class _Scaled(JointScore):
    """The joint score in another unit of θ."""

    def supervise(self, row: Any, distribution: Any, *, key: Any) -> Any:
        record: Any = super().supervise(row, distribution, key=key)
        return eqx.tree_at(lambda r: r.target, record, 1.2 * record.target)


class _WrongSign(JointScore):
    """MadMiner's sign of the score at θ1."""

    def supervise(self, row: Any, distribution: Any, *, key: Any) -> Any:
        record: Any = super().supervise(row, distribution, key=key)
        sign = 1 - 2 * record.pair.label
        return eqx.tree_at(lambda r: r.target, record, sign * record.target)


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        (ist.ALICE(), _Inverted(LabelledPairs(ist.Independent()))),
        (ist.SALLY(), _Scaled()),
        (ist.CASCAL().methods[1], _WrongSign(LabelledPairs(ist.Independent()))),
    ],
    ids=["inverted", "scaled", "wrong sign"],
)
def test_wrong_supervision_is_not_stationary(events: ist.Events, method: Any, wrong: Any) -> None:
    method = dataclasses.replace(method, supervision=wrong)
    assert largest(gradient_z(method, events)) > FAILS


class _ExactRatio(eqx.Module):
    """A model of ratios alone, exact, with a tilt that no potential has."""

    coefficients: Array

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset({Capability.LOG_RATIO})

    def log_ratio(self, x: Array, theta0: Array, theta1: Array) -> Array:
        tilt = jnp.stack([theta0[0] - theta1[0], theta0[1] * theta1[0], x[0] * theta1[0]])
        exact = log_p(x, theta0, jnp) - log_p(x, theta1, jnp)
        return exact + jnp.dot(self.coefficients, tilt)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_direct_ratio_learns_the_score_with_the_right_sign(events: ist.Events, sign: int) -> None:
    method = ist.CASCAL().methods[1]
    if sign < 0:
        method = dataclasses.replace(
            method, supervision=_WrongSign(LabelledPairs(ist.Independent()))
        )
    supply = method.supply(events[:20_000])

    @eqx.filter_jit
    def gradients(rows: Any, distribution: Any, keys: Array) -> Array:
        records = jax.vmap(lambda row, key: method.supervise(row, distribution, key=key))(
            rows, keys
        )
        return jax.jacfwd(lambda c: method.losses_of(_ExactRatio(c), rows.x, records))(jnp.zeros(3))

    keys = jax.random.split(jax.random.key(2), 20_000)
    values = np.asarray(gradients(supply.rows, supply.distribution, keys), np.float64)
    z = np.abs(values.sum(axis=0) / np.sqrt(np.square(values).sum(axis=0))).max()
    assert z < PASSES if sign > 0 else z > FAILS


def test_alpha_is_stated_in_a_unit_of_theta(events: ist.Events) -> None:
    """With u given, the score term is α Σ u² (ŝ − t)², whatever the law of θ or the network."""
    method = ist.ALICES(0.7, unit=[2.0, 0.5])
    supply = method.supply(events[:100])
    assert supply.distribution.unit is not None
    np.testing.assert_allclose(supply.distribution.unit, [2.0, 0.5])
    unstated = ist.ALICES().supply(events[:100]).distribution.unit
    assert unstated is not None
    np.testing.assert_allclose(unstated, np.array([2.5, 1.4]) / np.sqrt(12), rtol=1e-5)
    record = method.methods[1].supervise(
        jax.tree.map(lambda leaf: leaf[3], supply.rows), supply.distribution, key=jax.random.key(0)
    )
    x, z, theta = events.x[3], events.latent["z"][3], events.theta[3]
    t0 = 2 * (z[0] - theta[0])
    t1 = 2 * (z[1] ** 2 + (x[1] - z[1]) ** 2) * np.exp(-2 * theta[1]) - 2
    np.testing.assert_allclose(record.answer, [2.0 * t0, 0.5 * t1], rtol=2e-5)


def test_stored_numbers_teach_the_same(events: ist.Events) -> None:
    part = events[:N]
    rng = np.random.default_rng(4)
    partner = BOX.sample(N, seed=int(rng.integers(1000)))
    joint = jax.vmap(PROBLEM.joint_log_prob)
    x, z = (jnp.asarray(a, jnp.float32) for a in (part.x, part.latent["z"]))
    own, other = (joint(x, z, jnp.asarray(t, jnp.float32)) for t in (part.theta, partner))
    t = jax.vmap(jax.grad(PROBLEM.joint_log_prob, argnums=2))(
        x, z, jnp.asarray(part.theta, jnp.float32)
    )
    latent = {
        "log_joint_ratio": np.asarray(own - other),
        "partner": partner,
        "joint_score": np.asarray(t),
    }
    stored = ist.Events(x=part.x, theta=part.theta, prior=BOX, latent=latent)
    for method in (ist.ALICE(), ist.ROLR(), ist.ALICES(), ist.SALLY(), ist.CASCAL()):
        assert largest(gradient_z(method, stored)) < PASSES
    with pytest.raises(ValueError, match="serves only the pair it was computed for"):
        ist.KCE(latent=True).supply(stored)


POINT = [0.25, 0.1]


def against(point: list[float], others: int, there: int) -> ist.Events:
    """Stored pairs with one reference, the last of them from it, and joint scores of the others."""
    drawn = BOX.sample(others + there, seed=9)
    last = np.arange(len(drawn))[:, None] >= others
    theta, partner = np.where(last, point, drawn), np.where(last, drawn, point)
    x, z = PROBLEM.simulate_latent(theta, np.random.default_rng(3))
    joint = jax.vmap(PROBLEM.joint_log_prob)
    t = jax.vmap(jax.grad(PROBLEM.joint_log_prob, argnums=2))(x, z, theta)
    latent = {
        "log_joint_ratio": np.asarray(joint(x, z, theta) - joint(x, z, partner)),
        "partner": partner,
        "joint_score_off_reference": np.where(last, 0.0, t),
    }
    return ist.Events(x=x, theta=theta, prior=BOX, latent=latent)


@pytest.fixture(scope="module")
def stored_against_reference() -> ist.Events:
    return against(POINT, N // 2, N // 3)


@pytest.mark.parametrize(
    "method",
    [
        ist.ALICE(reference=POINT),
        slow(ist.ROLR(reference=POINT)),
        slow(ist.LatentLoss(ist.Square(), reference=POINT)),
        ist.CASCAL(reference=POINT),
        slow(ist.RASCAL(reference=POINT)),
        slow(ist.ALICES(reference=POINT)),
    ],
    ids=str,
)
def test_stored_pairs_with_a_reference_teach_the_same(
    stored_against_reference: ist.Events, method: AbstractMethod
) -> None:
    assert largest(gradient_z(method, stored_against_reference)) < PASSES


def test_few_events_at_the_reference_break_no_identity() -> None:
    """The label is made fair by weights, before identities are looked at."""
    point = [0.9, -0.2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        supply = ist.ALICE(reference=point).supply(against(point, 15_000, 1000))
    np.testing.assert_allclose(supply.weight[-1000:].sum(), 15_000)


def test_the_stored_pair_is_the_one_that_is_asked_about(
    stored_against_reference: ist.Events,
) -> None:
    method = ist.ROLR(reference=POINT)
    supply = method.supply(stored_against_reference)
    latent = stored_against_reference.latent
    for row, sign in ((3, 1.0), (-3, -1.0)):
        record: Any = method.supervise(
            jax.tree.map(lambda leaf, row=row: leaf[row], supply.rows),
            supply.distribution,
            key=jax.random.key(0),
        )
        own = latent["partner"] if sign < 0 else stored_against_reference.theta
        np.testing.assert_allclose(record.pair.theta0, own[row], rtol=1e-6)
        np.testing.assert_allclose(record.pair.theta1, POINT, rtol=1e-6)
        expected = [sign < 0, sign * latent["log_joint_ratio"][row]]
        np.testing.assert_allclose(record.answer, expected, rtol=1e-6)


class _TaughtEverywhere(JointScore):
    """The joint score of events at the reference taken for 0."""

    def supervise(self, row: Any, distribution: Any, *, key: Any) -> Any:
        record: Any = super().supervise(row, distribution, key=key)
        return eqx.tree_at(lambda r: r.weight, record, record.pair.weight)


def test_wrong_stored_pairs_do_not(stored_against_reference: ist.Events) -> None:
    reference = ist.CARL(reference=POINT).supervision
    for method, wrong in (
        (ist.ALICE(reference=POINT), _Inverted(reference)),
        (ist.ALICES(reference=POINT).methods[1], _TaughtEverywhere(reference)),
    ):
        broken = dataclasses.replace(method, supervision=wrong)
        assert largest(gradient_z(broken, stored_against_reference)) > FAILS


def test_stored_pairs_of_another_reference_are_refused(
    events: ist.Events, stored_against_reference: ist.Events
) -> None:
    stored = stored_against_reference
    elsewhere = np.array(stored.latent["partner"])
    elsewhere[7] = [0.5, 0.5]
    wrong = ist.Events(
        x=stored.x,
        theta=stored.theta,
        prior=BOX,
        latent={**stored.latent, "partner": elsewhere},
    )
    with pytest.raises(ValueError, match="in row 7 neither the event's θ nor its partner"):
        ist.ALICE(reference=POINT).supply(wrong)
    upside_down = {**stored.latent, "log_joint_ratio": -stored.latent["log_joint_ratio"]}
    wrong = ist.Events(x=stored.x, theta=stored.theta, prior=BOX, latent=upside_down)
    with pytest.raises(ValueError, match="violates an identity.*upside down"):
        ist.ALICE(reference=POINT).supply(wrong)
    with pytest.raises(ValueError, match=r"serves methods with reference=.*scored=True"):
        ist.SALLY().supply(stored)
    zero = {"joint_score_off_reference": np.zeros_like(stored.theta)}
    unscored = ist.Events(x=stored.x, theta=stored.theta, prior=BOX, latent=zero)
    with pytest.raises(ValueError, match="is 0 for all events.*give the θ₁ of the set"):
        ist.CASCAL(reference=POINT).supply(unscored)


@pytest.mark.parametrize(
    "method",
    [ist.ALICES(reference=POINT), ist.CASCAL(reference=POINT), ist.SALLY(reference=POINT)],
    ids=str,
)
def test_the_advice_for_missing_reference_events_works(
    events: ist.Events, method: AbstractMethod
) -> None:
    with pytest.raises(ValueError, match=r"ist\.Discrete\(\[point\].*pool\.events\(point"):
        method.supply(events[:500])
    point = ist.Discrete([POINT], names=BOX.names)
    at_reference = ist.simulate(PROBLEM, point, 500, seed=2, progress_bar=False)
    both = ist.Events.concatenate([events[:500], at_reference], prior=BOX)
    local = str(method) == "SALLY"
    assert len(method.supply(both).weight) == (500 if local else 1000)
    kind = {"ALICES": ist.ALICES, "CASCAL": ist.CASCAL, "SALLY": ist.SALLY}[str(method)]
    with pytest.raises(TypeError, match=r"got Events\. Join these to the others"):
        kind(reference=at_reference)


def test_missing_arrays_are_told(events: ist.Events) -> None:
    bare = ist.Events(x=events.x, theta=events.theta, prior=BOX, latent={"z": events.latent["z"]})
    with pytest.raises(ValueError, match="neither a joint density.*nor the stored array"):
        ist.ALICE().supply(bare)
    with pytest.raises(ValueError, match=r"neither the latent array 'joint_score'.*are \['z'\]"):
        ist.SALLY().supply(bare)
    with pytest.raises(ValueError, match="reads the latent array 'z', which is not among"):
        ist.Latent({}, ist.JointDensity(PROBLEM.joint_log_prob))


@pytest.mark.parametrize(
    ("method", "names", "told"),
    [
        (ist.SALLY(), ["t_xz"], "Did you mean 'joint_score' (the joint score at the event's θ) in"),
        (ist.SALLY(), ["Joint_Scores"], "in place of 'Joint_Scores'?"),
        (ist.ALICE(), ["log_r_xz"], "Did you mean 'log_joint_ratio' (ln p_lat at the event's θ"),
        (
            ist.ALICE(),
            ["r_xz", "theta1"],
            "'partner' (the other θ of the pair) in place of",
        ),
        (ist.ALICE(), ["joint_score"], "ist.SALLY() learns from these."),
    ],
)
def test_other_names_of_arrays_are_recognised(
    events: ist.Events, method: AbstractMethod, names: list[str], told: str
) -> None:
    part = events[:50]
    wrong = ist.Events(x=part.x, theta=part.theta, latent=dict.fromkeys(names, part.theta))
    with pytest.raises(ValueError, match="neither") as error:
        method.supply(wrong)
    assert told in str(error.value)


def test_no_question_where_no_name_is_close(events: ist.Events) -> None:
    part = events[:50]
    wrong = ist.Events(x=part.x, theta=part.theta, latent={"parton": part.theta})
    with pytest.raises(ValueError, match=r"are \['parton'\]\.$"):
        ist.ALICE().supply(wrong)
    with pytest.raises(ValueError, match=r"Did you mean 'z' in place of 'Z'\?$"):
        ist.Latent({"Z": part.theta}, ist.JointDensity(PROBLEM.joint_log_prob))


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x, z, t: jnp.ones((2, 3)) @ jnp.ones(2), "TypeError: dot_general requires"),
        (lambda x, z, t: float(t[0]), "ConcretizationTypeError: Abstract tracer value"),
        (lambda x, z, t: np.log(t[0]), "Use jax.numpy and no float()"),
        (lambda x, z, t: {}["a"], "KeyError: 'a'."),
        (lambda x, z, t: None, "ValueError: None"),
    ],
)
def test_a_joint_density_that_fails_is_told(events: ist.Events, function: Any, told: str) -> None:
    latent = ist.Latent({"z": events.latent["z"]}, ist.JointDensity(function))
    wrong = ist.Events(x=events.x, theta=events.theta, prior=BOX, latent=latent)
    dims = events.x.shape[1], events.latent["z"].shape[1], events.theta.shape[1]
    shapes = "x ({},), z ({},), θ ({},): it must be a JAX function (x, z, theta)".format(*dims)
    for method in (ist.ALICE(), ist.SALLY()):
        with pytest.raises(TypeError, match="the joint density failed on one event") as error:
            method.supply(wrong)
        assert shapes in str(error.value)
        assert told in str(error.value)
        assert "\n" not in str(error.value)
        assert "https" not in str(error.value)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x, z: 0.0, r"three arguments, .* takes \(x, z\)"),
        (lambda x, z, t, more: 0.0, r"takes \(x, z, t, more\)"),
        (3.0, "takes a JAX function .* got float"),
        (dict, "got the class dict itself"),
    ],
)
def test_what_is_no_joint_density(function: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        ist.JointDensity(function)
    ist.JointDensity(lambda x, z, t, more=1.0: more)
    ist.JointDensity(jax.jit(PROBLEM.joint_log_prob))


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (lambda x, z, t: -PROBLEM.joint_log_prob(x, z, t), ("upside down", "wrong sign")),
        (lambda x, z, t: 1.5 * PROBLEM.joint_log_prob(x, z, t), (1 / 1.5, "too large")),
        (lambda x, z, t: PROBLEM.joint_log_prob(x, z, t) + t[1], ("normalised", "must be ∇θ")),
    ],
)
def test_densities_that_break_an_identity_are_refused(
    events: ist.Events, broken: Any, told: tuple[str | float, ...]
) -> None:
    latent = ist.Latent({"z": events.latent["z"]}, ist.JointDensity(broken))
    wrong = ist.Events(x=events.x, theta=events.theta, prior=BOX, latent=latent)
    with pytest.raises(ValueError, match="violates an identity") as error:
        ist.ALICE().supply(wrong)
    assert any(is_told(one, str(error.value)) for one in told), error.value


@pytest.mark.parametrize(
    ("factor", "told"), [(-1.0, "wrong sign"), (2.0, 0.5), (180 / np.pi, "units")]
)
def test_scores_of_the_wrong_sign_or_unit_are_refused(
    events: ist.Events, factor: float, told: str | float
) -> None:
    exact = score(events.x, events.theta)
    wrong = ist.Events(
        x=events.x, theta=events.theta, prior=BOX, latent={"joint_score": factor * exact}
    )
    with pytest.raises(ValueError, match="violates an identity") as error:
        ist.SALLY().supply(wrong)
    assert is_told(told, str(error.value)), error.value
    right = ist.Events(x=events.x, theta=events.theta, prior=BOX, latent={"joint_score": exact})
    assert largest(gradient_z(ist.SALLY(), right)) < PASSES


def test_zero_and_negative_densities_are_told(events: ist.Events) -> None:
    def zero(x: Array, z: Array, theta: Array) -> Array:
        return jnp.where(z[0] > theta[0], PROBLEM.joint_log_prob(x, z, theta), -jnp.inf)

    def negative(x: Array, z: Array, theta: Array) -> Array:
        return jnp.log(z[0] - theta[0])

    for function in (zero, negative):
        latent = ist.Latent({"z": events.latent["z"]}, ist.JointDensity(function))
        wrong = ist.Events(x=events.x, theta=events.theta, prior=BOX, latent=latent)
        with pytest.raises(ValueError, match=r"NaN or infinite|0, negative or NaN"):
            ist.ALICE().supply(wrong)


def test_densities_that_do_not_overlap_are_told(events: ist.Events) -> None:
    """A latent variable that betrays θ makes the joint ratio a label."""

    def density(x: Array, z: Array, theta: Array) -> Array:
        return -0.5 * 1e8 * jnp.sum(jnp.square(z - theta))

    noise = 1e-4 * np.random.default_rng(6).standard_normal(events.theta.shape)
    latent = ist.Latent({"z": events.theta + noise}, ist.JointDensity(density))
    wrong = ist.Events(x=events.theta, theta=events.theta, prior=BOX, latent=latent)
    with pytest.warns(UserWarning, match="do not overlap"):
        ist.ALICE().supply(wrong)


def test_a_local_score_uses_the_events_at_its_reference(with_reference: ist.Events) -> None:
    method = ist.SALLY(reference=[0.25, 0.1])
    supply = method.supply(with_reference)
    assert len(supply.weight) == N // 2
    np.testing.assert_allclose(supply.distribution.low, [0.25, 0.1])
    np.testing.assert_allclose(supply.distribution.high, [0.25, 0.1])
    with pytest.raises(ValueError, match="none of the 30000 events was simulated at the reference"):
        method.supply(with_reference[: N // 2])


def test_names_and_compositions() -> None:
    assert str(ist.ALICES()) == "ALICES"
    assert str(ist.LatentLoss(ist.Square())) == "latent Square"
    mix = ist.Mix([(2.0, ist.ALICES(0.5)), (1.0, ist.KCE())])
    assert isinstance(mix, MixedMethod)
    assert mix.weights == (2.0, 1.0, 1.0)
    assert isinstance(mix.methods[0], Method)
    assert isinstance(ist.CASCAL().methods[0].supervision, LabelledPairs)
    with pytest.raises(ValueError, match="alpha must be a finite number above 0"):
        ist.ALICES(-1.0)
    with pytest.raises(ValueError, match="compares with joint ratios"):
        ist.CARL(loss=ist.ROLRLoss())
    with pytest.raises(ValueError, match="either reference= or pairs="):
        ist.ALICE(reference=[0.0], pairs=ist.Independent())


NEAR = KernelPairs(ist.Rectangular([0.2, 0.1]))


@pytest.mark.parametrize(
    ("hard", "soft"),
    [
        (ist.CARL(pairs=NEAR), ist.LatentLoss(ist.Logistic(), pairs=NEAR)),
        *(
            slow(ist.CARL(pairs=NEAR, loss=loss), ist.LatentLoss(loss, pairs=NEAR))
            for loss in (ist.Square(), ist.Exponential(), ist.Savage())
        ),
        (ist.ROLR(pairs=NEAR), ist.LatentLoss(ist.ROLRLoss(), pairs=NEAR)),
        (ist.KCE(number=3), ist.KCE(number=3, latent=True)),
    ],
    ids=lambda method: str(method),
)
@pytest.mark.parametrize("away", [0.0, 0.2])
def test_gradients_have_the_same_mean_and_less_variance(
    events: ist.Events, hard: Any, soft: Any, away: float
) -> None:
    """Eq. goldmining_intuition_3 and _4, at the exact potential and off it, with the same pairs.

    Near pairs, whose ratios have a variance that can be measured.
    """
    keys = jax.random.split(jax.random.key(8), N)
    at = jnp.full(DIRECTIONS, away)
    found = []
    for method in (hard, soft):
        supply = method.supply(events)
        slopes = supervised_gradients(method, supply.rows, supply.distribution, keys, at)
        found.append(np.asarray(slopes, np.float64))
    difference = found[0] - found[1]
    z = difference.mean(axis=0) / difference.std(axis=0) * np.sqrt(N)
    assert largest(z) < PASSES
    # Means being the same, the variances differ as the mean squares do, event by event.
    less = np.square(found[0]).sum(axis=1) - np.square(found[1]).sum(axis=1)
    assert less.mean() / less.std() * np.sqrt(N) > PASSES
