"""Wrong kinds of objects in methods and fits get a sentence at once, not a trace from a loop."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import inferostatic as ist

#: Without its types, which would refuse these calls before they are made.
LIB: Any = ist
RECTANGLE: Any = ist.Rectangular(0.4)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: LIB.KLRE(RECTANGLE, loss="logistic"), "loss must be such as ist.Logistic"),
        (lambda: LIB.KLRE(RECTANGLE, RECTANGLE), "loss must be such as ist.Logistic"),
        (lambda: LIB.KLRE(ist.Rectangular), "a kernel such as ist.Delta"),
        (lambda: LIB.KSE(RECTANGLE, "sign"), "difference must be such as ist.Sign"),
        (lambda: LIB.CARL(pairs="independent"), "pairs must be such as ist.CustomPairs"),
        (lambda: LIB.KCE("multi"), "KCE takes a kernel"),
        (lambda: LIB.KCE(number=7.5), "number must be a whole number"),
        (lambda: LIB.KCE(number=0), "number must be at least 1"),
        (lambda: LIB.Mix([]), "Mix takes a list"),
        (lambda: LIB.Mix("KCE"), "Mix takes a list"),
        (lambda: LIB.Mix([ist.KCE()]), "Mix takes a list"),
        (lambda: LIB.Mix([(0.0, ist.KCE())]), "a weight of Mix must be a finite number above 0"),
        (lambda: LIB.MLP(32), "widths must be a list such as"),
        (lambda: LIB.Training(learning_rate="fast"), "learning_rate must be a number"),
        (lambda: LIB.Training(schedule="cosine"), "schedule must be ist.Cosine"),
    ],
)
def test_constructors(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        make()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"network": ist.MLP}, "the class MLP itself; call it"),
        ({"network": 64}, "network must be such as ist.MLP"),
        ({"training": {"epochs": 3}}, "training must be ist.Training"),
        ({"start": "model.isn"}, "start must be a trained estimator"),
        ({"method": "KCE"}, "method must be such as ist.KCE"),
    ],
)
def test_fit(arguments: dict[str, Any], sentence: str) -> None:
    rng = np.random.default_rng(0)
    events = ist.Events(x=rng.normal(size=(50, 2)), theta=rng.normal(size=(50, 1)))
    with pytest.raises(TypeError, match=sentence):
        ist.fit(events, seed=1, **arguments)
