"""Settings that cannot work are refused where they are given, not after an hour of training."""

# pyright: reportArgumentType=false

from collections.abc import Callable

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.inference.observables.histograms import choose_bins
from inferostatic.inputs import as_count, as_flag, as_floats, as_number
from inferostatic.polynomials import list_powers

NAN, INF = float("nan"), float("inf")
LINE = [[0.0], [1.0]]


def simulator(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


def templates(**options: object) -> ist.Templates:
    return ist.Templates(ist.Simulated(simulator, seed=1), **options)


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "half a unit": (lambda: ist.MLP((7.9,)), "every width must be a whole number; got 7.9"),
    "nested widths": (lambda: ist.MLP([[3]]), r"every width .* got \[3\]"),
    "no widths": (lambda: ist.MLP(None), "widths must be a list such as"),
    "a huge layer": (lambda: ist.MLP((10**12,)), "every width must be at most 65,536"),
    "a tall network": (lambda: ist.MLP((1,) * 1001), "the number of layers must be at most 1,000"),
    "a number as start": (lambda: ist.MLP(initial=3), r"initial must be such as .* got int"),
    "text as bias": (lambda: ist.Residual(output_bias="no"), "output_bias must be True or False"),
    "a huge residual": (lambda: ist.Residual(width=10**9), "width must be at most 65,536"),
    "huge towers": (lambda: ist.TwoTower(size=10**9), "size must be at most 65,536"),
    "a huge set": (lambda: ist.ParticleSet(2, 2, 10**9), "size must be at most 65,536"),
    "a flow of half a layer": (lambda: ist.MixtureFlow(layers=0.5), "layers must be a whole"),
    "NaN decay": (lambda: ist.Training(weight_decay=NAN), "weight_decay must be .* got nan"),
    "infinite rate": (lambda: ist.Training(learning_rate=INF), "learning_rate must be .* got inf"),
    "beta1": (lambda: ist.Training(beta1=-0.1), "beta1 must be .* at least 0 and below 1"),
    "beta2": (lambda: ist.Training(beta2=1.5), "beta2 must be .* at least 0 and below 1; got 1.5"),
    "epsilon": (lambda: ist.Training(epsilon=-1), "epsilon must be .* above 0; got -1"),
    "NaN clip": (lambda: ist.Training(clip=NAN), "clip must be .* above 0; got nan"),
    "true epochs": (lambda: ist.Training(epochs=True), "epochs must be a whole number; got True"),
    "text as flag": (lambda: ist.Training(keep_best="no"), "keep_best must be True or False"),
    "no flag": (lambda: ist.Training(shared_batches=None), "shared_batches must be True or False"),
    "NaN schedule": (lambda: ist.Cosine(final=NAN), "final must be .* at most 1; got nan"),
    "long warm-up": (lambda: ist.Cosine(warm_up=2.0), "warm_up must be .* at most 1; got 2.0"),
    "many candidates": (lambda: ist.KCE(number=10**9), "number must be at most 10,000"),
    "half a candidate": (lambda: ist.KCE(number=1.5), "number must be a whole number; got 1.5"),
    "text as scale": (lambda: ist.MultiScale("a"), "smallest must be a number; got 'a'"),
    "text as latent": (lambda: ist.KCE(latent="no"), "latent must be True or False"),
    "infinite weight": (lambda: ist.Mix([(INF, ist.KCE())]), "a weight of Mix must be a finite"),
    "NaN reference": (lambda: ist.CARL(reference=[NAN]), "reference must be finite"),
    "NaN alpha": (lambda: ist.CASCAL(NAN), "alpha must be a finite number above 0; got nan"),
    "no events": (lambda: ist.Simulated(simulator, 1, -1), "events must be at least 1; got -1"),
    "all events": (lambda: ist.Simulated(simulator, 1, 10**30), "events must be at most"),
    "NaN error": (lambda: templates(max_relative_error=NAN), "max_relative_error must be .* nan"),
    "NaN bins": (lambda: choose_bins(np.ones((9, 1)), max_relative_error=NAN), "got nan"),
    "a number as bins": (lambda: templates(bins=7), "bins must be what choose_bins returns"),
    "one shift": (lambda: templates(shift=0.1), "shift must be a size for each parameter by name"),
    "NaN shift": (lambda: templates(shift={"a": NAN}), "the shift along a must be .* got nan"),
    "text as errors": (lambda: templates(mc_errors="no"), "mc_errors must be True or False"),
    "infinite rates": (
        lambda: ist.Morphing.of_degree(1, LINE, rates=[INF, 1]),
        r"rates must be 2 positive finite numbers, .* got \[inf, 1.0\]",
    ),
    "no benchmarks": (
        lambda: ist.Morphing.of_degree(1, np.empty((0, 2))),
        "degree 1 in 2 parameters has more components than the 0 benchmarks determine",
    ),
    "no rows": (lambda: ist.Morphing([[0]], np.empty((0, 1))), "benchmarks has no rows"),
    "half a degree": (lambda: ist.Morphing.of_degree(1.5, LINE), "degree must be a whole number"),
    "no degree": (lambda: ist.Morphing.of_degree(-1, LINE), "degree must be at least 0"),
    "a huge degree": (
        lambda: ist.Morphing.of_degree(10**9, np.ones((9, 6))),
        "more components than the 9 benchmarks determine",
    ),
    "a huge power": (lambda: ist.Morphing([[101]], LINE), "whole numbers from 0 to 100"),
    "NaN powers": (lambda: ist.Morphing([[NAN]], LINE), "whole numbers from 0 to 100"),
    "half a nuisance": (
        lambda: ist.Morphing.of_degree(1, LINE, nuisances=1.5),
        "nuisances must be a whole number; got 1.5",
    ),
    "NaN reach": (
        lambda: ist.Morphing.of_degree(1, LINE).with_sample([[1.0, 1.0]], reach=NAN),
        "reach must be a finite number above 0",
    ),
    "integers beyond float64": (
        lambda: as_floats(np.array([10**400], object), "x"),
        "x holds integers beyond the range of float64",
    ),
    "the same in events": (
        lambda: ist.Events(x=[[10**400]], theta=[[1.0]]),
        "x holds integers beyond the range of float64",
    ),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD)
