"""Moments of the external backend that few seeds come by, built by hand: each holds or raises."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pyarrow as pa

from mainstay.errors import FencedError
from mainstay.state.backends.external.store import StoreAwayError
from mainstay.state.declaration import ListState, ValueState
from mainstay.state.hashing import key_groups
from mainstay.testing.memory_store import MemoryStore, MemoryStoreSettings
from tests.contract.conftest import MAX_PARALLELISM, BackendUnderTest, OpenBackend, last

STATES = {"n": ValueState("long"), "l": ListState("long")}


def opened() -> OpenBackend:
    settings = MemoryStoreSettings("cases")
    settings.fresh()
    return OpenBackend(settings)


def commit(backend: BackendUnderTest) -> Any:
    """An epoch that is in the log; what it has is still to be applied."""
    epoch = backend.write(backend.freeze())
    backend.keyed.backend.on_complete(backend.epoch)
    return epoch


def a_worker_that_was_replaced_writes() -> None:
    """It looked at the fence before another attempt raised it, and is refused all the same."""
    opening = opened()
    old = opening(STATES, "long")
    old.at(1).n.update(1)
    epoch = commit(old)
    old.tend()
    old.at(1).n.update(2)
    commit(old)
    new = opening.reopen(STATES, epoch, "long")
    try:
        old.tend()
    except FencedError:
        assert new.at(1).n.get() == 1
        return
    raise AssertionError("a worker that was replaced has written")


def the_answer_is_lost_and_the_worker_dies() -> None:
    """The segment is in the database, and nobody has heard of it."""
    opening = opened()
    busy, other = opening.all(STATES, 2, "long")
    for number in range(3):
        busy.at(key_of(busy)).l.add(number)
        epoch = commit(busy)
        busy.tend()
    other.at(key_of(other)).l.add(7)
    newest = commit(other)
    lose_the_answer(other)
    (new,) = opening.restore(STATES, [epoch, newest], 1, "long")
    assert new.at(key_of(busy)).l.get() == [0, 1, 2], new.at(key_of(busy)).l.get()
    assert new.at(key_of(other)).l.get() == [7], new.at(key_of(other)).l.get()


def key_of(backend: BackendUnderTest) -> int:
    """A key that belongs to a subtask."""
    groups = key_groups([pa.array(range(1000))], MAX_PARALLELISM)
    return next(key for key, group in enumerate(groups) if group in backend.keyed.owner.groups)


def lose_the_answer(backend: BackendUnderTest) -> None:
    work = backend.keyed.next_work(backend.storage)
    assert work is not None
    right = MemoryStore.apply

    def apply(*arguments: Any) -> None:
        right(*arguments)
        raise StoreAwayError("the answer is lost")

    with patch.object(MemoryStore, "apply", apply):
        try:
            work.run()
        except StoreAwayError as error:
            work.failed(error)


def a_segment_is_applied_while_rows_are_read() -> None:
    """What is read was there before the segment, and is handed over after it."""
    opening = opened()
    first = opening(STATES, "long")
    first.at(1).n.update(1)
    commit(first)
    first.compact(0)
    backend = opening.reopen(STATES, first.snapshot(), "long")
    backend.at(9).n.get()
    backend.at(1).n.update(2)
    commit(backend)
    forget(backend)
    read = backend.keyed.backend.read_ahead([1])
    assert read is not None
    rows = read.run()
    backend.tend()
    read.done(rows)
    assert backend.at(1).n.get() == 2, backend.at(1).n.get()


def a_base_is_made_when_an_epoch_is_half_in_the_database() -> None:
    """One of its two segments is in the base. The ledger needs the other one's row as long as the
    chain has it, or a restore would apply it once more, over all that came later."""
    opening = opened()
    backend = opening(STATES, "long")
    write(backend, 1)
    commit(backend)
    backend.tend()
    write(backend, 2)
    spill(backend)
    write(backend, 3)
    commit(backend)
    backend.tend(1)
    backend.keyed.compact(1)
    backend.tend()
    for number in (4, 5, 6):
        write(backend, number)
        epoch = commit(backend)
        backend.tend()
    new = opening.reopen(STATES, epoch, "long")
    assert new.at(1).n.get() == 6, new.at(1).n.get()
    assert new.at(1).l.get() == [1, 2, 3, 4, 5, 6], new.at(1).l.get()


def write(backend: BackendUnderTest, number: int) -> None:
    backend.at(1).n.update(number)
    backend.at(1).l.add(number)


def spill(backend: BackendUnderTest) -> None:
    """A segment of its own before the epoch is cut, as of a subtask whose memory is full."""
    segment = backend.keyed.freeze("p1")
    assert segment is not None
    (tables,) = last(backend.keyed.encode(segment))
    ref = backend.keyed.write(backend.storage, segment.id, tables)
    backend.keyed.written(segment, ref, tables)


def forget(backend: BackendUnderTest) -> None:
    """Nothing is cached any more."""
    for table in backend.keyed.backend.tables.values():
        table.forget()
