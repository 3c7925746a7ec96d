"""Which segments the database does not have yet, and when each may be applied. Decisions only.

A segment is applied when it is durable, when an epoch that it is part of is committed, and when
every one before it is applied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.external.reached import Reached
from mainstay.state.backends.external.store import Applied, uncovered
from mainstay.state.keygroups import KeyGroupRange

NOTHING = -1
"""The epoch up to which the ledger is needed no more, while all of it is."""


@dataclass(slots=True, eq=False)
class Pending:
    """A segment that the database does not have yet.

    ``epoch`` is the first that it is part of, once that is cut; ``tables`` are there once it is
    durable.
    """

    number: int
    segment: str
    size_bytes: int
    groups: KeyGroupRange
    epoch: int | None = None
    tables: list[StateTable] | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """How far the database has come: the last segment in it, by its epoch and its number."""

    epoch: int
    number: int


class Unapplied:
    """The segments of one subtask that are still to be applied, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[Pending] = deque()
        self._number = 0
        self._committed = 0
        self.position = Position(0, 0)
        self.reached = Reached()
        self._asked: int | None = None
        """The epoch up to which the ledger is in a base that was asked for."""
        self._base: tuple[int, int] | None = None
        """That of a base in the chain, and the first epoch that was cut with it."""

    @property
    def next_number(self) -> int:
        """The number of the segment that is frozen next."""
        return self._number + 1

    def take_number(self) -> int:
        self._number += 1
        return self._number

    @property
    def segments(self) -> frozenset[str]:
        return frozenset(pending.segment for pending in self._waiting)

    @property
    def size_bytes(self) -> int:
        return sum(pending.size_bytes for pending in self._waiting)

    # ------------------------------------------------------------ what happens

    def restored(self, epoch: int, number: int, applied: Sequence[Applied] = ()) -> None:
        """The database has everything up to this, and these rows in its ledger."""
        self.position = Position(epoch, number)
        self.reached = Reached(applied)
        self._number = number

    def add(self, segment: str, size_bytes: int, groups: KeyGroupRange) -> Pending:
        pending = Pending(self.take_number(), segment, size_bytes, groups)
        self._waiting.append(pending)
        return pending

    def durable(self, segment: str, tables: list[StateTable]) -> None:
        for pending in self._waiting:
            if pending.segment == segment and pending.tables is None:
                pending.tables = tables

    def cut(self, epoch: int) -> None:
        """All that is there is part of this epoch."""
        for pending in self._waiting:
            if pending.epoch is None:
                pending.epoch = epoch
        if self._asked is not None:
            self._base, self._asked = (self._asked, epoch), None

    def committed(self, epoch: int) -> None:
        self._committed = max(self._committed, epoch)

    def next(self) -> Pending | None:
        """The segment to be applied now, if it is one's turn."""
        if not self._waiting:
            return None
        first = self._waiting[0]
        is_committed = first.epoch is not None and first.epoch <= self._committed
        return first if is_committed and first.tables is not None else None

    def up_to(self, epoch: int) -> list[Pending]:
        """What is there of an epoch and of those before it."""
        return [each for each in self._waiting if each.epoch is not None and each.epoch <= epoch]

    def has_all_of(self, epoch: int) -> bool:
        """Whether the database has every segment of an epoch that was cut."""
        return all(each.epoch is None or each.epoch > epoch for each in self._waiting)

    def applied(self, pending: Pending) -> None:
        assert self._waiting[0] is pending, "segments are applied in order"
        assert pending.epoch is not None
        self._waiting.popleft()
        self.position = Position(max(self.position.epoch, pending.epoch), pending.number)
        self.reached.note(pending.groups, pending.number)

    # ------------------------------------------------------------ the ledger

    @property
    def whole_epoch(self) -> int:
        """The last epoch of which nothing is left to be applied, as far as it is known now.

        An epoch may have several segments, and be half in the database.
        """
        first = self._waiting[0].epoch if self._waiting else None
        return self.position.epoch if first is None else min(self.position.epoch, first - 1)

    def missing(self, ref: SegmentRef, applied: Sequence[Applied]) -> list[KeyGroupRange]:
        """The key-groups of a segment that the ledger lacks, in runs."""
        groups = KeyGroupRange(ref.first_group, ref.last_group)
        return uncovered(groups, [row for row in applied if row.segment == ref.id])

    def base_stored(self, epoch: int) -> None:
        """The chain has a base now that stands for all of the ledger up to an epoch."""
        self._asked = epoch

    def forgettable(self, pending: Pending) -> int:
        """The epoch up to which the ledger is needed no more once this segment is applied.

        A chain that has these segments, and not the base that stands for them, is of an epoch
        before the base's first. It is refused on account of this segment, which comes after.
        """
        if self._base is None or pending.epoch is None:
            return NOTHING
        up_to, first = self._base
        return up_to if first <= self._committed and pending.epoch > first else NOTHING
