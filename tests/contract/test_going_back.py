"""Versions in a database, and an attempt that goes back behind the one before."""

from __future__ import annotations

import pytest

from mainstay.errors import RestoreError
from mainstay.snapshot.since import Since
from mainstay.state.backends.external.store import GROUP, Applied, TableSet
from mainstay.state.declaration import ValueState
from mainstay.state.keygroups import KeyGroupRange
from mainstay.testing.memory_store import MemoryServer, MemoryStoreSettings
from mainstay.testing.memory_versions import VersionedMemoryStore
from tests.contract.conftest import BackendUnderTest, OpenBackend
from tests.contract.store_pairs import STATES
from tests.contract.store_rows import Op, Segment

VERSIONED = MemoryStoreSettings("going-back", 1 << 16, protocol="versioned")


def test_what_was_brought_late_is_part_of_an_older_epoch_that_is_gone_back_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The database was away for two epochs, so the next attempt brought both under the second.
    The one after went back to the first, and others saw it without what belongs to it."""
    server, opening = VERSIONED.fresh(), OpenBackend(VERSIONED)
    states = {"n": ValueState("long")}
    backend = opening(states)
    with monkeypatch.context() as away:
        away.setattr(BackendUnderTest, "tend", lambda self, most=0: None)
        backend.at("a").n.update(1)
        first = backend.snapshot()
        back_to = backend.epoch
        backend.at("b").n.update(2)
        second = backend.snapshot()
    opening.since = Since(backend.epoch, 1)
    opening.reopen(states, second).tend()
    opening.since = Since(back_to, 1)
    again = opening.reopen(states, first)
    again.tend()
    assert again.contents("n") == {"a": 1}
    (versions,) = server.versions.values()
    store = VersionedMemoryStore(server, "going-back")
    assert versions.pointer == back_to
    assert len(store.view(again.keyed.backend.own.set, "n", back_to)) == 1
    for member in opening.opened:
        member.release()


def test_one_of_a_segments_numbers_is_taken_back_and_the_other_stays() -> None:
    """Two subtasks have brought a segment, each for its own key-groups and under its own number."""
    store, tables = VersionedMemoryStore(MemoryServer(), "any"), TableSet("job", "op", "v")
    store.fence(tables, 1, STATES, is_known=False)
    halves = KeyGroupRange(0, 2), KeyGroupRange(3, 5)
    every = KeyGroupRange(0, 5)
    ops = [Op("note", group, "a", "put", value="x") for group in (1, 4)]
    segment = Segment("s1", 1, every, [ops])
    rows = [Applied("s1", 1 + n, 1 + n, half) for n, half in enumerate(halves)]
    for row in rows:
        store.apply(tables, 1, row, segment.changes(row.number, row.groups), -1)
    store.discard(tables, 1, every, rows[1:], 1)
    assert store.applied(tables, every) == rows[:1]
    assert [k[:2] for k, _, _ in store.scan(tables, "note", every)] == [GROUP.pack(1)]


def test_an_attempt_that_names_tables_that_are_gone_is_not_admitted() -> None:
    store, tables = VersionedMemoryStore(MemoryServer(), "any"), TableSet("job", "op", "v")
    store.fence(tables, 1, STATES, is_known=False)
    with pytest.raises(RestoreError, match="its tables were dropped"):
        store.fence(TableSet("job", "op", "va7"), 2, STATES, is_known=True)
    store.check_fence(tables, 1)
