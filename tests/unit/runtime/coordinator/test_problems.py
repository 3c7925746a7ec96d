"""A sink's target that is away: seen by everyone, late for nobody, and never the end of the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainstay.connectors import Memory
from mainstay.errors import SinkError
from mainstay.runtime.connector import SinkContext
from mainstay.runtime.messages import AbortEpoch, Attempt, OutsideProblem
from mainstay.runtime.own_states import HANDLES
from mainstay.runtime.status import Problem
from mainstay.schema import rows_to_batch, to_schema
from mainstay.state.operator import to_units

Lead = Callable[..., Any]


def told(leader: Any, problem: Problem | None, subtask: int = 1, attempt: int = 1) -> None:
    leader.coordinator.receive(OutsideProblem(Attempt(attempt), "out", subtask, problem))


def away(waited_s: float = 3.0) -> Problem:
    return Problem("sink 'out', subtask 1", "has not confirmed epoch 2", "OSError: away", waited_s)


def seen(leader: Any) -> list[str]:
    return [str(problem) for problem in leader.coordinator.execution.problems()]


def test_a_problem_of_a_worker_is_seen_with_its_age_until_it_is_over(lead: Lead) -> None:
    leader = lead().run()
    assert seen(leader) == []
    told(leader, away(3.0))
    leader.pass_time(40.0)
    assert seen(leader) == [
        "sink 'out', subtask 1 has not confirmed epoch 2 for 43 s: OSError: away"
    ]
    assert leader.status == "running"
    told(leader, None)
    assert seen(leader) == []


def test_a_problem_of_another_attempt_is_not_believed(lead: Lead) -> None:
    leader = lead().run()
    told(leader, away(), attempt=7)
    assert seen(leader) == []


def test_problems_end_with_the_attempt(lead: Lead) -> None:
    leader = lead().run()
    told(leader, away())
    leader.lose_worker()
    assert seen(leader) == []
    leader.restart()
    leader.ready()
    assert seen(leader) == []


def test_no_epoch_is_late_while_a_target_is_away_and_each_has_its_time_afterwards(
    lead: Lead,
) -> None:
    leader = lead(timeout_s=60.0).run()
    epoch = leader.trigger()
    told(leader, away())
    for _ in range(100):
        leader.pass_time(30.0)
    assert leader.world.sent(AbortEpoch) == []
    told(leader, None)
    leader.pass_time(59.0)
    assert leader.world.sent(AbortEpoch) == []
    leader.pass_time(2.0)
    assert leader.world.sent(AbortEpoch, to=0) == [AbortEpoch(Attempt(1), epoch)]


# ---------------------------------------------------------------- sinks that are committed here


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """What the next commits raise."""
    errors: list[Exception] = []
    right = Memory.commit

    def commit(self: Any, handles: Any) -> None:
        if errors:
            raise errors.pop()
        right(self, handles)

    monkeypatch.setattr(Memory, "commit", commit)
    return errors


def complete_with_handle(leader: Any) -> None:
    """An epoch in which the first subtask of the sink has prepared a row."""
    epoch = leader.trigger()
    writer = Memory().open(SinkContext("out", 0, 1, "lineage"))
    writer.write(rows_to_batch([(1,)], to_schema("n long"), "a test"))
    units = to_units(HANDLES, [(epoch, writer.prepare(epoch))])
    leader.acknowledge(epoch, units={HANDLES.name: units})
    leader.world.background.drain()


def test_a_commit_that_fails_is_a_problem_until_it_works(
    lead: Lead, broken: list[Exception]
) -> None:
    leader = lead().run()
    broken += [ConnectionError("refused")] * 50
    complete_with_handle(leader)
    began = leader.world.clock.now
    while broken:
        age = leader.world.clock.now - began
        assert seen(leader) == [
            f"sink 'out' has not confirmed epoch 1 for {age:.0f} s: ConnectionError: refused"
        ]
        leader.pass_time(30.0)
        leader.world.background.drain()
        assert leader.status == "running"
    leader.pass_time(30.0)
    leader.world.background.drain()
    assert not any("sink" in line for line in seen(leader))


def test_a_commit_that_can_never_work_fails_the_attempt_at_once(
    lead: Lead, broken: list[Exception]
) -> None:
    leader = lead(max_failures=0).run()
    broken.append(SinkError("somebody has changed the target"))
    complete_with_handle(leader)
    assert leader.status == "failed"
    assert "somebody has changed the target" in str(leader.coordinator.error)


def test_a_job_whose_target_is_away_can_be_cancelled(lead: Lead, broken: list[Exception]) -> None:
    leader = lead().run()
    broken.append(ConnectionError("refused"))
    complete_with_handle(leader)
    leader.coordinator.cancel()
    assert leader.status == "cancelled"
    assert seen(leader) == []
