"""Every way to take a snapshot, in its smallest form: right results, also after a crash.

Every run starts processes, so that each test looks at all that one run shows.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

import pytest

import mainstay as ms
from benchmarks.paper.conductor import Conductor
from benchmarks.paper.modes import MODES, NONE, Mode
from benchmarks.paper.running import Case, Running, measure, running
from mainstay.bench.progress import manifest_of, records_at
from mainstay.bench.running import SOURCE
from mainstay.drive.remote_job import RemoteJob
from mainstay.errors import GraphError
from mainstay.snapshot.object_storage import open_storage

CASE = Case(keys=500, workers=2, shuffles=2, every_s=0.1)
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


@dataclass(frozen=True, slots=True)
class Noted:
    """How things stood when the sources were about to go on."""

    given: int
    arrived: int
    cut: list[int]


@pytest.mark.parametrize("name", STOPPING)
def test_the_sources_go_on_when_the_mode_says_so(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Noted] = []
    asked: list[int] = []
    open_sources, snapshot = Conductor.open, Conductor.snapshot

    def open_noting(conductor: Conductor) -> None:
        cut = conductor.board.sinks["epoch"].tolist()
        opened.append(Noted(conductor.rows_given, conductor.rows_arrived, cut))
        open_sources(conductor)

    def snapshot_noting(conductor: Conductor) -> int:
        asked.append(conductor.rows_given - conductor.rows_arrived)
        return snapshot(conductor)

    monkeypatch.setattr(Conductor, "open", open_noting)
    monkeypatch.setattr(Conductor, "snapshot", snapshot_noting)
    with running(CASE, MODES[name]) as found:
        found.await_cycles(4)
        found.conductor.end()
        cycles = found.conductor.cycles
        manifest = manifest_of(open_storage(found.directory), cycles[-1].epoch or 0)
    # The epoch is that of what was given by then, and all of that has come through.
    assert records_at(manifest, SOURCE) == opened[-1].given > opened[0].given
    assert all(each.given == each.arrived for each in opened)
    assert [each.cut for each in opened] == [[cycle.epoch] * 2 for cycle in cycles]
    if name == "stop-the-world":
        assert set(asked) == {0}  # nothing is under way when the epoch is asked for
    if name == "drain":
        assert all(cycle.took_s > cycle.stopped_s for cycle in cycles)


@pytest.mark.parametrize("name", TAKING)
def test_a_mode_recovers_from_crashes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One at any time; one while the sources stand still, or a batch is read, and an epoch is about
    to be asked for."""
    snapshot = Conductor.snapshot
    is_armed, killed = [False], []

    def snapshot_in_a_crash(conductor: Conductor) -> int:
        if is_armed[0] and not killed:
            killed.append(_kill(conductor._job))
        return snapshot(conductor)

    monkeypatch.setattr(Conductor, "snapshot", snapshot_in_a_crash)
    with running(CASE, MODES[name]) as found:
        found.await_cycles(2)
        _kill(found.job)
        _await_recovery(found, 1)
        is_armed[0] = True
        found.await_true(lambda: bool(killed), "the second crash")
        _await_recovery(found, 2)
        found.stop()
    assert found.is_right


def _await_recovery(found: Running, number: int) -> None:
    """The job runs again, goes on, and takes its snapshots."""
    found.await_true(lambda: len(found.job.recoveries()) == number, "the recovery")
    found.await_true(lambda: found.conductor.rows_given > 0, "rows")
    found.await_cycles(2)


def _kill(job: RemoteJob) -> int:
    _, pid = job.workers()[1]
    os.kill(pid, signal.SIGKILL)
    return pid


@pytest.mark.parametrize("name", [*STOPPING, "pipelined", "none"])
def test_no_job_can_ask_for_such_a_mode(name: str) -> None:
    with pytest.raises(GraphError, match="exactly_once"):
        ms.Environment(mode=name)
