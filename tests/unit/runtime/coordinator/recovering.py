"""Manifests and jobs that a restore plan is made of."""

from dataclasses import replace
from typing import Any

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.runtime.coordinator.recovery import RestorePlan, key_type_of, plan_restore, schema_of
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.manifest import (
    FileRef,
    Manifest,
    OperatorState,
    OperatorUnits,
    SegmentRef,
    SubtaskState,
)
from mainstay.state.keygroups import HASH_ID
from mainstay.state.operator import encode_units
from mainstay.state.values import ValueType


class Count(ms.KeyedProcess):
    total = ms.ValueState("long")
    seen = ms.MapState("string", "long")

    def process(self, row: Any, ctx: Any) -> Any:
        return None


class Dealt(ms.Process):
    seen = ms.OperatorListState("string", redistribute="split")

    def process(self, row: Any, ctx: Any) -> Any:
        return None


class Dealt32(Dealt):
    seen = ms.OperatorListState("int", redistribute="split")


def job(
    function: Any = None,
    *,
    parallelism: int = 2,
    uid: str = "count",
    key: str = "k",
    max_parallelism: int = 128,
    extra_map: bool = False,
) -> JobSpec:
    env = ms.Environment(parallelism=parallelism, max_parallelism=max_parallelism)
    stream = env.source(Rows("k string, n long", []), uid="rows")
    if extra_map:
        stream = stream.rebalance().map(lambda row: row, "k string, n long", uid="extra")
    counted = stream.key_by(key).process(function or Count(), "k string", uid=uid)
    counted.sink(Memory(), uid="out")
    return env.plan()


def listing(function: ms.Process) -> JobSpec:
    """A job with a list per subtask."""
    env = ms.Environment(parallelism=2)
    rows = env.source(Rows("k string, n long", []), uid="rows")
    rows.process(function, "k string", uid="list").sink(Memory(), uid="out")
    return env.plan()


def segment(name: str, first: int, last: int, *, is_base: bool = False) -> SegmentRef:
    return SegmentRef(name, FileRef(f"state/{name}", 10, "crc32:0"), first, last, 5, is_base)


def units_of(*values: str, mode: str = "split") -> OperatorUnits:
    column = ValueType.of("string").to_array(list(values))
    return OperatorUnits(mode, len(values), encode_units(column))


def manifest(spec: JobSpec, chains: list[tuple[SegmentRef, ...]] | None = None) -> Manifest:
    """What the job would have written, with two splits being read and state in two segments."""
    if chains is None:
        chains = [(segment("a", 0, 63),), (segment("b", 64, 127),)]
    operators = {}
    for task, operator in spec.operators():
        subtasks = [SubtaskState(number) for number in range(task.parallelism)]
        if operator.key is not None:
            subtasks = [SubtaskState(n, chain) for n, chain in enumerate(chains)]
        if operator.source is not None:
            subtasks = [
                SubtaskState(n, units={"splits": units_of(f"split-{n}")})
                for n in range(task.parallelism)
            ]
        operators[operator.uid] = OperatorState(
            operator.uid,
            len(subtasks),
            key_type_of(operator),
            tuple(schema_of(info) for info in operator.states),
            tuple(subtasks),
        )
    return Manifest(
        job="words",
        lineage="l1",
        epoch=7,
        attempt=3,
        mode=spec.mode,
        max_parallelism=spec.max_parallelism,
        hash_id=HASH_ID,
        created_at=1.0,
        operators=operators,
        sources={},
    )


def plan(stored: Manifest, spec: JobSpec, *allowed: str, rewrite: bool = False) -> RestorePlan:
    return plan_restore(stored, spec, frozenset(allowed), rewrite=rewrite)


def news(restored: RestorePlan) -> list[str]:
    """What is reported beyond what simply fits."""
    return [line for line in restored.report if not line.startswith("matched ")]


def chains(restored: RestorePlan, uid: str = "count") -> list[list[tuple[str, int, int]]]:
    count = len([key for key in restored.states if key[0] == uid])
    return [
        [(ref.id, ref.first_group, ref.last_group) for ref in restored.states[uid, n].chain]
        for n in range(count)
    ]


def dealt(*values: int) -> Manifest:
    stored = manifest(listing(Dealt32()))
    column = ValueType.of("int").to_array(list(values))
    units = OperatorUnits("split", len(values), encode_units(column))
    held = replace(stored.operators["list"], subtasks=(SubtaskState(0, (), {"seen": units}),))
    return replace(stored, operators={**stored.operators, "list": held})
