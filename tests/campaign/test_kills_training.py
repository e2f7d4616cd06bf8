"""A fit that is killed again and again ends in the same weights."""

from pathlib import Path

import pytest

from .kills_training import Campaign, run_campaign


def judge(campaign: Campaign, kills: int) -> None:
    assert campaign.kills == kills, campaign
    assert set(campaign.found) == {campaign.whole}, campaign
    assert campaign.resumed > 0, campaign


@pytest.mark.slow
def test_twenty_kills_of_a_default_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = run_campaign(tmp_path, kills=20, effort=1.0, seed=2)
    with capsys.disabled():
        print(f"\n{campaign}")
    judge(campaign, 20)
    # Kills that all came before anything was kept would show nothing.
    assert campaign.resumed >= 10
