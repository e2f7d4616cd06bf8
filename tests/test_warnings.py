"""Warnings: at the user's line, once for each cause, and never hidden from who asks for all."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import inferostatic as ist
from inferostatic.inputs import NUMBERS, warn_user

#: What a user runs, with Python's own filters; texts go to the standard error.
SCRIPT = """
import warnings
from inferostatic.inputs import warn_user
{head}
for part in (3.25, 4.5, 1e-7):
    warn_user(f"{{part:.1%}} of the events lie outside, in rows {{part:g}}, 7. Simulate wider.")
    warn_user("theta0 is fixed.")
    warn_user("theta1 is fixed.")
warn_user("2.0% of the events lie outside, in rows 5, 7. Simulate wider.")
"""


def run(head: str = "") -> list[str]:
    """The warnings of a fresh process, in their order."""
    command = [sys.executable, "-c", SCRIPT.format(head=head)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return [
        line.partition("UserWarning: ")[2] for line in answer.stderr.splitlines() if "UserW" in line
    ]


def test_a_cause_is_named_once_for_each_line() -> None:
    assert run() == [
        "325.0% of the events lie outside, in rows 3.25, 7. Simulate wider.",
        "theta0 is fixed.",
        "theta1 is fixed.",
        "2.0% of the events lie outside, in rows 5, 7. Simulate wider.",
    ]


def test_all_are_shown_to_who_asks_for_them() -> None:
    assert len(run('warnings.simplefilter("always")')) == 10
    assert run('warnings.simplefilter("ignore")') == []


def test_a_warning_after_other_filters_is_shown_again() -> None:
    def warn(number: int) -> None:
        warn_user(f"{number} events are left out. Repair them.")

    for number in (1, 2):
        with pytest.warns(UserWarning, match=f"{number} events"):
            warn(number)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match=f"{number} events"):
                warn(number)


def test_numbers_of_names_are_no_numbers() -> None:
    assert NUMBERS.sub("#", "x1 is 3.2e-05 in row 4") == "x1 is # in row #"
    assert NUMBERS.sub("#", "in rows 1, 2, 13 (1,024 in all)") == "in rows # (# in all)"
    assert NUMBERS.sub("#", "from -1.5 to +2%") == "from # to #"


def test_the_line_is_the_user_s() -> None:
    with pytest.warns(UserWarning, match="float32") as found:
        ist.Events(x=np.array([[2**40], [2**41]]), theta=[1.0])
    assert {one.filename for one in found} == {__file__}
