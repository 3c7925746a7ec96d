"""The logical graph: what the author of a job wrote, operator by operator.

It is a value: building it runs nothing. Every operator has a uid, which is what its state is
known by; one that was not given is made from the operator's name and place, and then state is
found again only while the program does not change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from mainstay.plan import nodes
from mainstay.runtime.connector import Sink, Source
from mainstay.runtime.spec import InputSpec, KeySpec, LoopEnd, Partitioning, SideSpec
from mainstay.state.info import StateInfo
from mainstay.state.kinds import TIMER
from mainstay.state.timer_handles import EVENT_TIME


@dataclass(frozen=True, slots=True)
class Input:
    """An edge into an operator: where rows come from, how they are distributed, to which port.

    ``side`` is which output of the upstream it reads: a side output, or "" for the main one.
    """

    upstream: int
    partitioning: Partitioning
    port: int = 0
    side: str = ""


@dataclass(frozen=True, slots=True)
class LogicalOperator:
    """One operator. ``schema`` is what it emits; None for a sink.

    ``follows_job`` says that its parallelism is that of the job, and changes with it.
    ``max_parallelism`` is the number of its key-groups where that is not the job's.
    ``other_forms`` are inputs that it takes of a restored snapshot only. ``sides`` are what it
    emits beside its own rows, whether anything reads them or not.
    """

    id: int
    uid: str
    has_own_uid: bool
    name: str
    node: nodes.Node
    schema: pa.Schema | None
    parallelism: int
    inputs: tuple[Input, ...] = ()
    states: tuple[StateInfo, ...] = ()
    key: KeySpec | None = None
    follows_job: bool = False
    max_parallelism: int | None = None
    other_forms: tuple[InputSpec, ...] = ()
    sides: tuple[SideSpec, ...] = ()

    def emits(self, side: str = "") -> pa.Schema:
        """The schema of one of its outputs; "" is the main one."""
        schema = {"": self.schema, **{each.name: each.schema for each in self.sides}}[side]
        assert schema is not None
        return schema

    @property
    def source(self) -> Source | None:
        return self.node.source if isinstance(self.node, nodes.Source) else None

    @property
    def sink(self) -> Sink | None:
        return self.node.sink if isinstance(self.node, nodes.Sink) else None

    @property
    def loop(self) -> LoopEnd | None:
        """Which end of a loop it is, if it is one."""
        match self.node:
            case nodes.LoopHead():
                return LoopEnd(self.uid, is_head=True)
            case nodes.LoopTail(head):
                return LoopEnd(head, is_head=False)
            case _:
                return None

    @property
    def needs_time(self) -> bool:
        """Whether it waits for event time: without a watermark it would wait for ever."""
        if getattr(self.node, "needs_time", False):
            return True
        timers = [info.timer for info in self.states if info.kind is TIMER]
        return any(timer is not None and timer.domain == EVENT_TIME for timer in timers)

    @property
    def has_timers(self) -> bool:
        """Whether its function is called when a time has come."""
        return any(info.timer is not None for info in self.states)

    @property
    def is_sink(self) -> bool:
        return self.sink is not None

    @property
    def is_end(self) -> bool:
        """Whether nothing reads what it emits: a sink, or where a loop is closed."""
        return self.is_sink or (self.loop is not None and not self.loop.is_head)


@dataclass(frozen=True, slots=True)
class LogicalGraph:
    """All operators, each after those it reads from."""

    operators: tuple[LogicalOperator, ...]
    max_parallelism: int
    mode: str

    def operator(self, id: int) -> LogicalOperator:
        return self.operators[id]

    def most(self, operator: LogicalOperator) -> int:
        """The ``max_parallelism`` of an operator: its own, or that of the job."""
        own = operator.max_parallelism
        return self.max_parallelism if own is None else own

    def at(self, parallelism: int) -> LogicalGraph:
        """The same graph at another parallelism; operators that were given their own keep it."""
        operators = (
            replace(operator, parallelism=parallelism) if operator.follows_job else operator
            for operator in self.operators
        )
        return replace(self, operators=tuple(operators))
