"""Attempts that fail, and the ones after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstay.errors import FencedError, JobFailedError, SourceError, UserFunctionError
from mainstay.runtime.messages import (
    AbortEpoch,
    Attempt,
    EpochComplete,
    Ready,
    Trigger,
    WorkerFailed,
)
from mainstay.snapshot.commitlog import claim_slot, read_history
from mainstay.snapshot.history import Begin
from mainstay.state.keygroups import HASH_ID

Lead = Callable[..., Any]


def starts(leader: Any) -> list[tuple[int, int | None]]:
    """Each attempt and what it was restored from."""
    return [(record.attempt, record.restored_from) for record in leader.coordinator.attempts]


def take_over(storage: Any) -> None:
    history = read_history(storage)
    begin = Begin(history.next_attempt, "B", None, "lineage", "words", 128, HASH_ID, 50)
    claim_slot(storage, history, begin, "B-claim")


def test_a_lost_worker_ends_the_attempt_as_a_whole(lead: Lead) -> None:
    leader = lead().run()
    leader.trigger()
    leader.lose_worker()
    assert leader.status == "restarting"
    assert leader.events("stop") == [("stop", 1)]
    record = leader.coordinator.attempts[-1]
    assert record.reason == "worker 1 of attempt 1 was lost: it was killed"
    assert record.ended_at is not None
    assert leader.outcomes() == [(1, "failed")]


def test_the_next_attempt_starts_from_the_latest_epoch_after_a_wait(lead: Lead) -> None:
    leader = lead(backoff_s=2.0).run()
    leader.complete()
    leader.complete()
    leader.lose_worker()
    leader.pass_time(1.9)
    leader.world.background.drain()
    assert leader.status == "restarting"
    leader.pass_time(0.1)
    leader.world.background.drain()
    assert leader.status == "launching"
    assert starts(leader) == [(1, None), (2, 2)]
    assert leader.events("launch") == [("launch", 1), ("launch", 2)]
    assert leader.ready().status == "running"


def test_an_attempt_without_any_epoch_is_started_afresh(lead: Lead) -> None:
    leader = lead().run()
    leader.lose_worker()
    leader.restart()
    assert starts(leader) == [(1, None), (2, None)]
    assert leader.cluster.deployments[-1].restored == {}


def test_a_history_that_has_vanished_is_not_begun_anew(lead: Lead) -> None:
    leader = lead().run()
    leader.world.storage._files.clear()
    leader.lose_worker()
    leader.restart()
    assert leader.status == "failed"
    assert "has vanished" in str(leader.coordinator.error)


def test_a_worker_that_fails_before_all_are_ready_ends_the_attempt(lead: Lead) -> None:
    leader = lead().start()
    leader.coordinator.receive(Ready(Attempt(1), 0))
    leader.lose_worker()
    assert leader.status == "restarting"


def test_a_second_failure_of_the_same_attempt_is_not_counted(lead: Lead) -> None:
    leader = lead(max_failures=1).run()
    leader.lose_worker(0)
    leader.lose_worker(1)
    assert leader.status == "restarting"
    leader.restart()
    assert leader.status == "launching"
    leader.coordinator.receive(WorkerFailed(Attempt(1), 0, OSError("long gone")))
    assert leader.status == "launching"


def test_the_wait_grows_with_each_failure_and_is_short_again_after_an_epoch(lead: Lead) -> None:
    leader = lead(backoff_s=1.0).run()
    waits = []
    for _ in range(3):
        leader.lose_worker()
        waits.append(leader.coordinator.deadline() - leader.world.clock.now)
        leader.restart()
        leader.ready()
    leader.complete()
    leader.lose_worker()
    waits.append(leader.coordinator.deadline() - leader.world.clock.now)
    assert waits == [1.0, 2.0, 4.0, 1.0]


def test_one_failure_too_many_ends_the_job_with_its_cause(lead: Lead) -> None:
    leader = lead(max_failures=1).run()
    leader.lose_worker()
    leader.restart()
    cause = OSError("the disk is gone")
    leader.coordinator.receive(WorkerFailed(Attempt(2), 0, cause))
    assert leader.status == "failed"
    assert isinstance(leader.coordinator.error, JobFailedError)
    assert leader.coordinator.error.__cause__ is cause
    assert "the disk is gone" in str(leader.coordinator.error)
    leader.world.background.drain()
    assert leader.coordinator.deadline() is None


def test_an_error_of_user_code_is_handed_on_as_it_is(lead: Lead) -> None:
    leader = lead(max_failures=0).run()
    error = UserFunctionError("totals", 1, "ValueError: negative", "traceback")
    leader.coordinator.receive(WorkerFailed(Attempt(1), 1, error))
    assert leader.coordinator.error is error


def test_attempt_and_epoch_numbers_are_not_used_again(lead: Lead) -> None:
    leader = lead().run()
    leader.complete()
    assert leader.trigger() == 2
    leader.lose_worker()
    leader.restart()
    leader.ready()
    assert leader.attempt == 2
    assert leader.trigger() == 3
    leader.lose_worker()
    leader.restart()
    leader.ready()
    assert leader.complete() == 4
    assert leader.epochs() == [1, 4]


def test_an_epoch_of_the_old_attempt_cannot_be_completed_in_the_new_one(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    leader.lose_worker()
    leader.acknowledge(epoch, attempt=1)
    leader.restart()
    leader.ready()
    leader.acknowledge(epoch, attempt=1)
    leader.acknowledge(epoch, attempt=2)
    leader.world.background.drain()
    assert leader.epochs() == []


# ---------------------------------------------------------------- commits under way


def test_an_epoch_whose_slot_is_won_after_the_attempt_failed_counts(lead: Lead) -> None:
    leader = lead().run()
    leader.acknowledge(leader.trigger())
    leader.world.background.run_one()
    won = leader.world.background.take().perform()
    leader.lose_worker()
    won()
    leader.world.background.drain()
    assert leader.outcomes() == [(1, "complete")]
    assert leader.world.sent(EpochComplete) == []
    leader.restart()
    assert starts(leader) == [(1, None), (2, 1)]


def test_a_restart_waits_for_a_claim_of_unknown_outcome(lead: Lead) -> None:
    leader = lead(backoff_s=0.05).run()
    epoch = leader.trigger()
    leader.world.storage.fail("create", "log/", "unknown-done")
    leader.world.storage.fail("read", "log/")
    leader.acknowledge(epoch)
    leader.world.background.drain()
    leader.lose_worker()
    leader.world.background.drain()
    leader.pass_time(0.1)
    assert leader.world.background.queue == []
    assert starts(leader) == [(1, None)]
    leader.pass_time(1.0)
    leader.world.background.drain()
    leader.coordinator.tick()
    leader.world.background.drain()
    assert starts(leader) == [(1, None), (2, 1)]


def test_an_epoch_whose_manifest_was_still_being_written_does_not_count(lead: Lead) -> None:
    leader = lead().run()
    leader.acknowledge(leader.trigger())
    written = leader.world.background.take().perform()
    leader.lose_worker()
    written()
    leader.world.background.drain()
    leader.restart()
    assert starts(leader) == [(1, None), (2, None)]
    assert leader.epochs() == []


def test_every_triggered_epoch_has_a_record_in_the_end(lead: Lead) -> None:
    leader = lead().run()
    leader.acknowledge(leader.trigger())
    written = leader.world.background.take().perform()
    leader.lose_worker()
    written()
    leader.restart()
    assert leader.outcomes() == [(1, "failed")]


def test_a_slot_that_is_lost_after_the_attempt_failed_fences_all_the_same(lead: Lead) -> None:
    leader = lead().run()
    leader.acknowledge(leader.trigger())
    leader.world.background.run_one()
    take_over(leader.world.storage)
    leader.lose_worker()
    leader.world.background.drain()
    assert leader.status == "failed"
    assert isinstance(leader.coordinator.error, FencedError)
    leader.pass_time(1000.0)
    leader.world.background.drain()
    assert starts(leader) == [(1, None)]


# ---------------------------------------------------------------- another leader


def test_a_leader_that_was_replaced_does_not_take_the_job_back_when_it_restarts(
    lead: Lead,
) -> None:
    leader = lead().run()
    leader.lose_worker()
    take_over(leader.world.storage)
    leader.restart()
    assert leader.status == "failed"
    assert isinstance(leader.coordinator.error, FencedError)
    assert read_history(leader.world.storage).next_slot == 2
    assert leader.events("launch") == [("launch", 1)]


def test_a_begin_that_is_lost_to_another_leader_fences(lead: Lead) -> None:
    leader = lead().run()
    leader.lose_worker()
    leader.pass_time(1.0)
    leader.world.background.run_one()
    take_over(leader.world.storage)
    leader.world.background.drain()
    assert isinstance(leader.coordinator.error, FencedError)
    assert leader.events("launch") == [("launch", 1)]


# ---------------------------------------------------------------- storage and sources


def test_a_begin_that_cannot_be_stored_is_tried_again(lead: Lead) -> None:
    leader = lead().run()
    leader.lose_worker()
    leader.world.storage.fail("create", "log/")
    leader.restart()
    assert leader.status == "restarting"
    leader.restart()
    assert leader.status == "launching"
    assert [attempt for attempt, _ in starts(leader)] == [1, 2]


def test_a_source_that_cannot_be_planned_ends_the_attempt(lead: Lead) -> None:
    leader = lead(max_failures=0).start()
    for worker in (0, 1):
        leader.coordinator.receive(Ready(Attempt(1), worker))
    leader.world.background.take().fail(OSError("no such topic"))
    assert leader.status == "failed"
    cause = leader.coordinator.error
    assert isinstance(cause, SourceError)
    assert "source 'rows' cannot be planned" in str(cause)
    assert "no such topic" in str(cause)


def test_a_plan_that_fails_after_its_attempt_has_ended_changes_nothing(lead: Lead) -> None:
    leader = lead(max_failures=1).start()
    for worker in (0, 1):
        leader.coordinator.receive(Ready(Attempt(1), worker))
    planning = leader.world.background.take()
    leader.lose_worker()
    leader.pass_time(1.0)
    planning.fail(OSError("no such topic"))
    leader.world.background.drain()
    assert leader.status == "launching"
    assert leader.events("stop") == [("stop", 1)]
    leader.pass_time(100.0)
    leader.world.background.drain()
    assert leader.events("launch") == [("launch", 1), ("launch", 2)]


def test_the_old_attempt_is_told_nothing_after_its_end(lead: Lead) -> None:
    leader = lead().run()
    leader.trigger()
    leader.lose_worker()
    leader.world.forget()
    leader.restart()
    leader.pass_time(100.0)
    kinds = (AbortEpoch, EpochComplete, Trigger)
    assert [m for kind in kinds for m in leader.world.sent(kind) if m.attempt == 1] == []
