"""Methods: what the names stand for, batches against single events, and mixtures."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.learning.losses import SoftmaxCrossEntropy, SquaredError
from inferostatic.learning.methods import AbstractMethod, Method
from inferostatic.models.architecture import AbstractArchitecture
from inferostatic.supervision.candidates import AroundCentre, CandidateSets, FromPrior
from inferostatic.supervision.kernel_score import KernelScore
from inferostatic.supervision.pairs import KernelPairs, LabelledPairs
from inferostatic.supervision.records import Capability, LabelledPair
from inferostatic.supervision.references import ReferencePoint, ReferenceSample

pytestmark = pytest.mark.usefixtures("strict")

PRIOR = ist.Uniform([-1.0, 0.5], [1.0, 2.0])
REFERENCE = [0.5, 1.0]


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly() -> Iterator[None]:
    jax.config.update("jax_disable_most_optimizations", val=True)
    yield
    jax.config.update("jax_disable_most_optimizations", val=False)


def stored_events(n: int = 30, seed: int = 1) -> ist.Events:
    rng = np.random.default_rng(seed)
    theta = rng.uniform([-1.0, 0.5], [1.0, 2.0], size=(n, 2))
    theta[::3] = REFERENCE
    x = theta[:, :1] + theta[:, 1:] * rng.standard_normal((n, 2))
    return ist.Events(x=x, theta=theta, prior=PRIOR)


def reference_sample(seed: int = 2, n: int = 10) -> ist.Events:
    x = np.random.default_rng(seed).normal(size=(n, 2))
    return ist.Events(x=x, theta=REFERENCE, weight=np.arange(1.0, n + 1))


METHODS: dict[str, tuple[AbstractArchitecture, AbstractMethod]] = {
    "KSE": (ist.Potential(ist.MLP((6,))), ist.KSE(ist.Rectangular([0.2, 0.1]))),
    "KSE, direct": (ist.DirectScore(ist.MLP((6,))), ist.KSE(ist.Delta(0.1), ist.Sign())),
    "KLRE": (ist.Potential(ist.MLP((6,))), ist.KLRE(ist.Rectangular(0.4), ist.Exponential())),
    "CARL, direct": (ist.DirectRatio(ist.MLP((6,))), ist.CARL()),
    "CARL to a point": (ist.Potential(ist.MLP((6,))), ist.CARL(reference=REFERENCE)),
    "DCTR to a sample": (ist.Potential(ist.MLP((6,))), ist.DCTR(reference_sample())),
    "KCE": (ist.Potential(ist.MLP((6,))), ist.KCE(number=5)),
    "Mix": (
        ist.Potential(ist.MLP((6,))),
        ist.Mix([(1.0, ist.KCE(number=2)), (0.3, ist.KSE(ist.Delta(0.1)))]),
    ),
}


def asked(
    architecture: AbstractArchitecture, method: AbstractMethod, seed: int = 3
) -> tuple[Any, jax.Array, Any]:
    """A model, events and their records."""
    supply = method.supply(stored_events())
    shapes = architecture.shapes(np.asarray(supply.rows.x), *PRIOR.centre_and_scale)
    model = architecture.build(shapes, key=jax.random.key(seed))
    keys = jax.random.split(jax.random.key(seed + 1), len(supply.weight))
    supervise = jax.vmap(lambda row, key: method.supervise(row, supply.distribution, key=key))
    return model, supply.rows.x, eqx.filter_jit(supervise)(supply.rows, keys)


@pytest.mark.parametrize("name", METHODS)
def test_a_batch_is_its_events_one_by_one(name):
    architecture, method = METHODS[name]
    model, x, records = asked(architecture, method)
    assert method.capabilities <= model.capabilities
    one_by_one = eqx.filter_jit(jax.vmap(lambda x, record: method.loss_of(model, x, record)))
    losses = np.asarray(one_by_one(x, records))
    batch = eqx.filter_jit(lambda x, records: method.losses_of(model, x, records))
    np.testing.assert_allclose(batch(x, records), losses, rtol=2e-5)
    assert np.std(losses) > 0


def test_a_mixture_is_the_weighted_sum_of_its_parts():
    first, second = ist.KCE(number=2), ist.KSE(ist.Delta(0.1))
    mixed = ist.Mix([(2.0, first), (0.5, second)])
    model, x, records = asked(ist.Potential(ist.MLP((6,))), mixed)
    parts = [first.losses_of(model, x, records[0]), second.losses_of(model, x, records[1])]
    expected = 2.0 * parts[0] + 0.5 * parts[1]
    np.testing.assert_allclose(mixed.losses_of(model, x, records), expected, rtol=1e-6)
    assert mixed.capabilities == {Capability.POTENTIAL, Capability.SCORE}
    assert str(mixed) == "Mix(2 KCE + 0.5 KSE)"
    assert str(ist.Mix([(1.0, ist.CARL())])) == "Mix(1 CARL)"


def test_a_mixture_can_be_trusted_where_all_its_parts_can():
    narrow, wide = ist.KSE(ist.Delta([0.3, 0.1])), ist.KSE(ist.Delta([0.1, 0.2]))
    distribution = (
        ist.Mix([(1.0, ist.KCE()), (1.0, narrow), (1.0, wide)]).supply(stored_events()).distribution
    )
    np.testing.assert_allclose(distribution.low, [-0.7, 0.7], rtol=1e-6)
    np.testing.assert_allclose(distribution.high, [0.7, 1.8], rtol=1e-6)


def test_a_mixture_counts_losses_beyond_their_limit():
    class Far:
        def log_ratio(self, x: jax.Array, theta0: jax.Array, theta1: jax.Array) -> jax.Array:
            del theta0, theta1
            return 100 * x[0]

        def potentials(self, x: jax.Array, thetas: jax.Array) -> jax.Array:
            return 100 * x[0] * thetas[:, 0]

    bounded = ist.CARL(loss=ist.Exponential())
    _, x, pairs = asked(ist.Potential(ist.MLP((6,))), bounded)
    model = Far()
    for i in range(10):
        pair = jax.tree.map(lambda leaf, i=i: leaf[i], pairs)
        truth = float(abs(100 * x[i, 0]) > 60)
        assert float(bounded.beyond_limit(model, x[i], pair)) == truth
        mixed = ist.Mix([(1.0, ist.CARL()), (0.1, bounded)])
        assert float(mixed.beyond_limit(model, x[i], (pair, pair))) == truth
        assert float(ist.CARL().beyond_limit(model, x[i], pair)) == 0.0


def test_mixtures_that_cannot_share_rows_are_refused():
    events = stored_events()
    sentence = "can only be mixed with one that has the same reference events"
    with pytest.raises(ValueError, match=sentence):
        ist.Mix([(1.0, ist.KCE()), (1.0, ist.CARL(reference=REFERENCE))]).supply(events)
    with pytest.raises(ValueError, match=sentence):
        ist.Mix([(1.0, ist.KCE()), (1.0, ist.DCTR(reference_sample()))]).supply(events)
    two = [(1.0, ist.DCTR(reference_sample(seed))) for seed in (2, 3)]
    with pytest.raises(ValueError, match=sentence):
        ist.Mix(two).supply(events)
    same = ist.Mix(
        [
            (1.0, ist.DCTR(reference_sample())),
            (2.0, ist.CARL(reference=reference_sample(), loss=ist.Square())),
        ]
    )
    assert len(same.supply(events).weight) == 40


@pytest.mark.parametrize("parts", [[], [(0.0, ist.CARL())], [(-1.0, ist.CARL())], [(1.0, "CARL")]])
def test_mixtures_of_nothing_sensible_are_refused(parts):
    with pytest.raises(ValueError, match="Mix takes a list of|a weight of Mix must be .* above 0"):
        ist.Mix(parts)


def test_names_are_compositions():
    kernel = ist.Rectangular(0.4)
    expected: list[tuple[Method, str, type, type]] = [
        (ist.KSE(kernel), "KSE", KernelScore, SquaredError),
        (ist.KLRE(kernel), "KLRE", LabelledPairs, ist.Logistic),
        (ist.KLRE(kernel, ist.Savage()), "KLRE", LabelledPairs, ist.Savage),
        (ist.CARL(), "CARL", LabelledPairs, ist.Logistic),
        (ist.CARL(reference=REFERENCE), "CARL", ReferencePoint, ist.Logistic),
        (
            ist.CARL(reference=reference_sample(), loss=ist.Square()),
            "CARL",
            ReferenceSample,
            ist.Square,
        ),
        (ist.DCTR(REFERENCE), "DCTR", ReferencePoint, ist.Logistic),
        (ist.KCE(), "KCE", CandidateSets, SoftmaxCrossEntropy),
    ]
    for method, name, supervision, loss in expected:
        assert str(method) == name
        assert type(method.supervision) is supervision
        assert type(method.loss) is loss
    for method, distribution in [
        (ist.KCE(), ist.MultiScale()),
        (ist.KCE(kernel), AroundCentre(kernel)),
        (ist.KCE(ist.Independent()), FromPrior()),
        (ist.KCE(ist.MultiScale(0.1)), ist.MultiScale(0.1)),
    ]:
        assert method.supervision == CandidateSets(distribution, 7)
    assert ist.KLRE(kernel).supervision == LabelledPairs(KernelPairs(kernel))


def test_the_wrong_kind_of_argument_is_named():
    wrong: Any = 0.4
    for make in (ist.KSE, ist.KLRE):
        with pytest.raises(TypeError, match=r"a kernel such as ist.Delta\(0.25\) was expected"):
            make(wrong)
    with pytest.raises(TypeError, match=r"KCE takes a kernel such as ist.Rectangular\(0.4\)"):
        ist.KCE(wrong)


def test_capabilities_are_those_of_the_question():
    assert ist.KSE(ist.Delta(0.1)).capabilities == {Capability.SCORE}
    assert ist.CARL().capabilities == {Capability.LOG_RATIO}
    assert ist.CARL(reference=REFERENCE).capabilities == {Capability.LOG_RATIO}
    assert ist.DCTR(reference_sample()).capabilities == {Capability.POTENTIAL}
    assert ist.KCE().capabilities == {Capability.POTENTIAL}


def test_drawing_needs_one_method():
    mixed: Any = ist.Mix([(1.0, ist.CARL())])
    with pytest.raises(TypeError, match="draw takes one method"):
        ist.draw(mixed, lambda theta, rng: theta, PRIOR, 10, seed=1)


def test_labels_follow_the_sign_convention():
    # A model that knows the truth: y = 0 belongs to the numerator θ0, so l > 0 there.
    class Truth:
        def log_ratio(self, x: jax.Array, theta0: jax.Array, theta1: jax.Array) -> jax.Array:
            centre = jnp.stack([theta0[0], theta1[0]])
            far = -50 * (x[0] - centre) ** 2
            return far[0] - far[1]

    rng = np.random.default_rng(4)
    theta = rng.uniform([-1.0, 0.5], [1.0, 2.0], size=(300, 2))
    events = ist.Events(x=theta[:, :1] + 0.1 * rng.normal(size=(300, 1)), theta=theta, prior=PRIOR)
    method = ist.CARL()
    supply = method.supply(events)
    keys = jax.random.split(jax.random.key(5), 300)
    supervise = jax.vmap(lambda row, key: method.supervise(row, supply.distribution, key=key))
    records = supervise(supply.rows, keys)
    assert isinstance(records, LabelledPair)
    log_r = jax.vmap(lambda record, x: record.ask(Truth(), x))(records, supply.rows.x)
    assert np.mean((np.asarray(log_r) < 0) == (np.asarray(records.label) == 1)) > 0.9
