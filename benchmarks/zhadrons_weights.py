"""Latent information from Pythia 8: joint scores and joint ratios from its variation weights.

A parton shower and a chain of hadronisations have far too many unseen steps to integrate over, but
Pythia can say by how much each of them would have been more or less probable at other parameters.
The product of these factors is the joint ratio p_lat(x, z; θ')/p_lat(x, z; θ) of the event. Needs
`pip install pythia8mc==8.317.2`; events, observables and their order are those of `zhadrons`.

θ = (L, a_Lund, strange), with L = ln TimeShower:renormMultFac instead of the strong coupling, since
Pythia varies the scale at which the shower takes its coupling. To one loop, 1/α_s moves by b₀ L.
"""

from typing import Any, NamedTuple

import numpy as np

from zhadrons import PROCESS, X_NAMES, Generator

THETA_NAMES = ("ln_scale", "a_Lund", "strange")
#: Pythia's default tune.
DEFAULT = np.array([0.0, 0.68, 0.217])
#: Half steps of the central differences: relative errors below 1%, weights far from rounding.
STEP = np.array([0.04, 0.01, 0.003])
#: For all events, weighted or not: mesons made inside baryon chains ("popcorn") are not reweighted.
#: With them the weights of `strange` from 0.217 to 0.26 have the mean 0.968 ± 0.001.
MODEL = ("StringFlav:popcornRate=0",)
WEIGHTS = (
    "UncertaintyBands:doVariations=on",
    # The next three turn a recipe for uncertainties into the variation of the scale itself. By
    # default it is compensated for soft emissions, limited in size and cut off at low scales, and
    # the charged multiplicity misses that of a direct simulation by 3.5 to 7 errors.
    "UncertaintyBands:muSoftCorr=off",
    "UncertaintyBands:deltaAlphaSmax=1.0",
    "UncertaintyBands:FSRpTmin2Fac=0.",
    # More trial emissions, for less noisy weights: the effective number of events doubles.
    "UncertaintyBands:overSampleFSR=3",
    # With the default, 1, ratios of momentum sharing are cut off at one. Their mean hides it (1.004
    # ± 0.003), but the multiplicity at a_Lund 0.5 is then wrong by 14 errors.
    "VariationFrag:zHead=2",
)


class WeightedEvents(NamedTuple):
    """Events at one θ with their latent information.

    Attributes:
        x: observables, shape (n, 10).
        joint_score: t = ∇θ ln p_lat(x, z; θ), shape (n, 3).
        log_ratio: ln p_lat(x, z; target) − ln p_lat(x, z; θ), shape (n, number of targets); −∞
            where a target cannot make the event.
    """

    x: np.ndarray
    joint_score: np.ndarray
    log_ratio: np.ndarray


def weighted_events(
    theta: np.ndarray, n: int, seed: int, targets: np.ndarray | None = None
) -> WeightedEvents:
    """`n` events at θ with joint scores, and with joint ratios to other parameters.

    Args:
        theta: shape (3,).
        n: number of events.
        seed: from 1 to 900,000,000.
        targets: parameters, shape (k, 3). Ratios to distant ones have few effective events.
    """
    theta = np.asarray(theta, float)
    targets = np.empty((0, 3)) if targets is None else np.atleast_2d(np.asarray(targets, float))
    shifts = np.array([sign * np.diag(STEP)[i] for i in range(3) for sign in (1, -1)])
    points = np.concatenate([theta + shifts, targets])
    # The scale is varied in relation to that of the run, the others by their values.
    scales = ",".join(
        f"s{i} fsr:muRfac={np.exp((point[0] - theta[0]) / 2):.10f}"
        for i, point in enumerate(points)
    )
    strings = ",".join(
        f"f{i} frag:aLund={a:.8f} frag:rho={strange:.8f}"
        for i, (_, a, strange) in enumerate(points)
    )
    lists = (f"UncertaintyBands:List={{{scales}}}", f"VariationFrag:List={{{strings}}}")
    pythia = _begun(theta, seed, (*WEIGHTS, *lists))
    names = list(pythia.infoPython().weightNameVector())
    of_scale = [names.index(f"s{i}") for i in range(len(points))]
    of_string = [names.index(f"f{i}") for i in range(len(points))]
    observer = Generator()
    x, ratio = np.empty((n, len(X_NAMES))), np.empty((n, len(points)))
    for row, factors in zip(x, ratio, strict=True):
        row[:] = _next(pythia, observer)
        weights = np.array(pythia.infoPython().weightValueVector())
        factors[:] = weights[of_scale] * weights[of_string]
    # Of the ratios themselves rather than of their logarithms: the mean of this difference is that
    # of E[r] = 1, so zero at any step.
    score = (ratio[:, 0:6:2] - ratio[:, 1:6:2]) / (2 * STEP)
    with np.errstate(divide="ignore"):
        return WeightedEvents(x, score, np.log(ratio[:, 6:]))


def direct_events(theta: np.ndarray, n: int, seed: int) -> np.ndarray:
    """`n` events at θ of the same model without weights, shape (n, 10)."""
    pythia, observer = _begun(np.asarray(theta, float), seed, ()), Generator()
    return np.array([_next(pythia, observer) for _ in range(n)])


def _begun(theta: np.ndarray, seed: int, more: tuple[str, ...]) -> Any:  # noqa: ANN401
    """A new Pythia: one that is initialised again keeps the old a_Lund in its weights."""
    import pythia8mc

    pythia = pythia8mc.Pythia("", False)  # noqa: FBT003
    own = (
        f"TimeShower:renormMultFac={np.exp(theta[0]):.10f}",
        f"StringZ:aLund={theta[1]:.8f}",
        f"StringFlav:probStoUD={theta[2]:.8f}",
        f"Random:seed={seed}",
    )
    for setting in (*PROCESS, *MODEL, *own, *more):
        if not pythia.readString(setting):
            raise ValueError(f"Pythia does not know the setting {setting!r}.")
    if not pythia.init():
        raise RuntimeError("Pythia could not be initialised.")
    return pythia


def _next(pythia: Any, observer: Generator) -> tuple[float, ...]:  # noqa: ANN401
    while not pythia.next():
        pass
    return observer._observables(pythia.event)
