"""Jobs in this process and in real time: to the end, through crashes, and on from where they were.

A source that waits at a gate and a sink that says what it has committed make "half-way" an event
rather than a moment.
"""

from __future__ import annotations

import itertools
import queue
import re
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Files, Memory, Polled, Rows, Source, Split, SplitReader
from mainstay.drive import job_thread
from mainstay.errors import HistoryExistsError, SourceError, UserFunctionError
from mainstay.schema import to_schema

PATIENCE_S = 30.0
ROWS = 600
HALF = ROWS // 2
KEYS = 7
TOTALS = {key: sum(range(key, ROWS, KEYS)) for key in range(KEYS)}

# Workers get copies of a job's sources and sinks; they find the originals' events by number.
_numbers = itertools.count()
_events: dict[int, threading.Event] = {}


def new_event() -> int:
    number = next(_numbers)
    _events[number] = threading.Event()
    return number


class Gated(Source):
    """The numbers up to ROWS in two splits; the second half comes when the gate is opened."""

    def __init__(self) -> None:
        self.schema = to_schema("k long, n long")
        self.gate = new_event()

    def open_gate(self) -> None:
        _events[self.gate].set()

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [Split("even", 0), Split("odd", 1)]

    def read(self, split: Split, offset: Any) -> SplitReader:
        return _GatedReader(self.schema, self.gate, split.data if offset is None else offset)


class _GatedReader(SplitReader):
    def __init__(self, schema: pa.Schema, gate: int, position: int) -> None:
        self._schema = schema
        self._gate = gate
        self._position = position

    def poll(self, max_rows: int) -> Polled:
        end = ROWS if _events[self._gate].is_set() else HALF
        numbers = list(range(self._position, end, 2))[: min(max_rows, 10)]
        if not numbers:
            return Polled(None, self._position, finished=self._position >= ROWS)
        self._position = numbers[-1] + 2
        columns = [pa.array([n % KEYS for n in numbers]), pa.array(numbers)]
        return Polled(pa.RecordBatch.from_arrays(columns, schema=self._schema), self._position)


class Telling(Memory):
    """Keeps rows, and says when half of all are committed."""

    def __init__(self) -> None:
        super().__init__()
        self.half = new_event()

    def commit(self, handles: Sequence[bytes]) -> None:
        super().commit(handles)
        if len(self.rows()) >= HALF:
            _events[self.half].set()

    def await_half(self) -> None:
        assert _events[self.half].wait(PATIENCE_S), f"only {len(self.rows())} rows were committed"


