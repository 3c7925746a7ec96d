"""The keyed backends that the contract is run against, behind one small adapter."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from mainstay.connectors.postgres.states.settings import Postgres
from mainstay.runtime.deployment import RestoredState
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.spec import KeySpec, OperatorSpec
from mainstay.runtime.upgrading import StoredAs
from mainstay.runtime.worker.member import Cut, Member
from mainstay.snapshot.manifest import SegmentRef, SubtaskState
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.since import NOTHING_YET, Since
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.contract import BackendSettings
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.state.backends.rocksdb.settings import RocksSettings
from mainstay.state.declaration import StateDeclaration
from mainstay.state.keygroups import range_of
from mainstay.state.segments import read_chain
from mainstay.state.subtask import KeyedSubtask, Owner
from mainstay.state.ttl_tables import Sweeper
from mainstay.state.values import ValueType
from mainstay.testing.memory_disk import MemoryRocksSettings
from mainstay.testing.memory_store import MemoryStoreSettings
from tests.contract.sqlite_backend import SqliteSettings
from tests.services.postgres import name_of

# Hundreds of databases are opened, and a real disk would be waited for most of the time.
MEMORY_DISK = "/dev/shm/mainstay-tests" if os.access("/dev/shm", os.W_OK) else None

# A further backend is a further line.
IMPLEMENTATIONS: dict[str, BackendSettings] = {
    "heap": HeapSettings(),
    "rocksdb": RocksSettings(64 << 20, MEMORY_DISK),
    # So little memory that hardly a row is cached.
    "rocksdb-small": RocksSettings(1 << 18, MEMORY_DISK),
    # The database of the simulation: it must do what the real one does.
    "rocksdb-in-memory": MemoryRocksSettings(1 << 16),
    # What is written in the tests alone: the contract is enough to add a backend.
    "sqlite": SqliteSettings(),
    "external-in-memory": MemoryStoreSettings("contract", 1 << 16),
    "external-in-memory-small": MemoryStoreSettings("contract-small", 1),
    "prepared-in-memory": MemoryStoreSettings("contract-prepared", 1 << 16, protocol="prepared"),
    "versioned-in-memory": MemoryStoreSettings("contract-versioned", 1 << 16, protocol="versioned"),
}

LIKE_ANOTHER = {
    "rocksdb-in-memory",
    "external-in-memory",
    "external-in-memory-small",
    "versioned-in-memory",
}
"""Left to the soak: the suite has others of the same code, and the simulation plays all of them."""
IN_MEMORY = [
    pytest.param(name, marks=pytest.mark.soak if name in LIKE_ANOTHER else ())
    for name in IMPLEMENTATIONS
]
"""Every implementation without a server: the suite tries those that are like no other."""

MAX_PARALLELISM = 128


@dataclass(frozen=True)
class _Nothing:
    def build(self) -> Operator:
        return Operator()


@dataclass
class BackendUnderTest:
    """The keyed state of one subtask: opened, written, frozen and restored as in a job."""

    member: Member
    keyed: KeyedSubtask
    storage: Storage
    epoch: int = 0
    states: Any = field(init=False)

    def __post_init__(self) -> None:
        self.states = SimpleNamespace(**self.keyed.backend.handles)

    def at(self, key: Any, namespace: Any = None) -> Any:
        """The handles of all states, bound to a key, and those with a namespace to that, too."""
        self.member.row_context.current_key = key
        if namespace is not None:
            self.member.row_context.namespaced.enter(namespace)
        return self.states

    def freeze(self) -> Cut:
        """The synchronous part of an epoch."""
        self.epoch += 1
        self.member.relieve()
        return self.member.freeze(self.epoch)

    def write(self, cut: Cut, storage: Storage | None = None) -> SubtaskState:
        """The asynchronous part: make every segment of the cut durable and acknowledge it."""
        for segment in cut.segments:
            if not segment.is_durable:
                (tables,) = last(self.keyed.encode(segment))
                ref = self.keyed.write(storage or self.storage, segment.id, tables)
                self.keyed.written(segment, ref, tables)
        # One step behind, so that reads find changes in memory, in the database and in both.
        self.tend(1)
        self.keyed.chain.check_invariants()
        return self.member.acknowledged(cut)

    def tend(self, most: int = 1000) -> None:
        """Do what a backend needs done, at most as many things."""
        for _ in range(most):
            work = self.keyed.next_work(self.storage)
            if work is None:
                return
            work.done(work.run())

    def sweep(self, most: int = 1_000_000) -> bool:
        """Delete what has expired among some elements; False when all were looked at."""
        return Sweeper(list(self.keyed.backend.expiring.values())).slice(most)

    def snapshot(self) -> SubtaskState:
        return self.write(self.freeze())

    def compact(self, longest: int = 1) -> bool:
        """Merge what the chain says is due; False when nothing is."""
        chain = self.keyed.chain
        before = chain.segments
        self.keyed.backend.on_complete(self.epoch)
        self.tend()
        self.keyed.compact(longest)
        self.tend()
        chain.check_invariants()
        return chain.segments != before

    def absorb(self, *refs: SegmentRef) -> None:
        """Apply stored segments to what is there."""
        for table in read_chain(self.storage, refs):
            last(self.keyed.backend.apply(table))

    def contents(self, name: str) -> dict[Any, Any]:
        """Everything that a state holds, as its handle gives it."""
        handle = getattr(self.states, name)
        found = {}
        for key in [key for key, _ in self.keyed.backend.entries(name)]:
            self.at(*key) if handle.info.namespace is not None else self.at(key)
            found[key] = dict(handle.items()) if hasattr(handle, "items") else handle.get()
        return found


def last(steps: Iterator[Any]) -> deque[Any]:
    """What a generator gives last; a restore, which gives nothing, is only run to its end."""
    return deque(steps, maxlen=1)


@dataclass
class StoppedClock:
    """Time passes when a test says so."""

    now: float = 1_700_000_000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    def cpu(self) -> float:
        return self.now


@dataclass
class OpenBackend:
    """Opens backends of one implementation over one storage."""

    settings: BackendSettings
    storage: Storage = field(default_factory=MemoryStorage)
    attempt: int = 0
    clock: StoppedClock = field(default_factory=StoppedClock)
    opened: list[Member] = field(default_factory=list)
    lineages: dict[int, str] = field(default_factory=dict)
    """By attempt: what is opened empty is a job of its own."""
    since: Since = NOTHING_YET
    """The complete epoch that the next attempt starts from, for those who keep more than files."""

    def __call__(
        self,
        states: Mapping[str, StateDeclaration],
        key: str = "string",
        subtask: int = 0,
        parallelism: int = 1,
        restored: RestoredState | None = None,
        migrate_key: Callable[[Any], Any] | None = None,
    ) -> BackendUnderTest:
        self.attempt += 1
        return self._open(states, key, subtask, parallelism, restored, migrate_key)

    def _open(
        self,
        states: Mapping[str, StateDeclaration],
        key: str,
        subtask: int,
        parallelism: int,
        restored: RestoredState | None = None,
        migrate_key: Callable[[Any], Any] | None = None,
    ) -> BackendUnderTest:
        lineage = self._lineage(restored.chain if restored else ())
        infos = tuple(replace(state.info(), name=name) for name, state in states.items())
        key_spec = KeySpec((0,), ValueType.of(key), ("key",), migrate=migrate_key)
        spec = OperatorSpec("totals", "totals", _Nothing(), infos, key_spec)
        groups = range_of(subtask, parallelism, MAX_PARALLELISM)
        whose = (subtask, self.attempt, groups, MAX_PARALLELISM, lineage, self.since)
        owner = Owner("totals", *whose)
        member = Member(spec, owner, parallelism, self.settings, self.clock)
        self.opened.append(member)
        assert member.keyed is not None
        if restored is not None:
            last(member.keyed.apply(member.read(self.storage, restored)))
        # Epochs count on over attempts.
        return BackendUnderTest(member, member.keyed, self.storage, 100 * self.attempt)

    def _lineage(self, chain: Sequence[SegmentRef]) -> str:
        """That of the attempt that wrote what is restored; attempts are in the names of files."""
        names = " ".join(ref.id for ref in chain)
        writers = [int(each) for each in re.findall(r"\ba(\d+)-", names)]
        known = [self.lineages[each] for each in writers if each in self.lineages]
        return self.lineages.setdefault(self.attempt, known[0] if known else f"job-{self.attempt}")

    def all(
        self, states: Mapping[str, StateDeclaration], parallelism: int, key: str = "string"
    ) -> list[BackendUnderTest]:
        """Every subtask of an operator, empty."""
        self.attempt += 1
        return [self._open(states, key, subtask, parallelism) for subtask in range(parallelism)]

    def every(
        self,
        states: Mapping[str, StateDeclaration],
        key: str,
        parallelism: int,
        restored: RestoredState,
        migrate_key: Callable[[Any], Any] | None = None,
    ) -> list[BackendUnderTest]:
        """Every subtask of an operator, each from the same."""
        self.attempt += 1
        return [
            self._open(states, key, subtask, parallelism, restored, migrate_key)
            for subtask in range(parallelism)
        ]

    def restore(
        self,
        states: Mapping[str, StateDeclaration],
        epoch: Sequence[SubtaskState],
        parallelism: int | None = None,
        key: str = "string",
        rewrite: bool = False,
        stored_as: StoredAs | None = None,
    ) -> list[BackendUnderTest]:
        """Every subtask of an operator, from an epoch, at any parallelism."""
        parallelism = parallelism or len(epoch)
        refs = [ref for subtask in epoch for ref in subtask.chain]
        opened = []
        self.attempt += 1
        self._lineage(refs)  # of all, because the key-groups of a subtask may be without state
        for subtask in range(parallelism):
            groups = range_of(subtask, parallelism, MAX_PARALLELISM)
            clipped = (ref.clipped(groups.first, groups.last) for ref in refs)
            chain = tuple(ref for ref in clipped if ref is not None)
            start = RestoredState(chain, {}, rewrite, stored_as=stored_as)
            opened.append(self._open(states, key, subtask, parallelism, start))
        return opened

    def reopen(
        self,
        states: Mapping[str, StateDeclaration],
        epoch: SubtaskState,
        key: str = "string",
        rewrite: bool = False,
    ) -> BackendUnderTest:
        """The only subtask of an operator, from an epoch."""
        return self.restore(states, [epoch], key=key, rewrite=rewrite)[0]


ON_POSTGRES = {"postgres": "logged", "postgres-versioned": "versioned"}
POSTGRES = [
    pytest.param(name, marks=[pytest.mark.services, pytest.mark.xdist_group("postgres")])
    for name in ON_POSTGRES
]


def opening(name: str) -> OpenBackend:
    """Opens backends of an implementation, over a server that nobody has written to."""
    settings = IMPLEMENTATIONS[name]
    if isinstance(settings, MemoryStoreSettings):
        settings.fresh()
    return OpenBackend(settings)


def _opening(name: str, request: pytest.FixtureRequest) -> OpenBackend:
    if name in ON_POSTGRES:
        dsn = request.getfixturevalue("dsn")
        schema = f"states {name_of(dsn)}"
        return OpenBackend(Postgres(dsn, ON_POSTGRES[name], schema, cache="1MiB"))
    return opening(name)


@pytest.fixture(autouse=True)
def _fresh_servers() -> None:
    """Each test has servers of its own: attempts of another one's jobs fence nobody."""
    for settings in IMPLEMENTATIONS.values():
        if isinstance(settings, MemoryStoreSettings):
            settings.fresh()


@pytest.fixture(params=[*IN_MEMORY, *POSTGRES])
def open_backend(request: pytest.FixtureRequest) -> Iterator[OpenBackend]:
    opened = _opening(request.param, request)
    yield opened
    for member in opened.opened:
        member.release()
