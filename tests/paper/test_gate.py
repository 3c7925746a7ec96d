"""The source and the sink of the comparison: what they give, when, and what they say of it."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.ours.visits import Visits
from benchmarks.paper.arrivals import Arrivals, output_between
from benchmarks.paper.board import Bell, Board, Place
from benchmarks.paper.gated import BATCH_ROWS, Gated
from benchmarks.paper.modes import FIRST_BATCH_ROWS, MODES, MOST_BATCH_ROWS
from mainstay.connectors import SinkContext

VISITS = Visits(1000)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path), 2)


@pytest.fixture
def board(place: Place) -> Board:
    return Board.create(place)


def reader_of(place: Place, offset: int | None = None):
    source = Gated(VISITS, place)
    return source.read(source.plan(frozenset())[0], offset)


def test_every_process_sees_what_another_has_written(place: Place, board: Board) -> None:
    other = Board(place)
    other.splits[1]["given"] = 7
    board.orders["turn"] = 1
    assert other.is_shut
    assert board.splits["given"].tolist() == [0, 7]
    assert board.sinks["rows"].tolist() == [0, 0]


def test_a_bell_is_heard_also_when_it_has_rung_before(place: Place, board: Board) -> None:
    board.ring()  # nobody listens yet
    bell = Bell(place)
    board.ring()
    began = time.monotonic()
    bell.wait(60.0)
    assert time.monotonic() - began < 60.0
    bell.close()


def test_a_reader_gives_the_rows_of_its_split_in_order(place: Place, board: Board) -> None:
    reader = reader_of(place)
    polled = [reader.poll(500), reader.poll(500)]
    rows = pa.Table.from_batches([each.batch for each in polled])
    assert rows.drop(["due_ns"]).equals(pa.Table.from_batches([VISITS(0, 1000)]))
    assert set(rows.column("due_ns").to_pylist()) == {0}
    assert polled[-1].offset == 1000
    assert board.splits[0]["given"] == 1000


def test_one_that_is_shut_gives_nothing_and_has_seen_it(place: Place, board: Board) -> None:
    reader = reader_of(place)
    board.orders["turn"] = 3
    assert reader.poll(10).batch is None
    assert board.splits[0]["seen_turn"] == 3
    board.orders["turn"] = 4
    assert reader.poll(10).batch is not None


def test_a_batch_ends_where_it_was_to_end_and_has_been_taken_when_it_is_done(
    place: Place, board: Board
) -> None:
    reader = reader_of(place)
    board.orders["batch_rows"], board.orders["batch"] = 30, 1
    assert [reader.poll(20).batch.num_rows for _ in range(2)] == [20, 10]
    assert board.splits[0]["done_batch"] == 0  # the last rows may not be taken yet
    assert reader.poll(20).batch is None
    assert board.splits[0]["done_batch"] == 1
    board.orders["batch"] = 2
    assert reader.poll(100).batch.num_rows == 30


def test_what_was_read_of_a_batch_before_a_failure_is_read_again_to_the_same_end(
    place: Place, board: Board
) -> None:
    board.orders["batch_rows"], board.orders["batch"] = 30, 1
    reader_of(place).poll(20)
    restored = reader_of(place, 0)
    assert board.splits[0]["given"] == 0
    assert restored.poll(100).batch.num_rows == 30
    assert restored.poll(100).batch is None


def test_rows_with_a_pace_come_by_the_clock_and_say_when_they_were_due(
    place: Place, board: Board
) -> None:
    reader = reader_of(place)
    reader.poll(5)
    board.orders["interval_ns"], board.orders["pace"] = 2_000_000, 1
    due: list[int] = []
    while len(due) < 20:
        polled = reader.poll(BATCH_ROWS)
        now = time.monotonic_ns()
        if polled.batch is not None:
            due += polled.batch.column("due_ns").to_pylist()
            assert due[-1] <= now
    assert {later - due for due, later in itertools.pairwise(due)} == {2_000_000}


def test_a_batch_has_what_is_due_when_it_begins(place: Place, board: Board) -> None:
    reader = reader_of(place)
    board.orders["interval_ns"], board.orders["pace"] = 1_000_000, 1
    assert reader.poll(10).batch is None  # its pace begins
    while time.monotonic_ns() - reader._began_ns < 20_000_000:
        continue
    board.orders["batch"] = 1
    first = reader.poll(BATCH_ROWS).batch.num_rows
    assert first >= 20
    assert reader.poll(BATCH_ROWS).batch is None
    assert board.splits[0]["until"] == first


class Instant:
    """A conductor whose batches are read in no time, or in a given one."""

    every_s = 1.0

    def __init__(self, read_s: float) -> None:
        self.read_s = read_s
        self.asked: list[int] = []

    def read_batch(self, rows: int) -> None:
        self.asked.append(rows)
        until = time.monotonic() + self.read_s
        while time.monotonic() < until:
            continue

    def snapshot(self) -> int:
        return len(self.asked)

    def open(self) -> None:
        """Nothing is shut."""


def test_a_batch_is_what_is_read_in_an_interval() -> None:
    act, conductor = MODES["micro-batches"].make(), Instant(0.5)
    for _ in range(2):
        act(conductor)
    # A machine that is busy makes the first one last longer than it was meant to.
    assert 1 <= conductor.asked[1] <= 2 * FIRST_BATCH_ROWS


def test_a_batch_stays_bounded_however_fast_it_is_read() -> None:
    act, conductor = MODES["micro-batches"].make(), Instant(0.0)
    for _ in range(100):
        act(conductor)
    assert max(conductor.asked) == conductor.asked[-1] == MOST_BATCH_ROWS


def rows_due(*due_ns: int) -> pa.RecordBatch:
    columns = {name: pa.array(list(due_ns), pa.int64()) for name in ("key", "total", "due_ns")}
    return pa.record_batch(columns)


def test_a_sink_says_what_arrived_when_and_how_old_it_was(place: Place, board: Board) -> None:
    sink = Arrivals(place)
    writers = [sink.open(SinkContext("out", number, 1, "")) for number in range(2)]
    writers[0].write(rows_due(0, 0))
    began = time.monotonic_ns()
    writers[0].write(rows_due(began - 5_000_000, began - 3_000_000))
    writers[1].write(rows_due(began - 1_000_000))
    ended = time.monotonic_ns()
    writers[0].write(rows_due(0, began))  # where a pace begins: no ages
    found = output_between(place, began, ended)
    assert found.rows == 3
    assert len(found.ages_us) == 3
    assert found.age_ms(100) >= 5.0
    assert found.age_ms(0) >= 1.0
    assert 0 < found.longest_gap_s <= found.seconds
    assert board.sinks["rows"].tolist() == [6, 1]
    sink.commit_epoch(4, [writer.prepare(4) for writer in writers])
    assert board.sinks["epoch"].tolist() == [4, 4]
    assert sink.rows_until(4) == 7


def test_the_longest_gap_counts_from_the_beginning_and_to_the_end(
    place: Place, board: Board
) -> None:
    writer = Arrivals(place).open(SinkContext("out", 0, 1, ""))
    writer.write(rows_due(0))
    at = int(output_between(place, 0, 1 << 62).at_ns[0])
    assert output_between(place, at - 10**9, at + 3 * 10**9).longest_gap_s == 3.0
    assert output_between(place, at - 4 * 10**9, at + 10**9).longest_gap_s == 4.0
