"""Candidates for tests of elections, and the places where elections can be held."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from mainstay.errors import SnapshotStorageError
from mainstay.ha.election import Election
from mainstay.ha.lease import LeaseElection
from mainstay.ha.zookeeper import ZooKeeperElection
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import BytesLike, Paths, Storage
from tests.services.s3 import S3Server
from tests.services.zookeeper import ZooKeeperServers, why_not

PATIENCE_S = 60.0


class Voter:
    """A candidate that remembers what it was told, and looks at its lease all the time."""

    def __init__(self, election: Election, others: list[Voter]) -> None:
        self.election = election
        self.told: list[str] = []
        self.leads = False
        self.overlaps: list[str] = []
        """Who still stood, by its own clock, when this one was elected."""
        self._others = others
        others.append(self)
        self._changed = threading.Condition()
        self._is_over = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)

    def start(self) -> Voter:
        self.election.campaign(self)
        self._looking.start()
        return self

    def _look(self) -> None:
        while not self._is_over.wait(0.02):
            self.election.look()

    def stop(self) -> None:
        """As a process that ends in good order."""
        self._is_over.set()
        self.leads = False  # it does nothing as the leader any more, before it resigns
        self.election.resign()

    def elected(self) -> None:
        for other in [each for each in self._others if each is not self]:
            other.election.look()
            if other.leads:
                self.overlaps.append(str(other.told))
        self._hear("elected", leads=True)

    def doubted(self) -> None:
        self._hear("doubted", leads=self.leads)

    def assured(self) -> None:
        self._hear("assured", leads=self.leads)

    def lost(self) -> None:
        self._hear("lost", leads=False)

    def _hear(self, word: str, *, leads: bool) -> None:
        with self._changed:
            self.told.append(word)
            self.leads = leads
            self._changed.notify_all()

    def hears(self, word: str, after: int = 0) -> int:
        """Wait until it was told something; returns how many words it has been told by then."""
        with self._changed:
            heard = self._changed.wait_for(lambda: word in self.told[after:], PATIENCE_S)
            assert heard, f"it has never heard {word!r}, but {self.told}"
            return self.told.index(word, after) + 1


class SwitchedStorage:
    """A storage that can be away."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self.is_away = False

    def _here(self) -> Storage:
        if self.is_away:
            raise SnapshotStorageError("the storage is away")
        return self._inner

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._here().read(path, start, length)

    def write(self, path: str, data: BytesLike) -> None:
        self._here().write(path, data)

    def create(self, path: str, data: BytesLike) -> bool:
        return self._here().create(path, data)

    def list(self, prefix: str) -> Paths:
        return self._here().list(prefix)

    def delete(self, *paths: str) -> None:
        self._here().delete(*paths)


class Place(Protocol):
    """Where an election is held: makes candidates, and can be away from all or from one."""

    def election(self) -> Election: ...
    def away(self) -> None: ...
    def back(self) -> None: ...


class StoragePlace:
    """Leases in a storage."""

    length_s = 1.5

    def __init__(self, open_one: Callable[[], Storage]) -> None:
        self._open = open_one
        self._opened: list[SwitchedStorage] = []

    def election(self) -> Election:
        self._opened.append(SwitchedStorage(self._open()))
        return LeaseElection(self._opened[-1], self.length_s, uuid.uuid4().hex, "job")

    def away(self) -> None:
        for storage in self._opened:
            storage.is_away = True

    def back(self) -> None:
        for storage in self._opened:
            storage.is_away = False


class ZooKeeperPlace:
    """An election in ZooKeeper, below a path of its own."""

    length_s = 1.5

    def __init__(self, servers: ZooKeeperServers, count: int) -> None:
        self._servers = servers
        self._frozen = tuple(range(count))[: count // 2 + 1]
        self.path = f"/tests/{uuid.uuid4().hex}"

    def election(self) -> Election:
        return ZooKeeperElection(self._servers.hosts, self.path, self.length_s, uuid.uuid4().hex)

    def away(self) -> None:
        """The majority answers nobody."""
        self._servers.freeze(*self._frozen)

    def back(self) -> None:
        self._servers.thaw(*self._frozen)


@contextmanager
def place(kind: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A new place of one of five kinds."""
    if kind == "memory":
        memory = MemoryStorage()
        yield StoragePlace(lambda: memory)
    elif kind == "directory":
        yield StoragePlace(lambda: open_storage(str(folder)))
    elif kind == "s3":
        server = S3Server()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in server.environment.items():
                patch.setenv(name, value)
            yield StoragePlace(lambda: open_storage("s3://bucket/elections"))
        server.close()
    else:
        if (reason := why_not()) is not None:
            pytest.skip(reason)
        servers = request.getfixturevalue(kind)
        yield ZooKeeperPlace(servers, 1 if kind == "zookeeper" else 3)
