"""A join by itself, over real state: rows and watermarks in, rows out, restarts in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import mainstay as ms
from mainstay.connectors.memory import Memory
from mainstay.runtime.deployment import RestoredState
from mainstay.runtime.messages import Attempt, Epoch, TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.spec import OperatorSpec
from mainstay.runtime.watermarks import LAST
from mainstay.runtime.worker.member import Member
from mainstay.schema import rows_to_batch, to_schema
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.backends.contract import BackendSettings
from mainstay.state.keygroups import range_of
from mainstay.state.subtask import Owner
from mainstay.testing import rows

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMAS = ("k string, n long, at timestamp", "id string, m long, seen timestamp")
GROUPS = 128


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else START + timedelta(seconds=seconds)


def us(seconds: float) -> int:
    return round((START.timestamp() + seconds) * 1_000_000)


def operator_of(options: Any) -> OperatorSpec:
    """The join of a small program, as it is shipped to workers."""
    env = ms.Environment(parallelism=1, max_parallelism=GROUPS)
    times = ("at", "seen")
    left, right = (
        env.source(rows(schema, []), uid=time, watermark=ms.Watermark(time))
        for schema, time in zip(SCHEMAS, times, strict=True)
    )
    joined = left.key_by("k").join(right.key_by("id"), uid="join", **options)
    joined.sink(Memory(), uid="out")
    found = [op for task in env.plan().tasks for op in task.operators if op.uid == "join"]
    return found[0]


class Clock:
    """Time passes when a test says so."""

    now = 1_700_000_000.0

    def monotonic(self) -> float:
        return self.now

    wall = cpu = monotonic


class JoinUnderTest:
    """One subtask of a join. Times are seconds; what is emitted is kept as ``(n, m)``."""

    def __init__(self, backend: BackendSettings, **options: Any) -> None:
        self._backend, self._options = backend, options
        self._storage, self.clock = MemoryStorage(), Clock()
        self._attempt = self._epoch = 0
        self.emitted: list[tuple[Any, ...]] = []
        self.late: list[tuple[str, int]] = []
        self._open(None)

    def _open(self, restored: Any) -> None:
        self._attempt += 1
        groups = range_of(0, 1, GROUPS)
        owner = Owner("join", 0, self._attempt, groups, GROUPS, "test")
        self.member = Member(operator_of(self._options), owner, 1, self._backend, self.clock)
        assert self.member.keyed is not None
        if restored is not None:
            self.member.restore_units(restored.units)
            start = RestoredState(restored.chain, {}, False)
            deque(self.member.keyed.apply(self.member.read(self._storage, start)), maxlen=0)
        operator = self.member.operator
        operator.out = self._emitted
        operator.sides = {
            name: lambda batch, name=name: self.late.extend(  # type: ignore[misc]
                (name, number) for number in batch.column(1).to_pylist()
            )
            for name in ("late_left", "late_right")
        }
        context: Any = OperatorContext(
            "join",
            0,
            1,
            Attempt(self._attempt),
            "test",
            self.clock,
            None,  # type: ignore[arg-type]
            lambda error: None,
            self.member.row_context,
            self.member.keyed.backend,
            self.member.lists,
            None,
            groups,
            GROUPS,
        )
        operator.open(context)

    def _emitted(self, batch: Any) -> None:
        names = batch.schema.names
        numbers = [
            batch.column(names.index(name)).to_pylist() for name in ("n", "m") if name in names
        ]
        self.emitted.extend(zip(*numbers, strict=True))

    # ------------------------------------------------------------ what happens

    def _give(self, port: int, given: Sequence[tuple[Any, int, float | None]]) -> JoinUnderTest:
        values = [(key, number, at(time)) for key, number, time in given]
        batch = rows_to_batch(values, to_schema(SCHEMAS[port]), "a test")
        self.member.operator.process(batch, port)
        self.member.operator.flush()
        self.member.relieve()
        return self

    def left(self, *given: tuple[Any, int, float | None]) -> JoinUnderTest:
        return self._give(0, given)

    def right(self, *given: tuple[Any, int, float | None]) -> JoinUnderTest:
        return self._give(1, given)

    def watermark(self, seconds: float) -> JoinUnderTest:
        return self._pass(TimeMark(us(seconds)))

    def last(self) -> JoinUnderTest:
        return self._pass(LAST)

    def _pass(self, watermark: TimeMark) -> JoinUnderTest:
        deque(self.member.operator.on_watermark(watermark), maxlen=0)
        return self

    def restart(self, **options: Any) -> JoinUnderTest:
        """Take a snapshot and go on from it, with other options where some are given."""
        keyed = self.member.keyed
        assert keyed is not None
        self._epoch += 1
        self.member.operator.before_marker(Epoch(self._epoch))
        cut = self.member.freeze(Epoch(self._epoch))
        for segment in cut.segments:
            if not segment.is_durable:
                (tables,) = deque(keyed.encode(segment), maxlen=1)
                keyed.written(segment, keyed.write(self._storage, segment.id, tables), tables)
        state = self.member.acknowledged(cut)
        self.member.release()
        self._options = options or self._options
        self._open(state)
        return self

    def taken(self) -> list[tuple[Any, ...]]:
        """What was emitted since the last call, in order of the numbers."""
        found, self.emitted = self.emitted, []
        return sorted(found, key=str)

    def kept(self) -> dict[str, int]:
        """How many rows each state has, without those that have none."""
        keyed = self.member.keyed
        assert keyed is not None
        counts = {
            name: sum(len(items) for _, items in keyed.backend.entries(name))
            for name in keyed.states
        }
        return {name: count for name, count in counts.items() if count}

    def forwarded(self, seconds: float) -> float:
        """Where the watermark is behind the join, in seconds."""
        found = self.member.operator.forwarded(TimeMark(us(seconds))).time_us
        assert found is not None
        return (found - us(0)) / 1_000_000
