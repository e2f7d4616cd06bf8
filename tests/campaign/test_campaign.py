"""Damaged files, odd inputs, kills and full disks: refused by a sentence, or harmless.

The whole campaign takes many minutes (`make test-slow`); a sample of it runs always.
"""

import pytest

from .inputs import ABSOLUTE
from .outcomes import FAULTS, Outcome
from .planted import PLANTED
from .process import Limits, run_part, table

#: What the campaign must have, at least.
FEWEST_FILES, FEWEST_INPUTS, KILLS = 2000, 60, 100

for package in ("flowjax", "numpyro", "h5py", "uproot", "pylhe", "pyhf", "iminuit"):
    pytest.importorskip(package)


def judge(parts: dict[str, list[Outcome]]) -> None:
    """Nothing may be raw, silent or a crash."""
    wrong = [one for outcomes in parts.values() for one in outcomes if one.kind in FAULTS]
    listed = "\n".join(f"{one.kind}: {one.name!a}: {one.detail!a}" for one in wrong[:50])
    assert not wrong, f"\n{table(parts)}\n{listed}"


@pytest.mark.slow
def test_a_sample_of_the_campaign() -> None:
    judge({"sample": run_part("quick")})


@pytest.mark.slow
def test_the_whole_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    parts = {part: run_part(part) for part in ("mutations", "public", "faults")}
    with capsys.disabled():
        print("\n" + table(parts))
    judge(parts)
    assert len(parts["mutations"]) >= FEWEST_FILES
    assert len(ABSOLUTE) >= FEWEST_INPUTS
    assert sum(one.name.startswith("kill ") for one in parts["faults"]) == KILLS
    # Kills that all came between two saves would show nothing.
    assert sum("1 partial files" in one.detail for one in parts["faults"]) >= KILLS // 20


@pytest.mark.slow
def test_planted_faults_of_every_class_are_found() -> None:
    limits = Limits(seconds=10, memory=1_000_000_000)
    found = {one.name: one for one in run_part("planted", limits=limits)}
    expected = {f"{function.__name__}: value = text": kind for function, kind in PLANTED.items()}
    assert {name: one.kind for name, one in found.items()} == expected
    assert "GB" in found["greedy: value = text"].detail
    assert "more than 10 s" in found["endless: value = text"].detail
