"""Jobs that are very old: numbers beyond 32 and 53 bits, long histories, folders full of strays."""

from __future__ import annotations

import io
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import FileSink, Generate, read_committed
from mainstay.snapshot import graphs as graphs_module
from mainstay.snapshot import layout, statistics
from mainstay.snapshot.commitlog import Begin, EpochCommitted, claim_slot, read_history
from mainstay.snapshot.failures import KEPT_FAILURES, StoredFailure, read_failures, write_failure
from mainstay.snapshot.graphs import Graph, GraphTask, read_graph, write_graph
from mainstay.snapshot.history import Finished, History
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.statistics import (
    KEPT_CHUNKS,
    EpochStatistics,
    read_statistics,
    write_statistics,
)
from mainstay.survey.command import Request, run_snapshots

PATIENCE_S = 60.0
KEYS = 7
AGES = {"31 bits": 1 << 31, "53 bits": 1 << 53, "a digit more": 10**10 - 1}


class Count(ms.KeyedProcess):
    """Counts the rows of each key."""

    n = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.get() or 0) + 1)
        return ctx.key, self.n.get()


def numbered(first: int, count: int) -> pa.RecordBatch:
    return pa.record_batch({"k": [n % KEYS for n in range(first, first + count)]})


def finished(folder: Path, rows: int) -> Any:
    """The job, run until so many rows are counted."""
    env = ms.Environment(
        spark="embedded",
        snapshots=ms.Snapshots(folder / "snapshots", every="20ms"),
        restore="latest-or-new",
    )
    stream = env.source(Generate("k long", numbered, end=rows), uid="rows").key_by("k")
    stream.process(Count(), "k long, n long", uid="count").sink(FileSink(folder / "out"), uid="out")
    job = env.start("old")
    assert job.wait(PATIENCE_S, progress=False) == "finished"
    return job


def grown_old(folder: Path, epoch: int) -> None:
    """As if the job had gone on until this epoch, at an attempt with as large a number."""
    storage = open_storage(str(folder / "snapshots"))
    history = read_history(storage)
    begin, latest = history.last_begin, history.latest_epoch
    assert begin is not None
    assert latest is not None
    older = replace(
        begin, attempt=(1 << 31) + 5, restored_from=latest.epoch, next_epoch=epoch, leader="older"
    )
    claim_slot(storage, history, older, "older")


def check(folder: Path, rows: int) -> None:
    found = read_committed(folder / "out").to_pylist()
    assert Counter((row["k"], row["n"]) for row in found) == Counter(
        (key, n + 1) for key in range(KEYS) for n in range(len(range(key, rows, KEYS)))
    )


@pytest.mark.parametrize("age", AGES)
def test_a_job_goes_on_beyond_every_width_of_a_number(tmp_path: Path, age: str) -> None:
    finished(tmp_path, 100)
    grown_old(tmp_path, AGES[age])
    job = finished(tmp_path, 200)
    assert job.snapshots()[-1].epoch >= AGES[age]
    finished(tmp_path, 300)
    check(tmp_path, 300)
    answer = ms.connect(tmp_path / "snapshots").query("count.n", key=1)
    assert answer.value == len(range(1, 300, KEYS))
    shown = report_of(tmp_path / "snapshots")
    assert str(job.snapshots()[-1].epoch) in shown.replace(",", "")


def report_of(place: Path) -> str:
    """What ``mainstay snapshots`` prints."""
    from rich.console import Console

    out = io.StringIO()
    run_snapshots(Console(file=out, width=200), str(place), Request(), lambda _: False)
    return out.getvalue()


# ---------------------------------------------------------------- files by number

CROSSING = 10**10
"""From here on numbers have more digits than names are padded to."""


def statistics_of(epoch: int) -> EpochStatistics:
    return EpochStatistics(epoch, 1, "complete", 0.0, 0.1, 10, 0.0, 0.0, 0.0)


def test_the_newest_statistics_are_kept_where_numbers_get_a_digit_more() -> None:
    storage, first = MemoryStorage(), CROSSING - KEPT_CHUNKS // 2
    for epoch in range(first, first + KEPT_CHUNKS + 10):
        write_statistics(storage, [statistics_of(epoch)])
    found = [each.epoch for each in read_statistics(storage)]
    assert found == list(range(first + 10, first + KEPT_CHUNKS + 10))
    assert [each.epoch for each in read_statistics(storage, 3)] == found[-3:]


def graph(name: str) -> Graph:
    return Graph((), (), (GraphTask(name, (), 1),))


