"""The verdict on a job: what is the matter, why, and what would help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mainstay.serve.bottleneck import Bottleneck
from mainstay.serve.documents import EpochDocument, ProblemDocument
from mainstay.serve.health import health_of
from mainstay.serve.verdict import Standing, verdict_of

NOW = 1_000_000.0
WELL = Standing(
    status="running",
    now=NOW,
    since_at=NOW - 600,
    epoch=17,
    last_epoch_at=NOW - 4,
    every_s=10.0,
    rows_in_per_s=12_345.6,
)
LIMIT = Bottleneck("'totals', subtask 1", ["'orders' is held back 80% of the time."], "Do less.")


def problem(text: str = "'out' has not answered for 7 s: refused") -> ProblemDocument:
    return ProblemDocument(subject="'out'", what="x", error="refused", waited_s=7.0, text=text)


def epoch(number: int, status: str = "complete", cause: str = "", **more: Any) -> EpochDocument:
    return EpochDocument(
        epoch=number,
        attempt=1,
        status=status,
        begun_at=NOW,
        duration_s=more.get("duration_s", 0.1),
        size_bytes=1,
        in_flight_rows=0,
        is_unaligned=False,
        cause=cause,
        is_kept=False,
    )


def test_a_job_that_runs_says_how_quick_it_is() -> None:
    verdict = verdict_of(WELL)
    assert verdict.is_well
    assert verdict.headline == "Running, 12,346 rows/s, epoch 17 complete 4 s ago."
    assert verdict.because == []


def test_before_the_first_epoch_it_says_so() -> None:
    young = replace(WELL, epoch=None, last_epoch_at=None, since_at=NOW - 3)
    assert verdict_of(young).headline == "Running, 12,346 rows/s, before its first epoch."


@pytest.mark.parametrize(
    ("status", "is_well", "headline"),
    [
        ("finished", True, "The job has finished at epoch 17."),
        ("stopped", True, "The job has been stopped at epoch 17."),
        ("cancelled", True, "The job was cancelled at epoch 17."),
        ("failed", False, "The job has failed at epoch 17."),
        ("standby", True, "This process stands by; another one may lead."),
        ("starting", True, "The job is starting."),
        ("launching", True, "The job is starting."),
        ("restarting", False, "The job is restarting at epoch 17."),
    ],
)
def test_every_status_has_its_sentence(status: str, is_well: bool, headline: str) -> None:
    verdict = verdict_of(replace(WELL, status=status))
    assert (verdict.is_well, verdict.headline) == (is_well, headline)


def test_what_failed_says_why_and_how_to_go_on() -> None:
    verdict = verdict_of(replace(WELL, status="failed", error="row 400 is wrong", epoch=None))
    assert verdict.because == ["row 400 is wrong"]
    assert verdict.remedy == "Mend the cause. Start it again with restore='latest-or-new'."


def test_a_restart_after_a_failure_is_not_well() -> None:
    verdict = verdict_of(replace(WELL, status="restarting", problems=[problem("attempt 1 failed")]))
    assert (verdict.is_well, verdict.because) == (False, ["attempt 1 failed"])
    told = verdict_of(replace(WELL, status="restarting", attempt_ended="worker 1 was lost"))
    assert (told.is_well, told.because) == (False, ["worker 1 was lost"])


def test_a_restart_for_a_rescale_is_well() -> None:
    verdict = verdict_of(replace(WELL, status="restarting", attempt_ended="rescaled"))
    assert verdict.is_well
    assert verdict.headline == "The job is being rescaled at epoch 17."


def test_who_leads_is_named_on_standby() -> None:
    verdict = verdict_of(replace(WELL, status="standby", leader="host-b:77"))
    assert verdict.headline == "This process stands by; host-b:77 leads the job."


def test_a_problem_comes_before_all_else() -> None:
    found = [problem(), problem("'in' has read nothing for 9 s")]
    verdict = verdict_of(replace(WELL, problems=found, bottleneck=LIMIT))
    assert not verdict.is_well
    assert verdict.headline == "'out' has not answered for 7 s: refused."
    assert verdict.because == ["'in' has read nothing for 9 s"]


def test_epochs_that_fail_are_counted_with_their_causes() -> None:
    epochs = [epoch(1), epoch(2, "failed", "too slow"), epoch(3, "failed", "too slow")]
    verdict = verdict_of(replace(WELL, epochs=[*epochs, epoch(4, "pending")]))
    assert not verdict.is_well
    assert verdict.headline == "The last 2 epochs have failed."
    assert verdict.because == ["too slow"]
    assert verdict_of(replace(WELL, epochs=[*epochs, epoch(4)])).is_well


def test_an_epoch_is_missed_after_three_intervals_and_not_before() -> None:
    assert verdict_of(replace(WELL, last_epoch_at=NOW - 29)).is_well
    late = replace(
        WELL,
        last_epoch_at=NOW - 31,
        epochs=[epoch(18, "pending", duration_s=21.0)],
        bottleneck=LIMIT,
    )
    verdict = verdict_of(late)
    assert not verdict.is_well
    assert verdict.headline == ("No epoch has been complete for 31 s; they are taken every 10 s.")
    assert verdict.because[0] == "Epoch 18 has been under way for 21 s."
    assert verdict.because[1] == "The job is limited by 'totals', subtask 1."
    assert verdict.remedy == "Do less."


def test_it_is_not_late_while_it_has_only_just_begun_to_run() -> None:
    assert verdict_of(replace(WELL, last_epoch_at=NOW - 3600, since_at=NOW - 2)).is_well
    assert verdict_of(replace(WELL, every_s=0.01)).is_well  # not before five seconds


def test_what_limits_a_job_is_named_and_no_trouble() -> None:
    verdict = verdict_of(replace(WELL, bottleneck=LIMIT))
    assert verdict.is_well
    assert verdict.headline == "Running, limited by 'totals', subtask 1."
    assert (verdict.because, verdict.remedy) == (LIMIT.because, "Do less.")


# ---------------------------------------------------------------- readiness


@pytest.mark.parametrize(
    ("standing", "role", "reason"),
    [
        (WELL, "leader", ""),
        (replace(WELL, problems=[problem()]), "leader", ""),
        (replace(WELL, status="standby"), "standby", "This process stands by."),
        (replace(WELL, status="launching"), "leader", "The job is launching."),
        (
            replace(WELL, last_epoch_at=NOW - 31),
            "leader",
            "No epoch has been complete for 31 s; they are taken every 10 s.",
        ),
    ],
)
def test_a_job_is_ready_if_it_is_led_runs_and_takes_epochs(
    standing: Standing, role: str, reason: str
) -> None:
    health = health_of(standing)
    assert (health.is_ready, health.role, health.reason) == (not reason, role, reason)


HELD = "Worker 1 has not reported for 4 s: a call of one of its functions has not returned."


def test_a_call_that_does_not_return_is_said_before_an_epoch_is_missed() -> None:
    verdict = verdict_of(replace(WELL, held=HELD))
    assert (verdict.is_well, verdict.headline) == (False, HELD)


def test_a_call_that_does_not_return_is_why_an_epoch_is_missed() -> None:
    late = verdict_of(replace(WELL, held=HELD, last_epoch_at=NOW - 100))
    assert late.headline.startswith("No epoch has been complete for 100 s")
    assert late.because == [HELD]
    troubled = verdict_of(replace(WELL, held=HELD, problems=[problem()]))
    assert troubled.because == [HELD]
