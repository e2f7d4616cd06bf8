"""Descriptions of configuration: what comes back is what went in, and nothing is executed."""

import json
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.learning.methods import Method
from inferostatic.serial import (
    FORMER_FIELDS,
    FORMER_NAMES,
    Absent,
    absent_names,
    describe,
    known,
    register,
    restore,
    user_name,
)

Array = jax.Array


def through_json(thing: object, supplied: dict[str, object] | None = None) -> Any:
    """As a file would do it."""
    return restore(json.loads(json.dumps(describe(thing))), supplied)


def width_by_theta(theta: Array) -> Array:
    return 0.1 + 0.01 * theta


CONFIGURATIONS: list[Any] = [
    ist.Uniform([0.5, 0.1], [5.0, 0.7], names=["a", "b"]),
    ist.Normal([1.0], [0.3]),
    ist.TruncatedNormal([0.0, 1.0], [1.0, 2.0], [-1.0, -np.inf], [np.inf, 2.0]),
    ist.Product([ist.Uniform(0, 1), ist.Normal(0, 2)], names=["flat", "round"]),
    ist.Discrete([[0.0], [1.5]], [0.25, 0.75]),
    ist.Delta(0.25),
    ist.Rectangular([0.1, 0.2]),
    ist.Triangular(0.3),
    ist.Epanechnikov(0.3),
    ist.Gaussian(0.1, truncation=3.0),
    ist.Linear(),
    ist.Sign(),
    ist.MultiScale(0.05, 0.5),
    ist.Independent(),
    ist.Logistic(),
    ist.Square(),
    ist.Savage(),
    ist.Exponential(),
    ist.KSE(ist.Delta(0.25), ist.Sign()),
    ist.KLRE(ist.Rectangular(0.4), ist.Square()),
    ist.CARL(),
    ist.CARL(reference=[1.0, 2.0]),
    ist.KCE(),
    ist.KCE(ist.Rectangular(0.4), number=3),
    ist.KCE(ist.Independent()),
    ist.Mix([(1.0, ist.KCE()), (0.1, ist.KSE(ist.Delta(0.1)))]),
    ist.MLP((8, 4), activation=jax.nn.selu, initial=ist.LecunNormal(), output_bias=False),
    ist.Potential(ist.MLP((8,), activation=jnp.tanh), ist.Quantile(7), ist.Raw()),
    ist.DirectScore(ist.MLP((8,)), ist.Standardised()),
    ist.DirectRatio(),
    ist.paper_network,
    ist.Training(epochs=3, schedule=ist.Cosine(0.1, 0.2), clip=1.0),
]


@pytest.mark.parametrize("thing", CONFIGURATIONS, ids=lambda thing: type(thing).__name__)
def test_configurations_survive(thing: Any) -> None:
    again = through_json(thing)
    assert type(again) is type(thing)
    assert describe(again) == describe(thing)
    if isinstance(thing, eqx.Module):
        same = eqx.tree_equal(again, thing)
        assert bool(same)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        0.1,
        float("inf"),
        "text",
        (1, (2.5, None)),
        {"a": (1, 2)},
        np.float32(0.25),
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.array([-np.inf, np.pi], np.float64),
        np.zeros((0, 3), np.float32),
    ],
    ids=repr,
)
def test_values_survive(value: Any) -> None:
    again = through_json(value)
    np.testing.assert_equal(again, value)
    if isinstance(value, np.ndarray):
        assert again.dtype == value.dtype


def test_float32_arrays_survive_bit_by_bit() -> None:
    values = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    again = through_json(values)
    assert again.tobytes() == values.tobytes()


def test_a_users_function_is_stored_by_name_and_supplied_again() -> None:
    method = ist.KLRE(ist.Rectangular(width_by_theta))
    description = describe(method)
    assert absent_names(description) == ["width_by_theta"]
    supplied = through_json(method, {"width_by_theta": width_by_theta})
    assert supplied.supervision.pairs.kernel.width is width_by_theta
    missing = through_json(method).supervision.pairs.kernel.width
    assert missing == Absent("width_by_theta")
    with pytest.raises(ValueError, match=r"supplied=\{'width_by_theta': …\}"):
        missing(jnp.zeros(1))
    assert describe(missing) == {"user": "width_by_theta"}


