"""A log in lanes: time moves behind a batch, in every lane, and nothing is read twice."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors.ingest.files import write_files
from mainstay.connectors.ingest.laned_source import LANES, LanedIngestSource
from mainstay.connectors.ingest.log import LOG_FORMAT, TIMED_FORMAT, IngestLog, Slot, lane_id
from mainstay.connectors.ingest.retention import first_needed
from mainstay.connectors.ingest.source import IngestSource
from mainstay.errors import SourceError
from mainstay.runtime.connector import Polled, Split, SplitReader
from mainstay.runtime.coordinator.splits import SplitBook
from mainstay.runtime.own_states import SPLITS
from mainstay.runtime.watermarks import END_US
from mainstay.schema import rows_to_batch, to_schema
from mainstay.snapshot.manifest import Manifest, OperatorState, SubtaskState
from mainstay.snapshot.object_storage import open_storage
from mainstay.state.operator import to_units

SCHEMA = to_schema("n long, at timestamp")
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
DELAY_S = 10


class TimedLog:
    """A log whose rows are a number and a time in seconds."""

    def __init__(self, directory: Path) -> None:
        self.location = str(directory)
        self.storage = open_storage(self.location)
        self.log = IngestLog(self.storage, "events")
        self._batches = 0

    def add(self, *files: Sequence[tuple[int, float | None]]) -> None:
        """The next batch, of so many files."""
        batch, self._batches = self._batches, self._batches + 1
        written = []
        for number, rows in enumerate(files):
            values = [(n, None if at is None else EPOCH + timedelta(seconds=at)) for n, at in rows]
            path = self.log.data_path(batch, str(number))
            written += write_files(
                self.storage,
                [rows_to_batch(values, SCHEMA, "test")],
                SCHEMA,
                lambda _, path=path: path,
                time_column=1,
            )
        self.log.commit(batch, "query", written)

    def source(self, lanes: int = LANES) -> LanedIngestSource:
        delay_us = DELAY_S * 1_000_000
        return LanedIngestSource(self.location, "events", SCHEMA, lanes=lanes, delay_us=delay_us)


@pytest.fixture
def timed(tmp_path: Path) -> TimedLog:
    return TimedLog(tmp_path)


def polled(reader: SplitReader, max_rows: int = 2) -> Iterator[Polled]:
    """All that a lane has to give for now."""
    while True:
        found = reader.poll(max_rows)
        yield found
        if found.ready_in_s:
            return


def numbers(found: Polled) -> list[int]:
    return [] if found.batch is None else found.batch.column(0).to_pylist()


def seconds(found: Polled) -> float | None:
    return None if found.watermark_us is None else found.watermark_us / 1_000_000


def read(source: LanedIngestSource) -> dict[str, tuple[list[int], float | None]]:
    """What each lane reads, and how far event time comes in it."""
    answers = {}
    for split in source.plan(frozenset()):
        given = list(polled(source.read(split, None)))
        told = [time for time in map(seconds, given) if time is not None]
        answers[split.id] = [n for each in given for n in numbers(each)], max(told, default=None)
    return answers


def test_every_lane_comes_to_the_time_of_the_last_batch(timed: TimedLog) -> None:
    timed.add([(1, 100.0), (2, 20.0)], [(3, 5.0)])
    timed.add([(4, 50.0)])
    timed.add([(5, 130.0)])
    found = read(timed.source())
    assert sorted(n for rows, _ in found.values() for n in rows) == [1, 2, 3, 4, 5]
    assert {time for _, time in found.values()} == {120.0}
    assert len(found) == LANES


def test_one_lane_reads_batch_after_batch(timed: TimedLog) -> None:
    for batch in range(5):
        timed.add(*[[(10 * batch + file, float(batch))] for file in range(3)])
    ((numbers_read, time),) = read(timed.source(lanes=1)).values()
    assert numbers_read == [10 * batch + file for batch in range(5) for file in range(3)]
    assert time == 4.0 - DELAY_S


def test_time_does_not_move_within_a_batch(timed: TimedLog) -> None:
    timed.add([(1, 100.0), (2, 20.0), (3, 300.0)])
    timed.add(*[[(n, 200.0)] for n in (7, 8, 9, 4)])
    source = timed.source()
    split = Split(lane_id(0, LANES), {"lane": 0, "of": LANES})
    told = [(numbers(each), seconds(each)) for each in polled(source.read(split, None))]
    assert told == [([1, 2], None), ([3], 290.0), ([4], 290.0), ([], None)]


def test_a_lane_goes_on_wherever_it_was_left(timed: TimedLog) -> None:
    timed.add(*[[(10 * file + row, 1.0) for row in range(3)] for file in range(9)])
    timed.add(*[[(100 + 10 * file + row, 2.0) for row in range(3)] for file in range(9)])
    source = timed.source()
    for split in source.plan(frozenset()):
        whole = list(polled(source.read(split, None)))
        for at, each in enumerate(whole):
            again = polled(timed.source().read(split, json.loads(json.dumps(each.offset))))
            rest = [n for later in whole[at + 1 :] for n in numbers(later)]
            assert [n for later in again for n in numbers(later)] == rest


def test_rows_without_a_time_or_of_its_end_do_not_end_it(timed: TimedLog) -> None:
    timed.add([(1, None)])
    assert {time for _, time in read(timed.source()).values()} == {None}
    slot = Slot(1, None, (), newest_us=END_US)
    assert LanedIngestSource(timed.location, "events", SCHEMA).time_after(slot) == END_US - 1


def test_a_batch_is_found_when_it_is_there(timed: TimedLog) -> None:
    source = timed.source()
    split = Split(lane_id(0, LANES), {"lane": 0, "of": LANES})
    assert [numbers(each) for each in polled(source.read(split, None))] == [[]]
    timed.add([(1, 1.0)])
    shipped = pickle.loads(pickle.dumps(source))
    assert [numbers(each) for each in polled(shipped.read(split, None))] == [[1], []]


def test_only_slots_with_a_time_have_the_new_format(timed: TimedLog) -> None:
    timed.add([(1, None)])
    timed.add([(2, 7.0)])
    timed.add()
    stored = [json.loads(timed.storage.read(f"ingest/events/log/{n:010d}")) for n in range(3)]
    assert [each["format"] for each in stored] == [LOG_FORMAT, TIMED_FORMAT, TIMED_FORMAT]
    assert "newest_us" not in stored[0]
    assert "newest_us" not in stored[0]["files"][0]
    assert stored[2]["newest_us"] == 7_000_000


# ---------------------------------------------------------------- what is kept


def epoch(offsets: dict[str, Any]) -> Manifest:
    book = SplitBook(1, bounded=False, notes=None)
    book.assign([Split(id) for id in offsets])
    units = [
        json.dumps({"id": id, "data": None, "offset": offset, "skip": 0})
        for id, offset in offsets.items()
    ]
    part = SubtaskState(0, (), {SPLITS.name: to_units(SPLITS, units)})
    operator = OperatorState("events", 1, None, (), (part,))
    sources = {"events": book.notes()}
    return Manifest(
        "job", "job", 1, 1, "exactly_once", 128, "hash", 0.0, {"events": operator}, sources
    )


def test_the_slowest_lane_says_what_is_needed() -> None:
    assert first_needed(epoch({lane_id(0, 2): [7, 0, 0], lane_id(1, 2): [5, 1, 3]}), "events") == 5
    assert first_needed(epoch({lane_id(0, 2): [7, 0, 0], lane_id(1, 2): None}), "events") == 0


def test_a_lane_does_not_wait_for_what_was_deleted(timed: TimedLog) -> None:
    for n in range(4):
        timed.add([(n, float(n))])
    timed.log.truncate(2)
    split = Split(lane_id(0, LANES), {"lane": 0, "of": LANES})
    with pytest.raises(SourceError, match="begins with batch 2"):
        timed.source().read(split, None).poll(10)
    assert list(polled(timed.source().read(split, [2, 0, 0])))


def test_a_log_is_not_read_now_in_one_way_and_now_in_another(timed: TimedLog) -> None:
    plain = IngestSource(timed.location, "events", SCHEMA, bounded=False)
    for source, before in [
        (timed.source(), "0/0"),
        (timed.source(lanes=1), lane_id(0, LANES)),
        (plain, lane_id(0, 1)),
    ]:
        with pytest.raises(SourceError, match=r"'events' has got or lost a watermark or in_order"):
            source.plan(frozenset({before}))


# ---------------------------------------------------------------- in a job


class Latest(ms.KeyedProcess):
    def process(self, row: Any, ctx: Any) -> Any:
        yield row.n, ctx.watermark


def test_a_table_has_no_time_before_its_end(timed: TimedLog, tmp_path: Path) -> None:
    timed.add([(1, 1000.0), (1, 10.0)], [(1, 5.0)])
    timed.log.seal()
    env = ms.Environment(spark="embedded", parallelism=2, snapshots=ms.Snapshots(tmp_path / "job"))
    out = ms.connectors.Memory()
    source = IngestSource(timed.location, "events", SCHEMA, bounded=True)
    rows = env.source(source, uid="events", watermark=ms.Watermark("at"))
    counts = rows.key_by("n").window(ms.tumbling("1s")).aggregate(c=ms.count(), uid="c")
    counts.sink(out, uid="out")
    seen = ms.connectors.Memory()
    rows.key_by("n").process(Latest(), "n long, at timestamp", uid="p").sink(seen, uid="seen")
    assert env.start("table").wait(60) == "finished"
    assert len(out.rows()) == 3
    assert seen.rows() == [(1, None)] * 3


class InTurn(ms.KeyedProcess):
    """Fails where a number of a key does not follow the one before it."""

    last = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        last = self.last.get()
        if last is not None and row.n <= last:
            raise AssertionError(f"{row.n} came behind {last}")
        self.last.update(row.n)
        yield (row.n,)


def await_rows(sink: ms.connectors.Memory, count: int, job: Any) -> None:
    deadline = time.monotonic() + 60
    while len(sink.rows()) < count:
        assert job.status not in ("failed", "cancelled", "finished"), job.wait(1)
        assert time.monotonic() < deadline, f"{len(sink.rows())} of {count} rows"
        time.sleep(0.01)


def test_a_job_in_order_goes_on_at_another_parallelism(timed: TimedLog, tmp_path: Path) -> None:
    out = ms.connectors.Memory()

    def started(parallelism: int) -> Any:
        env = ms.Environment(
            spark="embedded",
            parallelism=parallelism,
            snapshots=ms.Snapshots(tmp_path / "job", every="20ms"),
            restore="latest-or-new",
        )
        rows = env.source(timed.source(lanes=1), uid="events", watermark=ms.Watermark("at"))
        keyed = rows.key_by(lambda row: row.n % 5, "long")
        keyed.process(InTurn(), "n long", uid="in-turn").sink(out, uid="out")
        return env.start("in-order")

    def add(first: int, after: int) -> None:
        for batch in range(first, after, 100):
            timed.add(
                *[
                    [(n, float(-n)) for n in range(at, at + 25)]
                    for at in range(batch, batch + 100, 25)
                ]
            )

    add(0, 2_000)
    job = started(1)
    await_rows(out, 2_000, job)
    add(2_000, 3_000)
    job.cancel()
    job = started(3)
    await_rows(out, 3_000, job)
    job.stop()
    assert sorted(n for (n,) in out.rows()) == list(range(3_000))
