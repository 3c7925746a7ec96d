"""Which segments may be applied, and which rows of the ledger cover what."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from mainstay.errors import RestoreError
from mainstay.snapshot.manifest import FileRef, SegmentRef
from mainstay.state.backends.external.descriptor import (
    Descriptor,
    check_not_ahead,
    check_not_behind,
)
from mainstay.state.backends.external.ledger import NOTHING, Unapplied
from mainstay.state.backends.external.reached import Reached
from mainstay.state.backends.external.store import (
    Applied,
    StateChanges,
    TableSet,
    still_missing,
    uncovered,
)
from mainstay.state.keygroups import KeyGroupRange

ALL = KeyGroupRange(0, 9)
TABLES = TableSet("job", "totals")


def ref(id: str, first: int = 0, last: int = 9, *, is_base: bool = False) -> SegmentRef:
    file = FileRef(f"state/{id}", 10, "sum")
    format = "external" if is_base else "state"
    return SegmentRef(id, file, first, last, 1, is_base=is_base, format=format)


def row(segment: str, epoch: int, first: int = 0, last: int = 9, number: int = 1) -> Applied:
    return Applied(segment, epoch, number, KeyGroupRange(first, last))


def added(unapplied: Unapplied, segment: str) -> Any:
    return unapplied.add(segment, 100, ALL)


# ---------------------------------------------------------------- when


def test_a_segment_waits_until_it_is_durable_and_its_epoch_is_committed() -> None:
    unapplied = Unapplied()
    first = added(unapplied, "e1")
    unapplied.cut(1)
    unapplied.committed(1)
    assert unapplied.next() is None
    unapplied.durable("e1", [])
    assert unapplied.next() is first
    second = added(unapplied, "e2")
    unapplied.cut(2)
    unapplied.durable("e2", [])
    unapplied.applied(first)
    assert unapplied.next() is None
    unapplied.committed(2)
    assert unapplied.next() is second


def test_what_an_aborted_epoch_was_to_hold_is_applied_with_the_next() -> None:
    unapplied = Unapplied()
    first = added(unapplied, "e1")
    unapplied.cut(1)
    unapplied.durable("e1", [])
    unapplied.cut(2)
    unapplied.committed(2)
    assert unapplied.next() is first
    assert first.epoch == 1


def test_a_segment_that_is_spilled_belongs_to_the_epoch_that_is_cut_next() -> None:
    unapplied = Unapplied()
    spilled = added(unapplied, "p1")
    unapplied.durable("p1", [])
    unapplied.committed(3)
    assert unapplied.next() is None
    unapplied.cut(4)
    assert unapplied.next() is None
    unapplied.committed(4)
    assert unapplied.next() is spilled


def test_the_ledger_is_needed_until_a_base_of_a_committed_epoch_stands_for_it() -> None:
    unapplied = Unapplied()
    for epoch in (1, 2, 3, 4):
        pending = added(unapplied, f"e{epoch}")
        unapplied.cut(epoch)
        unapplied.durable(pending.segment, [])
        unapplied.committed(epoch)
        forgotten = unapplied.forgettable(pending)
        unapplied.applied(pending)
        if epoch == 2:
            unapplied.base_stored(2)
        # The base is part of epoch 3; the segment of epoch 4 keeps older ones from being restored.
        assert forgotten == (2 if epoch == 4 else NOTHING)


def test_rows_of_an_epoch_stay_that_a_base_stands_for_in_part() -> None:
    """A base between two segments of an epoch: the second was applied again after the next start,
    because the ledger had forgotten it with the first."""
    unapplied = Unapplied()
    first, second = added(unapplied, "p1"), added(unapplied, "p2")
    unapplied.cut(1)
    unapplied.durable("p1", [])
    unapplied.durable("p2", [])
    unapplied.committed(1)
    unapplied.applied(first)
    unapplied.base_stored(unapplied.whole_epoch)
    unapplied.applied(second)
    for epoch in (2, 3):
        pending = added(unapplied, f"e{epoch}")
        unapplied.cut(epoch)
        unapplied.durable(pending.segment, [])
        unapplied.committed(epoch)
        assert unapplied.forgettable(pending) < 1
        unapplied.applied(pending)


def test_an_epoch_is_whole_when_its_last_segment_is_applied() -> None:
    unapplied = Unapplied()
    assert unapplied.whole_epoch == 0
    segments = [added(unapplied, "e1")]
    unapplied.cut(1)
    segments += [added(unapplied, "p1"), added(unapplied, "e2")]
    unapplied.cut(2)
    added(unapplied, "p2")
    whole = []
    for pending in segments:
        unapplied.applied(pending)
        whole.append(unapplied.whole_epoch)
    assert whole == [1, 1, 2]


# ---------------------------------------------------------------- key-groups


def test_key_groups_that_no_row_covers_are_found_in_runs() -> None:
    assert uncovered(ALL, []) == [ALL]
    assert uncovered(ALL, [row("s", 1)]) == []
    assert uncovered(ALL, [row("s", 1, 3, 5)]) == [KeyGroupRange(0, 2), KeyGroupRange(6, 9)]
    assert uncovered(ALL, [row("s", 1, 0, 2), row("s", 1, 3, 8)]) == [KeyGroupRange(9, 9)]


def test_only_the_rows_of_missing_key_groups_are_applied() -> None:
    put = [(bytes([0, group]) + b"k", b"", b"v") for group in range(10)]
    readable = pa.table({"key": list(range(10))})
    changes = StateChanges("n", [put[3][0], put[7][0]], [(put[4][0], b"")], put, readable)
    runs, (left,) = still_missing([changes], row("s", 1), [row("s", 1, 0, 4)])
    assert runs == [KeyGroupRange(5, 9)]
    assert left.cleared == [put[7][0]]
    assert left.removed == []
    assert left.put == put[5:]
    assert left.readable.column("key").to_pylist() == [5, 6, 7, 8, 9]


# ---------------------------------------------------------------- other epochs


def test_a_chain_that_has_all_that_was_applied_is_restored() -> None:
    check_not_ahead(TABLES, ALL, [ref("e1"), ref("e2")], {}, [row("e1", 1), row("e2", 2)])
    chain = [ref("c1", is_base=True), ref("e3")]
    check_not_ahead(TABLES, ALL, chain, {"c1": 2}, [row("e1", 1), row("e2", 2), row("e3", 3)])


def test_a_base_stands_for_its_own_key_groups_alone() -> None:
    chain = [ref("c1", 0, 4, is_base=True), ref("c2", 5, 9, is_base=True)]
    check_not_ahead(TABLES, ALL, chain, {"c1": 5, "c2": 3}, [row("e5", 5, 0, 4)])
    with pytest.raises(RestoreError, match="moved on to epoch 5"):
        check_not_ahead(TABLES, ALL, chain, {"c1": 5, "c2": 3}, [row("e5", 5, 5, 9)])


def test_a_chain_that_lacks_what_was_applied_is_refused() -> None:
    with pytest.raises(RestoreError, match=r"moved on to epoch 2.*savepoint"):
        check_not_ahead(TABLES, ALL, [ref("e1")], {}, [row("e1", 1), row("e2", 2)])


def test_a_database_that_was_set_back_is_refused() -> None:
    found = Descriptor("db", "job", "totals", "", 4, 7, (), ((0, 9, 7),))
    check_not_behind(found, ALL, [row("e4", 4, number=7)])
    with pytest.raises(RestoreError, match="has lost what it had acknowledged up to epoch 4"):
        check_not_behind(found, ALL, [row("e3", 3, number=6)])


def test_key_groups_without_a_row_of_the_ledger_are_not_taken_for_lost_ones() -> None:
    """A base of several subtasks' key-groups, of which one had no rows, was refused when a rescale
    gave its groups to a subtask of their own."""
    unapplied = Unapplied()
    unapplied.restored(4, 8, [row("e4", 4, 0, 4, number=8)])
    assert unapplied.reached.runs(ALL) == ((0, 4, 8),)
    found = Descriptor("db", "job", "totals", "", 4, 8, (), unapplied.reached.runs(ALL))
    check_not_behind(found, KeyGroupRange(5, 9), [])
    check_not_behind(found, KeyGroupRange(3, 9), [row("e4", 4, 0, 4, number=8)])
    with pytest.raises(RestoreError, match="has lost"):
        check_not_behind(found, KeyGroupRange(4, 9), [])


def test_what_was_reached_is_said_in_runs_of_key_groups() -> None:
    reached = Reached([row("a", 1, 0, 2, number=3), row("b", 1, 3, 4, number=3)])
    reached.note(KeyGroupRange(6, 9), 5)
    reached.note(KeyGroupRange(8, 8), 4)
    assert reached.runs(ALL) == ((0, 4, 3), (6, 9, 5))
    assert reached.runs(KeyGroupRange(2, 6)) == ((2, 4, 3), (6, 6, 5))
