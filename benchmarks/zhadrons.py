"""Electron-positron annihilation into hadrons at the Z peak by Pythia 8, as a simulator.

Needs `pip install pythia8mc==8.317.2` (GPL; later versions have no wheels). Every event may have
its own parameters: strong coupling of the shower, Lund's a, suppression of strange quarks, in the
ranges of DCTR (arXiv:1907.08209). The ten observables are counts and shapes of charged particles.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from math import log
from typing import Any

import numpy as np

ENERGY = 91.1876
SETTINGS = ("TimeShower:alphaSvalue", "StringZ:aLund", "StringFlav:probStoUD")
THETA_NAMES = ("alpha_s", "a_Lund", "strange")
LOW, HIGH = np.array([0.10, 0.50, 0.10]), np.array([0.18, 0.90, 0.30])
X_NAMES = (
    "n_charged",
    "one_minus_thrust",
    "C_parameter",
    "mean_ln_1_over_x",
    "n_K",
    "n_K0S",
    "n_Lambda",
    "n_pi",
    "x_leading",
    "ln_y23",
)
PROCESS = (
    "Print:quiet=on",
    "Beams:idA=11",
    "Beams:idB=-11",
    f"Beams:eCM={ENERGY}",
    "PDF:lepton=off",
    "WeakSingleBoson:ffbar2gmZ=on",
    "23:onMode=off",
    "23:onIfAny=1 2 3 4 5",
    "Random:setSeed=on",
    "Random:seed=1",
)
#: Events simulated with one seed: results do not depend on how many processes share the work.
CHUNK = 5000


class Generator:
    """One Pythia, whose parameters change without a new initialisation (0.1 ms instead of 107)."""

    def __init__(self) -> None:
        import pythia8mc

        class Finder(pythia8mc.UserHooks):
            """The only way to the objects of the fragmentation that are in use."""

            def __init__(self) -> None:
                pythia8mc.UserHooks.__init__(self)
                self.looking = True
                self.found: Any = None

            def canChangeFragPar(self) -> bool:  # noqa: N802
                return self.looking

            def doChangeFragPar(self, flavour: Any, z: Any, pt: Any, *_: Any) -> bool:  # noqa: N802, ANN401
                self.found = (flavour, z, pt)
                return True

        self.pythia = pythia8mc.Pythia("", False)  # noqa: FBT003
        for setting in PROCESS:
            if not self.pythia.readString(setting):
                raise ValueError(f"Pythia does not know the setting {setting!r}.")
        # Without it, tables of the Higgs's widths take most of the initialisation.
        self._higgs = pythia8mc.ResonanceGeneric(25)
        self.pythia.setResonancePtr(self._higgs)
        self._finder = Finder()
        self.pythia.setUserHooksPtr(self._finder)
        self._begin()
        while self._finder.found is None:
            self.pythia.next()
        self._finder.looking = False
        self._begin()
        # Initialising makes a new one, so it is fetched last.
        self._shower = self.pythia.getShowerModelPtr().getTimeDecShower()
        self._thrust, self._spheres = pythia8mc.Thrust(3), pythia8mc.Sphericity(1.0, 2)
        self._durham = pythia8mc.ClusterJet("Durham", 2, 2, 0)

    def _begin(self) -> None:
        if not self.pythia.init():
            raise RuntimeError("Pythia could not be initialised.")

    def seed(self, seed: int) -> None:
        self.pythia.rndm.init(seed)

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        x = np.empty((len(theta), len(X_NAMES)))
        for row, point in zip(x, theta, strict=True):
            for setting, value in zip(SETTINGS, point, strict=True):
                self.pythia.settings.parm(setting, float(value))
            flavour, z, _ = self._finder.found
            self._shower.init(None, None)
            z.init()
            flavour.init()
            while not self.pythia.next():
                pass
            row[:] = self._observables(self.pythia.event)
        return x

    def _observables(self, event: Any) -> tuple[float, ...]:  # noqa: ANN401
        charged = kaons = short = lambdas = pions = 0
        logs = leading = 0.0
        for i in range(5, event.size()):
            particle = event[i]
            kind = particle.idAbs()
            # These two are counted before their decays.
            short += kind == 310
            lambdas += kind == 3122
            if not particle.isFinal():
                continue
            pions += kind == 211
            kaons += kind == 321
            if particle.isCharged():
                fraction = 2 * particle.pAbs() / ENERGY
                charged += 1
                logs -= log(fraction)
                leading = max(leading, fraction)
        self._thrust.analyze(event)
        self._spheres.analyze(event)
        a, b, c = (self._spheres.eigenValue(i) for i in (1, 2, 3))
        self._durham.analyze(event, 1.0, 0.0, 2, 0)
        y23 = max(self._durham.distance(0), 1e-6) / ENERGY**2
        return (
            charged,
            1 - self._thrust.thrust(),
            3 * (a * b + b * c + c * a),
            logs / max(charged, 1),
            kaons,
            short,
            lambdas,
            pions,
            leading,
            log(y23),
        )


_generator: Generator | None = None


def _chunk(task: tuple[np.ndarray, int]) -> np.ndarray:
    global _generator
    theta, seed = task
    if _generator is None:
        _generator = Generator()
    _generator.seed(seed)
    return _generator(theta)


def simulate(theta: np.ndarray, *, seed: int, processes: int | None = None) -> np.ndarray:
    """One event at each θ, shape (n, 3) -> (n, 10), by all processors."""
    count = -(-len(theta) // CHUNK)
    seeds = 1 + np.random.default_rng(seed).permutation(899_999_999 // 1000)[:count] * 1000
    tasks = [
        (theta[i * CHUNK : (i + 1) * CHUNK], int(seed)) for i, seed in enumerate(seeds.tolist())
    ]
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        return np.concatenate(list(pool.map(_chunk, tasks)))
