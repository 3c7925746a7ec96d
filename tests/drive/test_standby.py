"""Two drivers of one job with workers in processes of their own: the lead passes between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drive.ledger import PATIENCE_S, LedgerJob, await_until, complete_epochs
from tests.elections import Candidate


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "fenced_by_the_log"])
def test_the_lead_passes_to_another_driver_and_back_and_every_id_counts_once(
    is_told: bool, tmp_path: Path
) -> None:
    ledger = LedgerJob(tmp_path, count=18_000, workers=2)
    first, second = Candidate(), Candidate()
    one, other = ledger.start(election=first), ledger.start(election=second)
    try:
        first.elect()
        await_until(lambda: complete_epochs(one) >= 2, "the first driver has completed epochs")
        assert other.status == "standby"
        if is_told:
            first.lose()
        second.elect()
        await_until(lambda: complete_epochs(other) >= 2, "the second driver has completed epochs")
        assert one.status == "standby"
        assert not one.workers()
        if is_told:
            second.lose()
        first.elect()
        assert one.wait(PATIENCE_S) == "finished"
        ledger.check()
        assert len(one.attempts()) == 2
        assert other.attempts()[0].restored_from is not None
        await_until(lambda: other.status == "standby", "the second driver stands by")
    finally:
        one.cancel()
        other.cancel()
