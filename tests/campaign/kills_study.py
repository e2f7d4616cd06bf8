"""Kills of `inferostatic run`, each followed by the same command, to the same numbers.

`python -m campaign.kills_study FOLDER` in `tests` is the process, which does what the command does.
Kills fall into simulating, training, checking, every question, reweighting and reporting.
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
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
events = 4000
validation = 1000

[fit]
epochs = 60
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
toys = 20

[[reweight]]
start = { a = 0.0, b = 0.0 }
to = { a = 0.5, b = 0.0 }
events = 500
"""
#: The same without what takes long.
SMALL = {
    "events = 4000": "events = 400",
    "validation = 1000": "validation = 0",
    "epochs = 60": "epochs = 3",
    "[infer.posterior]": "",
}


#: Steps in the order of the report, by the titles in the log; the report itself follows them.
STEPS = (
    "simulate",
    "fit",
    "diagnose",
    "maximum likelihood",
    "confidence set 1, a",
    "posterior",
    "reweighting 1",
)
REPORT = "report"
#: Seconds after which a process that says nothing new is given up.
PATIENCE = 300.0


@dataclasses.dataclass
class Campaign:
    """What happened.

    Attributes:
        whole: the numbers of the report of a run that nothing disturbed.
        seconds: that each of its steps took.
        found: the numbers of runs that were killed and repeated.
        under_way: the step that was under way at each kill.
        resumed: how many processes found steps that another one had done.
        partial: how many files were half written when their process was killed.
    """

    whole: dict[str, Any]
    seconds: dict[str, float]
    found: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    under_way: list[str] = dataclasses.field(default_factory=list)
    resumed: int = 0
    partial: int = 0

    def __str__(self) -> str:
        same = sum(one == self.whole for one in self.found)
        steps = {step: self.under_way.count(step) for step in (*STEPS, REPORT)}
        hit = ", ".join(f"{step} ({count})" for step, count in steps.items() if count)
        return (
            f"{len(self.under_way)} kills in {len(self.found)} studies of "
            f"{sum(self.seconds.values()):.1f} s, during {hit}, {self.partial} of them while a "
            f"file was written; {self.resumed} processes went on; {same} of {len(self.found)} "
            f"reports had the same {count_numbers(self.whole)} numbers"
        )


def run_campaign(folder: Path, *, kills: int, seed: int, small: bool) -> Campaign:
    """Kill the process so many times, at random moments of every step in turn, and repeat it.

    Moments that were uniform over the whole time would nearly all fall into the training. In each
    step the moment is uniform over the time that the undisturbed run took for it.
    """
    rng = np.random.default_rng(seed)
    if not small:
        run_once(write_study(folder / "first", small=small))  # compiles, for all that follow
    place = write_study(folder / "whole", small=small)
    campaign = Campaign(read_numbers(place, run_once(place)), time_steps(place))
    steps = list(campaign.seconds)
    while len(campaign.under_way) < kills:
        place = write_study(folder / f"study-{len(campaign.found)}", small=small)
        chosen = sorted(rng.permutation(len(steps))[: kills - len(campaign.under_way)])
        killed = True
        for step in [*(steps[i] for i in chosen), None]:
            campaign.resumed += any(place.glob("run/*/*/record.json"))
            delay = 0.0 if step is None else float(rng.uniform(0, campaign.seconds[step]))
            killed = run_once(place, step, delay)
            if killed:
                campaign.under_way.append(find_step(place, steps))
                campaign.partial += len(list(place.rglob("*.part")))
        campaign.found.append(read_numbers(place, killed))
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


def run_once(place: Path, step: str | None = None, delay: float = 0.0) -> bool:
    """Whether the run was killed, `delay` seconds after the step began, before it ended."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        "INFEROSTATIC_PROGRESS": "0",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, "-m", "campaign.kills_study", str(place)]
    before = len(read_log(place))
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=environment) as one,
    ):
        if step is not None:
            wait_for(place, before, step, one)
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(delay)
            one.kill()
        one.wait()
        errors.seek(0)
        assert one.returncode in (0, -signal.SIGKILL), f"it failed by itself: {errors.read()}"
    return one.returncode != 0


def wait_for(place: Path, before: int, step: str, process: subprocess.Popen[bytes]) -> None:
    """Until the step has begun, by the lines of the log that came since, or the process ended."""
    end = time.monotonic() + PATIENCE
    while process.poll() is None:
        lines = read_log(place)[before:]
        begun = [line.partition(": ")[0] for line in lines if ": begins" in line]
        last = [line for line in lines if line.startswith(f"{STEPS[-1]}: done")]
        if step in begun or (step == REPORT and last):
            return
        assert time.monotonic() < end, f"{step} did not begin: {lines}"
        time.sleep(0.01)


def read_log(place: Path) -> list[str]:
    """The lines of the log, without their times."""
    log = place / "run" / "log.txt"
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.partition(" ")[2] for line in lines]


def time_steps(place: Path) -> dict[str, float]:
    """Seconds of every step of a run, and of its report."""
    records = [json.loads(path.read_text()) for path in place.glob("run/*/*/record.json")]
    taken = {one["title"]: one["seconds"] for one in records}
    last = max(path.stat().st_mtime for path in place.glob("run/*/*/record.json"))
    taken[REPORT] = (place / "report.json").stat().st_mtime - last
    return {step: taken[step] for step in (*STEPS, REPORT) if step in taken}


def find_step(place: Path, steps: list[str]) -> str:
    """The step that was under way, by the log."""
    lines = read_log(place)
    last = max(i for i, line in enumerate(lines) if line.startswith("inferostatic run"))
    said = [line for line in lines[last:] if ": begins" in line or ": done" in line]
    if not said:
        return "start"
    title, _, state = said[-1].partition(": ")
    if state.startswith("begins"):
        return title
    return steps[steps.index(title) + 1]


def read_numbers(place: Path, killed: bool) -> dict[str, Any]:  # noqa: FBT001
    """The numbers of the report, in full precision, once all steps are in it."""
    assert not killed
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
    from inferostatic.app.study import workshop

    # Steps of seconds are saved on their way too, so that kills within them are resumed there.
    workshop.MINUTES = 0.005
    sys.argv = ["inferostatic", "run", place]
    main()


if __name__ == "__main__":
    run_in_process(sys.argv[1])
