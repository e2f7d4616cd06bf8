"""Decays of the Z into hadrons by Pythia 8: three parameters, eight observables of an event.

    pip install pythia8mc==8.317.2

Every event has parameters of its own, so Pythia must take new ones without a new initialisation,
which would cost a hundred times the event. No setting is documented to do that. The objects that
read the settings can be told to read them again, though: the shower, and the two of the
fragmentation, of which a user hook is shown the ones in use. In electron-positron annihilation
events come out as after a full initialisation.
"""

import functools
import math

import numpy as np
import pandas as pd

#: Settings of Pythia, in the order of the parameters in study.toml.
SETTINGS = ("TimeShower:alphaSvalue", "StringZ:aLund", "StringFlav:probStoUD")
#: Mass of the Z, GeV.
ENERGY = 91.1876
#: What is generated: only decays into quarks, without radiation before the collision.
PROCESS = (
    "Print:quiet = on",
    "Beams:idA = 11",
    "Beams:idB = -11",
    f"Beams:eCM = {ENERGY}",
    "PDF:lepton = off",
    "WeakSingleBoson:ffbar2gmZ = on",
    "23:onMode = off",
    "23:onIfAny = 1 2 3 4 5",
    "Random:setSeed = on",
)
#: Seeds of Pythia lie between 1 and this number.
LARGEST_SEED = 900_000_000
#: Particles that are counted, by their PDG number.
KAON, SHORT_KAON, LAMBDA = 321, 310, 3122


def simulator(theta: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """One event at each row of theta."""
    hadrons = make_hadrons()
    # All that is random must follow from rng.
    hadrons.pythia.rndm.init(int(rng.integers(1, LARGEST_SEED, endpoint=True)))
    return pd.DataFrame([hadrons.generate(point) for point in theta.tolist()])


@functools.cache
def make_hadrons() -> "Hadrons":
    """A Pythia for this process; it cannot be sent to others."""
    return Hadrons()


class Hadrons:
    """One Pythia, with what is needed to change its parameters and to measure an event."""

    def __init__(self) -> None:
        import pythia8mc

        class Finder(pythia8mc.UserHooks):
            """Is shown the objects of the fragmentation."""

            found = None

            def canChangeFragPar(self):  # noqa: ANN202, N802
                return self.found is None

            def doChangeFragPar(self, flavour, z, *_):  # noqa: ANN001, ANN002, ANN202, N802
                self.found = (flavour, z)
                return True

        self.pythia = pythia8mc.Pythia("", False)  # noqa: FBT003
        for setting in PROCESS:
            if not self.pythia.readString(setting):
                raise ValueError(f"Pythia does not know {setting}.")
        # In place of the Higgs boson with its tables of widths, which take long and are not used.
        self._higgs = pythia8mc.ResonanceGeneric(25)
        self.pythia.setResonancePtr(self._higgs)
        self._finder = Finder()
        self.pythia.setUserHooksPtr(self._finder)
        self.pythia.init()
        while self._finder.found is None:
            self.pythia.next()
        # Without the hook from here on, and with the shower that is in use from here on.
        self.pythia.init()
        self._readers = self._finder.found
        self._shower = self.pythia.getShowerModelPtr().getTimeDecShower()
        self._thrust = pythia8mc.Thrust(3)
        self._jets = pythia8mc.ClusterJet("Durham", 2, 2, 0)

    def generate(self, parameters: list[float]) -> dict[str, float]:
        """The observables of an event with these parameters."""
        for setting, value in zip(SETTINGS, parameters, strict=True):
            self.pythia.settings.parm(setting, value)
        self._shower.init(None, None)
        for reader in self._readers:
            reader.init()
        while not self.pythia.next():
            pass
        return self._measure(self.pythia.event)

    def _measure(self, event) -> dict[str, float]:  # noqa: ANN001
        particles = [event[i] for i in range(5, event.size())]
        # Kaons and Lambdas that decay are counted before that.
        kinds = [one.idAbs() for one in particles if one.isFinal() or one.idAbs() in (310, 3122)]
        charged = [one for one in particles if one.isFinal() and one.isCharged()]
        fractions = [2 * one.pAbs() / ENERGY for one in charged]
        self._thrust.analyze(event)
        self._jets.analyze(event, 1.0, 0.0, 2, 0)
        return {
            "n_charged": len(charged),
            "n_kaon": kinds.count(KAON),
            "n_short_kaon": kinds.count(SHORT_KAON),
            "n_lambda": kinds.count(LAMBDA),
            "thrust": self._thrust.thrust(),
            "ln_y23": math.log(max(self._jets.distance(0), 1e-6) / ENERGY**2),
            "leading": max(fractions, default=0.0),
            "mean_ln_1_over_x": -math.fsum(map(math.log, fractions)) / max(len(charged), 1),
        }
