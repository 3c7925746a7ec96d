"""What a leader tells of failures, its own and those of the leaders before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstay.errors import SourceError, UserFunctionError
from mainstay.runtime.coordinator.failure_history import SILENT
from mainstay.runtime.failure_record import FailureRecord
from mainstay.runtime.messages import WorkerFailed
from mainstay.snapshot.failures import KEPT_FAILURES, read_failures

Lead = Callable[..., Any]


def told(leader: Any) -> list[FailureRecord]:
    leader.world.background.drain()
    return leader.coordinator.chronicle.past.records


def fail(leader: Any, error: Exception, worker: int = 1) -> None:
    leader.coordinator.receive(WorkerFailed(leader.attempt, worker, error))


def test_an_error_of_a_function_is_told_with_its_place_and_what_is_done(lead: Lead) -> None:
    leader = lead(backoff_s=2.0).run()
    leader.complete()
    fail(leader, UserFunctionError("totals", 1, "KeyError: 'b'", "File job.py, line 3\n"))
    (record,) = told(leader)
    assert (record.attempt, record.operator, record.subtask, record.worker) == (1, "totals", 1, 1)
    assert (record.outcome, record.next_attempt, record.from_epoch) == ("restarted", 2, 1)
    assert record.traceback == "File job.py, line 3\n"
    assert str(record) == (
        "attempt 1 ended in operator 'totals', subtask 1: KeyError: 'b'; "
        "restarted after 2.0 s: attempt 2, from epoch 1"
    )


def test_a_worker_that_is_lost_is_named_once(lead: Lead) -> None:
    leader = lead(backoff_s=1.0).run()
    leader.coordinator.workers_lost(leader.attempt, "it was killed", 0)
    (record,) = told(leader)
    assert str(record) == (
        "attempt 1 ended in worker 0: it was killed; "
        "restarted after 1.0 s: attempt 2, from the beginning"
    )


def test_why_a_job_was_given_up_is_told(lead: Lead) -> None:
    leader = lead().run()
    fail(leader, SourceError("there is no such topic"))
    (record,) = told(leader)
    assert record.outcome == "given up"
    assert record.done == "given up, because no restart heals this"


def test_failures_are_known_to_the_leaders_after(lead: Lead) -> None:
    first = lead("first", max_failures=1, backoff_s=0.1).run()
    fail(first, OSError("away"))
    first.restart()
    fail(first, OSError("away again"))
    before = list(told(first))
    assert [each.outcome for each in before] == ["restarted", "given up"]
    second = lead("second", restore="latest-or-new").run()
    assert told(second) == before


def test_a_leader_that_died_is_told_of_by_its_successor_once(lead: Lead) -> None:
    first = lead("first").run()
    first.complete()
    first.world.forget()
    second = lead("second", restore="latest").run()
    (record,) = told(second)
    assert (record.attempt, record.cause, record.outcome) == (1, SILENT, "taken over")
    assert (record.next_attempt, record.from_epoch) == (2, 1)
    second.coordinator.cancel()
    second.world.background.drain()
    third = lead("third", restore="latest").run()
    assert told(third) == [record], "a job that was cancelled has not failed"


def test_a_leader_that_was_replaced_leaves_it_to_its_successor_to_say_so(lead: Lead) -> None:
    first = lead("first").run()
    first.coordinator.depose()
    assert told(first) == []
    assert read_failures(first.world.storage) == []


def test_what_cannot_be_stored_is_shown_and_the_job_goes_on(lead: Lead) -> None:
    leader = lead(backoff_s=0.1).run()
    leader.world.storage.fail("write", "failures/")
    fail(leader, OSError("away"))
    assert len(told(leader)) == 1
    leader.restart()
    assert leader.attempt == 2


def test_the_newest_failures_alone_are_kept_in_memory(lead: Lead) -> None:
    history = lead().run().coordinator.chronicle.past
    for attempt in range(KEPT_FAILURES + 5):
        history.handed_over(attempt)
    assert [each.attempt for each in history.records] == list(range(5, KEPT_FAILURES + 5))
