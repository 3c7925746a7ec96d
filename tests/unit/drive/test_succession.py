"""Several drivers of one job in this process: what each takes over from the one before it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError, JobFailedError, SessionStoppedError
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.object_storage import open_storage
from tests.unit.drive.test_embedded import (
    PATIENCE_S,
    Gated,
    Sum,
    Telling,
    check_complete,
    environment,
)
from tests.unit.drive.test_errors import await_true

LEASE = "2s"
"""Longer than a thread has to wait on a machine that is busy."""


class Job:
    """One job, of which any number of drivers can be started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source, self.sink = Gated(), Telling()
        self.handles: list[Any] = []

    def start(self, **settings: Any) -> Any:
        settings = {"ha": ms.HighAvailability(lease=LEASE), "parallelism": 2, **settings}
        env = environment(self.folder, **settings)
        keyed = env.source(self.source, uid="numbers").key_by("k")
        function = settings.get("function") or Sum()
        keyed.process(function, "k long, n long, total long", uid="sums").sink(self.sink, uid="out")
        self.handles.append(env.start("numbers"))
        return self.handles[-1]

    def pair(self, **settings: Any) -> tuple[Any, Any]:
        """The first of two drivers leads and has committed half of the rows."""
        leader = self.start(**settings)
        self.sink.await_half()
        standby = self.start()
        await_true(standby, lambda: standby.status == "standby" and bool(standby.leader))
        return leader, standby

    @property
    def slots(self) -> int:
        return read_history(open_storage(str(self.folder))).next_slot


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path)
    yield made
    for handle in made.handles:
        handle.cancel()


def crash(handle: Any) -> None:
    """End a driver as if it had been killed: its lease is not given back, and nothing is said."""
    election = handle._leadership._election
    campaign, election._campaign = election._campaign, None
    campaign._tenure = None
    campaign.told.lost()
    campaign._is_over.set()


ENDS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda job: job.stop(timeout=PATIENCE_S), "stopped"),
    (lambda job: job.cancel(), "cancelled"),
]


@pytest.mark.parametrize(("end", "status"), ENDS, ids=["stopped", "cancelled"])
def test_what_the_leader_was_asked_for_holds_for_the_driver_that_stood_by(
    job: Job, end: Callable[[Any], Any], status: str
) -> None:
    leader, standby = job.pair()
    end(leader)
    slots = job.slots
    assert standby.wait(PATIENCE_S) == status
    assert not standby.attempts()
    (told,) = standby.restored
    assert told.startswith(f"{status} in attempt 1, under the process that led the job before")
    assert job.slots == slots, "nothing was written"


def test_a_job_that_has_failed_for_good_is_not_run_on_by_a_driver_that_stood_by(job: Job) -> None:
    leader, standby = job.pair()
    leader.post(lambda: leader._leadership.fail(GraphError("there is no such table")))
    with pytest.raises(JobFailedError, match="no such table"):
        leader.wait(PATIENCE_S)
    with pytest.raises(JobFailedError, match=r"the process that led it before: .*no such table"):
        standby.wait(PATIENCE_S)
    assert not standby.attempts()


def test_a_driver_whose_session_was_stopped_leaves_the_job_to_the_other(job: Job) -> None:
    leader, standby = job.pair()
    leader.post(lambda: leader._leadership.fail(SessionStoppedError("the session was stopped")))
    with pytest.raises(JobFailedError, match="the session was stopped"):
        leader.wait(PATIENCE_S)
    assert leader.exit_code == 75
    await_true(standby, lambda: standby.status == "running")
    job.source.open_gate()
    assert standby.wait(PATIENCE_S) == "finished"
    check_complete(job.sink)


def test_a_leader_that_leaves_ends_its_attempt_and_the_other_goes_on(job: Job) -> None:
    leader, standby = job.pair()
    leader.post(leader._leadership.leave)
    leader._await_end(PATIENCE_S)
    assert leader.status == "standby"
    assert leader.attempts()[-1].reason == "the driver was told to end"
    await_true(standby, lambda: standby.status == "running")
    await_true(standby, lambda: bool(standby.failures()))
    assert [each.outcome for each in standby.failures()] == ["handed over"]
    job.source.open_gate()
    assert standby.wait(PATIENCE_S) == "finished"
    check_complete(job.sink)


def test_a_driver_on_standby_that_leaves_changes_nothing_for_the_leader(job: Job) -> None:
    leader, standby = job.pair()
    standby.post(standby._leadership.leave)
    standby._await_end(PATIENCE_S)
    assert standby.status == "standby"
    job.source.open_gate()
    assert leader.wait(PATIENCE_S) == "finished"
    assert len(leader.attempts()) == 1
    check_complete(job.sink)


def test_a_job_that_has_finished_is_finished_for_a_driver_that_stood_by(job: Job) -> None:
    leader, standby = job.pair()
    job.source.open_gate()
    assert leader.wait(PATIENCE_S) == "finished"
    assert standby.wait(PATIENCE_S) == "finished"
    assert not standby.attempts()
    check_complete(job.sink)


