"""The timers of one state of a database in the order of their times: more than memory holds.

The database has them in order (``timer_rows``). In memory are those that it does not have yet,
which are changes in any case, and the *head*: of each key-group the next few that it has. So memory
does not grow with the number of timers.

Those of the active segment and of each frozen one have an index of their own, which goes when the
database has the segment. What a scan finds while a change of it is not in the database yet is
passed over: the index of that change has it, or it was deleted. So a timer is found in one place.
To set one that only the database has puts it into the active segment, and nobody asks the
database: it is the same row.

This is a hot file (benchmarks/timers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Protocol

from mainstay.state.backends.cached.stored_rows import StoredRows
from mainstay.state.backends.rocksdb.timer_rows import TimerRows, time_cell
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.timer_index import TimerIndex

HEAD_TIMERS = 16384
"""About how many timers the head has, of all key-groups together; twice as many before it is made
anew."""
FIRST_READ = 16
"""Timers that are read of a key-group at first; then twice as many each time."""
FEW = 1024
"""Timers of a segment below which it is found out which key-groups they are of."""
_ALWAYS, _NEVER = -(1 << 63), (1 << 63) - 1
_READ_ALL = b"\xff"
"""Behind every time of a timer: there is no year that begins with it."""


class TimerTable(Protocol):
    """What the order needs of the table that keeps the timers."""

    @property
    def database(self) -> StoredRows | None: ...
    def is_there(self, at: int, key: Any) -> bool:
        """Whether there is such a timer."""

    def is_cached(self, at: int, key: Any) -> bool:
        """The same, False where that is not known without the database."""

    def is_pending(self) -> Callable[[int, Any], bool]:
        """Says of timers that the database has whether a change of them waits for it."""


class _Pending(TimerIndex):
    """Timers of a segment that the database does not have."""

    __slots__ = ("more",)

    def __init__(self) -> None:
        super().__init__()
        self.more = 0
        """How many timers there are more with it, or fewer, as far as memory says."""


class _Group:
    """How far one key-group was read."""

    __slots__ = ("bound", "first_read", "number", "position", "reads")

    def __init__(self, number: int, first_read: int) -> None:
        self.number = number
        self.first_read = first_read
        self.position = b""
        """Rows from here on, by their bytes behind the prefix, were not read."""
        self.bound = _ALWAYS
        """No timer of theirs is earlier."""
        self.reads = first_read

    def go_back(self, at: int) -> bool:
        """Rows of this time may have come. False where they were not read up to there."""
        cell = time_cell(at)
        if cell >= self.position:
            return False
        self.position, self.bound, self.reads = cell, at, self.first_read
        return True


class TimerOrder:
    """Keys by the time that they wait for: what ``TimerIndex`` is where all are in memory."""

    def __init__(self, table: TimerTable, rows: TimerRows, groups: KeyGroupRange) -> None:
        self._table = table
        self._rows = rows
        self._numbers = groups
        self._stored = 0
        """How many timers the database has."""
        self._is_counted = True
        self._active = _Pending()
        self._frozen: list[tuple[int, _Pending]] = []
        self._top: tuple[int, TimerIndex] | None = None
        """The earliest time and where it is, if that is known."""
        self._most_read = max(4, HEAD_TIMERS // max(1, len(groups)))
        self._most_held = 2 * self._most_read * len(groups)
        self._begin()

    def _begin(self) -> None:
        self._top = None
        self._head = TimerIndex()
        first_read = min(FIRST_READ, self._most_read)
        self._groups = {number: _Group(number, first_read) for number in self._numbers}
        self._next = [(_ALWAYS, number) for number in self._groups]
        """The key-groups that have rows which were not read, a heap by their bounds. Of a group
        that went back an entry is left over that says another bound."""
        self._bound = _ALWAYS if self._groups else _NEVER

    # ------------------------------------------------------------ as an index

    @property
    def count(self) -> int:
        """How many timers there are. One that was set again counts twice until the database has
        it, if nothing of it was in memory."""
        return self._stored + self._active.more + sum(part.more for _, part in self._frozen)

    def fill(self, timers: Iterable[tuple[int, Any]]) -> None:
        """Take what was restored. Nobody needs to say what that is: the database has it."""
        if not self._is_counted:
            self.recount()

    def add(self, at: int, key: Any) -> bool:
        """False where there is such a timer already, as far as memory has it."""
        if self._table.is_cached(at, key) or any(part.has(at, key) for part in self._in_memory()):
            return False
        self._active.add(at, key)
        self._active.more += 1
        if self._top is not None and at < self._top[0]:
            self._top = at, self._active
        return True

    def remove(self, at: int, key: Any) -> bool:
        """False where there is no such timer."""
        is_held = any(each.remove(at, key) for each in self._in_memory())
        if not is_held and not self._table.is_there(at, key):
            return False
        self._active.more -= 1
        self._top = None
        return True

    def first(self) -> int | None:
        """The earliest time that anybody waits for."""
        found = self._top or self._earliest()
        return None if found is None else found[0]

    def poll(self) -> Any:
        """Take a key out of those that wait for the first time."""
        found = self._top or self._earliest()
        assert found is not None, "there is no timer"
        self._active.more -= 1
        self._top = None
        return found[1].poll()

    def _earliest(self) -> tuple[int, TimerIndex] | None:
        self._read_on()
        earliest, earliest_at = None, _NEVER
        for index in self._in_memory():
            at = index.first()
            if at is not None and at < earliest_at:
                earliest, earliest_at = index, at
        self._top = None if earliest is None else (earliest_at, earliest)
        return self._top

    def _in_memory(self) -> Iterator[TimerIndex]:
        yield self._head
        for _, index in self._frozen:
            yield index
        yield self._active

    # ------------------------------------------------------------ with the changes of the table

    def freeze_as(self, generation: int) -> None:
        """The active segment is frozen."""
        self._frozen.append((generation, self._active))
        self._active = _Pending()

    def absorbed(self, generation: int, added: int) -> None:
        """The database has every segment up to this one, which has brought so many timers."""
        self._top = None
        self._stored += added
        for number, index in self._frozen:
            if number <= generation and index.count:
                self._is_stored(index)
        self._frozen = [(number, index) for number, index in self._frozen if number > generation]

    def _is_stored(self, index: TimerIndex) -> None:
        """What was in memory is now to be found in the database, before where it was read up to."""
        if index.count > FEW:
            at = index.first()
            assert at is not None
            self._go_back(at)
        else:
            timers = list(index.timers())
            numbers = self._rows.groups_of([key for _, key in timers])
            for number, (at, _) in zip(numbers, timers, strict=True):
                self._group_goes_back(self._groups[number], at)
        self._note_bound()

    def forget(self) -> None:
        """The database was changed from elsewhere."""
        self._begin()
        self._is_counted = False

    def recount(self) -> None:
        """Count the timers that the database has; there are no others."""
        self._begin()
        self._stored = sum(1 for number in self._groups for _ in self._scan(number, b""))
        self._is_counted = True

    # ------------------------------------------------------------ the head

    def _read_on(self) -> None:
        """Read until no timer that was not read is earlier than the first of the head."""
        while self._bound < _NEVER:
            at = self._head.first()
            if at is not None and at <= self._bound:
                return
            self._read(self._groups[heappop(self._next)[1]])
            self._note_bound()
            if self._head.count > self._most_held:
                self._shorten()

    def _note_bound(self) -> None:
        """Find out what no timer that was not read is earlier than."""
        following, groups = self._next, self._groups
        while following and groups[following[0][1]].bound != following[0][0]:
            heappop(following)
        self._bound = following[0][0] if following else _NEVER

    def _read(self, group: _Group) -> None:
        most = group.reads
        found = [row_key for row_key, _ in islice(self._scan(group.number, group.position), most)]
        is_pending = self._table.is_pending()
        timers = self._rows.timers(found)
        for at, key in timers:
            if not is_pending(at, key):
                self._head.add(at, key)
        if len(found) < most:
            group.position, group.bound = _READ_ALL, _NEVER
            return
        group.bound = timers[-1][0]
        group.position = found[-1][len(self._rows.range_of(group.number)[0]) :] + b"\0"
        group.reads = min(2 * most, self._most_read)
        heappush(self._next, (group.bound, group.number))

    def _scan(self, group: int, position: bytes) -> Iterator[tuple[bytes, bytes]]:
        if self._table.database is None:
            return iter(())
        start, end = self._rows.range_of(group)
        return self._table.database.scan(start + position, end)

    def _shorten(self) -> None:
        """Forget the head, where much was set that is earlier than what was read, and read it
        again."""
        at = self._head.first()
        assert at is not None
        at = min(at, self._bound)
        self._head = TimerIndex()
        self._go_back(at)
        self._note_bound()

    def _go_back(self, at: int) -> None:
        for group in self._groups.values():
            self._group_goes_back(group, at)

    def _group_goes_back(self, group: _Group, at: int) -> None:
        if group.go_back(at):
            heappush(self._next, (at, group.number))
