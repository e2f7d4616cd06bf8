"""Kills of `inferostatic run`, each followed by the same command, to the same numbers.

`python -m campaign.kills_study FOLDER` in `tests` is the process: it says when the run begins, and
does what the command does. Kills fall into simulating, training, checking, fitting and reporting.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parent.parent
#: Events with θ from the prior take some time, so that kills fall into them too; toys do not.
SIMULATOR = """
import time


def simulator(theta, rng):
    if theta[0, 0] != theta[-1, 0]:
        time.sleep(0.1)
    return theta + rng.normal(size=theta.shape)
"""
STUDY = """
format = 1
title = "killed"
seed = 5

[simulator]
file = "simulator_that_is_killed.py"
x_names = ["m", "t"]

[prior]
a = { low = -2.0, high = 2.0 }
b = { low = -2.0, high = 2.0 }

[simulate]
events = 8000
validation = 2000

[fit]
epochs = 40
batch_size = 100
learning_rate = 0.01
members = 1
network = { kind = "mlp", widths = [16] }

[infer.simulated]
theta = { a = 0.5, b = -0.5 }
events = 50

[infer.maximum_likelihood]
[infer.posterior]
[[infer.confidence_set]]
parameters = ["a"]
method = "Neyman"
toys = 100

[[reweight]]
start = { a = 0.0, b = 0.0 }
to = { a = 0.5, b = 0.0 }
events = 500
"""
#: The same without what takes long.
SMALL = {
    "events = 8000": "events = 400",
    "validation = 2000": "validation = 0",
    "epochs = 40": "epochs = 3",
    "[infer.posterior]": "",
}


@dataclasses.dataclass
class Campaign:
    """What happened.

    Attributes:
        whole: the numbers of the report of a run that nothing disturbed.
        seconds: that it took.
        found: the numbers of runs that were killed and repeated.
        kills: how many processes were killed.
        under_way: the step that was under way at each kill.
        resumed: how many processes found steps that another one had done.
        partial: how many files were half written when their process was killed.
    """

    whole: dict[str, Any]
    seconds: float
    found: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    kills: int = 0
    under_way: list[str] = dataclasses.field(default_factory=list)
    resumed: int = 0
    partial: int = 0

    def __str__(self) -> str:
        same = sum(one == self.whole for one in self.found)
        steps = {step: self.under_way.count(step) for step in dict.fromkeys(self.under_way)}
        return (
            f"{self.kills} kills in {len(self.found)} studies of {self.seconds:.1f} s, during "
            f"{', '.join(f'{step} ({count})' for step, count in steps.items())}, {self.partial} of "
            f"them while a file was written; {self.resumed} processes went on; {same} of "
            f"{len(self.found)} reports had the same {count_numbers(self.whole)} numbers"
        )


def run_campaign(folder: Path, *, kills: int, seed: int, small: bool) -> Campaign:
    """Kill the process at random moments of its run, so many times, and repeat it each time."""
    rng = np.random.default_rng(seed)
    if not small:
        run_once(write_study(folder / "first", small=small))  # compiles, for all that follow
    seconds = run_once(write_study(folder / "whole", small=small))
    assert seconds is not None
    campaign = Campaign(read_numbers(folder / "whole"), seconds)
    while campaign.kills < kills:
        place = write_study(folder / f"study-{len(campaign.found)}", small=small)
        done = None
        while done is None:
            # Within half of the time, so that one study is killed several times.
            wait = float(rng.uniform(0, seconds / 2)) if campaign.kills < kills else None
            campaign.resumed += any(place.glob("run/*/*/record.json"))
            done = run_once(place, kill_after=wait)
            if done is None:
                campaign.kills += 1
                campaign.under_way.append(find_step(place))
                campaign.partial += len(list(place.rglob("*.part")))
        campaign.found.append(read_numbers(place))
    return campaign


def write_study(folder: Path, *, small: bool) -> Path:
    text = STUDY
    for old, new in SMALL.items() if small else ():
        assert old in text
        text = text.replace(old, new)
    folder.mkdir()
    (folder / "study.toml").write_text(text)
    (folder / "simulator_that_is_killed.py").write_text(SIMULATOR)
    return folder


def run_once(place: Path, *, kill_after: float | None = None) -> float | None:
    """Seconds that the run took, or None if it was killed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        "INFEROSTATIC_PROGRESS": "0",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, "-m", "campaign.kills_study", str(place)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        began = time.monotonic()
        try:
            _, error = process.communicate(timeout=kill_after)
        except subprocess.TimeoutExpired:
            process.kill()
            _, error = process.communicate()
    if process.returncode == -signal.SIGKILL:
        return None
    assert process.returncode == 0, f"the process failed by itself: {error}"
    return time.monotonic() - began


def find_step(place: Path) -> str:
    """The step that began last, by the log."""
    log = place / "run" / "log.txt"
    lines = log.read_text().splitlines() if log.exists() else []
    begun = [line.split(" ", 1)[1].partition(":")[0] for line in lines if ": begins" in line]
    return begun[-1] if begun else "start"


def read_numbers(place: Path) -> dict[str, Any]:
    """The numbers of the report, in full precision, once all steps are in it."""
    told = json.loads((place / "report.json").read_text())
    assert told["missing"] == []
    assert told["failed"] == {}
    return told["numbers"]


def count_numbers(numbers: dict[str, Any]) -> int:
    return sum(len(found) for found in numbers.values())


def run_in_process(place: str) -> None:
    """The process that is killed."""
    import jax

    cache = TESTS.parent / ".pytest_cache" / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    from inferostatic.app.cli import main

    print("begins", flush=True)
    sys.argv = ["inferostatic", "run", place]
    main()


if __name__ == "__main__":
    run_in_process(sys.argv[1])
