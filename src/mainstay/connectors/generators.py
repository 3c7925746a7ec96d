"""Generated rows, which can be generated again: numbers, and whatever a function makes of them.

::

    Sequence(end=1_000_000)                                  # id 0 … 999,999
    Sequence(rows_per_second=500)                            # without end, by the clock
    Generate("id long, name string", orders, rows_per_second=500)

Row ``k`` of a source is the same in every run; only when it comes depends on the clock. The
splits divide the rows among them and are part of the snapshot, so that a job that is restored
with another number of splits keeps those it began with. A job that is started again with a higher
``end``, or without one, goes on where the old end was; one that had none may be given one.
"""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Several
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import GraphError, SourceError
from mainstay.own_frames import made_with_own_frames
from mainstay.runtime.connector import Json, Polled, Source, Split, SplitReader
from mainstay.schema import to_schema

MIN_WAIT_S = 0.001
"""Rows that are due within so long of each other are given out together."""


class _Generated(Source):
    """Rows that are distributed in runs: ``run`` rows to the first split, as many to the next."""

    replan_s = None
    new_input = "numbers from the old end= up to a higher one"

    def __init__(
        self,
        schema: pa.Schema,
        start: int,
        end: int | None,
        splits: int,
        rows_per_second: float | None,
        batch_rows: int,
        run: int,
    ) -> None:
        name = type(self).__name__
        _check_whole(name, "start", start, None)
        if end is not None:
            _check_whole(name, "end", end, start)
        _check_whole(name, "splits", splits, 1)
        _check_whole(name, "batch_rows", batch_rows, 1)
        if rows_per_second is not None and not rows_per_second > 0:
            raise GraphError(f"{name}(rows_per_second={rows_per_second!r}) must be above 0.")
        self.schema = schema
        self.start, self.end = start, end
        self.bounded = end is not None
        self.splits = splits
        self.rows_per_second = rows_per_second
        self.batch_rows = batch_rows
        self._run = run

    def plan(self, seen: frozenset[str]) -> Several[Split]:
        ends = [_end_of(id) for id in seen]
        if None in ends:
            return []  # a split without an end has all that comes
        first = max((end for end in ends if end is not None), default=self.start)
        if seen and self.end is not None and self.end <= first:
            return []
        share = {"splits": self.splits, "run": self._run, "start": first, "end": self.end}
        where = f"-from-{first}" if seen or self.end is not None else ""
        where += "" if self.end is None else f"-to-{self.end}"
        return [
            Split(f"split-{number}-of-{self.splits}{where}", {"number": number, **share})
            for number in range(self.splits)
        ]

    def read(self, split: Split, offset: Json | None) -> SplitReader:
        share = Share.of(split.data)
        own_end = split.data.get("end")
        # An end that the split did not have before is that of this start.
        goes_on = self.end is not None and (own_end is None or self.end < own_end)
        end = self.end if goes_on else own_end
        rows = None if end is None else share.rows_before(end)
        rate = None if self.rows_per_second is None else self.rows_per_second / share.splits

        def generate(position: int, count: int) -> pa.RecordBatch:
            return self._rows(share, position, count)

        return PacedReader(generate, offset or 0, rows, rate, self.batch_rows, goes_on=goes_on)

    @abstractmethod
    def _rows(self, share: Share, position: int, count: int) -> pa.RecordBatch:
        """At least one and at most ``count`` rows of a split, from a position in it on."""


@made_with_own_frames
class Sequence(_Generated):
    """The numbers from ``start`` up to but not including ``end``, as rows ``id long``.

    Without ``end`` they go on for ever; with ``rows_per_second`` they come by the clock.
    """

    def __init__(
        self,
        start: int = 0,
        end: int | None = None,
        *,
        splits: int = 2,
        rows_per_second: float | None = None,
        batch_rows: int = 8192,
    ) -> None:
        schema = to_schema("id long")
        super().__init__(schema, start, end, splits, rows_per_second, batch_rows, run=1)

    def _rows(self, share: Share, position: int, count: int) -> pa.RecordBatch:
        numbers = np.arange(position, position + count, dtype=np.int64) * share.splits
        ids = pa.array(numbers + share.id_at(0))
        return pa.RecordBatch.from_arrays([ids], schema=self.schema)


