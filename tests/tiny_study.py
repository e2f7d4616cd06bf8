"""A study of seconds, and what calls the command line in this process."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from inferostatic.app.cli import app

SIMULATOR = """
from pathlib import Path

import numpy as np

Path(__file__).with_name("imported").touch()


def simulator(theta, rng):
    return theta + rng.normal(size=theta.shape)


def expected_events(theta):
    return 30.0 + 4.0 * theta[0]
"""

STUDY = """
format = 1
title = "A tiny study"
seed = 3

[simulator]
file = "simulator_of_a_study.py"
x_names = ["m", "t"]

[prior]
a = { low = -2.0, high = 2.0 }
b = { mean = 0.0, std = 1.0 }

[simulate]
events = 600
validation = 400

[fit]
epochs = 20
batch_size = 50
learning_rate = 0.03
members = 1
network = { kind = "mlp", widths = [8] }

[infer.simulated]
theta = { a = 0.5, b = -0.5 }
events = 30

[infer.maximum_likelihood]
"""


def write_study(folder: Path, text: str = STUDY, simulator: str = SIMULATOR) -> Path:
    pytest.importorskip("iminuit", reason="the study maximises a likelihood")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.toml").write_text(text, encoding="utf-8")
    (folder / "simulator_of_a_study.py").write_text(simulator)
    return folder


def call(*arguments: object) -> Result:
    """The command in this process; the user's module is forgotten afterwards."""
    path = list(sys.path)
    try:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])
    finally:
        sys.modules.pop("simulator_of_a_study", None)
        sys.path[:] = path
