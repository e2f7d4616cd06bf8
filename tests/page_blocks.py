"""The code blocks of a page, and estimators that stand in for the trained ones on it."""

import importlib.util
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import expon, norm

import inferostatic as ist
from exact_estimators import dirichlet, exact_estimator

ROOT = Path(__file__).parents[1]
#: Smaller numbers of events and toys, for those on the pages; longest first.
SMALLER = {
    "200_000": "6_000",
    "100_000": "3_000",
    "50_000": "6_000",
    "20_000": "4_000",
    "10_000": "1_000",
    "block_size=2000": "block_size=200",
    "toys=1000": "toys=40",
    "ist.ProcessPool()": "ist.ProcessPool(1)",
}
#: Signal, background and resolution of the channels, in the order in which they are fitted.
CHANNELS = [(20, 100, 0.05), (30, 150, 0.1)]


class Block(NamedTuple):
    """A block of Python on a page.

    title: name of the file that it is, or empty.
    mark: of a comment on the line before: `slow`, `torch` (where PyTorch is installed), `not run`
        (for other packages), or empty.
    """

    code: str
    title: str
    mark: str


BLOCK = re.compile(
    r"^( *)(?:<!-- (slow|torch|not run) -->\n\1)?```python(.*?)\n(.*?)^\1```$",
    re.DOTALL | re.MULTILINE,
)


def read_blocks(page: Path) -> list[Block]:
    blocks = []
    for _, mark, options, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        title = re.search(r'title="([^"]+)"', options)
        blocks.append(Block(textwrap.dedent(code), title[1] if title else "", mark))
    return blocks


def shrink(code: str) -> str:
    for large, small in SMALLER.items():
        code = code.replace(large, small)
    return code


def run_blocks(page: Path, folder: Path, names: dict[str, Any], *, slow: bool = False) -> None:
    """Run what a reader would, in a folder."""
    for number, block in enumerate(read_blocks(page)):
        code = shrink(block.code)
        if block.title:
            (folder / block.title).write_text(code, encoding="utf-8")
        elif not block.mark or (slow and block.mark == "slow") or _has_torch(block):
            exec(compile(code, f"{page.name}, block {number}", "exec"), names)  # noqa: S102


def _has_torch(block: Block) -> bool:
    return block.mark == "torch" and importlib.util.find_spec("torch") is not None


def peak(signal: float, background: float, resolution: float) -> Any:
    """The density of the two-channel example."""

    def log_prob(x: Any, theta: Any) -> Any:
        share = signal * theta[0] / (signal * theta[0] + background)
        mass = x[0]
        tail = jnp.where(mass > 0, expon.pdf(jnp.maximum(mass, 0.0)), 0.0)
        return jnp.log(share * norm.pdf(mass, 1.0, resolution) + (1 - share) * tail)

    return log_prob


def mass_and_angle(x: Any, theta: Any) -> Any:
    """ln p of the signal over a background, up to a function of x."""
    mass, angle = x
    of_signal = norm.pdf(mass, 122.0, 5.0) * angle / (1 - angle)
    of_background = expon.pdf(jnp.maximum(mass - 50, 0.0) / 60) / 60
    ratio = of_signal / of_background
    return jnp.log((400 + 40 * theta[0] * ratio) / (400 + 40 * theta[0]))


def smooth(x: Any, theta: Any) -> Any:
    """Any potential with one maximum in θ, near 1, that moves with x."""
    return -jnp.sum((theta - 1 - 0.1 * jnp.tanh(x[0])) ** 2)


class ExactFit:
    """In place of `fit`: the exact potential of the simulator on the page, or a smooth one."""

    def __init__(self) -> None:
        self.channels: Iterator[tuple[float, float, float]] = iter(CHANNELS)
        self.trained: list[ist.Estimator] = []

    def __call__(self, events: Any, *_: object, **__: object) -> ist.Estimator:
        self.trained.append(self._choose(events))
        return self.trained[-1]

    def load(self, _: object) -> ist.Estimator:
        """In place of `load`: the exact potential is no network that a file could hold."""
        return self.trained[-1]

    def cross_fit(self, events: ist.Events, *, folds: int, seed: int) -> Any:
        del seed
        parts = [events[i::folds] for i in range(folds)]
        return [self._choose(part) for part in parts], parts

    def _choose(self, events: Any) -> ist.Estimator:
        prior = events.prior
        if events.theta_names == ("mu",) and len(events.x_names) == 1:
            density = peak(*next(self.channels))
            return exact_estimator(density, prior, np.array([-1.0]), np.array([20.0]))
        if prior is None or prior.names == ("a", "b", "c"):
            prior = prior or ist.Uniform([0.5] * 3, [5.0] * 3, names=["a", "b", "c"])
            return exact_estimator(dirichlet, prior, np.zeros(3), np.ones(3))
        density = mass_and_angle if events.x_names == ("mass", "angle") else smooth
        x = np.asarray(events.x)
        return exact_estimator(density, prior, x.min(0), x.max(0), x_names=events.x_names)
