"""An operator with key-groups of its own, in a job that runs: queries, rescales and restores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Generate, Memory
from mainstay.errors import GraphError, QueryError, RestoreError
from mainstay.serve.committed import CommittedState
from tests.drive.ledger import await_until, complete_epochs

PATIENCE_S = 30.0
KEYS = 50
RATES = [(f"r{n}", n) for n in range(4)]


class Counting(ms.CoKeyedProcess):
    seen = ms.ReducingState("long", lambda a, b: a + b)
    rates = ms.BroadcastMapState("string", "long")

    def process_left(self, row: Any, ctx: Any) -> Any:
        self.seen.add(1)
        return ctx.key, self.seen.get()

    def process_right(self, row: Any, ctx: Any) -> None:
        self.rates.put(row.name, row.rate)


def numbers(first: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([[n % KEYS for n in range(first, first + count)]], ["k"])


def start(place: Path, *, own: int | None = 7, end: int | None = None, **settings: Any) -> Any:
    env = ms.Environment(
        spark="embedded",
        snapshots=ms.Snapshots(place, every="20ms"),
        max_parallelism=64,
        **settings,
    )
    source = Generate("k long", numbers, end=end, rows_per_second=None if end else 20_000)
    rates = env.source(ms.connectors.Rows("name string, rate long", RATES), uid="rates")
    keyed = env.source(source, uid="numbers").key_by("k").connect(rates.broadcast())
    counted = keyed.process(Counting(), "k long, n long", uid="counts", max_parallelism=own)
    counted.sink(Memory(), uid="out")
    return env.start("counts")


def rows(job: Any, state: str) -> int:
    """How many there are; none while nobody runs who could say it."""
    try:
        return int(job.query(state, limit=1000).table.num_rows)
    except QueryError:
        return 0


def test_keys_are_found_live_and_committed_before_and_after_a_rescale(tmp_path: Path) -> None:
    job = start(tmp_path, parallelism=2)
    await_until(lambda: rows(job, "counts.seen") == KEYS, "all keys have been seen")
    job.rescale(5)
    live = job.query("counts.seen", keys=range(KEYS))
    assert live.table.num_rows == KEYS
    assert max(live.table.column("key_group").to_pylist()) == 6
    attempt = live.moment.attempt
    await_until(lambda: complete_epochs(job, attempt), "an epoch of it is complete")
    committed = job.query("counts.seen", keys=range(KEYS), at="committed")
    assert committed.table.num_rows == KEYS
    groups = CommittedState(str(tmp_path)).key_groups("counts").groups
    assert [each.group for each in groups] == list(range(7))
    assert {each.subtask for each in groups} == set(range(5))
    with pytest.raises(GraphError, match=r"rescale\(8\), operator 'counts' \(connect\)"):
        job.rescale(8)
    saved = job.stop(tmp_path / "saved")
    restored = start(tmp_path / "other", end=10 * KEYS, restore=saved, parallelism=3)
    with pytest.raises(RestoreError, match="max_parallelism=7, the job asks for 64"):
        start(tmp_path / "refused", own=None, restore=saved).wait(PATIENCE_S)
    restored.cancel()


def test_broadcast_state_is_asked_of_one_subtask(tmp_path: Path) -> None:
    job = start(tmp_path, parallelism=3)
    await_until(lambda: rows(job, "counts.rates") == len(RATES), "the rates are there")
    await_until(lambda: rows(job, "counts.seen") == KEYS, "all keys have been seen")
    assert job.query("counts.rates").value == dict(RATES)
    assert len(job.query("counts.rates", limit=2).rows()) == 2
    committed = await_until(lambda: _committed(job), "they are committed")
    assert committed.columns == job.query("counts.rates").columns
    assert committed.table.schema == job.query("counts.rates").table.schema
    both = job.query_states(["counts.rates", "counts.seen"], limit=100)
    assert both["counts.rates"].value == dict(RATES)
    assert both["counts.seen"].table.num_rows == KEYS
    with pytest.raises(GraphError, match="is operator state, which has no key"):
        job.query("counts.rates", key="r1")
    job.cancel()


def _committed(job: Any) -> Any:
    if not complete_epochs(job):
        return None
    answer = job.query("counts.rates", at="committed")
    return answer if answer.value == dict(RATES) else None