def test_the_newest_graph_is_shown_where_attempts_get_a_digit_more() -> None:
    storage = MemoryStorage()
    for attempt in range(CROSSING - 2, CROSSING + 3):
        write_graph(storage, attempt, graph(str(attempt)))
    assert read_graph(storage) == graph(str(CROSSING + 2))
    assert len(storage.list("graphs/")) == graphs_module.KEPT_GRAPHS


def test_the_newest_failures_are_kept_where_attempts_get_a_digit_more() -> None:
    storage, first = MemoryStorage(), CROSSING - KEPT_FAILURES // 2
    for attempt in range(first, first + KEPT_FAILURES + 5):
        write_failure(storage, StoredFailure(attempt, 0.0, "a1b2", "why", "restarted"), 1)
    found = [each.attempt for each in read_failures(storage)]
    assert found == list(range(first + 5, first + KEPT_FAILURES + 5))


@pytest.mark.mutation
def test_an_order_by_letters_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "by_number", sorted)
    with pytest.raises(AssertionError):
        test_the_newest_statistics_are_kept_where_numbers_get_a_digit_more()


def test_paths_are_ordered_by_epoch_and_then_by_attempt() -> None:
    names = [
        layout.statistics_path(epoch, attempt)
        for epoch in (9, CROSSING - 1, CROSSING)
        for attempt in (2, 9999, 10000)
    ]
    assert layout.by_number(sorted(names)) == names


# ---------------------------------------------------------------- long histories


def long_history(storage: Any, epochs: int, kept_slots: int) -> History:
    """The log of a job with so many epochs, of which the last slots are still there."""
    begin = Begin(1, "leader", None, "lineage", "old", 128, "hash", 1, begun_at=0.0)
    history = History().with_record(begin, "claim")
    for epoch in range(1, epochs + 1):
        file = FileRef(layout.manifest_path(epoch, 1), 100, "crc32:00000000")
        record = EpochCommitted(epoch, 1, file)
        if epoch > epochs - kept_slots:
            claim_slot_after(storage, history, record)
        history = history.with_record(record, "claim").kept()
    return history


def claim_slot_after(storage: Any, history: History, record: Any) -> None:
    from mainstay.snapshot.slots import Slot, encode_slot

    storage.write(
        layout.log_slot(history.next_slot), encode_slot(Slot(record, "claim", history.facts))
    )


@pytest.mark.parametrize(
    ("epochs", "most_s"), [(2_000, 2.0), pytest.param(100_000, 5.0, marks=pytest.mark.soak)]
)
def test_a_log_of_many_epochs_is_read_at_once_and_stays_small(epochs: int, most_s: float) -> None:
    storage = MemoryStorage()
    expected = long_history(storage, epochs, kept_slots=epochs)
    began = time.process_time()
    found = read_history(storage)
    assert time.process_time() - began < most_s
    assert found.completed == epochs
    assert found.latest_epoch == expected.latest_epoch
    newest = layout.log_slot(found.next_slot - 1)
    assert len(storage.read(newest)) < 10_000


@pytest.mark.parametrize("strays", [500, pytest.param(100_000, marks=pytest.mark.soak)])
def test_a_folder_full_of_strays_is_gone_on_with(tmp_path: Path, strays: int) -> None:
    finished(tmp_path, 50)
    for folder in ("log", "epochs", "state/count/a0001", "statistics/x"):
        place = tmp_path / "snapshots" / folder
        place.mkdir(parents=True, exist_ok=True)
        for number in range(strays // 4):
            (place / f"stray {number}.txt").touch()
    began = time.process_time()
    finished(tmp_path, 100)
    assert time.process_time() - began < 10 + strays / 1_000
    check(tmp_path, 100)
    # What is not ours is not ours to delete, wherever it lies; files of old attempts are.
    assert len(list((tmp_path / "snapshots" / "log").glob("stray*"))) == strays // 4


def test_a_finished_epoch_with_a_large_number_is_known_as_the_end() -> None:
    storage, epoch = MemoryStorage(), (1 << 53) + 1
    begin = Begin(1, "leader", None, "lineage", "old", 128, "hash", epoch, begun_at=0.0)
    history = History().with_record(begin, "c")
    record = EpochCommitted(epoch, 1, FileRef("epochs/x.json", 1, "crc32:0"))
    history = history.with_record(record, "c")
    claim_slot_after(storage, history, Finished(epoch, 1))
    assert read_history(storage).finished
