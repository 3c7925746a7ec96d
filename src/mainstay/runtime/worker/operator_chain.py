"""The operators of one task, driven a slice at a time.

Rows are taken in slices of a few milliseconds. A watermark, and the end of input, go through the
operators in their order and may take many slices: they are *under way* meanwhile. Three things
come before anything new, so that nothing passes them: what is left of a slice that took too long,
then what is under way, then the in-flight rows of a restored snapshot.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from mainstay.runtime.messages import EndOfInput, TimeMark
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.ports import Clock
from mainstay.runtime.worker.counting import Counts, Effort
from mainstay.runtime.worker.hot_keys import HotKeys
from mainstay.runtime.worker.member import Member
from mainstay.runtime.worker.output import Output
from mainstay.runtime.worker.pace import Pace
from mainstay.runtime.worker.parking import Parking
from mainstay.runtime.worker.replays import Replays
from mainstay.runtime.worker.slices import SliceSize

_ON_CLOCK = Operator.on_clock
_DONE = object()
LEAST_ROWS = 16
"""Lower bound of a slice, so that slow receivers cannot starve a task."""

SHORT_S = 0.001
MEASURED = 64
"""The processor's clock costs as much as some rows. So it is read for so many slices behind one
that was not short; else a slice is taken to have computed for as long as it lasted."""

RESUMED_ROWS = 1024
"""Rows of a slice that took too long that are turned into rows again at a time."""


class OperatorChain:
    """The members and outputs of a task, and what they have under way.

    ``on_end`` is called when the end of input has gone through all of them.
    """

    def __init__(
        self,
        members: list[Member],
        outputs: list[Output],
        clock: Clock,
        pace: Pace,
        slices: SliceSize,
        on_end: Callable[[], None],
        counts: Sequence[Counts] = (),
        parking: Parking | None = None,
    ) -> None:
        self.members = members
        self.outputs = outputs
        self.counts = counts or [Counts() for _ in members]
        self.replays = Replays()
        self.ended = False
        self.watermark_us: int | None = None
        """The last watermark that has gone through all operators."""
        self.is_idle = False
        """Whether that said that the input is idle."""
        self.rows = 0
        """How many rows were taken so far."""
        self.took_s = 0.0
        """How long the last slice took."""
        self._clock = clock
        self._measured = 0
        """For how many more slices the processor's clock is read."""
        self._pace = pace
        self._pace.into(members[0].operator, 0)
        self._slices = slices
        self._on_end = on_end
        self._effort = Effort(clock.monotonic())
        self._under_way: deque[Iterator[None]] = deque()
        self._at: Operator | None = None
        """Which operator has something under way, if that is begun."""
        self._clocked = [
            each.operator for each in members if type(each.operator).on_clock is not _ON_CLOCK
        ]
        self._edge = ""
        self._parking = parking
        """Where rows wait for state, if it may be far away."""
        self.hot_keys: HotKeys | None = None
        """Set where the head is given the rows of its keys."""

    @property
    def is_settled(self) -> bool:
        """Whether all that was begun is done, so that something new may be taken."""
        is_under_way = self._pace.has_rest or self._under_way or self.is_parking
        return not is_under_way and self.replays.is_empty

    @property
    def may_be_cut(self) -> bool:
        """Whether there may be a cut at once although something is under way, which goes on behind
        the marker."""
        at = self._at
        is_between = at is not None and at.may_be_cut and not self._pace.has_rest
        return is_between and not self.is_parking and self.replays.is_empty

    @property
    def is_waiting(self) -> bool:
        """Whether what is under way waits for the background. Nothing may be begun meanwhile."""
        return self._at is not None and self._at.is_waiting and not self._pace.has_rest

    @property
    def is_parking(self) -> bool:
        """Whether rows that were taken wait for state: nothing but rows may be taken."""
        return self._parking is not None and not self._parking.is_empty

    @property
    def may_park(self) -> bool:
        """Whether more rows may be taken behind those that wait."""
        return self._parking is None or not self._parking.is_full

    def parked(self) -> tuple[int, float, float]:
        """How many reads of state there were, how long they took, how long rows have waited."""
        parking = self._parking
        return (
            (0, 0.0, 0.0) if parking is None else (parking.reads, parking.read_s, parking.waited_s)
        )

    @property
    def rows_left(self) -> int:
        """Rows that were taken, or restored, and are still to be processed."""
        parked = 0 if self._parking is None else self._parking.rows
        return self.replays.rows + self._pace.rows_left + parked

    @property
    def slice_rows(self) -> int:
        """How many rows to take: those of a few milliseconds, and fewer where what is emitted for
        them would keep receivers busy for long. Markers wait behind it."""
        most = min((output.slice_rows for output in self.outputs), default=math.inf)
        return int(min(self._slices.rows, max(LEAST_ROWS, most)))

    def effort(self) -> tuple[float, float]:
        """The time that a row took lately, and the part of the time it was at work."""
        return self._effort.lately(self._clock.monotonic())

    @property
    def busy_s(self) -> float:
        """How long it was at work so far."""
        return self._effort.total_s

    def flush(self, *, idle: bool) -> bool:
        # The operators first: what they hold back goes out with the rest.
        held = sum(member.operator.flush(idle=idle) for member in self.members)
        return held + sum(output.flush() for output in self.outputs) > 0

    # ------------------------------------------------------------ slices

    def step(self) -> bool:
        """Go on with what was begun, for a slice; False if nothing was."""
        if self._pace.has_rest:
            self._resume()
        elif self.is_waiting:
            return False
        elif self._under_way:
            self._advance()
        elif self._parking is not None and (ready := self._parking.next()) is not None:
            self._process(ready.batch, ready.port, ready.edge, 0)
        elif not self.replays.is_empty and self.may_park:
            place, port, edge, batch = self.replays.take(self.slice_rows)
            self.process(batch, port, edge=edge, place=place)
        else:
            return False
        return True

    def process(self, batch: pa.RecordBatch, port: int, *, edge: str = "", place: int = 0) -> None:
        """Have an operator take a batch. ``edge`` is what its rows are known by in snapshots."""
        if self._parking is None or place or not self._parking.take(batch, port, edge):
            self._process(batch, port, edge, place)

    def _process(self, batch: pa.RecordBatch, port: int, edge: str, place: int) -> None:
        self._edge = edge
        into = self._pace.way_into(self.members[place].operator, place)
        if self.hot_keys is not None and not place:
            self.hot_keys.look(batch, port, self._effort.total_s)

        def work() -> int:
            into(batch, port)
            return batch.num_rows  # type: ignore[no-any-return]

        self.run(work)

    def run(self, work: Callable[[], int | None]) -> int | None:
        """Do a slice of work that may stop in the middle; it says how many rows it took."""
        clock, pace = self._clock, self._pace
        started = clock.monotonic()
        computed = clock.cpu() if self._measured else None
        pace.begin(started)
        rows = work()
        pace.end()
        if rows:
            self.rows += rows
            self.took_s = clock.monotonic() - started
            self._effort.took(rows - pace.rows_left, self.took_s)
            cpu_s = self.took_s if computed is None else clock.cpu() - computed
            self._slices.took(rows, self.took_s, cpu_s)
            is_short = self.took_s <= SHORT_S
            self._measured = max(0, self._measured - 1) if is_short else MEASURED
            for output in self.outputs:
                output.took(rows)
        return rows

    def _resume(self) -> None:
        """Go on with a slice that took too long."""
        left, started = self._pace.rows_left, self._clock.monotonic()
        self._pace.begin(started)
        self._pace.resume(RESUMED_ROWS)
        self._pace.end()
        self.took_s = self._clock.monotonic() - started
        self._effort.took(left - self._pace.rows_left, self.took_s)

    # ------------------------------------------------------------ what is under way

    def pass_on(self, watermark: TimeMark) -> None:
        """Event time moves on, behind every row that was taken before."""
        self._begin(self._passing(watermark))

    def ring(self) -> bool:
        """Have an operator do what is due by the wall clock, if any has something to do."""
        for operator in self._clocked:
            if not self.ended and operator.is_due():
                self._begin(self._through(operator, operator.on_clock()))
                return True
        return False

    def end_port(self, port: int) -> None:
        """One of the inputs has been taken whole."""
        head = self.members[0].operator
        self._begin(self._through(head, head.on_port_end(port)))

    def end(self) -> None:
        """All input has been taken: let every operator finish, and say so downstream."""
        self._begin(self._ending())

    def _begin(self, slices: Iterator[None]) -> None:
        self._under_way.append(slices)
        if len(self._under_way) == 1 and not self._pace.has_rest:
            self._advance()

    def _advance(self) -> None:
        """Do one slice of what is under way."""
        started = self._clock.monotonic()
        self._pace.begin(started)
        for _ in self._under_way[0]:
            break
        else:
            self._under_way.popleft()
        self._pace.end()
        self.took_s = self._clock.monotonic() - started
        self._effort.took(0, self.took_s)

    def _passing(self, watermark: TimeMark) -> Iterator[None]:
        """A watermark passing through the operators: each hears of it when it has taken the rows
        that those before it have emitted on account of it. Some hold it back for those behind."""
        passed: list[TimeMark] = []
        for member in self.members:
            before = member.spec.upstream
            given = watermark if before is None else passed[before]
            yield from self._through(member.operator, member.operator.on_watermark(given))
            if self._pace.has_rest:
                yield
            passed.append(member.operator.forwarded(given))
        self.watermark_us, self.is_idle = watermark.time_us, watermark.is_idle
        for output in self.outputs:
            output.send_control(passed[output.sender])

    def _through(self, operator: Operator, slices: Iterator[None]) -> Iterator[None]:
        """What an operator has to do, with a note that it is under way."""
        for _ in slices:
            self._at = operator
            yield
        self._at = None

    def _ending(self) -> Iterator[None]:
        for member in self.members:
            yield from self._through(member.operator, member.operator.before_end())
            member.operator.end_of_input()
            if self._pace.has_rest:
                yield
        self.ended = True
        for output in self.outputs:
            output.send_control(EndOfInput())
        self._on_end()

    # ------------------------------------------------------------ cuts

    def finish(self, *, behind_head: bool) -> None:
        """Do all that was begun, however long it takes, so that there may be a cut.

        With ``behind_head`` rows that the head has not taken stay: ``rest_of_head``. There are
        none while anything is under way. What an operator can do the rest of later stays, too.
        """
        self._pace.finish(RESUMED_ROWS, behind_head=behind_head)
        while self._under_way and not self.may_be_cut:
            if next(self._under_way[0], _DONE) is _DONE:
                self._under_way.popleft()

    def rest_of_head(self) -> list[tuple[str, pa.RecordBatch]]:
        """What is left of the slice that the head was given, and the slices that wait for it, with
        the names of their edges."""
        parked = [] if self._parking is None else self._parking.kept()
        return [(self._edge, batch) for batch in self._pace.rest_of_head()] + parked

    def check_invariants(self) -> None:
        for output in self.outputs:
            output.check_invariants()
        rest = self._pace.rest_of_head()
        assert not (self._under_way and rest), "a watermark has passed rows of its input"
