"""The source operator: reads its splits in turn and keeps their offsets as state.

A unit of its state is one unfinished split: where the last poll began, and how many rows of that
poll were emitted since. A restored reader starts at that offset and skips as many rows. A split
whose source is out of reach is opened again at its offset, after a while and for ever. A split that
goes on after the end which it has for this start is a unit too, and is read no more.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from mainstay.errors import MainstayError, SourceError
from mainstay.runtime.connector import UNAVAILABLE, Polled, Source, Split, SplitReader
from mainstay.runtime.connector_errors import of_connector
from mainstay.runtime.messages import Epoch, TimeMark
from mainstay.runtime.operators.base import Operator, OperatorContext
from mainstay.runtime.operators.told import ToldTime
from mainstay.runtime.own_states import SPLITS
from mainstay.runtime.retry import SLOW_S, Retry
from mainstay.runtime.status import Problem
from mainstay.runtime.watermarks import SourceClock, SplitClock, WatermarkSpec
from mainstay.schema import format_schema
from mainstay.tracebacks import pass_on_interrupt

QUIET_S = 0.01
"""How long a split that had nothing to give is left alone, if its reader does not know better."""


@dataclass(slots=True, eq=False)
class ReadingSplit:
    """A split being read. ``rows`` are polled but not yet emitted; ``after`` is where they end."""

    split: Split
    offset: Any = None
    emitted: int = 0
    to_skip: int = 0
    reader: SplitReader | None = None
    rows: pa.RecordBatch | None = None
    after: Any = None
    finished: bool = False
    goes_on: bool = False
    polling: bool = False
    is_over: bool = False
    """Whether its task has ended; a poll that is under way then closes the reader itself."""
    quiet_until: float = 0.0
    is_begun: bool = False
    retry: Retry = field(default_factory=Retry)
    waits_since: float | None = None
    """Since when its reader says that it waits for something."""
    time: SplitClock = field(default_factory=SplitClock)
    promised_us: int | None = None
    _unread: str | None = None
    """Its unit while nothing of it was read: a reader may have a hundred thousand in line."""

    def begin(self) -> None:
        self.is_begun, self._unread = True, None

    def to_unit(self) -> str:
        if self._unread is not None:
            return self._unread
        skip = self.emitted + self.to_skip
        unit = {"id": self.split.id, "data": self.split.data, "offset": self.offset, "skip": skip}
        text = json.dumps(unit | self.time.kept())
        if not self.is_begun:
            self._unread = text
        return text

    @staticmethod
    def from_unit(text: str) -> ReadingSplit:
        unit = json.loads(text)
        split = Split(unit["id"], unit["data"])
        is_begun = unit["offset"] is not None or unit["skip"] > 0
        time = SplitClock(unit.get("newest_us"), unit.get("promised_us"))
        return ReadingSplit(
            split, unit["offset"], to_skip=unit["skip"], is_begun=is_begun, time=time
        )

    @property
    def is_idle(self) -> bool:
        """Whether it has neither rows nor a poll under way, and is not exhausted."""
        return self.rows is None and not self.polling and not self.finished

    def wants_poll(self, now: float) -> bool:
        return self.is_idle and now >= self.quiet_until

    def waited(self, now: float) -> None:
        """Note since when its reader waits for something, if it does."""
        if self.reader is None or self.reader.waits_for is None:
            self.waits_since = None
        elif self.waits_since is None:
            self.waits_since = now

    def problem(self, subject: str, now: float) -> Problem | None:
        """What is wrong with it, if something is: it is out of reach, or its reader waits long."""
        what = f"has not been able to read split {self.split.id!r}"
        if (problem := self.retry.problem(subject, what, now)) is not None:
            return problem
        waits_for = None if self.reader is None else self.reader.waits_for
        if waits_for is None or self.waits_since is None or now - self.waits_since < SLOW_S:
            return None
        return Problem(subject, what, waits_for, now - self.waits_since)

    def take_poll(self, polled: Polled, offset: Any, now: float) -> None:
        """Keep what a poll gave, without the rows that were emitted before a restore. ``offset`` is
        its offset, which nobody else changes."""
        batch = polled.batch
        if polled.ready_in_s is not None:
            self.quiet_until = now + polled.ready_in_s
        elif batch is None or not batch.num_rows:
            self.quiet_until = now + QUIET_S
        self.after, self.finished = offset, polled.finished
        self.goes_on = polled.goes_on
        self.promised_us = polled.watermark_us
        self.time.asked(now, gave=batch is not None and batch.num_rows > 0)
        self.time.is_idle = polled.is_idle
        if batch is not None and self.to_skip:
            skipped = min(self.to_skip, batch.num_rows)
            batch = batch.slice(skipped)
            self.to_skip -= skipped
            self.emitted += skipped
        self.rows = batch if batch is not None and batch.num_rows else None
        if self.rows is None:
            self._advance()

    def take_rows(self, max_rows: int) -> pa.RecordBatch:
        """The next rows to emit; the offset moves when the last of a poll are taken."""
        assert self.rows is not None
        taken, rest = self.rows.slice(0, max_rows), self.rows.slice(max_rows)
        self.emitted += taken.num_rows
        self.rows = rest if rest.num_rows else None
        if self.rows is None:
            self._advance()
        return taken

    def _advance(self) -> None:
        if self.promised_us is not None:
            self.time.promised_us = self.promised_us
        # Rows still to be skipped are counted from the new offset on.
        self.offset, self.emitted = self.after, 0


def _copied(offset: Any) -> Any:
    """An offset as a snapshot gives it back. A reader may go on with what it has given, or was
    given, and change it in its next poll; a cut among the rows of that poll has it as it was."""
    if type(offset) in (int, str):
        return offset
    _check_keys(offset)
    return json.loads(json.dumps(offset))


def _check_keys(value: Any) -> None:
    """Refuse keys of dictionaries that would be texts after a restore, and no longer found."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} of a dictionary is no text")
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            _check_keys(each)


