"""A default fit by whichever checkout of this library is on the path; see `answers.py`.

    PYTHONPATH=checkout/src python default_fit_worker.py in.npz out.npz --seed 0 [--effort 1]

The output holds a score or ln r for each set of points (`default/<set>`), the wall and CPU seconds
of the fit, everything but imports and the start of JAX included, and what was chosen.
"""

import argparse

import jax
import numpy as np
from answers import measure_time, predict

import inferostatic as ist


def main() -> None:
    """Train, evaluate, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--effort", type=float, default=1.0)
    options = parser.parse_args()

    with np.load(options.source) as file:
        inputs = dict(file)
    prior = ist.Uniform(inputs["low"], inputs["high"])
    device = jax.devices()[0]
    # Names are imported on first use, and imports do not count.
    _ = ist.Events, ist.fit
    # Another checkout may not know the option.
    more = {} if options.effort == 1 else {"training": ist.Training(effort=options.effort)}

    def fit() -> ist.Estimator:
        events = ist.Events(x=inputs["x"], theta=inputs["theta"], prior=prior)
        return ist.fit(events, seed=options.seed, **more)

    estimator, times = measure_time(fit)
    np.savez(
        options.target,
        **{f"default/{name}": values for name, values in predict(estimator, inputs).items()},
        **times,
        choices=np.array(estimator.history.choices, dtype=str),
        epochs=len(estimator.history.seconds),
        accelerator=device.device_kind if device.platform != "cpu" else "",
    )


if __name__ == "__main__":
    main()
