"""PyTorch: the plain eager training loop.

Of the variants tried, the fastest is used: rows shuffled once an epoch and then sliced (indexing
each batch by itself takes 30% longer at batch 20), the fused Adam (the default takes 20% longer),
the two points of a KLRE pair in one pass, and the gradient taken of the packed input.
"""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from peers import problem
from peers.problem import KSE, Array
from peers.service import Job, serve

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


def network() -> nn.Sequential:
    """Return the potential φ with Keras initial weights."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in problem.LAYERS[:-1]:
        layers += [nn.Linear(fan_in, fan_out), nn.SELU()]
    layers.append(nn.Linear(*problem.LAYERS[-1], bias=False))
    model = nn.Sequential(*layers)
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model


def kse_loss(model: nn.Module, points: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared error of ∇θφ."""
    points.requires_grad_()
    (slope,) = torch.autograd.grad(model(points).sum(), points, create_graph=True)
    return mse_loss(slope[:, problem.DIMENSIONS :], target)


def klre_loss(model: nn.Module, pairs: Tensor, label: Tensor) -> Tensor:
    """Return the mean logistic loss of ln r = φ(x,θ0) − φ(x,θ1); −ln r is the logit of y = 1."""
    potential = model(pairs.view(-1, 2 * problem.DIMENSIONS)).view(-1, 2)
    return binary_cross_entropy_with_logits(potential[:, 1] - potential[:, 0], label)


def train_epoch(
    model: nn.Module, optimiser: torch.optim.Optimizer, loss: Loss, rows: list[Tensor], batch: int
) -> None:
    """Run one epoch over the rows, in a new order."""
    order = torch.randperm(len(rows[0]))
    for inputs, targets in zip(*(part[order].split(batch) for part in rows), strict=True):
        optimiser.zero_grad()
        loss(model, inputs, targets).backward()
        optimiser.step()


def adam(model: nn.Module) -> torch.optim.Adam:
    """Return the paper's optimiser."""
    return torch.optim.Adam(
        model.parameters(),
        lr=problem.LEARNING_RATE,
        betas=problem.ADAM_BETAS,
        eps=problem.ADAM_EPSILON,
        fused=True,
    )


@cache
def tensors(path: str) -> list[Tensor]:
    """Return the rows of a file."""
    rows = problem.load_rows(path)
    return [torch.from_numpy(rows.inputs), torch.from_numpy(rows.targets)]


class TorchStack:
    """The worker's answers."""

    def describe(self) -> dict[str, dict[str, str]]:
        """Return versions and settings."""
        settings = {"adam": "fused", "threads": str(torch.get_num_threads())}
        return {"versions": {"torch": torch.__version__}, "settings": settings}

    def warm_up(self, job: Job) -> None:
        """Run some steps, so that thread pools and allocator are in place."""
        _train(network(), replace(job, row_count=min(job.row_count, 100 * job.batch), epochs=1))

    def epoch_seconds(self, job: Job) -> list[float]:
        """Train, and return the wall seconds of each epoch."""
        return _train(network(), job)

    def trained_loss(self, job: Job, weights: list[Array]) -> float:
        """Train from given weights, and return the loss on the held-out rows."""
        torch.manual_seed(job.seed)
        model = network()
        set_weights(model, weights)
        _train(model, job)
        return _mean_loss(job.what, model, job.held_out)

    def loss_at(self, what: str, rows: str, weights: list[Array]) -> float:
        """Return the loss of given weights on the rows of a file."""
        model = network()
        set_weights(model, weights)
        return _mean_loss(what, model, rows)


def set_weights(model: nn.Module, weights: list[Array]) -> None:
    """Replace the weights; PyTorch keeps kernels as (outputs, inputs)."""
    with torch.no_grad():
        for parameter, weight in zip(model.parameters(), weights, strict=True):
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(weight.T)))


def _train(model: nn.Module, job: Job) -> list[float]:
    optimiser = adam(model)
    rows = [part[: job.row_count] for part in tensors(job.rows)]
    seconds: list[float] = []
    for _ in range(job.epochs):
        start = time.perf_counter()
        train_epoch(model, optimiser, _loss_of(job.what), rows, job.batch)
        seconds.append(time.perf_counter() - start)
    return seconds


def _loss_of(what: str) -> Loss:
    return kse_loss if what == KSE else klre_loss


def _mean_loss(what: str, model: nn.Module, path: str) -> float:
    inputs, targets = tensors(path)
    return _loss_of(what)(model, inputs.clone(), targets).item()


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    serve(TorchStack())
