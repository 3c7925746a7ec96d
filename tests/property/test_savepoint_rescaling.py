"""A savepoint restored at another parallelism, saved again and restored at the first, is itself."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.drive.clock import SystemClock
from mainstay.runtime.coordinator.origin import load_origin
from mainstay.runtime.coordinator.recovery import key_type_of, plan_restore, schema_of
from mainstay.runtime.coordinator.savepoint_writing import pieces_of, savepoint_of
from mainstay.runtime.deployment import Deployment, RestoredState
from mainstay.runtime.messages import Attempt, Epoch
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.worker.member import Member
from mainstay.runtime.worker.worker import Worker
from mainstay.snapshot.manifest import Manifest, OperatorState, SubtaskState
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.savepoint import publish, read_savepoint, reserve
from mainstay.state.hashing import key_groups
from mainstay.state.keygroups import HASH_ID, subtask_of
from tests.members import keyed
from tests.searching import examples

GROUPS = 128
ROW = "k long, n long"


class Early(ms.KeyedProcess):
    """What the job that is saved first declares."""

    numbers = ms.ListState("long")
    total = ms.ReducingState("long", operator.add)
    slots = ms.MapState("long", "string")
    anything = ms.ValueState()

    def process(self, row: Any, ctx: Any) -> Any:
        return None


class Late(Early):
    """What later versions declare beside it."""

    added = ms.MapState("string", "long")


class Dealt(ms.Process):
    dealt = ms.OperatorListState("long", redistribute="split")
    rules = ms.OperatorListState("string", redistribute="broadcast")

    def process(self, row: Any, ctx: Any) -> Any:
        return None


class DealtLate(Dealt):
    added = ms.OperatorListState("long")


def plan(parallelism: int, *, is_late: bool) -> JobSpec:
    env = ms.Environment(parallelism=parallelism, max_parallelism=GROUPS)
    rows = env.source(Rows(ROW, [(1, 1)]), uid="rows")
    dealt = rows.process(DealtLate() if is_late else Dealt(), ROW, uid="dealt")
    keyed = dealt.key_by("k").process(Late() if is_late else Early(), ROW, uid="keyed")
    keyed.sink(Memory(), uid="out")
    return env.plan()


class AtOnce:
    """Background work that is done when it is asked for."""

    def submit(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        done(work())


def members(
    job: JobSpec, restored: Mapping[tuple[str, int], RestoredState], origin: MemoryStorage
) -> tuple[MemoryStorage, dict[tuple[str, int], Member]]:
    """The operators of a job in storage of its own, after their restore."""
    storage, found = MemoryStorage(), {}
    for number in range(job.workers):
        ports = Ports(SystemClock(), AtOnce(), lambda to, message: None, storage, lambda _: origin)
        worker = Worker(Deployment(job, Attempt(1), "lineage", restored), number, ports)
        while not worker._is_ready:
            worker.step()
        found.update({(m.uid, number): m for task in worker.tasks for m in task.members})
    return storage, found


def stored(storage: MemoryStorage, member: Member) -> SubtaskState:
    """An epoch of one operator, stored."""
    cut = member.freeze(Epoch(1))
    for segment in cut.segments:
        if not segment.is_durable:
            *_, tables = keyed(member).encode(segment)
            keyed(member).written(segment, keyed(member).write(storage, segment.id, tables), tables)
    return member.acknowledged(cut)


def saved(
    job: JobSpec, storage: MemoryStorage, found: Mapping[tuple[str, int], Member]
) -> MemoryStorage:
    """A savepoint of the operators as they are."""
    operators = {
        spec.uid: OperatorState(
            spec.uid,
            task.parallelism,
            key_type_of(spec),
            tuple(schema_of(info) for info in spec.states),
            tuple(stored(storage, found[(spec.uid, n)]) for n in range(task.parallelism)),
        )
        for task, spec in job.operators()
    }
    manifest = Manifest("job", "l", 1, 1, "exactly_once", GROUPS, HASH_ID, 0.0, operators, {})
    target = MemoryStorage()
    reserve(target, "there")
    written = [file for piece in pieces_of(manifest) for file in piece.write(storage, target)]
    publish(target, savepoint_of(manifest, job, written))
    return target


def restored_at(target: MemoryStorage, parallelism: int) -> MemoryStorage:
    """Restore at a parallelism, with states that were declared since, and save again."""
    job = plan(parallelism, is_late=True)
    states = plan_restore(load_origin(target, "there"), job, frozenset(), origin="there").states
    return saved(job, *members(job, states, target))


def contents(target: MemoryStorage) -> dict[tuple[str, str], Any]:
    """Everything a savepoint holds, without what its parallelism decides."""
    found: dict[tuple[str, str], Any] = {}
    for uid, stored_operator in read_savepoint(target, "there").operators.items():
        for state in stored_operator.states:
            tables = [pq.read_table(pa.BufferReader(target.read(f.file.path))) for f in state.files]
            rows = [row for table in tables for row in table.to_pylist()]
            if state.schema.redistribute == "split":
                rows = [row["unit"] for row in rows]
            elif state.schema.redistribute == "broadcast":
                lists = {n: [r["unit"] for r in rows if r["subtask"] == n] for n in range(1000)}
                rows = [next(units for units in lists.values() if units)] if rows else []
            if rows:
                found[(uid, state.schema.name)] = Counter(map(repr, rows))
    return found


def filled(parallelism: int, numbers: list[tuple[int, int]]) -> MemoryStorage:
    """A savepoint with some state in it."""
    job = plan(parallelism, is_late=False)
    storage, found = members(job, {}, MemoryStorage())
    for key, number in numbers:
        subtask = subtask_of(group_of(key), parallelism, GROUPS)
        member = found[("keyed", subtask)]
        member.row_context.current_key = key
        handles = keyed(member).backend.handles
        handles["numbers"].add(number)
        handles["total"].add(number)
        handles["slots"].put(number % 7, str(number))
        handles["anything"].update({"last": [number]})
        found[("dealt", number % parallelism)].lists["dealt"].add(number)
    for subtask in range(parallelism):
        found[("dealt", subtask)].lists["rules"].update(["a", "b"])
    return saved(job, storage, found)


def group_of(key: int) -> int:
    return int(key_groups([pa.array([key], pa.int64())], GROUPS)[0])


PARALLELISM = st.integers(1, 9)
NUMBERS = st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 1 << 40)), max_size=60)
MANY = [(n * 7919 % 211, n) for n in range(400)]


@settings(max_examples=examples(20), deadline=None)
@given(PARALLELISM, PARALLELISM, NUMBERS)
@example(15, 77, MANY)
@example(77, 15, MANY)
@example(1, 128, MANY)
def test_there_and_back_is_the_identity(p: int, q: int, numbers: list[tuple[int, int]]) -> None:
    first = filled(p, numbers)
    there = restored_at(first, q)
    back = restored_at(there, p)
    assert contents(there) == contents(first)
    assert contents(back) == contents(first)
    keyed = contents(first).get(("keyed", "total"), Counter())
    assert keyed.total() == len({key for key, _ in numbers})
