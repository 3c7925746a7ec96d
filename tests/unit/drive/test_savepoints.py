"""Savepoints, stops and rescales of jobs in this process, as a job's author writes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import (
    GraphError,
    HistoryExistsError,
    JobFailedError,
    RestoreError,
    SavepointError,
)
from tests.unit.drive.test_embedded import (
    HALF,
    KEYS,
    PATIENCE_S,
    Gated,
    Telling,
    check_complete,
    environment,
    opened,
    start,
)


def test_a_savepoint_is_parquet_that_stands_by_itself(tmp_path: Path) -> None:
    source, sink = Gated(), Telling()
    job = start(tmp_path / "a", source, sink)
    sink.await_half()
    path = job.savepoint(tmp_path / "saved", PATIENCE_S)
    assert path == str(tmp_path / "saved")
    assert job.status == "running"
    table = pq.read_table(f"{path}/state/sums/total").to_pydict()
    sums = {key: sum(range(key, HALF, KEYS)) for key in range(KEYS)}
    assert dict(zip(table["key"], table["value"], strict=True)) == sums
    text = "".join(p.read_bytes().decode("latin-1") for p in Path(path).rglob("*") if p.is_file())
    assert str(tmp_path) not in text, "no path of this machine is in it"
    source.open_gate()
    assert job.wait(PATIENCE_S) == "finished"
    check_complete(sink)


@pytest.mark.parametrize("backends", [("heap", "heap"), ("heap", "rocks"), ("rocks", "heap")])
def test_a_stopped_job_goes_on_from_its_savepoint_with_any_backend(
    tmp_path: Path, backends: tuple[str, str]
) -> None:
    states = {"heap": lambda: "heap", "rocks": lambda: ms.RocksDB(directory=tmp_path / "db")}
    if "rocks" in backends:
        pytest.importorskip("rocksdict")
    source, sink = Gated(), Telling()
    job = start(tmp_path / "a", source, sink, parallelism=2, state=states[backends[0]]())
    sink.await_half()
    saved = job.stop(tmp_path / "saved", timeout=PATIENCE_S)
    assert job.wait(PATIENCE_S) == "stopped"
    assert len(sink.rows()) == HALF
    source.open_gate()
    restored = start(
        tmp_path / "b", source, sink, parallelism=5, restore=saved, state=states[backends[1]]()
    )
    assert restored.wait(PATIENCE_S) == "finished"
    check_complete(sink)


@pytest.mark.parametrize("drain", [False, True])
def test_a_stopped_job_goes_on_in_its_directory(tmp_path: Path, drain: bool) -> None:
    source, sink = Gated(), Telling()
    job = start(tmp_path, source, sink)
    sink.await_half()
    assert job.stop(drain=drain, timeout=PATIENCE_S) is None
    assert job.status == "stopped"
    source.open_gate()
    assert start(tmp_path, source, sink, restore="latest").wait(PATIENCE_S) == "finished"
    check_complete(sink)


@pytest.mark.parametrize("parallelism", [1, 4])
def test_a_rescale_goes_on_at_another_parallelism(tmp_path: Path, parallelism: int) -> None:
    source, sink = Gated(), Telling()
    job = start(tmp_path, source, sink, parallelism=2)
    sink.await_half()
    assert job.parallelism == 2
    job.rescale(parallelism, PATIENCE_S)
    assert (job.parallelism, job.status) == (parallelism, "running")
    assert {worker for _, worker in job.metrics()} <= set(range(parallelism))
    source.open_gate()
    assert job.wait(PATIENCE_S) == "finished"
    check_complete(sink)
    first, second = job.attempts()
    assert first.reason == "rescaled"
    assert second.restored_from is not None


def test_an_operator_with_a_parallelism_of_its_own_keeps_it(tmp_path: Path) -> None:
    env = environment(tmp_path, parallelism=2)
    rows = env.source(Gated(), uid="numbers", parallelism=2)
    keyed = rows.key_by(lambda row: row.k, "long")
    keyed.reduce(max, uid="most").sink(Memory(), uid="out", parallelism=1)
    at_two, at_five = env.graph(), env.graph().at(5)
    widths = {operator.name: operator.parallelism for operator in at_five.operators}
    assert widths["source"] == 2, "it was given the job's number, but by name"
    assert widths["key_by"] == 2, "it is in the chain of the source"
    assert widths["reduce"] == 5
    assert widths["sink"] == 1
    assert {o.parallelism for o in at_two.operators if o.name == "reduce"} == {2}


@pytest.mark.parametrize("parallelism", [0, 129, "2", None, True])
def test_a_rescale_to_what_cannot_be_changes_nothing(tmp_path: Path, parallelism: Any) -> None:
    job = start(tmp_path, opened(), Telling())
    with pytest.raises(GraphError, match=r"rescale\(.*parallelism="):
        job.rescale(parallelism)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 1


def test_a_job_that_is_over_says_so(tmp_path: Path) -> None:
    job = start(tmp_path / "a", opened(), Telling())
    job.wait(PATIENCE_S)
    for ask in (lambda: job.savepoint(tmp_path / "s"), lambda: job.rescale(3)):
        with pytest.raises(JobFailedError, match=r"job 'numbers' is over \(finished\)"):
            ask()
    assert not (tmp_path / "s").exists()


def test_an_answer_that_does_not_come_in_time_is_not_waited_for(tmp_path: Path) -> None:
    job = start(tmp_path, Gated(), Telling())
    with pytest.raises(TimeoutError, match="did not answer within 0 s"):
        job.savepoint(tmp_path / "s", 0)
    job.cancel()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_target_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    target = tmp_path / "s"
    target.mkdir(mode=0o500)
    job = start(tmp_path / "a", Gated(), Telling())
    with pytest.raises(SavepointError, match="cannot write"):
        job.stop(target, timeout=PATIENCE_S)
    assert job.status == "running"
    job.cancel()


# ---------------------------------------------------------------- where to start from


def test_a_place_without_a_savepoint_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(RestoreError, match=r"there is no savepoint at .*nothing"):
        start(tmp_path / "a", Gated(), Telling(), restore=tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "empty").mkdir()
    job = start(tmp_path / "a", Gated(), Telling(), restore=str(tmp_path / "empty"))
    with pytest.raises(RestoreError, match=r"it has no savepoint\.json"):
        job.wait(PATIENCE_S)


def test_a_directory_with_a_history_is_not_started_from_a_savepoint(tmp_path: Path) -> None:
    source, sink = Gated(), Telling()
    job = start(tmp_path / "a", source, sink)
    sink.await_half()
    saved = job.stop(tmp_path / "saved", timeout=PATIENCE_S)
    again = start(tmp_path / "a", source, sink, restore=saved)
    with pytest.raises(HistoryExistsError, match='restore="latest"'):
        again.wait(PATIENCE_S)


def test_another_number_of_key_groups_is_refused_with_the_remedy(tmp_path: Path) -> None:
    source, sink = Gated(), Telling()
    job = start(tmp_path / "a", source, sink)
    sink.await_half()
    saved = job.stop(tmp_path / "saved", timeout=PATIENCE_S)
    other = start(tmp_path / "b", source, sink, restore=saved, max_parallelism=256)
    with pytest.raises(RestoreError, match=r"set max_parallelism=128, or rewrite"):
        other.wait(PATIENCE_S)


def test_a_retained_epoch_of_another_directory_can_be_started_from(tmp_path: Path) -> None:
    source, sink = Gated(), Telling()
    job = start(tmp_path / "a", source, sink)
    sink.await_half()
    job.stop(timeout=PATIENCE_S)
    epoch = max(record.epoch for record in job.snapshots() if record.status == "complete")
    source.open_gate()
    restored = start(tmp_path / "b", source, sink, restore=f"{tmp_path / 'a'}#{epoch}")
    assert restored.wait(PATIENCE_S) == "finished"
    check_complete(sink)
