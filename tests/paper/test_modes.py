"""Every way to take a snapshot, in its smallest form: right results, also after a crash."""

from __future__ import annotations

import os
import signal

import pytest

import mainstay as ms
from benchmarks.paper.conductor import Conductor
from benchmarks.paper.modes import MODES, NONE, Mode
from benchmarks.paper.running import Case, Running, measure, running
from mainstay.bench.progress import manifest_of, records_at
from mainstay.bench.running import SOURCE
from mainstay.errors import GraphError
from mainstay.snapshot.object_storage import open_storage

CASE = Case(keys=500, workers=2, shuffles=2, every_s=0.05)
STOPPING = ["stop-the-world", "drain, durable", "drain", "micro-batches"]
TAKING = [name for name in MODES if name != NONE.name]


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_mode_gives_the_results_of_the_reference(mode: Mode) -> None:
    found = measure(CASE, mode, seconds=0.1, pace=2000.0)
    assert found.is_right
    assert found.full["rows_per_s"] > 0
    assert found.paced["p50_ms"] <= found.paced["p99_ms"] <= found.paced["p100_ms"]
    assert found.full["cycles"] >= 1
    if mode is not NONE:
        assert found.full["epoch_bytes"] > 0
        assert (found.full["stopped_ms"] > 0) == (mode.name in STOPPING)
        assert (found.full["took_ms"] >= found.full["stopped_ms"]) or mode.name == "drain"


@pytest.mark.parametrize("name", STOPPING)
def test_an_epoch_holds_what_was_given_before_the_sources_stopped_and_nothing_else(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    plain = Conductor.open

    def open_noting(conductor: Conductor) -> None:
        given.append(conductor.rows_given)
        plain(conductor)

    monkeypatch.setattr(Conductor, "open", open_noting)
    with running(CASE, MODES[name]) as found:
        found.await_cycles(4)
        found.conductor.end()
        last = found.conductor.cycles[-1].epoch
        assert last is not None
        manifest = manifest_of(open_storage(found.directory), last)
        assert records_at(manifest, SOURCE) == given[-1] > given[0]


def test_the_world_is_drained_before_its_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way = []
    plain = Conductor.snapshot

    def snapshot_noting(conductor: Conductor) -> int:
        arrived = conductor.rows_arrived
        under_way.append(conductor.rows_given - arrived)
        epoch = plain(conductor)
        under_way.append(conductor.rows_arrived - arrived)
        return epoch

    monkeypatch.setattr(Conductor, "snapshot", snapshot_noting)
    with running(CASE, MODES["stop-the-world"]) as found:
        found.await_cycles(3)
    assert len(under_way) >= 6
    assert set(under_way) == {0}


def test_a_drain_that_does_not_block_goes_on_before_its_epoch_is_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The states of all subtasks are taken, and the epoch may be anything but in the log."""
    cut = []
    plain = Conductor.open

    def open_noting(conductor: Conductor) -> None:
        cut.append(conductor.board.sinks["epoch"].tolist())
        plain(conductor)

    monkeypatch.setattr(Conductor, "open", open_noting)
    with running(CASE, MODES["drain"]) as found:
        found.await_cycles(3)
        epochs = [cycle.epoch for cycle in found.conductor.cycles]
        took = [cycle.took_s - cycle.stopped_s for cycle in found.conductor.cycles]
    assert cut[: len(epochs)] == [[epoch, epoch] for epoch in epochs]
    assert all(rest > 0 for rest in took)


@pytest.mark.parametrize("name", MODES)
def test_a_mode_recovers_from_a_crash_at_any_time(name: str) -> None:
    with running(CASE, MODES[name]) as found:
        found.await_true(lambda: found.conductor.rows_given > 0, "rows")
        if name != NONE.name:
            found.await_cycles(2)
        _crash(found)
        found.stop()
    assert found.is_right


@pytest.mark.parametrize("name", TAKING)
def test_a_mode_recovers_from_a_crash_in_the_middle_of_its_snapshot(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sources stand still, or a batch has been read, and the epoch is asked for."""
    plain = Conductor.snapshot
    killed = []

    def snapshot_in_a_crash(conductor: Conductor) -> int:
        if len(conductor.cycles) == 2 and not killed:
            killed.append(_kill(conductor._job))
        return plain(conductor)

    monkeypatch.setattr(Conductor, "snapshot", snapshot_in_a_crash)
    with running(CASE, MODES[name]) as found:
        found.await_true(lambda: bool(killed), "the crash")
        found.await_true(lambda: len(found.job.recoveries()) == 1, "the recovery")
        found.await_cycles(2)
        found.stop()
    assert found.is_right


def _crash(found: Running) -> None:
    _kill(found.job)
    found.await_true(lambda: len(found.job.recoveries()) == 1, "the recovery")
    found.await_cycles(2)


def _kill(job) -> int:
    _, pid = job.workers()[1]
    os.kill(pid, signal.SIGKILL)
    return pid


@pytest.mark.parametrize("name", [*STOPPING, "pipelined", "none"])
def test_no_job_can_ask_for_such_a_mode(name: str) -> None:
    with pytest.raises(GraphError, match="exactly_once"):
        ms.Environment(mode=name)
