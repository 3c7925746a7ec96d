"""Tables of states with a time to live, over the ordinary tables of any backend.

The table below keeps pairs of a stamp and an element (``ttl.StampedType``). What lies above sees
elements only, and never one that has expired. An element that is found expired where it is cheap to
do so is deleted at once; the others are left to ``sweep``, which looks at everything, one element
per step. Deletions are changes like any other: they are in the next segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from mainstay.state.info import StateInfo
from mainstay.state.keyed import ABSENT, Access, AnyContext, checking, no_none, no_reduction

Now = Callable[[], int]


class TtlTable:
    """What the kinds share: the table below and the clock."""

    def __init__(self, info: StateInfo, table: Any, now_us: Now) -> None:
        assert info.ttl is not None
        self.info = info
        self.table = table
        self.now_us = now_us
        self.lifetime_us = info.ttl.lifetime_us
        self.is_read = info.ttl.is_read

    def horizon(self) -> int:
        """What was last touched then or before has expired."""
        return self.now_us() - self.lifetime_us

    def delete(self, key: Any) -> None:
        self.table.delete(key)

    def bring(self, keys: Sequence[Any]) -> None:
        self.table.bring(keys)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """Every key and what counts for it, without touching it."""
        horizon = self.horizon()
        found = ((key, self.counting(kept, horizon)) for key, kept in self.table.entries())
        return iter([(key, kept) for key, kept in found if kept is not None])

    def counting(self, kept: Any, horizon: int) -> Any:
        """The elements of what is kept that have not expired; None where there are none."""
        raise NotImplementedError

    def sweep(self) -> Iterator[None]:
        """Delete what had expired when it began, an element at a time.

        Others may change it in between, so what looks expired is looked at again.
        """
        raise NotImplementedError


class TtlValues(TtlTable):
    """One value per key."""

    def read(self, key: Any) -> Any:
        kept = self.table.read(key)
        return None if kept is None else self.counting(kept, self.horizon())

    def read_many(self, keys: Sequence[Any], default: Any) -> list[Any]:
        now = self.now_us()
        horizon = now - self.lifetime_us
        found = [
            None if pair is None or pair[0] <= horizon else pair[1]
            for pair in self.table.read_many(keys, None)
        ]
        if self.is_read:
            there = [(key, kept) for key, kept in zip(keys, found, strict=True) if kept is not None]
            self.table.put_many([key for key, _ in there], [(now, kept) for _, kept in there])
        return [default if kept is None else kept for kept in found]

    def put_many(self, keys: Sequence[Any], kept: Sequence[Any]) -> None:
        now = self.now_us()
        self.table.put_many(keys, [None if value is None else (now, value) for value in kept])

    def access(self, context: AnyContext, info: StateInfo | None = None) -> Access:
        info = info or self.info
        below = self.table.access(context)
        touched = self._touching(below)
        thaw, function = info.value.thaw, info.function
        checked, reduced = checking(info, no_none), checking(info, no_reduction)

        def get() -> Any:
            kept = touched()
            return kept if kept is None or thaw is None else thaw(kept)

        def update(value: Any) -> None:
            below.update(None if value is None else (self.now_us(), checked(value)))

        def add(value: Any) -> None:
            kept = checked(value)
            current = get()
            if current is not None:
                kept = reduced(function(current, kept if thaw is None else thaw(kept)))
            below.update((self.now_us(), kept))

        return Access(get, update, add)

    def _touching(self, below: Access) -> Callable[[], Any]:
        """How the value of the current key is read: it lives on, or goes if it has expired."""
        now_us, lifetime_us, is_read = self.now_us, self.lifetime_us, self.is_read

        def touched() -> Any:
            pair = below.get()
            if pair is None:
                return None
            now = now_us()
            if pair[0] <= now - lifetime_us:
                below.update(None)
                return None
            if is_read:
                below.update((now, pair[1]))
            return pair[1]

        return touched

    def counting(self, kept: Any, horizon: int) -> Any:
        return kept[1] if kept[0] > horizon else None

    def sweep(self) -> Iterator[None]:
        horizon = self.horizon()
        for key, kept in self.table.survey():
            if kept[0] <= horizon:
                self._expire(key)
            yield

    def _expire(self, key: Any) -> None:
        # What was surveyed may have been written since.
        kept = self.table.read(key)
        if kept is not None and kept[0] <= self.horizon():
            self.table.delete(key)


class TtlLists(TtlTable):
    """A list per key, whose elements expire one by one."""

    def read(self, key: Any) -> Any:
        kept = self.table.read(key)
        if kept is None:
            return None
        now = self.now_us()
        found = self.counting(kept, now - self.lifetime_us)
        if found is None:
            self.table.delete(key)
        elif self.is_read:
            self.table.put(key, [(now, element) for element in found])
        return found

    def put(self, key: Any, kept: list[Any]) -> None:
        now = self.now_us()
        self.table.put(key, [(now, element) for element in kept])

    def append(self, key: Any, kept: list[Any]) -> None:
        now = self.now_us()
        self.table.append(key, [(now, element) for element in kept])

    def counting(self, kept: Any, horizon: int) -> Any:
        return [element for at, element in kept if at > horizon] or None

    def sweep(self) -> Iterator[None]:
        horizon = self.horizon()
        for key, kept in self.table.survey():
            if any(at <= horizon for at, _ in kept):
                self._expire(key)
            # A long list takes as many steps as it has elements, though they come at once.
            yield from (None for _ in kept)

    def _expire(self, key: Any) -> None:
        kept, horizon = self.table.read(key), self.horizon()
        left = [pair for pair in kept or () if pair[0] > horizon]
        if left:
            self.table.put(key, left)
        else:
            self.table.delete(key)


class TtlMaps(TtlTable):
    """A map per key, whose entries expire one by one."""

    def read(self, key: Any) -> _Counting | None:
        kept = self.table.read(key)
        return None if kept is None else _Counting(self, key, kept)

    def entry(self, key: Any, map_key: Any) -> Any:
        pair = self.table.entry(key, map_key)
        if pair is ABSENT or pair[0] <= self.horizon():
            return ABSENT
        if self.is_read:
            self.put_entry(key, map_key, pair[1])
        return pair[1]

    def has_entry(self, key: Any, map_key: Any) -> bool:
        pair = self.table.entry(key, map_key)
        return pair is not ABSENT and pair[0] > self.horizon()

    def put_entry(self, key: Any, map_key: Any, kept: Any) -> None:
        self.table.put_entry(key, map_key, (self.now_us(), kept))

    def remove_entry(self, key: Any, map_key: Any) -> None:
        self.table.remove_entry(key, map_key)

    def counting(self, kept: Any, horizon: int) -> Any:
        return {name: pair[1] for name, pair in kept.items() if pair[0] > horizon} or None

    def sweep(self) -> Iterator[None]:
        horizon = self.horizon()
        for key, kept in self.table.survey():
            # A copy: the map changes between two steps.
            for map_key, (at, _) in list(kept.items()):
                if at <= horizon:
                    self._expire(key, map_key)
                yield

    def _expire(self, key: Any, map_key: Any) -> None:
        pair = self.table.entry(key, map_key)
        if pair is not ABSENT and pair[0] <= self.horizon():
            self.table.remove_entry(key, map_key)


class _Counting:
    """The entries of a map that have not expired, without looking at all of them for one."""

    __slots__ = ("_horizon", "_is_read", "_kept", "_key", "_table")

    def __init__(self, table: TtlMaps, key: Any, kept: dict[Any, Any]) -> None:
        self._table = table
        self._key = key
        self._kept = kept
        self._horizon = table.horizon()
        self._is_read = table.is_read

    def __contains__(self, map_key: Any) -> bool:
        pair = self._kept.get(map_key)
        return pair is not None and pair[0] > self._horizon

    def __getitem__(self, map_key: Any) -> Any:
        kept = self._kept[map_key][1]
        if self._is_read:
            self._table.put_entry(self._key, map_key, kept)
        return kept

    def __len__(self) -> int:
        return sum(at > self._horizon for at, _ in self._kept.values())

    def __iter__(self) -> Iterator[Any]:
        return iter([name for name, (at, _) in self._kept.items() if at > self._horizon])

    def items(self) -> Iterable[tuple[Any, Any]]:
        return [(name, self[name]) for name in self]

    def values(self) -> Iterable[Any]:
        return [self[name] for name in self]


class Sweeper:
    """Goes over all states of a backend that have a time to live, a slice at a time."""

    def __init__(self, tables: Sequence[TtlTable]) -> None:
        self.lifetime_us = min(table.lifetime_us for table in tables)
        self._tables = tables
        self._steps: Iterator[None] | None = None

    def slice(self, most: int) -> bool:
        """Look at some elements; False when all have been looked at once."""
        if self._steps is None:
            self._steps = (step for table in self._tables for step in table.sweep())
        for _ in range(most):
            if next(self._steps, self) is self:
                self._steps = None
                return False
        return True

    def stop(self) -> None:
        """End the pass, and free what it holds."""
        self._steps = None
