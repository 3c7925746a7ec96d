"""Two processes for one job: one leads, the other stands by and takes over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainstay.drive.embedded import EmbeddedJob
from mainstay.errors import FencedError, NotLeadingError, SavepointError
from mainstay.ha.election import Election
from mainstay.runtime.options import JobOptions
from mainstay.snapshot.object_storage import open_storage
from tests.elections import Candidate
from tests.unit.drive.test_embedded import (
    PATIENCE_S,
    Gated,
    Sum,
    Telling,
    check_complete,
    environment,
)
from tests.unit.drive.test_errors import await_true

Start = Callable[..., EmbeddedJob]


@pytest.fixture
def process(tmp_path: Path) -> Any:
    """Start the job as one of several processes would; those that live at the end are cancelled."""
    source, sink = Gated(), Telling()
    jobs: list[EmbeddedJob] = []

    def start(election: Election | None = None, restore: str = "new") -> EmbeddedJob:
        env = environment(tmp_path, restore=restore)
        keyed = env.source(source, uid="numbers").key_by("k")
        keyed.process(Sum(), "k long, n long, total long", uid="sums").sink(sink, uid="out")
        assert env.snapshots is not None
        options = JobOptions(
            "numbers", "numbers", env.snapshots.parsed(), env.restart.parsed(), env.restore
        )
        jobs.append(
            EmbeddedJob("numbers", env.plan(), options, open_storage(str(tmp_path)), None, election)
        )
        return jobs[-1]

    start.source, start.sink = source, sink  # type: ignore[attr-defined]
    yield start
    for job in jobs:
        job.cancel()


@pytest.fixture
def pair(process: Any) -> tuple[EmbeddedJob, Candidate, EmbeddedJob, Candidate]:
    """The first of two processes leads, and has committed half of the rows."""
    first, second = Candidate(), Candidate()
    leader, standby = process(first), process(second)
    first.elect()
    process.sink.await_half()
    return leader, first, standby, second


def becomes(job: EmbeddedJob, status: str) -> None:
    await_true(job, lambda: job.status == status)


def test_a_process_on_standby_takes_over_and_no_row_is_lost_or_counted_twice(
    process: Any, pair: Any
) -> None:
    leader, first, standby, second = pair
    assert (leader.status, standby.status) == ("running", "standby")
    first.lose()
    second.elect()
    becomes(leader, "standby")
    becomes(standby, "running")
    process.source.open_gate()
    assert standby.wait(PATIENCE_S) == "finished"
    check_complete(process.sink)
    assert standby.attempts()[0].restored_from is not None
    assert leader.attempts()[-1].reason == "this process does not lead any more"


def test_a_leader_that_nobody_told_is_fenced_by_the_log_and_stands_by(
    process: Any, pair: Any, caplog: pytest.LogCaptureFixture
) -> None:
    leader, first, standby, second = pair
    second.elect()
    becomes(leader, "standby")
    becomes(standby, "running")
    told = "job 'numbers' is on standby: another driver has taken over"
    await_true(leader, lambda: told in caplog.text)
    assert "it is not tried again" not in caplog.text
    assert first.campaigns == 2, "it stands for election again"
    process.source.open_gate()
    assert standby.wait(PATIENCE_S) == "finished"
    check_complete(process.sink)


def test_the_lead_comes_back_to_a_process_that_has_lost_it(process: Any, pair: Any) -> None:
    leader, first, standby, second = pair
    first.lose()
    second.elect()
    becomes(standby, "running")
    second.lose()
    first.elect()
    becomes(leader, "running")
    becomes(standby, "standby")
    process.source.open_gate()
    assert leader.wait(PATIENCE_S) == "finished"
    check_complete(process.sink)
    before, after = leader.attempts()
    assert after.attempt > before.attempt + 1, "the other process had one in between"
    epochs = [record.epoch for record in leader.snapshots() if record.status == "complete"]
    assert epochs == sorted(set(epochs))


def test_a_process_that_is_elected_when_the_job_has_finished_finishes_as_well(
    process: Any, pair: Any
) -> None:
    leader, _, standby, second = pair
    process.source.open_gate()
    assert leader.wait(PATIENCE_S) == "finished"
    rows = process.sink.rows()
    second.elect()
    assert standby.wait(PATIENCE_S) == "finished"
    assert process.sink.rows() == rows
    assert not standby.attempts()


def test_what_only_a_leader_can_do_is_refused_on_standby_and_the_rest_is_answered(
    tmp_path: Path, pair: Any
) -> None:
    _, _, standby, _ = pair
    for ask in (
        lambda: standby.savepoint(tmp_path / "saved", PATIENCE_S),
        lambda: standby.stop(timeout=PATIENCE_S),
    ):
        with pytest.raises(NotLeadingError, match="this process does not lead job 'numbers'"):
            ask()
    assert standby.status == "standby"
    assert not standby.is_over
    assert not standby.metrics()
    assert not standby.problems()
    assert not standby.snapshots()
    assert standby.restored == ()
    assert "standby (the other one leads), no epoch yet" in repr(standby)
    assert standby.wait(0.01) == "standby"


def test_a_job_on_standby_can_be_cancelled_and_the_leader_goes_on(process: Any, pair: Any) -> None:
    leader, _, standby, _ = pair
    standby.cancel()
    assert standby.status == "cancelled"
    process.source.open_gate()
    assert leader.wait(PATIENCE_S) == "finished"
    check_complete(process.sink)


def test_a_savepoint_that_is_asked_for_is_answered_when_the_lead_is_lost(
    process: Any, tmp_path: Path, pair: Any
) -> None:
    leader, first, _, _ = pair
    answers: list[Exception | None] = []

    def ask() -> None:
        current = leader._leadership.coordinator
        assert current is not None
        current.stop(str(tmp_path / "saved"), answers.append)
        first.lose()

    leader.post(ask)
    await_true(leader, lambda: bool(answers))
    becomes(leader, "standby")
    (answer,) = answers
    assert isinstance(answer, SavepointError)
    assert "was not written: this process does not lead the job any more" in str(answer)


def test_a_process_that_is_alone_fails_when_another_one_takes_its_job(
    process: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mainstay")
    first = process()
    process.sink.await_half()
    second = process(restore="latest")
    with pytest.raises(FencedError, match="another driver has taken over job 'numbers'"):
        first.wait(PATIENCE_S)
    assert first.status == "failed"
    process.source.open_gate()
    assert second.wait(PATIENCE_S) == "finished"
    check_complete(process.sink)
