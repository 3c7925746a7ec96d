"""Timers in the order of time in a database, beside a dictionary that says what should be there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from mainstay.errors import RestoreError
from mainstay.runtime.own_states import EVENT_TIMERS
from mainstay.snapshot.checked import reference
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.backends.contract import Place, Restore
from mainstay.state.backends.rocksdb import checkpoint, timer_order
from mainstay.state.backends.rocksdb.timer_order import TimerOrder
from mainstay.state.info import StateInfo
from mainstay.state.keyed import KeyContext
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.kinds import TIMER, VALUE
from mainstay.state.timer_handles import EVENT_TIME, TimerSpec, microseconds, moment
from mainstay.state.values import ValueType
from mainstay.testing.memory_disk import MemoryRocksSettings

GROUPS = 4
CLOSE = StateInfo("close", TIMER, ValueType.of("timestamp"), timer=TimerSpec(EVENT_TIME))
PLAIN = StateInfo("close", VALUE, ValueType.of("timestamp"))
STATES = {"declared": CLOSE, "pairs": EVENT_TIMERS}


@pytest.fixture(autouse=True)
def short_head() -> Iterator[None]:
    """So little in memory that a few timers are too many."""
    small = {"HEAD_TIMERS": 16, "FIRST_READ": 2, "FEW": 3}
    with patch.multiple(timer_order, **small):
        yield


class Subtask:
    """One backend with one state of timers, and what should be in it: times by key."""

    def __init__(self, info: StateInfo, groups: tuple[int, int] = (0, GROUPS - 1)) -> None:
        self.info = info
        self.context = KeyContext()
        self.groups = KeyGroupRange(*groups)
        key = ValueType.of("string")
        place = Place([info], key, self.groups, GROUPS, self.context, "test")
        self.backend: Any = MemoryRocksSettings().open(place)
        self.handle = self.backend.handles[info.name]
        self.expected: set[tuple[int, str]] = set()
        self._segments = 0
        self._durable: list[tuple[str, Any]] = []

    def set(self, at: int, key: str) -> None:
        if self.info is CLOSE:
            self.expected = {(time, each) for time, each in self.expected if each != key}
        self.expected.add((at, key))
        self.context.current_key = key
        self.handle.set(moment(at))

    def delete(self, at: int, key: str) -> None:
        self.context.current_key = key
        if self.info is CLOSE:
            self.handle.clear()
            self.expected = {(time, each) for time, each in self.expected if each != key}
        else:
            self.handle.delete(moment(at))
            self.expected.discard((at, key))

    def take(self) -> tuple[int, str]:
        at = self.handle.due_us()
        key = self.handle.take()
        self.expected.remove((at, key))
        return at, key

    def freeze(self) -> None:
        frozen = self.backend.freeze()
        if frozen:
            self._segments += 1
            self.backend.frozen_as(f"s{self._segments}")
            tables = list(self.backend.encode(frozen))[-1]
            self._durable.append((f"s{self._segments}", tables))

    def absorb(self) -> None:
        """The database gets the oldest segment that it has not."""
        if self._durable:
            self.backend.on_durable(*self._durable.pop(0))
        while (work := self.backend.next_work()) is not None:
            work.done(work.run())

    def settle(self) -> None:
        self.freeze()
        while self._durable:
            self.absorb()

    def check(self) -> None:
        first = min((at for at, _ in self.expected), default=None)
        assert self.handle.due_us() == first

    def drained(self) -> list[tuple[int, str]]:
        return [self.take() for _ in range(len(self.expected))]

    # ------------------------------------------------------------ checkpoints

    def base(self, storage: MemoryStorage) -> SegmentRef:
        self.settle()
        found = self.backend.base("b1", storage, lambda name: f"state/{name}")
        assert found is not None
        return found

    def restored(
        self,
        storage: MemoryStorage,
        ref: SegmentRef,
        info: StateInfo | None = None,
        groups: tuple[int, int] = (0, GROUPS - 1),
    ) -> Subtask:
        other = Subtask(info or self.info, groups)
        read = _no_rows
        is_own = other.groups == self.groups
        clipped = replace(ref, first_group=groups[0], last_group=groups[1])
        other.backend.restore(Restore(storage, [clipped], read, is_own, is_converted=False))
        if info is None or info.timer is not None:
            other.handle.restore(other.backend.entries(other.info.name))
        return other


def _no_rows(ref: SegmentRef) -> Any:
    raise AssertionError(f"{ref.id} is a checkpoint, and was read as rows of a segment")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("seed", range(12))
def test_it_is_what_a_dictionary_says_whatever_the_database_has_yet(state: str, seed: int) -> None:
    random = Random(f"{state}-{seed}")
    subtask = Subtask(STATES[state])
    span = random.choice([3, 40, 1000])
    for _ in range(400):
        at, key = random.randrange(-span, span), f"k{random.randrange(25)}"
        match random.choices(
            ["set", "again", "delete", "take", "freeze", "absorb"], [10, 2, 3, 3, 2, 2]
        )[0]:
            case "set":
                subtask.set(at, key)
            case "again" if subtask.expected:
                subtask.set(*random.choice(sorted(subtask.expected)))
            case "delete":
                some = sorted(subtask.expected) or [(at, key)]
                subtask.delete(*random.choice([(at, key), random.choice(some)]))
            case "take" if subtask.expected:
                subtask.take()
            case "freeze":
                subtask.freeze()
            case "absorb":
                subtask.absorb()
        subtask.check()
    subtask.settle()
    assert subtask.handle.index.count == len(subtask.expected)
    times = [at for at, _ in subtask.drained()]
    assert times == sorted(times)
    assert subtask.handle.due_us() is None
    assert subtask.handle.index.count == 0


def filled(info: StateInfo, timers: int = 200) -> Subtask:
    subtask = Subtask(info)
    for number in Random(7).sample(range(timers), timers):
        subtask.set(number // 3, f"k{number}")
        if number % 50 == 0:
            subtask.settle()
    subtask.settle()
    return subtask


@pytest.mark.parametrize("state", STATES)
def test_memory_has_no_more_of_them_than_the_head(state: str) -> None:
    for timers in (200, 1000):
        subtask = filled(STATES[state], timers)
        order: TimerOrder = subtask.handle.index
        while subtask.expected:
            subtask.take()
            assert sum(index.count for index in order._in_memory()) <= order._most_held


@pytest.mark.parametrize("state", STATES)
def test_timers_that_come_earlier_and_earlier_do_not_fill_the_memory(state: str) -> None:
    subtask = Subtask(STATES[state])
    for number in range(300, 0, -1):
        subtask.set(number, f"k{number}")
        if number % 5 == 0:
            subtask.settle()
            subtask.check()
            assert subtask.handle.index._head.count <= subtask.handle.index._most_held
    assert [at for at, _ in subtask.drained()] == list(range(1, 301))


@pytest.mark.parametrize("state", STATES)
def test_a_checkpoint_is_opened_with_its_order(state: str) -> None:
    storage, subtask = MemoryStorage(), filled(STATES[state])
    ref = subtask.base(storage)
    assert json.loads(storage.read(ref.file.path))["format"] == checkpoint.CHECKPOINT_FORMAT
    other = subtask.restored(storage, ref)
    other.expected = set(subtask.expected)
    assert other.handle.index.count == len(other.expected)
    assert [at for at, _ in other.drained()] == [number // 3 for number in range(200)]


@pytest.mark.parametrize("state", STATES)
def test_each_half_of_a_rescaled_checkpoint_has_its_order(state: str) -> None:
    storage, subtask = MemoryStorage(), filled(STATES[state])
    ref = subtask.base(storage)
    halves = [subtask.restored(storage, ref, groups=bounds) for bounds in ((0, 1), (2, 3))]
    found: list[tuple[int, str]] = []
    for half in halves:
        half.expected = set(subtask.expected)
        part = [half.take() for _ in range(half.handle.index.count)]
        assert [at for at, _ in part] == sorted(at for at, _ in part)
        assert half.handle.due_us() is None
        found += part
    assert set(found) == subtask.expected


@pytest.mark.parametrize("state", STATES)
def test_a_checkpoint_without_an_order_is_put_in_order(state: str) -> None:
    """As versions before format 4 have written them."""
    storage, subtask = MemoryStorage(), filled(STATES[state])
    table = subtask.backend.tables[subtask.info.name]
    database = subtask.backend._database
    subtask.settle()
    order_rows = [key for key, _ in database.scan(b"", None) if key[2] & 0x80]
    assert len(order_rows) == len(subtask.expected)
    database.write((key, None) for key in order_rows)
    ref = subtask.base(storage)
    document = json.loads(storage.read(ref.file.path))
    for stored in document["states"]:
        del stored["has_order"]
    document["format"] = 3 if table.stored_key.namespace is not None else 2
    data = json.dumps(document).encode()
    storage.write(ref.file.path + ".old", data)
    old = replace(ref, file=reference(ref.file.path + ".old", data))
    other = subtask.restored(storage, old)
    other.expected = set(subtask.expected)
    assert [at for at, _ in other.drained()] == [number // 3 for number in range(200)]


def test_a_value_becomes_a_timer_and_back() -> None:
    storage, plain = MemoryStorage(), Subtask(PLAIN)
    for number in range(30):
        plain.context.current_key = f"k{number}"
        plain.handle.update(moment(100 - number))
    plain.settle()
    timers = plain.restored(storage, plain.base(storage), CLOSE)
    timers.expected = {(100 - number, f"k{number}") for number in range(30)}
    timers.check()
    timers.delete(0, "k29")
    again = MemoryStorage()
    back = timers.restored(again, timers.base(again), PLAIN)
    kept = {key: microseconds(at) for key, at in back.backend.entries("close")}
    assert kept == {key: at for at, key in timers.expected}
    rows = list(back.backend._database.scan(b"", None))
    assert len(rows) == len(kept), "rows for an order are left that nobody keeps up"


def test_a_checkpoint_of_a_later_format_is_refused() -> None:
    storage, subtask = MemoryStorage(), filled(CLOSE)
    ref = subtask.base(storage)
    document = json.loads(storage.read(ref.file.path))
    data = json.dumps({**document, "format": 5}).encode()
    storage.write("state/later.json", data)
    with pytest.raises(RestoreError, match="reads formats up to 4"):
        subtask.restored(storage, replace(ref, file=reference("state/later.json", data)))
