"""The queue of a loop's head: order, memory, files, and the logs of epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from mainstay.errors import RestoreError
from mainstay.runtime import feedback_log
from mainstay.runtime.feedback_log import with_rows
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators import feedback
from mainstay.runtime.operators.feedback import Feedback
from mainstay.runtime.own_states import FEEDBACK
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.operator_files import OperatorFiles
from mainstay.state.operator import OperatorList
from tests.unit.runtime.conftest import FakeBackground, FakeClock

SCHEMA = pa.schema([("n", pa.int64())])


class World:
    """A queue with everything around it."""

    def __init__(self, memory_bytes: int = 1 << 20, storage: Any = None, attempt: int = 1) -> None:
        self.background, self.clock = FakeBackground(), FakeClock()
        self.storage = storage or MemoryStorage()
        self.files = OperatorFiles(self.storage, "loop", 0, attempt)
        self.failures: list[Exception] = []
        self.queue = Feedback(SCHEMA, memory_bytes)

    def open(self, units: Any = ()) -> World:
        fail: Callable[[Exception], None] = self.failures.append
        self.queue.open(self.background, self.clock, self.files, fail, units)
        return self

    def feed(self, *numbers: int) -> None:
        self.queue.arrived(pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA))

    def tend(self) -> None:
        self.queue.tend(self.clock.now)
        self.background.drain()

    def take_all(self, most: int = 3) -> list[int]:
        taken: list[int] = []
        while not self.queue.is_empty:
            self.tend()
            batch = self.queue.take(most)
            if batch is not None:
                assert batch.num_rows <= most
                taken += batch.column(0).to_pylist()
        return taken

    def log(self, epoch: int) -> Any:
        """A whole log, in the form in which it is restored."""
        late = self.queue.open_log(Epoch(epoch))
        return self.closed(epoch, late)

    def closed(self, epoch: int, late: Any) -> Any:
        self.queue.close_log(Epoch(epoch))
        self.background.drain()
        assert late.is_known
        return restored(late.units()[FEEDBACK.name])

    def stored(self) -> list[str]:
        return self.storage.list("state/")


def restored(kept: list[Any]) -> Any:
    units = OperatorList(FEEDBACK)
    encoded = units.encode(kept)
    units.restore(encoded)
    return units.get()


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedback_log, "CHUNK_BYTES", 100)


def test_rows_come_in_the_order_in_which_they_were_fed_back() -> None:
    world = World().open()
    for n in range(0, 60, 4):
        world.feed(n, n + 1, n + 2, n + 3)
    assert world.queue.rows == 60
    assert world.take_all() == list(range(60))
    assert world.queue.rows == 0
    assert world.stored() == []


def test_what_does_not_fit_into_memory_is_stored_read_again_and_deleted() -> None:
    world = World(memory_bytes=300).open()
    for n in range(0, 400, 4):
        world.feed(n, n + 1, n + 2, n + 3)
        world.tend()
        assert world.queue._memory_bytes < 800
    assert len(world.stored()) > 10
    assert world.queue.rows == 400
    assert world.take_all() == list(range(400))
    world.background.drain()
    assert world.stored() == [], "no log has named them"


def test_the_head_waits_while_rows_cannot_be_stored_and_goes_on_when_they_can() -> None:
    world = World(memory_bytes=300).open()
    for n in range(0, 400, 4):
        world.feed(n, n + 1, n + 2, n + 3)
    world.queue.tend(world.clock.now)
    while world.background.queue:
        world.background.take().fail(OSError("the storage is away"))
    assert world.queue.is_full
    assert world.queue.deadline() == world.clock.now + feedback.RETRY_S
    world.clock.advance(feedback.RETRY_S)
    world.tend()
    assert not world.queue.is_full
    assert world.take_all() == list(range(400))


def test_a_log_holds_what_is_queued_and_what_comes_until_it_is_closed() -> None:
    world = World().open()
    world.feed(1, 2, 3)
    world.queue.take(1)
    late = world.queue.open_log(Epoch(7))
    world.feed(4)
    assert world.take_all() == [2, 3, 4]
    world.feed(5)
    units = world.closed(7, late)
    world.feed(6)
    assert World().open(units).take_all() == [2, 3, 4, 5]
    assert world.take_all() == [5, 6], "the loop itself goes on"


def test_every_open_log_gets_what_comes_back() -> None:
    world = World().open()
    first = world.queue.open_log(Epoch(1))
    world.feed(1)
    second = world.queue.open_log(Epoch(2))
    world.feed(2)
    assert World().open(world.closed(1, first)).take_all() == [1, 2]
    world.feed(3)
    assert World().open(world.closed(2, second)).take_all() == [1, 2, 3]


def test_an_empty_log_is_known_at_once_and_a_dropped_one_is_forgotten() -> None:
    world = World().open()
    late = world.queue.open_log(Epoch(1))
    world.queue.close_log(Epoch(1))
    assert late.is_known
    assert late.units() == {FEEDBACK.name: []}
    dropped = world.queue.open_log(Epoch(2))
    world.queue.drop_log(Epoch(2))
    world.queue.close_log(Epoch(2))
    assert not dropped.is_known


def test_a_log_names_stored_rows_and_skips_those_that_were_taken() -> None:
    world = World(memory_bytes=300).open()
    for n in range(200):
        world.feed(n)
        world.tend()
    taken = [world.queue.take(1).column(0)[0].as_py() for _ in range(3)]  # type: ignore[union-attr]
    assert taken == [0, 1, 2]
    late = world.queue.open_log(Epoch(4))
    units = world.closed(4, late)
    named = {file.path for file in late.kept()}
    assert named
    assert named <= set(world.stored())
    assert world.take_all() == list(range(3, 200))
    world.background.drain()
    assert named <= set(world.stored()), "an epoch needs them, whoever else does not"
    again = World(memory_bytes=300, storage=world.storage, attempt=2).open(units)
    assert again.queue.is_replaying
    assert again.take_all() == list(range(3, 200))


def test_a_log_that_is_half_replayed_is_logged_again() -> None:
    world = World(memory_bytes=300).open()
    for n in range(200):
        world.feed(n)
        world.tend()
    first = World(storage=world.storage, attempt=2).open(world.log(1))
    seen: list[int] = []
    while len(seen) < 77:
        first.tend()
        batch = first.queue.take(1)
        seen += batch.column(0).to_pylist() if batch is not None else []
    first.feed(1000)
    second = World(storage=world.storage, attempt=3).open(first.log(2))
    assert seen + second.take_all() == [*range(200), 1000]


def test_a_log_can_be_had_with_all_its_rows_in_it() -> None:
    world = World(memory_bytes=300).open()
    for n in range(200):
        world.feed(n)
        world.tend()
    world.queue.take(5)
    late = world.queue.open_log(Epoch(1))
    world.closed(1, late)
    encoded = OperatorList(FEEDBACK).encode(late.units()[FEEDBACK.name])
    units = OperatorList(FEEDBACK)
    units.restore(with_rows(encoded, world.files.read))
    assert all(unit.path is None for unit in units.get())
    assert World().open(units.get()).take_all()[-1] == 199


def test_rows_of_another_schema_are_refused() -> None:
    world = World().open()
    world.feed(1)
    units = world.log(1)
    other = Feedback(pa.schema([("n", pa.string())]), 1000)
    with pytest.raises(RestoreError, match="stored as 'n long', and the loop is of 'n string'"):
        other.open(world.background, world.clock, world.files, world.failures.append, units)
