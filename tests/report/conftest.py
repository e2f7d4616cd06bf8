from typing import Any

import pytest

from report_results import make_results


@pytest.fixture(scope="session")
def results() -> dict[str, Any]:
    """One result of every kind, made once."""
    return make_results()
