"""Kills of a process that fits, each followed by the same call, to the same weights.

`python -m campaign.kills_training FOLDER EFFORT` in `tests` is the process: it says when the fit
begins and prints a digest of the weights. An effort of 1 is the default fit, less is a small one.
Every epoch is saved, so that kills fall into writing too.
"""

import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parent.parent
#: Events of the fit.
EVENTS = 400


@dataclasses.dataclass
class Campaign:
    """What happened.

    Attributes:
        whole: digest of the weights of a fit that nothing disturbed.
        seconds: that it took.
        found: digests of the fits that were killed and repeated.
        kills: how many processes were killed.
        resumed: how many processes went on with what another one had left.
        partial: how many files were half written when their process was killed.
    """

    whole: str
    seconds: float
    found: list[str] = dataclasses.field(default_factory=list)
    kills: int = 0
    resumed: int = 0
    partial: int = 0

    def __str__(self) -> str:
        same = sum(one == self.whole for one in self.found)
        return (
            f"{self.kills} kills in {len(self.found)} fits of {self.seconds:.1f} s, {self.partial} "
            f"of them while a file was written; {self.resumed} processes went on; "
            f"{same} of {len(self.found)} fits ended in the same weights"
        )


def run_campaign(folder: Path, *, kills: int, effort: float, seed: int) -> Campaign:
    """Kill the process at random moments of its fit, so many times, and repeat it each time."""
    rng = np.random.default_rng(seed)
    run_once(folder / "first", effort)  # compiles, for all that follow
    whole, seconds, _ = run_once(folder / "whole", effort)
    assert whole is not None
    campaign = Campaign(whole, seconds)
    while campaign.kills < kills:
        place = folder / f"fit-{len(campaign.found)}"
        digest = None
        while digest is None:
            # Within half of the time, so that one fit is killed several times.
            wait = float(rng.uniform(0, seconds / 2)) if campaign.kills < kills else None
            digest, _, resumed = run_once(place, effort, kill_after=wait)
            campaign.resumed += resumed
            if digest is None:
                campaign.kills += 1
                campaign.partial += sum(name.endswith(".part") for name in os.listdir(place))
        campaign.found.append(digest)
    return campaign


def run_once(
    place: Path, effort: float, *, kill_after: float | None = None
) -> tuple[str | None, float, bool]:
    """A digest of the weights, or None if it was killed; seconds; whether something was there."""
    command = [sys.executable, "-m", "campaign.kills_training", str(place), str(effort)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        "INFEROSTATIC_PROGRESS": "0",
        "JAX_PLATFORMS": "cpu",
    }
    resumed = any(place.glob("*.isc"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        lines: Iterator[str] = iter(process.stdout)
        assert next(lines) == "begins\n"
        began = time.monotonic()
        if kill_after is not None:
            try:
                process.wait(kill_after)
            except subprocess.TimeoutExpired:
                process.kill()
        told = [line for line in lines if line.startswith("{")]
    seconds = time.monotonic() - began
    if process.returncode == -signal.SIGKILL:
        return None, seconds, resumed
    assert process.returncode == 0, "the process failed by itself"
    return json.loads(told[0])["weights"], seconds, resumed


def fit_in_process(place: str, effort: float) -> None:
    """The process that is killed."""
    import equinox as eqx
    import jax

    import inferostatic as ist

    cache = TESTS.parent / ".pytest_cache" / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    prior = ist.Uniform([0.5] * 3, [5.0] * 3)
    events = ist.simulate(ist.toys.Dirichlet(), prior, EVENTS, seed=1)
    print("begins", flush=True)
    kept = ist.Checkpoint(place, minutes=0)
    if effort == 1:
        estimator = ist.fit(events, checkpoint=kept, seed=2)
    else:
        training, network = ist.Training(effort=effort, choose=True), ist.MLP((8,))
        estimator = ist.fit(events, network=network, training=training, checkpoint=kept, seed=2)
    arrays = jax.tree.leaves(eqx.filter(estimator.model, eqx.is_array))
    whole = b"".join(np.asarray(array).tobytes() for array in arrays)
    print(json.dumps({"weights": hashlib.sha256(whole).hexdigest()}), flush=True)


if __name__ == "__main__":
    fit_in_process(sys.argv[1], float(sys.argv[2]))
