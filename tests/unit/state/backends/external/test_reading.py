"""Reading rows of an external database while others may have taken over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mainstay.errors import FencedError, RestoreError
from mainstay.state.backends.external.reading import RemoteTable
from mainstay.state.backends.external.store import StateColumns, TableSet
from mainstay.state.keygroups import KeyGroupRange
from mainstay.testing.memory_store import MemoryStore, MemoryStoreSettings

BEFORE, AFTER = TableSet("job-1", "totals", "a1"), TableSet("job-1", "totals", "a2")
STATES = [StateColumns("total", "value", "long", "long", None)]


def remote(store: Any) -> RemoteTable:
    table = SimpleNamespace(
        info=SimpleNamespace(name="total", kind=SimpleNamespace(stored_as="value")),
        rows=SimpleNamespace(entry_cell=None),
    )
    place: Any = SimpleNamespace(groups=KeyGroupRange(0, 127), attempt=1)
    return RemoteTable(store, BEFORE, table, place)


@pytest.fixture
def store() -> Any:
    store = MemoryStore(MemoryStoreSettings("reading").fresh(), "reading")
    store.fence(BEFORE, 1, STATES, is_known=False)
    return store


def test_a_reader_whose_tables_a_later_attempt_has_made_anew_is_told_to_stop(store: Any) -> None:
    store.fence(AFTER, 2, STATES, is_known=False)
    store.sweep(AFTER, 2, [])
    with pytest.raises(FencedError):
        remote(store).read([b"\0\0k"])


def test_a_reader_whose_tables_somebody_has_dropped_says_so(store: Any) -> None:
    store.server.tables.clear()
    with pytest.raises(RestoreError, match="its tables were dropped"):
        remote(store).read([b"\0\0k"])
