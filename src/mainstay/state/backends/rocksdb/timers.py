"""The table of timers in a database: values, with rows beside them that say their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mainstay.state.backends.cached.stored_rows import StoredRows
from mainstay.state.backends.cached.tables import CachedValues
from mainstay.state.backends.rocksdb.timer_order import TimerOrder
from mainstay.state.backends.rocksdb.timer_rows import TimerRows
from mainstay.state.info import StateInfo
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.stored_key import StoredKey
from mainstay.state.timer_handles import moment

INDEX_BYTES = 140
"""What a timer takes in memory beside its change, until the database has it."""


class CachedTimers(CachedValues):
    """A time for each key, or something for each key and time."""

    has_rows_beside = True

    def __init__(
        self,
        info: StateInfo,
        stored: StoredKey,
        number: int,
        max_parallelism: int,
        groups: KeyGroupRange,
    ) -> None:
        super().__init__(info, stored, number, max_parallelism)
        self.entry_bytes += INDEX_BYTES
        self._ordered = TimerRows(number, stored, max_parallelism)
        self.timer_order = TimerOrder(self, self._ordered, groups)
        self._added = 0
        """How many timers more the database has with what is being written into it."""

    def renumber(self, number: int) -> None:
        super().renumber(number)
        self._ordered.number = number

    # ------------------------------------------------------------ what the order asks for

    def is_there(self, at: int, key: Any) -> bool:
        if self._ordered.is_pair:
            return self.live[key, moment(at)] is not None
        return bool(self.live[key] == moment(at))

    def is_cached(self, at: int, key: Any) -> bool:
        # Who sets a declared timer has looked, and may put it there before the table has it.
        return self._ordered.is_pair and self.live.peek((key, moment(at)), None) is not None

    def is_pending(self) -> Callable[[int, Any], bool]:
        parts = [part for part in (self.changes, *(part for _, part in self.frozen)) if part]
        if not parts:
            return lambda at, key: False
        if self._ordered.is_pair:
            return lambda at, key: any((key, moment(at)) in part for part in parts)
        return lambda at, key: any(key in part for part in parts)

    # ------------------------------------------------------------ in step with the changes

    def freeze_as(self, generation: int) -> list[Any]:
        if self.changes:
            self.timer_order.freeze_as(generation)
        return super().freeze_as(generation)

    def absorbed(self, generation: int) -> None:
        super().absorbed(generation)
        added, self._added = self._added, 0
        self.timer_order.absorbed(generation, added)

    def forget(self) -> None:
        super().forget()
        self._added = 0
        self.timer_order.forget()

    def restored(self) -> None:
        self._added = 0
        self.timer_order.recount()

    def beside(
        self, database: StoredRows, changes: Mapping[bytes, bytes | None]
    ) -> Mapping[bytes, bytes | None]:
        order, added = self._ordered.changes(database, changes)
        # In the background; ``absorbed`` reads it when that is done.
        self._added += added
        return order

    def copied(
        self, rows: Sequence[tuple[bytes, bytes]], generation: int
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._ordered.with_order(super().copied(rows, generation))
