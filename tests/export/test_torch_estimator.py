"""Estimators of tensors: the same values, and gradients that are those of JAX.

Needs PyTorch, which is not among the packages of the development environment. With that of the
benchmarks' peers (`make .venv-peers`), the slow test here runs all others:

    .venv-peers/bin/python -m pytest tests/export/test_torch_estimator.py

with the site-packages of `.venv` on PYTHONPATH.
"""

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inferostatic as ist
from inferostatic.export.parity import choose_points
from page_blocks import ROOT
from random_estimators import random_estimator

try:
    torch: Any = __import__("torch")
except ImportError:
    torch = None

PEERS = ROOT / ".venv-peers" / "bin" / "python"
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
SMALL = ist.MLP((8, 8))


@pytest.fixture(scope="module")
def potential() -> Any:
    return random_estimator(ist.Potential(SMALL))


@pytest.fixture(scope="module")
def rows(potential: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    points = choose_points(potential, 37, seed=2)
    return points.x, points.theta0, points.theta1


def tensor(array: np.ndarray, dtype: Any = None) -> Any:
    return torch.tensor(array, dtype=dtype or torch.float32, requires_grad=True)


def phi(estimator: Any, x: Any, theta: Any) -> Any:
    """The mean over members, by JAX and for one event, written out."""
    networks = [jax.tree.map(lambda leaf, i=i: leaf[i], estimator.model.network) for i in (0, 1)]
    model = estimator.model
    inputs = jnp.concatenate([model.x_features(x), model.theta_features(theta)])
    return sum(network(inputs)[0] for network in networks) / 2


@needs_torch
def test_values_are_those_of_the_estimator(potential: Any, rows: Any) -> None:
    x, theta0, theta1 = rows
    of_tensors = ist.export.TorchEstimator(potential)
    near: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
    for question in ("potential", "score"):
        values = getattr(of_tensors, question)(torch.tensor(x), torch.tensor(theta0))
        np.testing.assert_allclose(values, getattr(potential, question)(x, theta0), **near)
    values = of_tensors.log_ratio(*(torch.tensor(part) for part in rows))
    np.testing.assert_allclose(values, potential.log_ratio(x, theta0, theta1), **near)


@needs_torch
def test_the_gradient_by_theta_is_the_score(potential: Any, rows: Any) -> None:
    x, theta = tensor(rows[0]), tensor(rows[1])
    ist.export.TorchEstimator(potential).potential(x, theta).sum().backward()
    score = potential.score(rows[0], rows[1])
    np.testing.assert_allclose(theta.grad, score, rtol=1e-4, atol=1e-5)


@needs_torch
def test_the_gradient_by_x_is_that_of_jax(potential: Any, rows: Any) -> None:
    x, theta = tensor(rows[0]), tensor(rows[1])
    weights = np.linspace(-1, 2, len(rows[0])).astype(np.float32)
    values = ist.export.TorchEstimator(potential).potential(x, theta)
    (values * torch.tensor(weights)).sum().backward()
    each = jax.vmap(jax.grad(lambda x, theta: phi(potential, x, theta)))(*rows[:2])
    np.testing.assert_allclose(x.grad, weights[:, None] * each, rtol=1e-4, atol=1e-5)


@needs_torch
def test_ratios_have_the_gradients_of_both_points(potential: Any, rows: Any) -> None:
    x, theta0, theta1 = (tensor(part) for part in rows)
    ist.export.TorchEstimator(potential).log_ratio(x, theta0, theta1).sum().backward()
    near: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(theta0.grad, potential.score(rows[0], rows[1]), **near)
    np.testing.assert_allclose(theta1.grad, -potential.score(rows[0], rows[2]), **near)


@needs_torch
def test_second_derivatives_are_those_of_jax(potential: Any, rows: Any) -> None:
    """By differentiating a gradient, and by differentiating the score."""
    of_tensors = ist.export.TorchEstimator(potential)
    exact = jax.vmap(jax.hessian(lambda theta, x: phi(potential, x, theta)))(rows[1], rows[0])
    x, theta = tensor(rows[0]), tensor(rows[1])
    (first,) = torch.autograd.grad(of_tensors.potential(x, theta).sum(), theta, create_graph=True)
    for gradient in (first, of_tensors.score(x, theta)):
        parts = [
            torch.autograd.grad(gradient[:, k].sum(), theta, retain_graph=True)[0] for k in (0, 1)
        ]
        hessian = torch.stack(parts, dim=1)
        np.testing.assert_allclose(hessian, exact, rtol=1e-3, atol=1e-4)


@needs_torch
def test_one_point_for_all_events_collects_their_gradients(potential: Any, rows: Any) -> None:
    theta = tensor(rows[1][0])
    ist.export.TorchEstimator(potential).potential(torch.tensor(rows[0]), theta).sum().backward()
    total = potential.score(rows[0], rows[1][0]).sum(axis=0)
    assert theta.grad.shape == (2,)
    np.testing.assert_allclose(theta.grad, total, rtol=1e-4, atol=1e-4)


@needs_torch
def test_doubles_stay_doubles(potential: Any, rows: Any) -> None:
    x, theta = tensor(rows[0], torch.float64), tensor(rows[1])
    values = ist.export.TorchEstimator(potential).potential(x, theta)
    assert values.dtype == torch.float64
    values.sum().backward()
    assert (x.grad.dtype, theta.grad.dtype) == (torch.float64, torch.float32)


@needs_torch
def test_functional_gradients_work(potential: Any, rows: Any) -> None:
    of_tensors, x = ist.export.TorchEstimator(potential), torch.tensor(rows[0])
    found = torch.func.grad(lambda theta: of_tensors.potential(x, theta).sum())(
        torch.tensor(rows[1])
    )
    np.testing.assert_allclose(found, potential.score(*rows[:2]), rtol=1e-4, atol=1e-5)


@needs_torch
def test_a_fit_by_an_optimiser_of_torch_finds_the_maximum(rows: Any) -> None:
    """The sum over events of a Gaussian, whose maximum is the mean."""
    from exact_estimators import exact_estimator, gaussian

    prior = ist.Uniform([-2.0, -2.0], [2.0, 2.0])
    estimator = exact_estimator(gaussian, prior, np.full(2, -4.0), np.full(2, 4.0))
    x = rows[0][:, :2]
    theta = torch.zeros(2, requires_grad=True)
    optimiser = torch.optim.LBFGS([theta])
    of_tensors = ist.export.TorchEstimator(estimator)

    def loss() -> Any:
        optimiser.zero_grad()
        value = -of_tensors.potential(torch.tensor(x), theta).sum()
        value.backward()
        return value

    optimiser.step(loss)
    np.testing.assert_allclose(theta.detach(), x.mean(axis=0), atol=1e-4)


@needs_torch
def test_direct_networks_answer_their_question_only(rows: Any) -> None:
    estimator = random_estimator(ist.DirectScore(SMALL), members=1)
    of_tensors = ist.export.TorchEstimator(estimator)
    x, theta = torch.tensor(rows[0]), torch.tensor(rows[1])
    near: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(of_tensors.score(x, theta), estimator.score(*rows[:2]), **near)
    with pytest.raises(ist.CapabilityError, match="offers only score"):
        of_tensors.potential(x, theta)
    with pytest.raises(ist.CapabilityError, match="it has no log_prob"):
        of_tensors.log_prob(x, theta)


@needs_torch
@pytest.mark.parametrize(
    ("x", "theta", "told"),
    [
        (np.zeros((5, 2)), np.zeros((5, 2)), r"expected x of shape \(n, 3\)"),
        (np.zeros((5, 3)), np.zeros((4, 2)), r"\[5, 4\] rows"),
        (np.zeros((0, 3)), np.zeros(2), r"\[0, 1\] rows"),
    ],
)
def test_wrong_shapes_are_named(
    x: np.ndarray, theta: np.ndarray, told: str, potential: Any
) -> None:
    with pytest.raises(ValueError, match=told):
        ist.export.TorchEstimator(potential).score(torch.tensor(x), torch.tensor(theta))


@needs_torch
def test_arrays_are_refused(potential: Any, rows: Any) -> None:
    with pytest.raises(
        TypeError, match="x must be a tensor of floating-point numbers; got ndarray"
    ):
        ist.export.TorchEstimator(potential).score(rows[0], torch.tensor(rows[1]))


def test_what_is_no_estimator_is_refused() -> None:
    with pytest.raises(TypeError, match="what is exported is a trained estimator"):
        ist.export.TorchEstimator(3)  # type: ignore[arg-type]


@pytest.mark.skipif(torch is not None, reason="PyTorch is installed")
def test_without_torch_the_command_is_named(potential: Any) -> None:
    with pytest.raises(ImportError, match="needs PyTorch: pip install torch"):
        ist.export.TorchEstimator(potential)


@pytest.mark.slow
@pytest.mark.skipif(torch is not None, reason="runs the tests above where PyTorch is")
@pytest.mark.skipif(not PEERS.exists(), reason="make .venv-peers installs PyTorch")
def test_all_of_it_in_the_peers_environment() -> None:
    folders = [ROOT / "src", Path(sysconfig.get_path("purelib"))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [str(PEERS), "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    answer = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "passed" in answer.stdout
