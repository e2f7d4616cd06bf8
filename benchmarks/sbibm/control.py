"""The control: the posterior sampler and C2ST with the exact likelihood in place of a network.

What it finds above 0.5 is not to be blamed on any estimator. C2ST takes minutes for each
observation of the tasks with ten parameters, the sampler seconds.

    python -m benchmarks.sbibm.control
    python -m benchmarks.sbibm.control --tasks two_moons slcp --observations 1 2
"""

import argparse
import statistics
import sys
import time

from .c2st import c2st
from .sampler import sample_posterior
from .tasks import OBSERVATIONS, TASKS, DownloadError, Task

#: The median over observations must not exceed this.
LIMIT = 0.52


def control(task: Task, observations: list[int], *, seed: int) -> float:
    """Print C2ST of exact draws for each observation; return the median."""
    values = []
    for number in observations:
        observation = task.observation(number)
        start = time.perf_counter()
        posterior = sample_posterior(task.at(observation.x), task.prior, seed=seed + number)
        sampled = time.perf_counter()
        values.append(c2st(observation.reference, posterior.theta))
        judged = time.perf_counter()
        print(
            f"{task.name:24} {number:11d} {values[-1]:7.4f} {posterior.temperatures:13d} "
            f"{posterior.acceptance:11.2f} {sampled - start:11.1f} {judged - sampled:8.0f}",
            flush=True,
        )
    median = statistics.median(values)
    print(f"{task.name:24} {'median':>11} {median:7.4f}   largest {max(values):.4f}", flush=True)
    return median


def main() -> int:
    """Run the control; the exit status tells whether every median is within the limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--observations", nargs="+", type=int, default=list(OBSERVATIONS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    heads = ("C2ST", "temperatures", "acceptance", "sampling, s", "C2ST, s")
    print(f"{'task':24} {'observation':>11} {heads[0]:>7} {heads[1]:>13} ", end="")
    print(f"{heads[2]:>11} {heads[3]:>11} {heads[4]:>8}")
    medians = [
        control(TASKS[name], options.observations, seed=options.seed) for name in options.tasks
    ]
    return 0 if max(medians) <= LIMIT else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DownloadError as error:
        sys.exit(str(error))
