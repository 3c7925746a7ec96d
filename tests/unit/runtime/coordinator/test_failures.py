"""Which failures end a job at once, and what is known of those that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainstay.errors import (
    GraphError,
    LinkError,
    MainstayError,
    SinkError,
    SnapshotStorageError,
    SourceError,
    StateTypeError,
    UserFunctionError,
)
from mainstay.runtime.messages import Attempt, Ready, Release, Released, WorkerFailed

Lead = Callable[..., Any]


def fail(leader: Any, error: Exception, worker: int = 1) -> None:
    leader.coordinator.receive(WorkerFailed(leader.attempt, worker, error))


def in_open() -> UserFunctionError:
    return UserFunctionError("totals", 1, "OSError: away", "Traceback", "open")


@pytest.mark.parametrize("kind", [GraphError, StateTypeError, SourceError, SinkError])
def test_what_no_restart_heals_ends_the_job_at_once(lead: Lead, kind: type[MainstayError]) -> None:
    leader = lead().run()
    leader.complete()
    fail(leader, kind("it is wrong"))
    assert leader.status == "failed"
    assert leader.coordinator.chronicle.failures[-1].why_last == "no restart heals this"


@pytest.mark.parametrize("error", [SnapshotStorageError("away"), LinkError("broke"), OSError("?")])
def test_what_may_heal_is_tried_again(lead: Lead, error: Exception) -> None:
    leader = lead().run()
    fail(leader, error)
    assert leader.status == "restarting"


def test_a_single_error_may_say_otherwise_than_its_class(lead: Lead) -> None:
    leader = lead().run()
    error = SourceError("lost")
    error.is_final = False
    fail(leader, error)
    assert leader.status == "restarting"


def test_a_failing_open_ends_the_first_start_alone(lead: Lead) -> None:
    first = lead().start()
    fail(first, in_open())
    assert first.status == "failed"


def test_a_failing_open_is_tried_again_once_the_job_has_worked(lead: Lead) -> None:
    leader = lead().run()
    leader.complete()
    leader.lose_worker()
    leader.restart()
    fail(leader, in_open())
    assert leader.status == "restarting"


def test_storage_that_is_away_at_the_start_is_tried_again_and_says_so(lead: Lead) -> None:
    leader = lead()
    leader.world.storage.fail("create", "log/")
    leader.start()
    assert leader.status == "restarting"
    now = leader.world.clock.now
    text = str(leader.coordinator.chronicle.setback.as_problem(now))
    assert text.startswith("the start of the job failed: ")
    assert text.endswith("it is tried again in 1.0 s")


def test_a_setback_says_what_is_next_until_an_epoch_is_complete(lead: Lead) -> None:
    leader = lead(backoff_s=2.0).run()
    leader.complete()
    leader.lose_worker()

    def seen() -> str:
        return str(leader.coordinator.chronicle.setback.as_problem(leader.world.clock.now))

    begun = "attempt 1 failed: worker 1 of attempt 1 was lost: it was killed; attempt 2"
    assert seen() == f"{begun} begins in 2.0 s, from epoch 1"
    leader.restart()
    assert seen() == f"{begun} has begun, from epoch 1"
    leader.ready()
    assert leader.coordinator.chronicle.setback is not None
    leader.complete()
    assert leader.coordinator.chronicle.setback is None
    assert len(leader.coordinator.chronicle.failures) == 1


# ---------------------------------------------------------------- the end in good order


def finish(leader: Any) -> None:
    leader.end_all()
    leader.acknowledge(1)
    leader.world.background.drain()
    leader.confirm(1)
    leader.world.background.drain()
    assert len(leader.world.sent(Release)) == 2


def status(leader: Any) -> str:
    """Without the answers that ``leader.status`` gives for the workers."""
    return str(leader.coordinator.status.value)


def test_a_job_has_finished_when_every_worker_has_closed_its_functions(lead: Lead) -> None:
    leader = lead().run()
    finish(leader)
    leader.coordinator.receive(Released(Attempt(1), 0, "OSError: in use"))
    assert status(leader) == "running"
    leader.coordinator.receive(Released(Attempt(1), 1))
    assert status(leader) == "finished"
    assert list(leader.coordinator.chronicle.troubles) == [
        "worker 0 could not close its functions: OSError: in use"
    ]


def test_a_worker_that_never_says_so_is_waited_for_only_so_long(lead: Lead) -> None:
    leader = lead().run()
    finish(leader)
    due = leader.coordinator.deadline()
    leader.pass_time(due - leader.world.clock.now)
    assert status(leader) == "finished"


def test_a_worker_that_is_lost_while_it_closes_changes_nothing(lead: Lead) -> None:
    leader = lead().run()
    finish(leader)
    leader.lose_worker(0)
    leader.lose_worker(1)
    assert status(leader) == "finished"


def test_a_cancel_of_a_job_that_is_done_but_for_the_closing_finds_it_finished(lead: Lead) -> None:
    leader = lead().run()
    finish(leader)
    leader.coordinator.cancel()
    assert status(leader) == "finished"


def test_workers_that_are_not_ready_yet_can_be_cancelled(lead: Lead) -> None:
    leader = lead().start()
    leader.coordinator.receive(Ready(Attempt(1), 0))
    leader.coordinator.cancel()
    assert leader.world.sent(Release) == [Release(Attempt(1), in_good_order=False)] * 2