@made_with_own_frames
class Generate(_Generated):
    """Rows that a function makes: ``function(first_id, count)`` gives ``count`` rows.

    It must give the same rows for the same numbers, whenever and wherever it is called. Ids begin
    at ``start``; a call never crosses a multiple of ``batch_rows`` after it.
    """

    def __init__(
        self,
        schema: Any,
        function: Callable[[int, int], pa.RecordBatch],
        *,
        start: int = 0,
        end: int | None = None,
        splits: int = 2,
        rows_per_second: float | None = None,
        batch_rows: int = 8192,
    ) -> None:
        if not callable(function):
            raise GraphError(f"Generate needs a function of (first_id, count), not {function!r}.")
        super().__init__(
            to_schema(schema), start, end, splits, rows_per_second, batch_rows, run=batch_rows
        )
        self.function = function

    def _rows(self, share: Share, position: int, count: int) -> pa.RecordBatch:
        first, count = share.id_at(position), min(count, share.left_in_run(position))
        batch = self.function(first, count)
        if not isinstance(batch, pa.RecordBatch) or batch.num_rows != count:
            rows = getattr(batch, "num_rows", "no")
            raise SourceError(
                f"the function of Generate was asked for {count} rows from id {first} on and gave "
                f"a {type(batch).__name__} of {rows} rows. It must return a pyarrow.RecordBatch of "
                "as many rows as it is asked for."
            )
        return batch


class Share:
    """Which ids belong to a split: a run of them, then as many for each other split, and again."""

    def __init__(self, number: int, splits: int, run: int, start: int) -> None:
        self.number, self.splits, self.run, self.start = number, splits, run, start

    @staticmethod
    def of(data: Mapping[str, Any]) -> Share:
        """The share that the data of a split describes."""
        return Share(data["number"], data["splits"], data["run"], data["start"])

    def id_at(self, position: int) -> int:
        runs, within = divmod(position, self.run)
        return self.start + (runs * self.splits + self.number) * self.run + within

    def left_in_run(self, position: int) -> int:
        return self.run - position % self.run

    def rows_before(self, end: int) -> int:
        """How many ids of the split are below ``end``."""
        rounds, rest = divmod(end - self.start, self.run * self.splits)
        return rounds * self.run + min(max(rest - self.number * self.run, 0), self.run)


class PacedReader(SplitReader):
    """Reads a split by generating it; the offset is the number of rows generated.

    With a rate, row ``n`` after the first poll is due ``n`` intervals after it, and a poll says
    when the next one is. A reader that was held up catches up.
    """

    def __init__(
        self,
        generate: Callable[[int, int], pa.RecordBatch],
        offset: int,
        rows: int | None,
        rows_per_second: float | None,
        batch_rows: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        goes_on: bool = False,
    ) -> None:
        self._generate = generate
        self._first = self._position = offset
        self._rows = rows
        self._rate = rows_per_second
        self._batch_rows = batch_rows
        self._clock = clock
        self._goes_on = goes_on
        self._began_at: float | None = None

    def poll(self, max_rows: int) -> Polled:
        now = self._clock()
        count = min(max_rows, self._batch_rows, self._due(now))
        if self._rows is not None:
            count = min(count, self._rows - self._position)
        batch = self._generate(self._position, count) if count > 0 else None
        self._position += 0 if batch is None else batch.num_rows
        ready_in_s = self._next_in_s(now)
        return Polled(batch, self._position, self._is_at_end, ready_in_s, goes_on=self._goes_on)

    @property
    def _is_at_end(self) -> bool:
        return self._rows is not None and self._position >= self._rows

    def _due(self, now: float) -> int:
        if self._rate is None:
            return self._batch_rows
        if self._began_at is None:
            self._began_at = now
        return int((now - self._began_at) * self._rate) - (self._position - self._first)

    def _next_in_s(self, now: float) -> float | None:
        """How long after ``now`` to ask for the next row."""
        if self._rate is None or self._began_at is None:
            return None
        if self._due(now) > 0:
            return 0.0
        due_at = self._began_at + (self._position - self._first + 1) / self._rate
        return max(due_at - now, MIN_WAIT_S)


def _end_of(id: str) -> int | None:
    """Where a split ends, if its id says so."""
    found = re.search(r"-to-(-?\d+)$", id)
    return None if found is None else int(found[1])


def _check_whole(source: str, name: str, value: Any, least: int | None) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or (least is not None and value < least):
        least_text = "" if least is None else f" of at least {least}"
        raise GraphError(f"{source}({name}={value!r}) must be a whole number{least_text}.")
