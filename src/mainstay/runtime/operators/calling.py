"""A function that is called for many rows at a time, because it waits for something outside.

What is in flight are input rows. They are operator state: a marker does not wait for an answer, and
a restored job calls the function again for them, before it takes anything new. So a call may be
made more than once, and its result counts once. A watermark and the end of input do wait: nothing
that came before a watermark is emitted after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

import pyarrow as pa

from mainstay.errors import UserFunctionError
from mainstay.runtime.call_options import CallOptions
from mainstay.runtime.messages import Epoch, TimeMark
from mainstay.runtime.operators.base import Operator, OperatorContext, user_error
from mainstay.runtime.operators.rows import ROW_FUNCTION_ROWS
from mainstay.runtime.operators.taken import Taking, copied
from mainstay.runtime.own_states import CALLS
from mainstay.schema import batch_to_rows, row_class, rows_to_batches
from mainstay.schema.transpose import shown

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
"""Between a call that has failed and the next for the same row."""


async def _awaited(answer: Awaitable[Any], take: Callable[[Any], Any]) -> Any:
    return take(await answer)


@dataclass(slots=True, eq=False)
class Call:
    """One row in flight."""

    number: int
    row: Any
    due: float | None = None
    """When it takes too long; None while it has not begun, or if it may take any time."""
    failures: int = 0
    again_at: float = 0.0
    """When it is to be tried again, if it has failed."""
    is_done: bool = False
    result: Any = None
    give_up: Callable[[], None] | None = None


class CallRows(Operator):
    """One row out for each row in, as the function answers."""

    may_be_cut = True

    def __init__(
        self, function: Any, options: CallOptions, input_schema: pa.Schema, output_schema: pa.Schema
    ) -> None:
        self._function = function
        self._options = options
        self._row = row_class(input_schema)
        self._schema = output_schema
        self._taking = Taking.of(output_schema)
        self._is_nested = Taking.of(input_schema).as_is is None
        self.max_slice_rows = min(options.capacity, ROW_FUNCTION_ROWS)
        self._in_flight: dict[int, Call] = {}
        """What was taken and not emitted, in the order of the input."""
        self._taken = 0
        self._waiting: deque[Call] = deque()
        """What has not begun."""
        self._running: dict[Call, None] = {}
        """What has begun and is not done, in the order in which it is due."""
        self._again: dict[Call, None] = {}
        """What of it has failed and waits to be tried again."""
        self._done_numbers: list[int] = []
        """What is done and not emitted, in the order of the answers."""

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert context.calls is not None, "this drive cannot call functions that wait"
        self._calls = context.calls
        self._state = context.lists[CALLS]
        self._take(self._state.get())

    # ------------------------------------------------------------ calls

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        self._take(self.pieces(batch_to_rows(batch, self._row)))

    def _take(self, rows: Any) -> None:
        for row in rows:
            call = Call(self._taken, row)
            self._in_flight[self._taken] = call
            self._taken += 1
            self._waiting.append(call)
        self._begin_some()

    def _begin_some(self) -> None:
        timeout_s = self._options.timeout_s
        while self._waiting and len(self._running) < self._options.capacity:
            call = self._waiting.popleft()
            if timeout_s is not None:
                call.due = self.context.clock.monotonic() + timeout_s
            self._running[call] = None
            self._begin(call)

    def _begin(self, call: Call) -> None:
        self._again.pop(call, None)
        call.give_up = self._calls.call(
            partial(self._called, call.row),
            partial(self._done, call),
            partial(self._failed, call),
            is_async=self._options.is_async,
        )

    def _called(self, row: Any) -> Any:
        """Call the function, on whatever thread. What it gives may change before it is heard of.

        The row is part of snapshots, and is called for again after a failure: it gets a copy.
        """
        row = copied(row) if self._is_nested else row
        if self._options.is_async:
            return _awaited(self._function(row), self._taking.take)
        return self._taking.take(self._function(row))

    def _done(self, call: Call, result: Any) -> None:
        if call.is_done:
            return
        call.is_done, call.result = True, self._taking.take(result)
        del self._running[call]
        self._again.pop(call, None)
        self._done_numbers.append(call.number)
        self._begin_some()

    def _failed(self, call: Call, error: Exception) -> None:
        if call.is_done:
            return
        call.failures += 1
        if call.failures > self._options.retries:
            self.context.fail(self._named(call, error))
            return
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(call.failures - 1, 16), LONGEST_PAUSE_S)
        call.again_at = self.context.clock.monotonic() + pause_s
        self._again[call] = None

    def _named(self, call: Call, error: Exception) -> Exception:
        """The error of a call with the row that it was made for."""
        raised = user_error(self.context, error, function=self._function)
        if not isinstance(raised, UserFunctionError):
            return raised
        tries = f", {call.failures} times in a row" if call.failures > 1 else ""
        summary = f"{raised.summary}, for {shown(call.row)}{tries}"
        named = UserFunctionError(raised.uid, raised.subtask, summary, raised.user_traceback)
        named.original, named.is_final = raised.original, raised.is_final
        return named

    # ------------------------------------------------------------ time

    def tick(self, now: float) -> bool:
        """Try again what has failed, and end what takes too long."""
        again = [call for call in self._again if call.again_at <= now]
        for call in again:
            self._begin(call)
        late = self._overdue(now)
        for call in late:
            self._time_out(call)
        return bool(again or late)

    def _overdue(self, now: float) -> list[Call]:
        found = []
        for call in self._running:
            if call.due is None or call.due > now:
                break  # they are in the order in which they are due
            found.append(call)
        return found

    def _time_out(self, call: Call) -> None:
        if call.give_up is not None:
            call.give_up()
        instead = self._options.on_timeout
        if instead is None:
            self.context.fail(self._named(call, self._too_late()))
            return
        try:
            result = instead(call.row)
        except BaseException as error:
            raise user_error(self.context, error, "on_timeout") from error
        self._done(call, result)

    def _too_late(self) -> Exception:
        return TimeoutError(
            f"the function of map_async has not answered within {self._options.timeout_s:g} s. "
            "Give it a longer timeout, or say with on_timeout= which row to go on with"
        )

    def deadline(self) -> float | None:
        first = next(iter(self._running), None)
        times = [] if first is None or first.due is None else [first.due]
        return min([*times, *(call.again_at for call in self._again)], default=None)

    # ------------------------------------------------------------ results

    def flush(self, *, idle: bool = True) -> bool:
        """Emit what is done: ordered, what nothing before it waits for."""
        done = self._take_done()
        if not done:
            return False
        try:
            where = f"operator {self.context.uid!r}"
            emitted = list(rows_to_batches(done, self._schema, where))
        except BaseException as error:
            raise user_error(self.context, error, function=self._function) from error
        for batch in emitted:
            self.out(batch)
        return True

    def _take_done(self) -> list[Any]:
        if not self._done_numbers:
            return []
        numbers, self._done_numbers = self._done_numbers, []
        if self._options.is_ordered:
            done = takewhile(lambda call: call.is_done, self._in_flight.values())
            numbers = [call.number for call in done]
        return [self._in_flight.pop(number).result for number in numbers]

    @property
    def is_behind(self) -> bool:
        return len(self._in_flight) >= self._options.capacity

    @property
    def is_waiting(self) -> bool:
        return bool(self._in_flight) and not self._done_numbers

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        # Event time moves on when all that came before is out, and not before.
        yield from self._until_all_is_out()
        yield from super().on_watermark(watermark)

    def before_end(self) -> Iterator[None]:
        return self._until_all_is_out()

    def _until_all_is_out(self) -> Iterator[None]:
        self.flush()
        while self._in_flight:
            yield
            self.flush()

    # ------------------------------------------------------------ snapshots

    def before_marker(self, epoch: Epoch) -> None:
        self.flush()
        self._state.update([call.row for call in self._in_flight.values()])

    def release(self) -> None:
        for call in self._running:
            if call.give_up is not None:
                call.give_up()
