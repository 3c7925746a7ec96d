"""A database with versions in memory, for the protocol ``versioned``: see ``memory_store``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from mainstay.state.backends.external.store import (
    GROUP,
    Applied,
    StateChanges,
    Stored,
    TableSet,
    uncovered,
)
from mainstay.state.backends.external.versions import (
    BASE,
    PUT,
    Version,
    in_order,
    laid_over,
    once_each,
    versions_of,
)
from mainstay.state.keygroups import KeyGroupRange
from mainstay.testing.memory_store import Rows
from mainstay.testing.memory_votes import VotingMemoryStore

Contents = dict[str, list[Stored]]
Deltas = dict[bytes, list[Version]]
"""By ``k``."""


@dataclass(slots=True)
class Versions:
    """What there is beside the base: deltas by state, the pointer, and what subtasks have noted."""

    deltas: dict[str, Deltas] = field(default_factory=dict)
    noted: dict[KeyGroupRange, tuple[int, int]] = field(default_factory=dict)
    """By key-groups of a subtask: its attempt, and the epoch it has brought."""
    pointer: int = 0
    folded: int = 0
    viewable: list[int] = field(default_factory=list)
    abandoned: list[tuple[int, int]] = field(default_factory=list)
    shown: list[tuple[int, Contents]] = field(default_factory=list)
    """What the view showed each time the pointer had moved, for tests to look at."""


class VersionedMemoryStore(VotingMemoryStore):
    """A connection to a server whose tables have versions."""

    def versions(self, tables: TableSet) -> Versions:
        found: Versions = self.server.versions.setdefault(tables, Versions())
        return found

    def folded(self, tables: TableSet) -> int:
        self._answer()
        return self.versions(tables).folded

    def abandoned(self, tables: TableSet) -> Sequence[tuple[int, int]]:
        return list(self.versions(tables).abandoned)

    # ------------------------------------------------------------ reads

    def view(self, tables: TableSet, state: str, epoch: int) -> list[Stored]:
        """The rows of an epoch, as others see them."""
        return in_order(self._laid_over(tables, state, lambda each: each.epoch <= epoch))

    def read(
        self, tables: TableSet, attempt: int, state: str, keys: Sequence[bytes]
    ) -> Mapping[bytes, list[tuple[bytes, bytes]]]:
        self._answer()
        self.check_fence(tables, attempt)
        self._check_there(tables)
        base, deltas = self._rows(tables, state), self._deltas(tables, state)
        wanted = set(keys)
        versions = [each for k in wanted for each in _base_of(base, k)]
        versions += (each for k in wanted for each in deltas.get(k, ()))
        return {k: sorted(some.items()) for k, some in laid_over(versions).items()}

    def read_entry(
        self, tables: TableSet, attempt: int, state: str, k: bytes, s: bytes
    ) -> bytes | None:
        self.check_fence(tables, attempt)
        deltas = self._deltas(tables, state).get(k, ())
        base = _base_of(self._rows(tables, state), k)
        return laid_over([*base, *deltas]).get(k, {}).get(s)

    def scan(
        self, tables: TableSet, state: str, groups: KeyGroupRange, up_to: int | None = None
    ) -> Iterator[Stored]:
        self._check_there(tables)
        seen = self._laid_over(
            tables,
            state,
            lambda each: _group(each) in groups and (up_to is None or each.number <= up_to),
        )
        yield from in_order(seen)

    def _base(self, tables: TableSet, state: str) -> list[Version]:
        rows = self._rows(tables, state)
        return [each for k in rows for each in _base_of(rows, k)]

    def _laid_over(
        self, tables: TableSet, state: str, is_seen: Callable[[Version], bool]
    ) -> dict[bytes, dict[bytes, bytes]]:
        deltas = chain.from_iterable(self._deltas(tables, state).values())
        return laid_over(filter(is_seen, [*self._base(tables, state), *deltas]))

    def _deltas(self, tables: TableSet, state: str) -> Deltas:
        return self.versions(tables).deltas.setdefault(state, {})

    def _drop(
        self, tables: TableSet, state: str, is_gone: Callable[[Version], bool]
    ) -> list[Version]:
        """Take deltas away, and give them."""
        deltas = self._deltas(tables, state)
        gone = list(filter(is_gone, chain.from_iterable(deltas.values())))
        kept = {k: [each for each in some if not is_gone(each)] for k, some in deltas.items()}
        self.versions(tables).deltas[state] = {k: some for k, some in kept.items() if some}
        return gone

    # ------------------------------------------------------------ writes

    def _take_in(self, tables: TableSet, segment: Applied, changes: Sequence[StateChanges]) -> None:
        for each in once_each(changes):
            deltas = self._deltas(tables, each.state)
            for version in versions_of(segment, each):
                deltas.setdefault(version.k, []).append(version)

    def complete(
        self,
        tables: TableSet,
        attempt: int,
        groups: KeyGroupRange,
        max_parallelism: int,
        epoch: int,
    ) -> int:
        self._answer()
        self.check_fence(tables, attempt)
        versions = self.versions(tables)
        versions.noted = {
            of: (by, noted) for of, (by, noted) in versions.noted.items() if by == attempt
        }
        versions.noted[groups] = (attempt, epoch)
        if sum(map(len, versions.noted)) == max_parallelism:
            self._move(tables, min(noted for _, noted in versions.noted.values()))
        self._answer()
        return versions.pointer

    def _move(self, tables: TableSet, epoch: int) -> None:
        versions = self.versions(tables)
        if epoch <= versions.pointer:
            return
        versions.pointer = epoch
        versions.viewable.append(epoch)
        states = self.server.tables[tables]
        versions.shown.append((epoch, {s: self.view(tables, s, epoch) for s in states}))

    def fold(self, tables: TableSet, attempt: int, groups: KeyGroupRange, epoch: int) -> None:
        self._answer()
        self.check_fence(tables, attempt)
        versions = self.versions(tables)

        def is_due(each: Version) -> bool:
            return each.epoch <= epoch and _group(each) in groups

        for state in list(versions.deltas):
            self._fold(tables, state, self._drop(tables, state, is_due))
        versions.folded = max(versions.folded, epoch)
        versions.viewable = [each for each in versions.viewable if each >= epoch]
        self._answer()

    def _fold(self, tables: TableSet, state: str, due: Sequence[Version]) -> None:
        rows = self._rows(tables, state)
        keys = {each.k for each in due}
        base = [each for k in keys for each in _base_of(rows, k)]
        for k in keys:
            rows.pop(k, None)
        for k, s, cell in in_order(laid_over([*base, *due])):
            rows.setdefault(k, {})[s] = cell

    def discard(
        self,
        tables: TableSet,
        attempt: int,
        groups: KeyGroupRange,
        segments: Sequence[Applied],
        epoch: int,
    ) -> None:
        self._answer()
        self.check_fence(tables, attempt)
        versions = self.versions(tables)
        if versions.pointer > epoch:
            versions.abandoned.append((epoch, versions.pointer))
            versions.pointer = epoch
            versions.viewable = [each for each in versions.viewable if each <= epoch]
        gone = {(each.number, g) for each in segments for g in each.groups if g in groups}
        for state in list(versions.deltas):
            self._drop(tables, state, lambda each: (each.number, _group(each)) in gone)
        self._unnote(tables, groups, {(each.segment, each.number) for each in segments})
        self._answer()

    def _unnote(
        self, tables: TableSet, groups: KeyGroupRange, segments: set[tuple[str, int]]
    ) -> None:
        """Take rows of the ledger back within some key-groups. Subtasks that have brought a segment
        each for its own key-groups have given it a number each."""
        rows = self.server.ledger.get(tables, [])
        kept = [row for row in rows if (row.segment, row.number) not in segments]
        for row in rows:
            if (row.segment, row.number) in segments:
                within = Applied(row.segment, row.epoch, row.number, groups)
                kept += [
                    Applied(row.segment, row.epoch, row.number, run)
                    for run in uncovered(row.groups, [within])
                ]
        self.server.ledger[tables] = kept


def _group(version: Version) -> int:
    group: int = GROUP.unpack_from(version.k)[0]
    return group


def _base_of(rows: Rows, k: bytes) -> list[Version]:
    """What the base has of a key."""
    return [Version(BASE, PUT, k, s, cell) for s, cell in rows.get(k, {}).items()]
