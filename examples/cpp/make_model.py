"""Train a potential and export it: model.h for events.cpp, ONNX files for onnx_events.cpp.

    python make_model.py [--events 20000] [--onnx]

One learns how a trained estimator leaves Python. Writes into the current folder, and prints scores
and log ratios of the first events in events.csv as the estimator and the exact distribution give
them, so that the C++ programs can be compared with both.
"""

import argparse

import numpy as np

import inferostatic as ist

#: Parameters at which the programs evaluate events: θ0 and θ1.
THETA0, THETA1 = np.array([1.5, 3.0, 4.0]), np.array([2.0, 2.0, 2.0])


def main() -> None:
    """Simulate, train, export."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--onnx", action="store_true", help="needs inferostatic[export]")
    options = parser.parse_args()

    toy = ist.toys.Dirichlet()
    prior = ist.Uniform([0.5] * 3, [5.0] * 3, names=["a", "b", "c"])
    events = ist.simulate(toy, prior, options.events, seed=1)
    est = ist.fit(events, seed=2)
    ist.export.cpp(est, "model.h")
    if options.onnx:
        ist.export.onnx(est, "model.onnx")

    x = toy(np.tile(THETA0, (1000, 1)), np.random.default_rng(3))
    np.savetxt("events.csv", x, delimiter=",", header=",".join(est.x_names), comments="")
    thetas = np.tile(THETA0, (5, 1)), np.tile(THETA1, (5, 1))
    exact_ratio = toy.log_prob(x[:5], thetas[0]) - toy.log_prob(x[:5], thetas[1])
    rows = zip(
        est.score(x[:5], THETA0),
        np.asarray(toy.score(x[:5], thetas[0])),
        est.log_ratio(x[:5], THETA0, THETA1),
        np.asarray(exact_ratio),
        strict=True,
    )
    print("event  score by a (learned, exact)  log ratio (learned, exact)")
    for number, (score, exact_score, ratio, exact) in enumerate(rows):
        print(f"{number:5d}  {score[0]:9.4f} {exact_score[0]:9.4f}  {ratio:9.4f} {exact:9.4f}")


if __name__ == "__main__":
    main()