def test_functions_without_a_name_are_told_apart() -> None:
    """Two lambdas would otherwise share one name, and be supplied as one."""
    thing = ist.Factorised(lambda t: t, lambda t: 1 - t)
    names = absent_names(describe(thing))
    assert names == ["Factorised.alpha", "Factorised.beta"]

    def first(t: float) -> float:
        return t

    def second(t: float) -> float:
        return 1 - t

    again = through_json(thing, {"Factorised.alpha": first, "Factorised.beta": second})
    assert again.alpha is first
    assert again.beta is second


def test_a_users_class_is_not_mistaken_for_ours() -> None:
    class MLP:
        """Has the name of one of ours."""

    assert describe(MLP()) == {"user": user_name(MLP())}
    assert user_name(MLP()).endswith("MLP")


@pytest.mark.parametrize(
    "description",
    [
        {"type": "os.system", "fields": {"command": "true"}},
        {"type": "Posterior2", "fields": {}},
        {"known": "eval"},
        {"known": "__import__"},
    ],
)
def test_unknown_names_are_refused(description: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="which this version of inferostatic does not know"):
        restore(description)


def test_unreadable_descriptions_are_refused() -> None:
    with pytest.raises(ValueError, match="unreadable description"):
        restore({"surprise": 1})


def test_absent_names_are_found_at_any_depth() -> None:
    nested = {
        "tuple": [
            {"mapping": {"k": {"type": "T", "fields": {"f": {"user": "deep"}}}}},
            {"user": "u"},
        ]
    }
    assert absent_names(nested) == ["deep", "u"]
    assert absent_names(3) == []


def test_only_things_with_a_name_can_be_registered() -> None:
    with pytest.raises(TypeError, match="has no name to be stored under"):
        known(3)


def test_third_party_functions_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferostatic.serial._KNOWN", {})
    register("doubled", width_by_theta)
    assert describe(width_by_theta) == {"known": "doubled"}
    assert restore({"known": "doubled"}) is width_by_theta


def test_reference_events_are_not_stored_but_missed_on_use() -> None:
    reference = ist.Events(x=np.ones((5, 2)), theta=[1.0])
    again = through_json(ist.DCTR(reference))
    assert isinstance(again, Method)
    events = ist.Events(x=np.zeros((4, 2)), theta=np.zeros((4, 1)), prior=ist.Uniform(-1, 1))
    with pytest.raises(ValueError, match="does not carry its reference events"):
        again.supply(events)


def test_former_names_of_classes_and_fields_are_understood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(FORMER_NAMES, "Needle", "Delta")
    monkeypatch.setitem(FORMER_NAMES, "bend", "tanh")
    monkeypatch.setitem(FORMER_FIELDS, "Delta", {"reach": "width"})
    present = describe(ist.Delta(0.25))
    former = {"type": "Needle", "fields": {"reach": present["fields"]["width"]}}
    assert restore(former) == restore(present)
    assert restore({"known": "bend"}) is jnp.tanh


def test_a_former_name_in_use_again_means_the_present_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(FORMER_NAMES, "Delta", "Rectangular")
    assert isinstance(restore(describe(ist.Delta(0.25))), ist.Delta)


@pytest.mark.parametrize(("former", "present"), FORMER_NAMES.items())
def test_every_former_name_leads_to_a_known_thing(former: str, present: str) -> None:
    assert restore({"known": former}) is restore({"known": present})


def test_fields_of_earlier_versions_are_read() -> None:
    """What was stored as `law` is called `pairs` and `candidates` now."""
    for supervision, field in (
        (ist.CARL().supervision, "pairs"),
        (ist.KCE().supervision, "candidates"),
    ):
        data = describe(supervision)
        data["fields"]["law"] = data["fields"].pop(field)
        assert restore(data) == supervision
