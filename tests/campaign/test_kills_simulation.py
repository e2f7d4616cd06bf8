"""A store whose processes are killed again and again is that of an undisturbed run."""

from pathlib import Path

import pytest

from .kills_simulation import Campaign, run_campaign


def judge(campaign: Campaign, kills: dict[str, int]) -> None:
    assert {target: campaign.kills[target] for target in kills} == kills, campaign
    assert all(parts == campaign.whole for _, parts in campaign.found), campaign
    assert len(campaign.whole) == 61


@pytest.mark.slow
def test_twenty_kills(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    kills = {"process": 6, "pool": 5, "worker": 5, "scheduler": 4}
    campaign = run_campaign(tmp_path, kills=kills, seed=2)
    with capsys.disabled():
        print(f"\n{campaign}")
    judge(campaign, kills)
    # Kills that all came before anything was kept would show nothing.
    assert campaign.resumed >= 8, campaign
