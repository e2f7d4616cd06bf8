"""TensorFlow-Keras: a custom `keras.Model`, `compile` and `fit`, in graph mode.

The score is taken with a gradient tape inside `call`, so that Keras' own training step and loss
apply; a `train_step` of one's own is within 7% of that, either way. The two points of a KLRE
pair go through the network in one pass. Keras leaves XLA off on a CPU by default, and switching
it on changes these timings by about 10% at most. `--steps-per-execution` is passed to `compile`.

Each timed piece is the first epoch of a `fit`: between epochs Keras tears its input pipeline down,
which on a single core waits for up to 0.15 s, and that is not held against it.
"""

import argparse
import os
import time
from dataclasses import replace
from functools import cache

import keras
import tensorflow as tf

from peers import problem
from peers.problem import KSE, Array, Rows
from peers.service import Job, serve


def network() -> keras.Sequential:
    """Return the potential φ; Glorot-uniform kernels and zero biases are Keras' defaults."""
    hidden = [keras.layers.Dense(units, activation="selu") for _, units in problem.LAYERS[:-1]]
    return keras.Sequential([*hidden, keras.layers.Dense(1, use_bias=False)])


class ScoreModel(keras.Model):
    """Predicts ∇θφ from rows (x, θ)."""

    def __init__(self) -> None:
        super().__init__()
        self.potential = network()

    def call(self, points: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(points)
            potential = self.potential(points)
        return tape.gradient(potential, points)[:, problem.DIMENSIONS :]


class RatioModel(keras.Model):
    """Predicts −ln r = φ(x,θ1) − φ(x,θ0), the logit of y = 1, from rows ((x, θ0), (x, θ1))."""

    def __init__(self) -> None:
        super().__init__()
        self.potential = network()

    def call(self, pairs: tf.Tensor) -> tf.Tensor:
        points = tf.reshape(pairs, [-1, 2 * problem.DIMENSIONS])
        potential = tf.reshape(self.potential(points), [-1, 2])
        return potential[:, 1:] - potential[:, :1]


class EpochClock(keras.callbacks.Callback):
    """Takes the wall seconds of each epoch, without what `fit` sets up before the first."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._start = 0.0

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.seconds.append(time.perf_counter() - self._start)


@cache
def rows_of(path: str) -> Rows:
    """Return the rows of a file; Keras wants labels as a column."""
    rows = problem.load_rows(path)
    return Rows(rows.inputs, rows.targets.reshape(len(rows), -1))


class KerasStack:
    """The worker's answers; models stay compiled from the warm-up on."""

    def __init__(self, steps_per_execution: int) -> None:
        self._steps_per_execution = steps_per_execution
        self._warm: dict[tuple[str, int], keras.Model] = {}

    def describe(self) -> dict[str, dict[str, str]]:
        """Return versions and settings."""
        versions = {"tensorflow": tf.__version__, "keras": keras.__version__}
        settings = {
            "steps_per_execution": str(self._steps_per_execution),
            "xla": str(self._compiled_model(KSE).jit_compile),
            "eager": str(self._compiled_model(KSE).run_eagerly),
            "intra_op_threads": str(tf.config.threading.get_intra_op_parallelism_threads()),
            "inter_op_threads": str(tf.config.threading.get_inter_op_parallelism_threads()),
        }
        return {"versions": versions, "settings": settings}

    def warm_up(self, job: Job) -> None:
        """Trace the training step."""
        model = self._compiled_model(job.what)
        fit(model, replace(job, row_count=min(job.row_count, 200 * job.batch), epochs=1))
        self._warm[job.what, job.batch] = model

    def epoch_seconds(self, job: Job) -> list[float]:
        """Train, and return the wall seconds of each epoch."""
        model = self._warm[job.what, job.batch]
        return [fit(model, replace(job, epochs=1))[0] for _ in range(job.epochs)]

    def trained_loss(self, job: Job, weights: list[Array]) -> float:
        """Train from given weights, and return the loss on the held-out rows."""
        keras.utils.set_random_seed(job.seed)
        model = self._compiled_model(job.what, weights)
        fit(model, job)
        return mean_loss(model, rows_of(job.held_out))

    def loss_at(self, what: str, rows: str, weights: list[Array]) -> float:
        """Return the loss of given weights on the rows of a file."""
        return mean_loss(self._compiled_model(what, weights), rows_of(rows))

    def _compiled_model(self, what: str, weights: list[Array] | None = None) -> keras.Model:
        model = ScoreModel() if what == KSE else RatioModel()
        if weights is not None:
            model.potential.build((None, 2 * problem.DIMENSIONS))
            model.potential.set_weights(weights)
        beta_1, beta_2 = problem.ADAM_BETAS
        model.compile(
            optimizer=keras.optimizers.Adam(
                problem.LEARNING_RATE, beta_1=beta_1, beta_2=beta_2, epsilon=problem.ADAM_EPSILON
            ),
            loss="mse" if what == KSE else keras.losses.BinaryCrossentropy(from_logits=True),
            steps_per_execution=self._steps_per_execution,
        )
        return model


def fit(model: keras.Model, job: Job) -> list[float]:
    """Train, and return the wall seconds of each epoch."""
    rows = rows_of(job.rows).first(job.row_count)
    clock = EpochClock()
    model.fit(
        rows.inputs,
        rows.targets,
        batch_size=job.batch,
        epochs=job.epochs,
        shuffle=True,
        verbose=0,
        callbacks=[clock],
    )
    return clock.seconds


def mean_loss(model: keras.Model, rows: Rows) -> float:
    """Return the mean loss on the rows."""
    return float(model.evaluate(rows.inputs, rows.targets, batch_size=1000, verbose=0))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps-per-execution", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    serve(KerasStack(_arguments().steps_per_execution))
