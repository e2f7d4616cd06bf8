"""A study whose process is killed again and again ends with the same numbers in its report."""

from pathlib import Path

import pytest

from .kills_study import REPORT, STEPS, Campaign, count_numbers, run_campaign


def judge(campaign: Campaign, kills: int) -> None:
    assert len(campaign.under_way) == kills, campaign
    assert all(found == campaign.whole for found in campaign.found), campaign
    assert count_numbers(campaign.whole) > 10


@pytest.mark.slow
def test_two_kills(tmp_path: Path) -> None:
    judge(run_campaign(tmp_path, kills=2, seed=1, small=True), 2)


@pytest.mark.slow
def test_twenty_kills(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = run_campaign(tmp_path, kills=20, seed=2, small=False)
    with capsys.disabled():
        print(f"\n{campaign}")
    judge(campaign, 20)
    # Kills that all came before anything was kept, or into one step, would show nothing.
    assert campaign.resumed >= 15, campaign
    assert {*STEPS, REPORT} <= set(campaign.under_way), campaign
