"""Write the MadMiner files of this folder with MadMiner itself, for the tests of the readers.

Run `python make.py` in an environment with MadMiner 0.9.6 and NumPy; nothing else needs it.
The events come from a toy whose weights are exact polynomials of degree 2 in two parameters: z is
uniform in [0, 1]², the amplitude is 1 + θ₀ z₀ + θ₁ (z₁ − 1/2) with a small constant beside it, and
the observables are z and a smeared z₀. Three files:

`toy.h5`       six benchmarks, all events generated at the first one
`mixed.h5`     the same from samples at two benchmarks, and some background events
`nuisance.h5`  a two-sided and a one-sided nuisance parameter

and training sets drawn from them, `x_*.npy` and so on. Numbers in MadMiner's sets are made by its
own formulas, so that ours are compared with an independent computation.
"""

from collections import OrderedDict
from pathlib import Path

import numpy as np
from madminer.core import MadMiner
from madminer.models import NuisanceParameter, Observable
from madminer.sampling import (
    SampleAugmenter,
    benchmark,
    iid_nuisance_parameters,
    morphing_point,
    random_morphing_points,
)
from madminer.utils.interfaces.hdf5 import save_events, save_nuisance_setup

HERE = Path(__file__).parent
POINTS = OrderedDict(
    sm=(0.0, 0.0), a=(0.8, 0.0), b=(-0.6, 0.3), c=(0.2, 0.9), d=(0.1, -0.7), e=(0.7, -0.8)
)
PRIOR = [("flat", -0.5, 0.5), ("gaussian", 0.0, 0.3)]


def weights_at(z: np.ndarray, theta: tuple[float, float]) -> np.ndarray:
    """Differential rate, a polynomial of degree 2."""
    return (1 + theta[0] * z[:, 0] + theta[1] * (z[:, 1] - 0.5)) ** 2 + 0.1


def total_rate(theta: tuple[float, float]) -> float:
    """Its integral over z."""
    return 1.1 + theta[0] + theta[0] ** 2 / 3 + theta[1] ** 2 / 12


def write(
    name: str, numbers: dict[str, int], background: int = 0, *, nuisance: bool = False
) -> str:
    """One file with events generated at some benchmarks."""
    path = str(HERE / name)
    Path(path).unlink(missing_ok=True)
    miner = MadMiner()
    for parameter in ("CWL2", "CPWL2"):
        miner.add_parameter(
            lha_block="dim6", lha_id=len(miner.parameters) + 2, parameter_name=parameter,
            morphing_max_power=2, param_card_transform="theta", parameter_range=(-1.0, 1.0),
        )  # fmt: skip
    for point, values in POINTS.items():
        miner.add_benchmark(dict(zip(miner.parameters, values, strict=True)), point)
    miner.set_morphing(include_existing_benchmarks=True, max_overall_power=2)
    miner.save(path)
    rng = np.random.default_rng(11)
    parts, weights, origin = [], [], []
    for point, count in [*numbers.items(), *([("background", background)] if background else [])]:
        is_background = point == "background"
        # Unweighted at its own benchmark, then reweighted: weights of a sample add up to the rate.
        z = rng.uniform(size=(20 * count, 2))
        if not is_background:
            rate = weights_at(z, POINTS[point])
            z = z[rng.uniform(size=len(z)) * 6 < rate]
        z = z[:count]
        assert len(z) == count
        here = np.stack([weights_at(z, theta) for theta in POINTS.values()], axis=1)
        if is_background:
            here = np.full_like(here, 0.2 / count)
        else:
            here *= total_rate(POINTS[point]) / (weights_at(z, POINTS[point])[:, None] * count)
        parts.append(z)
        weights.append(here)
        origin += [-1 if is_background else list(POINTS).index(point)] * count
    z, table = np.concatenate(parts), np.concatenate(weights)
    order = rng.permutation(len(z))
    z, table, origin = z[order], table[order], np.array(origin)[order]
    observations = {"z0": z[:, 0], "z1": z[:, 1], "s": z[:, 0] + 0.2 * rng.normal(size=len(z))}
    observables = OrderedDict((key, Observable(key, key)) for key in observations)
    named = {point: table[:, i] for i, point in enumerate(POINTS)}
    if nuisance:
        a, b = 0.2 * z[:, 0] - 0.1, 0.05 * (z[:, 1] - 0.3)
        named["scale_up"] = table[:, 0] * np.exp(a + b)
        named["scale_down"] = table[:, 0] * np.exp(-a + b)
        named["pdf_up"] = table[:, 0] * np.exp(0.15 * z[:, 1])
        parameters = OrderedDict(
            scale=NuisanceParameter("scale", "mu", "scale_up", "scale_down"),
            pdf=NuisanceParameter("pdf", "pdf", "pdf_up", None),
        )
        variations = ["scale_up", "scale_down", "pdf_up"]
        save_nuisance_setup(
            path, file_override=True, nuisance_benchmarks=variations,
            nuisance_parameters=parameters, reference_benchmark="sm",
        )  # fmt: skip
    counts = [numbers.get(point, 0) for point in POINTS]
    save_events(
        path, file_override=True, observables=observables, observations=observations,
        weights=named, sampling_benchmarks=origin.tolist(), num_signal_events=counts,
        num_background_events=background,
    )  # fmt: skip
    return path


def main() -> None:
    """All files."""
    np.random.seed(5)  # MadMiner draws from the global generator
    options = dict(folder=str(HERE), sample_only_from_closest_benchmark=False)
    options["double_precision"] = True
    toy = SampleAugmenter(write("toy.h5", {"sm": 200}))
    prior = random_morphing_points(30, PRIOR)
    toy.sample_train_ratio(prior, benchmark("sm"), 60, filename="ratio", **options)
    toy.sample_train_local(morphing_point([0.1, 0.2]), 40, filename="local", **options)
    toy.sample_train_density(random_morphing_points(40, PRIOR), 40, filename="density", **options)
    toy.sample_train_more_ratios(prior, prior, 60, filename="double", **options)
    toy.sample_test(morphing_point([0.1, 0.2]), 40, filename="test", **options)
    mixed = SampleAugmenter(write("mixed.h5", {"sm": 120, "a": 60}, 20))
    mixed.sample_train_ratio(prior, benchmark("sm"), 60, filename="mixed", **options)
    nuisance = SampleAugmenter(write("nuisance.h5", {"sm": 200}, nuisance=True))
    nuisance.sample_train_ratio(
        prior, benchmark("sm"), 60, filename="nuisance",
        nu0=iid_nuisance_parameters(), nu1=None, **options,
    )  # fmt: skip


if __name__ == "__main__":
    main()
