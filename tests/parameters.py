"""Lists of parameters of which a few are tested every time, and all by `make test-slow`."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(names: Iterable[str], *quick: str) -> list[Any]:
    """All names, marked as slow but for some."""
    found = list(names)
    assert set(quick) <= set(found), f"{set(quick) - set(found)} are no parameters"
    return [name if name in quick else slow(name) for name in found]


def slow(*values: Any) -> Any:
    """One row of parameters, marked as slow."""
    return pytest.param(*values, marks=pytest.mark.slow)