class Sum(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        return ctx.key, row.n, self.total.get()


def environment(directory: Path, **settings: Any) -> ms.Environment:
    return ms.Environment(
        spark="embedded",
        snapshots=ms.Snapshots(directory, every="20ms"),
        restart=ms.Restart(max_failures=3, backoff="1ms"),
        **settings,
    )


def start(
    directory: Path, source: Source, sink: Memory, function: Any = None, **settings: Any
) -> Any:
    env = environment(directory, **settings)
    keyed = env.source(source, uid="numbers").key_by("k")
    keyed.process(function or Sum(), "k long, n long, total long", uid="sums").sink(sink, uid="out")
    return env.start("numbers")


def check_complete(sink: Memory) -> None:
    """Every row went in once, and every key's sum went through all of its rows."""
    committed = sink.rows()
    assert sorted(n for _, n, _ in committed) == list(range(ROWS))
    assert {key: max(t for k, _, t in committed if k == key) for key in range(KEYS)} == TOTALS


def opened() -> Gated:
    source = Gated()
    source.open_gate()
    return source


# ---------------------------------------------------------------- to the end


def test_a_bounded_job_runs_to_its_end(tmp_path: Path) -> None:
    sink = Telling()
    job = start(tmp_path, opened(), sink)
    assert job.wait(PATIENCE_S) == "finished"
    check_complete(sink)
    assert job.status == "finished"
    assert len(job.attempts()) == 1
    complete = [record for record in job.snapshots() if record.status == "complete"]
    assert complete
    assert any((tmp_path / "log").iterdir())


def test_a_job_over_files_runs_to_its_end(tmp_path: Path) -> None:
    for part in range(3):
        lines = "".join(f"{n % KEYS},{n}\n" for n in range(part, ROWS, 3))
        (tmp_path / f"part-{part}.csv").write_text("k,n\n" + lines)
    sink = Memory()
    source = Files(str(tmp_path / "*.csv"), schema="k long, n long", batch_rows=50)
    assert start(tmp_path / "snapshots", source, sink).wait(PATIENCE_S) == "finished"
    check_complete(sink)


def test_a_finished_job_that_is_restored_finishes_again_and_changes_nothing(
    tmp_path: Path,
) -> None:
    sink = Telling()
    start(tmp_path, opened(), sink).wait(PATIENCE_S)
    before = sink.rows()
    again = start(tmp_path, opened(), sink, restore="latest")
    assert again.wait(PATIENCE_S) == "finished"
    assert sink.rows() == before


# ---------------------------------------------------------------- crashes and restores


@pytest.mark.parametrize("worker", [0, 1])
def test_a_crash_half_way_changes_nothing_about_the_result(tmp_path: Path, worker: int) -> None:
    source, sink = Gated(), Telling()
    job = start(tmp_path, source, sink)
    sink.await_half()
    job.crash_worker(worker)
    source.open_gate()
    assert job.wait(PATIENCE_S) == "finished"
    check_complete(sink)
    first, second = job.attempts()
    assert first.restored_from is None
    assert "killed" in first.reason
    assert second.restored_from is not None


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_cancelled_job_goes_on_at_another_parallelism(tmp_path: Path, parallelism: int) -> None:
    source, sink = Gated(), Telling()
    job = start(tmp_path, source, sink, parallelism=2)
    sink.await_half()
    job.cancel()
    assert job.status == "cancelled"
    assert len(sink.rows()) == HALF
    source.open_gate()
    again = start(tmp_path, source, sink, parallelism=parallelism, restore="latest")
    assert again.wait(PATIENCE_S) == "finished"
    check_complete(sink)
    assert again.attempts()[0].restored_from is not None


def test_latest_or_new_starts_fresh_and_later_goes_on(tmp_path: Path) -> None:
    source, sink = Gated(), Telling()
    job = start(tmp_path, source, sink, restore="latest-or-new")
    sink.await_half()
    job.cancel()
    source.open_gate()
    start(tmp_path, source, sink, restore="latest-or-new").wait(PATIENCE_S)
    check_complete(sink)


def test_a_fresh_start_in_a_used_directory_is_refused_with_both_remedies(tmp_path: Path) -> None:
    start(tmp_path, opened(), Telling()).wait(PATIENCE_S)
    sink = Telling()
    again = start(tmp_path, opened(), sink)
    with pytest.raises(HistoryExistsError, match=r'(?s)restore="latest".*another directory'):
        again.wait(PATIENCE_S)
    assert again.status == "failed"
    assert sink.rows() == []


# ---------------------------------------------------------------- failures


class Failing(Sum):
    def process(self, row: Any, ctx: Any) -> Any:
        if row.n == 123:
            raise ValueError("no such order")
        return super().process(row, ctx)


def test_an_exception_of_the_user_is_raised_once_the_restarts_are_used_up(tmp_path: Path) -> None:
    job = start(tmp_path, opened(), Telling(), Failing())
    with pytest.raises(UserFunctionError) as caught:
        job.wait(PATIENCE_S)
    assert caught.value.uid == "sums"
    assert caught.value.summary == "ValueError: no such order"
    assert 'raise ValueError("no such order")' in caught.value.user_traceback
    assert job.status == "failed"
    # The first attempt and the three restarts that the strategy allows.
    assert len(job.attempts()) == 4
    assert Counter("no such order" in record.reason for record in job.attempts()) == {True: 4}


def test_a_source_that_cannot_be_planned_ends_the_job_with_its_reason(tmp_path: Path) -> None:
    missing = Files(str(tmp_path / "*.csv"), schema="k long, n long")
    job = start(tmp_path / "snapshots", missing, Memory())
    with pytest.raises(SourceError, match=r"no file matches.*\*\.csv"):
        job.wait(PATIENCE_S)
    assert job.status == "failed"


# ---------------------------------------------------------------- a target that is away


class Away(Memory):
    """Its target refuses until it is told to come back; says when it was asked a second time."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_again = new_event()
        self.back = new_event()
        self.asked: list[int] = []

    def commit(self, handles: Sequence[bytes]) -> None:
        if not _events[self.back].is_set():
            self.asked.append(len(handles))
            if len(self.asked) > 1:
                _events[self.asked_again].set()
            raise ConnectionError("the target is away")
        super().commit(handles)


class LocalAway(Away):
    """The same, committed by the subtasks."""

    is_global = False


class Silent(Memory):
    """Its target does not answer until the test is over."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = new_event()
        self.over = new_event()

    def commit(self, handles: Sequence[bytes]) -> None:
        _events[self.asked].set()
        _events[self.over].wait(PATIENCE_S)


def start_into(sink: Memory, directory: Path) -> Any:
    env = ms.Environment(
        spark="embedded", parallelism=2, snapshots=ms.Snapshots(directory, every="20ms")
    )
    env.source(Rows("n long", [(n,) for n in range(50)]), uid="in").sink(sink, uid="out")
    return env.start("away")


@pytest.mark.parametrize("kind", [Away, LocalAway])
def test_a_bounded_job_waits_for_a_target_that_is_away_and_says_so(
    kind: type[Away], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = kind()
    job = start_into(sink, tmp_path)
    assert _events[sink.asked_again].wait(PATIENCE_S)
    assert job.status == "running"
    (problem,) = job.problems()
    assert re.fullmatch(
        r"sink 'out'(, subtask 0)? has not confirmed epoch \d+ for \d+ s: "
        r"ConnectionError: the target is away",
        str(problem),
    )
    _events[sink.back].set()
    assert job.wait(PATIENCE_S) == "finished"
    assert job.problems() == []
    assert sorted(sink.rows()) == [(n,) for n in range(50)]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert caplog.messages[1].startswith("job 'away', no longer: sink 'out'")


def test_cancelling_waits_for_no_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_thread, "THREADS_END_S", 0.1)
    sink = Silent()
    job = start_into(sink, tmp_path)
    assert _events[sink.asked].wait(PATIENCE_S)
    job.cancel()
    assert not _events[sink.over].is_set()
    assert job.status == "cancelled"
    _events[sink.over].set()


closed: list[str] = []


class Closing(ms.Process):
    def process(self, row: Any, context: Any) -> Any:
        return row

    def close(self) -> None:
        closed.append("closed")
        raise ValueError("too late to matter")


def test_functions_are_closed_when_the_job_ends_in_good_order(tmp_path: Path) -> None:
    closed.clear()
    env = ms.Environment(
        spark="embedded", parallelism=2, snapshots=ms.Snapshots(tmp_path, every="1h")
    )
    stream = env.source(Rows("n long", [(1,)]), uid="in")
    stream.process(Closing(), schema="n long", uid="closing").sink(Memory(), uid="out")
    assert env.start("closing").wait(PATIENCE_S) == "finished"
    assert closed == ["closed", "closed"]


class Blocking(Gated):
    """Its polls wait for the gate, in a thread of their own."""

    may_block = True

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.closed_in_use, self.closed = new_event(), new_event(), new_event()

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [] if seen else [Split("all", 0)]

    def read(self, split: Split, offset: Any) -> SplitReader:
        return _BlockingReader(self)


class _BlockingReader(SplitReader):
    def __init__(self, source: Blocking) -> None:
        self._source = source
        self._is_in_use = False

    def poll(self, max_rows: int) -> Polled:
        self._is_in_use = True
        _events[self._source.begun].set()
        _events[self._source.gate].wait(PATIENCE_S)
        self._is_in_use = False
        return Polled(None, 1)

    def close(self) -> None:
        _events[self._source.closed_in_use if self._is_in_use else self._source.closed].set()


def test_a_reader_is_not_closed_while_a_poll_of_it_is_under_way(tmp_path: Path) -> None:
    source = Blocking()
    env = ms.Environment(spark="embedded", parallelism=1, snapshots=ms.Snapshots(tmp_path / "s"))
    env.source(source, uid="rows").sink(Memory(), uid="out")
    job = env.start("blocked")
    assert _events[source.begun].wait(PATIENCE_S)
    threading.Thread(target=job.cancel).start()
    job.wait(PATIENCE_S)
    source.open_gate()
    assert _events[source.closed].wait(PATIENCE_S)
    assert not _events[source.closed_in_use].is_set()


def test_the_loop_waits_with_a_time_out_that_ends(tmp_path: Path) -> None:
    """It stood still for ever, seldom: get() of a SimpleQueue does where Python 3.11 is held up
    for a moment just before its time is up."""
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(tmp_path))
    env.source(Rows("n long", [(1,)]), uid="numbers").sink(Memory(), uid="out")
    job = env.start("waits")
    job.wait(PATIENCE_S)
    assert type(job._reports) is queue.Queue
