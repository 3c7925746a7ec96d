"""Which segments of a worker are stored together."""

from __future__ import annotations

from typing import Any

from mainstay.runtime.messages import Attempt
from mainstay.runtime.worker.shared_files import LARGE_BYTES, MOST_BYTES, SharedFiles
from mainstay.snapshot.shared import NewFile, Stored
from tests.unit.snapshot.test_shared import encoded


class Subject:
    def __init__(self, world: Any) -> None:
        self.world = world
        self.files = SharedFiles(world.ports, Attempt(3), 2)
        self.stored: dict[str, Stored] = {}
        self.failed: dict[str, Exception] = {}

    def store(self, name: str, size_bytes: int = 100) -> None:
        self.files.store(
            NewFile(name, lambda: encoded(1)),
            size_bytes,
            lambda stored: self.stored.__setitem__(name, stored),
            lambda error: self.failed.__setitem__(name, error),
        )

    def paths(self) -> dict[str, str]:
        return {name: stored.file.path for name, stored in self.stored.items()}


def test_what_comes_while_a_file_is_stored_is_stored_as_one(world: Any) -> None:
    subject = Subject(world)
    for name in "abcd":
        subject.store(name)
    world.background.drain()
    shared = "state/%shared/a0003/w0002-2.msts"
    assert subject.paths() == {"a": "a", "b": shared, "c": shared, "d": shared}
    assert len({stored.file.name for stored in subject.stored.values()}) == 4


def test_a_large_file_waits_for_nobody_and_nobody_for_it(world: Any) -> None:
    subject = Subject(world)
    subject.store("a")
    subject.store("large", LARGE_BYTES)
    subject.store("b")
    world.background.drain()
    assert subject.paths() == {"a": "a", "large": "large", "b": "b"}


def test_a_group_is_bounded_and_the_rest_makes_the_next(world: Any) -> None:
    subject = Subject(world)
    half = LARGE_BYTES // 2
    most = MOST_BYTES // half
    for number in range(1 + most + 2):
        subject.store(str(number), half)
    world.background.drain()
    by_path: dict[str, int] = {}
    for path in subject.paths().values():
        by_path[path] = by_path.get(path, 0) + 1
    assert list(by_path.values()) == [1, most, 2]


def test_a_write_that_fails_is_told_to_all_and_the_next_group_goes_on(world: Any) -> None:
    subject = Subject(world)
    world.storage.fail("write", "")
    subject.store("a")
    subject.store("b")
    subject.store("c")
    world.background.drain()
    assert list(subject.failed) == ["a"]
    assert sorted(subject.stored) == ["b", "c"]