def test_a_job_that_was_stopped_before_a_driver_joined_goes_on_when_it_is_started(job: Job) -> None:
    first = job.start()
    job.sink.await_half()
    first.stop(timeout=PATIENCE_S)
    job.source.open_gate()
    second = job.start()
    assert second.wait(PATIENCE_S) == "finished"
    check_complete(job.sink)
    assert second.attempts()[0].restored_from is not None


def test_a_driver_takes_over_and_says_how_long_that_took(job: Job) -> None:
    leader, standby = job.pair()
    before = [each.epoch for each in leader.snapshots() if each.status == "complete"]
    crash(leader)
    await_true(standby, lambda: standby.status == "running")
    job.source.open_gate()
    assert standby.wait(PATIENCE_S) == "finished"
    check_complete(job.sink)
    (recovery,) = standby.recoveries()
    assert recovery.is_takeover
    assert recovery.wait_s >= 2.0, "the lease had to be over"
    assert recovery.failed_at < recovery.begun_at <= recovery.gathered_at <= recovery.running_at
    known = [each.epoch for each in standby.snapshots() if each.status == "complete"]
    assert known == sorted(set(known))
    assert set(before[-5:]) <= set(known), "the epochs of the leader before are known as well"


def test_a_driver_that_takes_over_goes_on_at_the_parallelism_that_the_job_has(job: Job) -> None:
    leader, standby = job.pair()
    leader.rescale(3, PATIENCE_S)
    rescaled = len(leader.snapshots())
    await_true(leader, lambda: len(leader.snapshots()) > rescaled + 1)
    crash(leader)
    await_true(standby, lambda: standby.status == "running")
    await_true(standby, lambda: standby.parallelism == 3)
    job.source.open_gate()
    assert standby.wait(PATIENCE_S) == "finished"
    check_complete(job.sink)


def test_a_driver_that_starts_first_goes_on_at_the_parallelism_that_it_asks_for(job: Job) -> None:
    first = job.start()
    job.sink.await_half()
    first.stop(timeout=PATIENCE_S)
    second = job.start(parallelism=3)
    await_true(second, lambda: second.status == "running")
    assert second.parallelism == 3


def test_a_driver_that_lost_the_lead_deletes_nothing_any_more(job: Job) -> None:
    leader, _ = job.pair()
    storage = leader._leadership.coordinator._ports.storage
    path = "state/x/a0001/s0000-1.msty"
    storage.write(path, b"x")
    crash(leader)
    with pytest.raises(ms.errors.NotLeadingError, match="does not lead any more"):
        storage.delete(path)
    assert storage.read(path) == b"x"


def test_in_doubt_no_epoch_is_completed_and_then_the_job_goes_on(job: Job) -> None:
    leader = job.start()
    job.sink.await_half()
    ear = leader._leadership._ear
    ear.doubted()
    await_true(leader, lambda: leader._leadership.is_in_doubt)
    assert "the lease of this process could not be renewed" in str(leader.problems()[0])
    slots = job.slots
    job.source.open_gate()
    threading.Event().wait(0.4)
    assert job.slots <= slots + 1, "what was under way when the doubt began may have been won"
    assert leader.status == "running"
    ear.assured()
    assert leader.wait(PATIENCE_S) == "finished"
    check_complete(job.sink)


def test_a_job_that_is_cancelled_in_doubt_is_not_run_on_by_a_driver_that_stood_by(job: Job) -> None:
    leader, standby = job.pair()
    ear = leader._leadership._ear
    ear.doubted()
    await_true(leader, lambda: leader._leadership.is_in_doubt)
    leader.post(leader._leadership.cancel)
    await_true(leader, lambda: leader.status == "cancelled")
    ear.assured()
    assert standby.wait(PATIENCE_S) == "cancelled"
    assert not standby.attempts()


def test_two_drivers_that_start_at_once_come_to_one_result(job: Job) -> None:
    job.source.open_gate()
    drivers = [job.start(), job.start()]
    assert [driver.wait(PATIENCE_S) for driver in drivers] == ["finished", "finished"]
    check_complete(job.sink)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ms.HighAvailability(lease="10ms"), "a lease is at least 1 s"),
        (lambda: ms.HighAvailability(store=""), "must be a directory, a URL or ZooKeeper"),
        (lambda: ms.HighAvailability(store="memory://"), "no other process can see"),
        (
            lambda: ms.HighAvailability(store=ms.ZooKeeper("zk:2181"), lease="20s"),
            r"Set ZooKeeper\(session='20s'\) instead",
        ),
        (lambda: ms.ZooKeeper(""), "needs its servers"),
        (lambda: ms.ZooKeeper("zk:2181", path="jobs"), "a path from the root"),
        (lambda: ms.ZooKeeper("zk:2181", options=["tls"]), "a dictionary"),  # type: ignore[arg-type]
        (lambda: ms.Environment(ha="yes"), r"as in ha=HighAvailability\("),  # type: ignore[arg-type]
    ],
)
def test_a_setting_that_cannot_work_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        make()


def test_snapshots_that_no_other_process_can_see_are_refused(job: Job, tmp_path: Path) -> None:
    env = ms.Environment(
        spark="embedded", snapshots=ms.Snapshots("memory://"), ha=ms.HighAvailability()
    )
    env.source(job.source, uid="numbers").sink(job.sink, uid="out")
    with pytest.raises(GraphError, match="memory:// is in this process alone"):
        env.start("numbers")
