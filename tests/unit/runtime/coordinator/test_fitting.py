"""With how many workers a job is started, and when it gets more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainstay.runtime.coordinator import fitting
from mainstay.runtime.coordinator.fitting import CALM_S, LOOK_S, WAIT_S, Fitting
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import Status
from tests.unit.runtime.coordinator.conftest import FakeCluster, Leader, plan

PLANS = {number: plan(number) for number in range(1, 5)}


class Case:
    """A job that asks for four workers, and may be run with two."""

    def __init__(self, world: Any, room: int | None, least: int | None = 2) -> None:
        self.world = world
        self.cluster = FakeCluster([], [], room)
        self.given: list[int] = []
        self.grown: list[int] = []
        self.fitting = Fitting(
            PLANS[4], world.ports, self.cluster, self._grow, least, PLANS.__getitem__
        )

    def _grow(self, job: JobSpec) -> None:
        self.grown.append(job.workers)

    def fit(self) -> Case:
        self.fitting.fit(lambda job: self.given.append(job.workers))
        self.world.background.drain()
        return self

    def wait(self, seconds: float, status: Status = Status.RESTARTING) -> None:
        """Let time pass as the coordinator does, from one deadline to the next."""
        until = self.world.clock.now + seconds
        while (due := self.fitting.deadline()) is not None and due <= until:
            self.world.clock.advance(max(0.0, due - self.world.clock.now))
            self.fitting.tick(self.world.clock.now, status)
            self.world.background.drain()
        self.world.clock.advance(until - self.world.clock.now)
        self.fitting.tick(self.world.clock.now, status)
        self.world.background.drain()

    def run(self, seconds: float) -> None:
        self.wait(seconds, Status.RUNNING)

    @property
    def problems(self) -> list[str]:
        return [str(each) for each in self.fitting.problems(self.world.clock.now)]


Make = Callable[..., Case]
Lead = Callable[..., Leader]


@pytest.fixture
def case(world: Any) -> Make:
    return lambda *arguments, **named: Case(world, *arguments, **named)


def test_with_room_for_all_it_is_started_at_once(case: Make) -> None:
    job = case(room=4).fit()
    assert (job.given, job.problems) == ([4], [])


def test_where_room_cannot_be_told_it_is_started_at_once(case: Make) -> None:
    job = case(room=None).fit()
    assert job.given == [4]
    assert job.fitting.deadline() is None


def test_too_little_room_is_waited_for_and_what_is_replaced_meanwhile_counts(case: Make) -> None:
    job = case(room=2).fit()
    job.wait(WAIT_S / 2)
    assert job.given == []
    assert job.problems == [
        "the job has waited for slots for 5 s: it needs 4, one for each worker, and there are 2"
    ]
    job.cluster.places = 4
    job.wait(LOOK_S)
    assert (job.given, job.problems) == ([4], [])


@pytest.mark.parametrize(("room", "workers"), [(3, 3), (2, 2), (1, 2), (0, 2)])
def test_after_the_wait_it_is_started_with_as_many_as_there_is_room_for(
    case: Make, room: int, workers: int
) -> None:
    job = case(room=room).fit()
    job.wait(WAIT_S + LOOK_S)
    assert job.given == [workers]
    assert job.fitting.is_reduced
    assert f"has run with {workers} of its 4 workers" in job.problems[0]
    assert job.problems[0].endswith(f"there are {room} slots")


def test_a_job_that_may_not_be_run_with_fewer_is_started_and_says_what_it_lacks(case: Make) -> None:
    job = case(room=3, least=None).fit()
    assert job.given == [4]
    job.wait(LOOK_S, Status.LAUNCHING)
    assert job.problems[0].endswith("it needs 4, one for each worker, and there are 3")
    job.run(0.0)
    assert job.problems == []
    assert job.fitting.deadline() is None


def reduced(case: Make) -> Case:
    job = case(room=2).fit()
    job.wait(WAIT_S + LOOK_S)
    assert job.given == [2]
    return job


def test_it_grows_when_there_has_been_room_for_a_while(case: Make) -> None:
    job = reduced(case)
    job.run(100.0)
    assert job.grown == []
    job.cluster.places = 3
    job.run(CALM_S)
    assert job.grown == []
    job.run(2 * LOOK_S)
    assert job.grown == [3]


def test_room_that_comes_and_goes_is_not_taken(case: Make) -> None:
    job = reduced(case)
    for _ in range(5):
        job.cluster.places = 4
        job.run(CALM_S - 2 * LOOK_S)
        job.cluster.places = 2
        job.run(2 * LOOK_S)
    assert job.grown == []


def test_each_time_it_has_grown_it_waits_longer_before_it_does_again(case: Make) -> None:
    job = reduced(case)
    waits = []
    for _ in range(8):
        job.cluster.places = 4
        began = job.world.clock.now
        while not job.grown:
            job.run(LOOK_S)
        waits.append(job.world.clock.now - began)
        job.grown.clear()
        job.fitting.rescaled(PLANS[4])
        job.cluster.places = 2
        job.fit()
        job.wait(WAIT_S + LOOK_S)
    assert waits == sorted(waits)
    assert waits[1] > 1.5 * waits[0]
    assert waits[-1] <= fitting.MOST_CALM_S + 3 * LOOK_S


def test_what_it_has_grown_to_is_not_what_is_asked_for(case: Make) -> None:
    job = reduced(case)
    job.cluster.places = 3
    job.run(CALM_S + 3 * LOOK_S)
    job.fitting.rescaled(PLANS[3])
    assert job.fitting.asked is PLANS[4]


def test_what_a_user_rescales_to_is_asked_for(case: Make) -> None:
    job = case(room=4).fit()
    job.fitting.rescaled(PLANS[3])
    assert job.fitting.asked is PLANS[3]
    job.cluster.places = 3
    assert job.fit().given == [4, 3]


def test_a_plan_of_another_leader_is_asked_for_if_it_is_larger(case: Make) -> None:
    job = case(room=4)
    job.fitting.took(PLANS[2])
    assert job.fitting.asked is PLANS[4]
    assert job.fitting.is_reduced
    other = plan(5)
    job.fitting.took(other)
    assert job.fitting.asked is other


def test_where_spark_cannot_be_asked_nothing_waits(case: Make) -> None:
    job = case(room=2)

    def broken() -> int:
        raise RuntimeError("the session was stopped")

    job.cluster.room = broken  # type: ignore[method-assign]
    assert job.fit().given == [4]


# ---------------------------------------------------------------- under a coordinator


def test_an_attempt_after_a_loss_is_launched_with_fewer_workers_and_restored_for_them(
    lead: Lead,
) -> None:
    leader = lead(min_parallelism=1).run()
    epoch = leader.complete()
    leader.cluster.places = 1
    leader.lose_worker()
    leader.restart()
    assert len(leader.cluster.deployments) == 1, "room for two workers is waited for"
    assert "it needs 2" in str(leader.coordinator.problems()[0])
    for _ in range(12):
        leader.pass_time(LOOK_S)
        leader.world.background.drain()
    deployment = leader.cluster.deployments[-1]
    assert deployment.job.workers == 1
    assert leader.coordinator.attempts[-1].restored_from == epoch
    assert {subtask for _, subtask in deployment.restored} == {0}
