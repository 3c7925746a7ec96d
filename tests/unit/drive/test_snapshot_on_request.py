"""Epochs on request, and what functions hear of epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.errors import JobOverError
from mainstay.runtime.coordinator.wanted_epochs import WantedEpochs
from mainstay.testing import rows, run


def count(first: int, number: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(first, first + number), pa.int64())], names=["n"])


def endless(place: Path, every: str) -> Any:
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(place, every=every))
    source = env.source(ms.connectors.Generate("n long", count, rows_per_second=2000), uid="in")
    source.key_by("n").aggregate(c=ms.count(), uid="counts").sink(ms.connectors.Memory(), uid="out")
    return env.start("endless")


def test_an_epoch_is_taken_when_it_is_asked_for(tmp_path: Path) -> None:
    job = endless(tmp_path, every="1h")
    try:
        first = job.snapshot(timeout=60)
        second = job.snapshot(timeout=60)
        assert second > first
        complete = [each.epoch for each in job.snapshots() if each.status == "complete"]
        assert complete == [first, second], "no other epoch is taken for an hour"
    finally:
        job.cancel()
    with pytest.raises(JobOverError):
        job.snapshot(timeout=60)


def test_a_request_is_met_by_the_next_epoch_that_is_complete() -> None:
    wanted, told = WantedEpochs(), list[Any]()
    wanted.request(3, lambda epoch, error: told.append((epoch, error)))
    wanted.request(5, lambda epoch, error: told.append((epoch, error)))
    assert wanted.lowest == 3
    wanted.committed(2)
    assert told == []
    wanted.committed(4)
    assert told == [(4, None)]
    assert wanted.lowest == 5
    wanted.end("it was cancelled")
    (_, (epoch, error)) = told
    assert epoch is None
    assert "it was cancelled" in str(error)
    assert wanted.lowest is None


# ---------------------------------------------------------------- hooks


class Noting(ms.KeyedProcess):
    """Keeps rows in a field, and puts them into its state when an epoch is cut."""

    seen = ms.OperatorListState("long")

    def open(self, ctx: Any) -> None:
        self.rows = list(self.seen.get())

    def process(self, row: Any, ctx: Any) -> Any:
        self.rows.append(row.n)
        return (row.n, len(self.rows))

    def on_snapshot(self, epoch: int) -> None:
        self.seen.update(self.rows)


class NotingRows(ms.Process):
    seen = ms.OperatorListState("long")
    open, on_snapshot, process = Noting.open, Noting.on_snapshot, Noting.process


@pytest.mark.parametrize("is_keyed", [True, False])
@pytest.mark.parametrize("mode", ["exactly_once", "unaligned"])
def test_what_is_written_when_an_epoch_is_cut_is_part_of_it(mode: str, is_keyed: bool) -> None:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows("n long", [(n,) for n in range(400)]), uid="in")
        function: Any = Noting() if is_keyed else NotingRows()
        given: Any = stream.key_by("n") if is_keyed else stream
        given.process(function, "n long, seen long", uid="f").sink(
            ms.connectors.Memory(), uid="out"
        )

    for seed in range(3):
        result = run(build, parallelism=1, seed=seed, crashes=3, mode=mode)
        assert len(result.attempts) > 1
        seen = sorted(each for _, each in result.output("out"))
        assert seen == list(range(1, 401)), "no row was forgotten and none counted twice"


class Told(ms.KeyedProcess):
    """Says what it heard of epochs, with the next row."""

    def open(self, ctx: Any) -> None:
        self.heard: list[str] = []

    def process(self, row: Any, ctx: Any) -> Any:
        heard, self.heard = self.heard, []
        return [(each,) for each in heard]

    def on_snapshot(self, epoch: int) -> None:
        self.heard.append("cut")

    def on_snapshot_aborted(self, epoch: int) -> None:
        self.heard.append("aborted")

    def on_snapshot_complete(self, epoch: int) -> None:
        self.heard.append("complete")


def test_a_function_hears_of_epochs_that_fail() -> None:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows("n long", [(n,) for n in range(3000)]), uid="in")
        stream.key_by("n").process(Told(), "what string", uid="f").sink(
            ms.connectors.Memory(), uid="out"
        )

    results = (run(build, seed=seed, storage_faults=60) for seed in range(10))
    heard = {what for result in results for (what,) in result.output("out")}
    assert heard == {"cut", "complete", "aborted"}


# ---------------------------------------------------------------- chains


def test_what_is_unchained_is_a_task_of_its_own() -> None:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows("n long", [(n,) for n in range(100)]), uid="in")
        first = stream.map(lambda row: (row.n + 1,), "n long", uid="first")
        second = first.unchained().map(lambda row: (row.n + 1,), "n long", uid="second")
        second.sink(ms.connectors.Memory(), uid="out")

    result = run(build, parallelism=2, crashes=2, mode="unaligned")
    assert sorted(n for (n,) in result.output("out")) == list(range(2, 102))
    env = ms.Environment(spark="embedded")
    build(env)
    assert [task.id for task in _plan(env).tasks] == ["in", "second"]


def _plan(env: Any) -> Any:
    from mainstay.plan.planning import plan_of

    return plan_of(env._builder.graph(128, "exactly_once"))
