"""Compiled functions with timers.

Kernels set timers as they write states: by the column, behind the rows of a batch. ``on_timer`` is
the function itself. For a slice of what is due the states of its keys are lent to it, and what has
changed is stored behind it. Timers that were taken out for a slice and did not fire in it go back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from mainstay.runtime.compiled.lending import lending
from mainstay.runtime.operators import timed
from mainstay.runtime.operators.aside import Aside
from mainstay.runtime.operators.base import OperatorContext, user_error
from mainstay.runtime.operators.compiled import CompiledRows
from mainstay.runtime.operators.due import DueTimers, Handle
from mainstay.runtime.operators.rows import collect
from mainstay.runtime.operators.timed import Timed
from mainstay.state.timer_handles import DOMAINS, TimerHandle, in_domain, moment

FIRST_TIMERS = 16
"""Timers of the first slice at most; then as many more as time allows."""

Taken: TypeAlias = "list[tuple[Handle, Any, int]]"
"""Timers that were taken out: where each is from, its key, and its time."""


class TimedCompiledRows(Timed, CompiledRows):
    """A function with ``compiled=True`` and ``on_timer``."""

    def __init__(self, has_event_time: bool, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.has_event_time = has_event_time
        self._at_a_time = FIRST_TIMERS

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._aside = Aside(self, self._function)
        handles = [timer.lent for timer in self.lent]
        self._lent_due = {domain: DueTimers(in_domain(handles, domain)) for domain in DOMAINS}
        self._scratch_of = {timer.stored: timer.scratch for timer in self.lent}

    def on_clock(self) -> Iterator[None]:
        # Rows that came before set and clear timers, too.
        self.flush()
        yield from super().on_clock()

    # ------------------------------------------------------------ firing

    def fire(self, due: DueTimers, until_us: int) -> None:
        method = self._function.on_timer
        taken = self._taken_out(due, until_us)
        self._lend(taken)
        out: list[Any] = []
        fired = 0
        try:
            with self._aside, lending(self.lent):
                for key, at in self._polled(taken, due, until_us):
                    fired += 1
                    self._ctx.key = self._ctx.current_key = key
                    collect(method(moment(at), self._ctx), out, self._taking)
            self._ctx.check_key(method)
        except BaseException as error:
            raise user_error(self.context, error, "on_timer") from error
        self._at_a_time = 2 * fired if fired >= len(taken) else fired
        self._put_back()
        self._emit(out, method)

    def _taken_out(self, due: DueTimers, until_us: int) -> Taken:
        """The next timers, in the order of time. One that is not declared comes alone: its function
        may delete another, which is not lent."""
        taken: Taken = []
        most = min(self._at_a_time, timed.SLICE_TIMERS)
        while len(taken) < most and (found := due.first()) is not None and found[0] <= until_us:
            at, handle = found
            is_declared = isinstance(handle, TimerHandle)
            if taken and not is_declared:
                break
            taken.append((handle, handle.take(), at))
            if not is_declared:
                break
        return taken

    def _polled(self, taken: Taken, due: DueTimers, until_us: int) -> Iterator[tuple[Any, int]]:
        """The timers of a slice, each taken out when it is asked for: one may change the next."""
        handle, key, at = taken[0]
        if not isinstance(handle, TimerHandle):
            self.timers.fired += 1
            yield key, at
            return
        clock, lent = self.context.clock.monotonic, self._lent_due[handle.domain]
        ends = clock() + timed.SLICE_S
        for _ in range(timed.SLICE_TIMERS):
            found = lent.first()
            if found is None or found[0] > until_us:
                return
            at, own = found
            first = due.first_us()
            if first is not None and first < at:
                # It is not lent, and comes before.
                return
            self._ctx.timer = own.timer
            self.timers.fired += 1
            yield own.take(), at
            if clock() >= ends:
                return

    # ------------------------------------------------------------ states of its keys

    def _lend(self, taken: Taken) -> None:
        """Give the function the states of the keys that were taken out."""
        keys = list(dict.fromkeys(key for _, key, _ in taken))
        column = self._reader.key_type.to_array(keys)
        for state, scratch in zip(self._parts.states, self._parts.scratches, strict=True):
            kept = state.info.value.from_array(state.column(column))
            scratch.begin(zip(keys, kept, strict=True))
        for handle, key, at in taken:
            if isinstance(handle, TimerHandle):
                self._scratch_of[handle].take_in(key, at)

    def _put_back(self) -> None:
        """Store what has changed, and the timers that are left."""
        key_type = self._reader.key_type
        for state, scratch in zip(self._parts.states, self._parts.scratches, strict=True):
            if scratch.changed:
                keys = list(scratch.changed)
                kept = state.info.value.to_array([scratch.live.get(key) for key in keys])
                state.put_many(key_type.to_array(keys), kept)

    def _emit(self, rows: list[Any], function: Any) -> None:
        try:
            batches = self._batches(rows)
        except BaseException as error:
            raise user_error(self.context, error, function=function, may_list=True) from error
        for each in batches:
            self.out(each)
        self._aside.emit(function)