def test_what_cannot_work_is_refused_at_once(call: Callable[[], object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_what_can_work_is_taken_as_it_is() -> None:
    """NumPy's numbers become Python's, which files hold."""
    numbers = {"epochs": np.int64(3), "learning_rate": np.float32(0.5), "clip": None}
    training = ist.Training(**numbers)
    assert (training.epochs, training.learning_rate) == (3, 0.5)
    assert {type(training.epochs), type(training.learning_rate)} == {int, float}
    assert ist.MLP(np.array([3, 4])).widths == (3, 4)
    assert ist.MixtureFlow(layers=0).layers == 0
    assert ist.Cosine(final=1, warm_up=0).final == 1
    assert ist.Morphing.of_degree(0, LINE).degree == 0


def test_numbers_flags_and_counts() -> None:
    assert as_number(np.float32(0.5), "a", least=0.5, most=0.5) == 0.5
    assert as_number(1, "a", above=0, below=2) == 1.0
    assert as_flag(np.True_, "a") is True
    assert as_count(0, "a", least=0) == 0
    for value in (10**400, INF, NAN, 0, 2):
        with pytest.raises(ValueError, match="a must be a finite number above 0 and below 2; got"):
            as_number(value, "a", above=0, below=2)
    for value in ("1", None, True, 1j, [1.0]):
        with pytest.raises(TypeError, match="a must be a number; got"):
            as_number(value, "a")
    with pytest.raises(ValueError, match="a must be a finite number; got nan"):
        as_number(NAN, "a")


def test_powers_are_listed_as_far_as_asked() -> None:
    np.testing.assert_array_equal(list_powers(3, 2, most=4), list_powers(3, 2)[:4])