class SourceOperator(Operator):
    """The head of a source task. ``take_back`` says how many of the rows that were emitted last its
    chain has not taken after all."""

    take_back: Callable[[], int] = staticmethod(lambda: 0)

    def __init__(self, source: Source, watermarks: WatermarkSpec | None = None) -> None:
        self._source = source
        self._watermarks = watermarks
        self._time = None if watermarks is None else SourceClock(watermarks)
        self._splits: deque[ReadingSplit] = deque()
        self._kept: list[ReadingSplit] = []
        """Those at the end that they have for this start."""
        self._last_assigned = False
        self._is_planned = False
        self._skipped = 0

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._state = context.lists[SPLITS.name]
        self._splits.extend(ReadingSplit.from_unit(unit) for unit in self._state.get())
        if self._time is not None:
            self._told = ToldTime(context)
            self._time.restore(self._told.restored_us)

    def assign(self, splits: tuple[Split, ...], *, last: bool) -> None:
        self._splits.extend(ReadingSplit(split) for split in splits)
        self._last_assigned = self._last_assigned or last
        self._is_planned = True

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing more will come before the job is started again."""
        return self._last_assigned and not self._splits

    @property
    def is_mid_split(self) -> bool:
        """Whether a split is begun that has to be read to its end before there may be a cut."""
        return self._source.atomic_splits and any(split.is_begun for split in self._splits)

    @property
    def skipped(self) -> int:
        """How many malformed records were left out so far."""
        readers = (split.reader for split in self._splits)
        return self._skipped + sum(reader.skipped for reader in readers if reader is not None)

    def problem(self, now: float) -> Problem | None:
        """What keeps it from reading a split, if something does."""
        subject = f"source {self.context.uid!r}, subtask {self.context.subtask}"
        for split in self._splits:
            if (problem := split.problem(subject, now)) is not None:
                return problem
        return None

    def poll(self, max_rows: int, *, begin: bool = True) -> int | None:
        """Emit some rows and say how many; None when there is nothing to do just now.

        No further split is begun unless ``begin``.
        """
        now = self.context.clock.monotonic()
        for reading in self._being_read():
            if not begin and not reading.is_begun:
                continue
            if reading.wants_poll(now):
                self._start_poll(reading, max(max_rows, self._source.poll_rows or 0))
                if reading.wants_poll(now):
                    return 0  # all of it had been emitted before a restore: go on at once
            if reading.rows is not None:
                return self._emit(reading, max_rows)
            if reading.finished:
                self._retire_or_rotate(reading)
                return 0
        return None

    def _emit(self, reading: ReadingSplit, max_rows: int) -> int:
        """Emit rows. Those that are taken back were not read: they are in no cut before the next
        poll, and event time knows nothing of them."""
        assert reading.rows is not None
        rows = reading.rows.slice(0, max_rows)
        self.out(rows)
        rows = reading.take_rows(rows.num_rows - self.take_back())
        if self._watermarks is not None and self._watermarks.from_rows:
            reading.time.saw(rows, self._watermarks.column)
        self._retire_or_rotate(reading)
        return rows.num_rows  # type: ignore[no-any-return]

    @property
    def makes_watermarks(self) -> bool:
        return self._time is not None

    def has_more(self, now: float) -> bool:
        """Whether it can be polled again at once, as far as is known."""
        return any(r.rows is not None or r.wants_poll(now) for r in self._being_read())

    def next_watermark(self, now: float) -> TimeMark | None:
        """What is to be said of event time now, if anything.

        A subtask without a split holds nothing back, once the splits have been assigned.
        """
        if self._time is None or not (self._splits or self._is_planned):
            return None
        return self._time.next((split.time for split in self._splits), now)

    def deadline(self) -> float | None:
        """When a split that had nothing to give is to be asked again, or event time moves."""
        times = [r.quiet_until for r in self._being_read() if r.is_idle]
        if self._time is not None:
            now = self.context.clock.monotonic()
            event = self._time.deadline((split.time for split in self._splits), now)
            times += [] if event is None else [event]
        return min(times, default=None)

    def _being_read(self) -> list[ReadingSplit]:
        """The splits whose turn it is; the others wait until one of these has ended."""
        return list(islice(self._splits, self._source.reads_at_once))

    def _start_poll(self, reading: ReadingSplit, max_rows: int) -> None:
        reading.begin()

        def poll() -> Polled:
            if reading.reader is None:
                reading.reader = self._source.read(reading.split, _copied(reading.offset))
            try:
                return reading.reader.poll(max_rows)
            finally:
                if reading.is_over:
                    self._close(reading)

        if not self._source.may_block:
            try:
                self._take(reading, poll())
            except UNAVAILABLE as error:
                self._put_off(reading, error)
            except BaseException as error:
                raise self._broken(reading, error) from error
            return
        reading.polling = True

        def done(polled: Polled) -> None:
            reading.polling = False
            try:
                self._take(reading, polled)
            except SourceError as error:
                self.context.fail(error)

        def failed(error: Exception) -> None:
            reading.polling = False
            if isinstance(error, UNAVAILABLE):
                self._put_off(reading, error)
            else:
                self.context.fail(self._broken(reading, error))

        self.context.background.submit(poll, done, failed)

    def _put_off(self, reading: ReadingSplit, error: Exception) -> None:
        """The source is out of reach: open the split again where it stands, after a while."""
        reading.retry.failed(self.context.clock.monotonic(), error)
        assert reading.retry.at is not None
        reading.quiet_until = reading.retry.at
        reading.is_begun = reading.offset is not None or reading.to_skip > 0
        self._close(reading)
        reading.waited(reading.retry.at)

    def _take(self, reading: ReadingSplit, polled: Polled) -> None:
        batch, schema = polled.batch, self._source.schema
        if batch is not None and not batch.schema.equals(schema):
            raise SourceError(
                f"source {self.context.uid!r} declares {format_schema(schema)!r}, but split "
                f"{reading.split.id!r} gave a batch of columns {batch.schema.names} with types "
                f"{[str(t) for t in batch.schema.types]}."
            )
        try:
            offset = _copied(polled.offset)
        except (TypeError, ValueError) as error:
            raise SourceError(
                f"source {self.context.uid!r}: the reader of split {reading.split.id!r} gave the "
                f"offset {polled.offset!r}, which is no JSON value ({error}). Offsets are part of "
                "snapshots: make them of numbers, texts, lists, and dictionaries whose keys are "
                "texts."
            ) from error
        now = self.context.clock.monotonic()
        reading.retry.succeeded()
        reading.waited(now)
        reading.take_poll(polled, offset, now)

    def _broken(self, reading: ReadingSplit, error: BaseException, verb: str = "read") -> Exception:
        pass_on_interrupt(error)
        if isinstance(error, MainstayError):
            return error
        uid, subtask = self.context.uid, self.context.subtask
        what = (
            f"source {uid!r}, subtask {subtask}: split {reading.split.id!r} cannot be {verb} at "
            f"offset {reading.offset!r}"
        )
        return of_connector(SourceError, what, error, uid, subtask)

    def _retire_or_rotate(self, reading: ReadingSplit) -> None:
        """Close an exhausted split; otherwise it is another one's turn."""
        self._splits.remove(reading)
        if not reading.finished or reading.rows is not None:
            # Behind those that are being read, and before those that are not begun.
            self._splits.insert((self._source.reads_at_once or len(self._splits) + 1) - 1, reading)
        else:
            self._close(reading)
            if self._time is not None:
                self._time.ended(reading.time)
            if reading.goes_on:
                self._kept.append(reading)

    def _close(self, reading: ReadingSplit) -> None:
        reader, reading.reader = reading.reader, None
        if reader is not None:
            self._skipped += reader.skipped
            try:
                reader.close()
            except UNAVAILABLE:
                return  # it may be what is out of reach
            except BaseException as error:
                raise self._broken(reading, error, "closed") from error

    def before_marker(self, epoch: Epoch) -> None:
        self._state.update([reading.to_unit() for reading in (*self._splits, *self._kept)])
        if self._time is not None:
            self._told.store(self._time.kept(bool(self._splits)))

    def release(self) -> None:
        with ExitStack() as closing:  # one that fails keeps none of the others from being closed
            for reading in self._splits:
                if reading.polling:
                    # The reader is in use by another thread.
                    reading.is_over = True
                else:
                    closing.callback(self._close, reading)
