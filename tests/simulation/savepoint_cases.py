"""A savepoint that reads the tables of a database while the job goes on, built by hand."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq

from mainstay.runtime.coordinator.recovery import schema_of
from mainstay.runtime.coordinator.savepoints import Savepoints
from mainstay.snapshot.manifest import Manifest, OperatorState, SubtaskState
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.keygroups import HASH_ID
from tests.contract.conftest import MAX_PARALLELISM, BackendUnderTest
from tests.simulation.external_cases import STATES, commit, opened, write


class Waiting:
    """Work in the background that is done when a case says so."""

    def __init__(self) -> None:
        self._work: deque[tuple[Callable[[], Any], Any, Any]] = deque()

    def submit(self, work: Callable[[], Any], done: Any, failed: Any) -> None:
        self._work.append((work, done, failed))

    def do(self) -> None:
        """All of it, and what comes of that."""
        while self._work:
            work, done, failed = self._work.popleft()
            try:
                found = work()
            except Exception as error:
                failed(error)
            else:
                done(found)


def a_savepoint_reads_the_tables_while_the_next_epoch_is_to_be_applied() -> None:
    """The epoch is committed between the begin of the savepoint and its first read, and what it
    has done to the tables waits until the savepoint is written."""
    backend = opened()(STATES, "long")
    for number in (0, 1):
        write(backend, number)
        commit(backend)
    assert backend.compact(1), "there is no base"
    saved = commit(backend)
    background, target = Waiting(), MemoryStorage()
    savepoints = Savepoints(_ports(backend, background, target))
    answers: list[Exception | None] = []
    savepoints.request("there", lambda: backend.epoch, answers.append)
    background.do()
    savepoints.committed(_manifest(backend, saved), _no_job(), is_last=False)
    _go_on(backend, savepoints)
    background.do()
    assert not answers, f"the savepoint is refused: {answers[0]}"
    savepoints.tick(backend.epoch)
    background.do()
    assert answers == [None], answers
    assert _saved(target, "n") == [(1, 1)], _saved(target, "n")
    assert _saved(target, "l") == [(1, [0, 1])], _saved(target, "l")
    _go_on(backend, savepoints)
    assert backend.keyed.backend.not_absorbed == frozenset(), "what was held is not applied"


def _go_on(backend: BackendUnderTest, savepoints: Savepoints) -> None:
    """The next epoch is complete, and all is done that may be done then."""
    write(backend, 2)
    backend.at(2).n.update(2)
    backend.write(backend.freeze())
    backend.member.on_complete(backend.epoch, savepoints.saved_epoch(), 100)
    backend.tend()


def _ports(backend: BackendUnderTest, background: Waiting, target: MemoryStorage) -> Any:
    return SimpleNamespace(
        background=background, storage=backend.storage, open=lambda place: target
    )


def _no_job() -> Any:
    return SimpleNamespace(operators=lambda: ())


def _manifest(backend: BackendUnderTest, saved: SubtaskState) -> Manifest:
    states = tuple(schema_of(info) for info in backend.keyed.states.values())
    operator = OperatorState("totals", 1, "bigint", states, (saved,))
    names = ("cases", "job-1", backend.epoch, 1, "exactly_once", MAX_PARALLELISM, HASH_ID, 0.0)
    return Manifest(*names, operators={"totals": operator}, sources={})


def _saved(target: MemoryStorage, state: str) -> list[tuple[Any, Any]]:
    """The keys and values of a state in a savepoint."""
    found = []
    for path in target.list(""):
        if path.endswith(".parquet") and f"/{state}" in path:
            rows = pq.read_table(io.BytesIO(target.read(path))).to_pylist()
            found += [(row["key"], row["value"]) for row in rows]
    return sorted(found)
