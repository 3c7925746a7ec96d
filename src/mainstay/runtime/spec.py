"""What runs: the physical graph as plain values, made by ``plan`` and shipped to the workers.

A *task* is a chain of operators; it has ``parallelism`` subtasks. Worker *i* runs subtask *i* of
every task that has one, so the number of a subtask is also the number of its worker. An *edge*
joins two tasks and stands for one channel (forward) or one per pair of subtasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import cloudpickle
import pyarrow as pa

from mainstay.runtime.choosing import Chooser
from mainstay.runtime.connector import Sink, Source
from mainstay.runtime.edge_names import EdgeName
from mainstay.runtime.messages import ChannelId
from mainstay.state.backends.contract import BackendSettings
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.state.info import StateInfo
from mainstay.state.values import ValueType


class OperatorFactory(Protocol):
    """Makes an operator; it is what gets pickled and shipped."""

    def build(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class KeySpec:
    """Where the key of a row is found: column numbers, the key's type, and its names.

    ``hidden`` columns hold a key that a function computed; rows do not show them. ``migrate``
    turns a key of another type, as a snapshot may hold it, into one of this type.
    """

    columns: tuple[int, ...]
    type: ValueType
    names: tuple[str, ...]
    hidden: bool = False
    migrate: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Forward:
    """Subtask *i* sends to subtask *i*. Both are one task, unless they are not to be chained."""

    is_chained: bool = True


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Batches go to the receivers round-robin."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Everyone gets everything."""


@dataclass(frozen=True, slots=True)
class HashByKey:
    """Rows go to the owner of their key-group."""

    key: KeySpec


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows go to the subtask that the job's author says."""

    chooser: Chooser


Partitioning = Forward | Rebalance | Broadcast | HashByKey | Chosen


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """An operator is one of the two ends of a loop; the uid of the head tells loops apart."""

    head: str
    is_head: bool


@dataclass(frozen=True, slots=True)
class SideSpec:
    """A side output: what an operator emits beside its own rows, under a name."""

    name: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class InputSpec:
    """What an operator takes from another one, whether they are in one chain or not.

    ``side`` is which output of the sender it reads: a side output, or "" for the main one.
    """

    sender: str
    port: int
    partitioning: Partitioning
    schema: pa.Schema
    side: str = ""


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """One operator of a chain. ``upstream`` is its place in the chain, None at the head.

    ``other_forms`` are inputs that nothing feeds now, but that it takes of a restored snapshot.
    ``wiring`` says how the operators without a uid of their own are joined; None if it has one.
    ``sides`` are its side outputs, whether anything reads them or not.

    It is pickled by itself, so that a worker's operators share no objects: one function, source or
    sink that the program gives to two operators is another object in each of them.
    """

    uid: str
    name: str
    factory: OperatorFactory
    states: tuple[StateInfo, ...] = ()
    key: KeySpec | None = None
    upstream: int | None = None
    source: Source | None = None
    sink: Sink | None = None
    loop: LoopEnd | None = None
    inputs: tuple[InputSpec, ...] = ()
    other_forms: tuple[InputSpec, ...] = ()
    wiring: str | None = None
    needs_time: bool = False
    """Whether it waits for event time."""
    sides: tuple[SideSpec, ...] = ()
    given_up: tuple[str, ...] = ()
    """States that its program has deleted: a restored snapshot may hold them, and they go."""
    max_parallelism: int | None = None
    """The number of its key-groups, where that is not the job's."""

    @property
    def side(self) -> str:
        """Which output of the operator before it in the chain it reads; "" is the main one."""
        return self.inputs[0].side if self.upstream is not None and self.inputs else ""

    def __reduce__(self) -> tuple[Any, ...]:
        values = tuple(getattr(self, each.name) for each in fields(self))
        return _unpickled, (cloudpickle.dumps(values),)


def _unpickled(data: bytes) -> OperatorSpec:
    return OperatorSpec(*pickle.loads(data))


@dataclass(frozen=True, slots=True)
class EdgeSpec:
    """An edge between two tasks. ``port`` is which input of the receiving head it feeds.

    ``name`` is what its in-flight rows are known by in snapshots.
    """

    first_channel: int
    sender: str
    sender_operator: int
    sender_parallelism: int
    receiver: str
    receiver_parallelism: int
    port: int
    partitioning: Partitioning
    schema: pa.Schema
    name: EdgeName = field(default=EdgeName("", "", "", 0), kw_only=True)

    @property
    def side(self) -> str:
        """Which output of the sending operator it carries; "" is the main one."""
        return self.name.side

    @property
    def is_forward(self) -> bool:
        return isinstance(self.partitioning, Forward)

    def outgoing(self, subtask: int) -> Iterator[tuple[ChannelId, int]]:
        """The channels that a sending subtask has, with the receiving subtask of each."""
        if self.is_forward:
            yield ChannelId(self.first_channel + subtask), subtask
            return
        first = self.first_channel + subtask * self.receiver_parallelism
        for receiver in range(self.receiver_parallelism):
            yield ChannelId(first + receiver), receiver

    def incoming(self, subtask: int) -> Iterator[tuple[ChannelId, int]]:
        """The channels that a receiving subtask has, with the sending subtask of each."""
        if self.is_forward:
            yield ChannelId(self.first_channel + subtask), subtask
            return
        for sender in range(self.sender_parallelism):
            channel = self.first_channel + sender * self.receiver_parallelism + subtask
            yield ChannelId(channel), sender

    @property
    def fan_in(self) -> int:
        """How many of its channels a receiving subtask has."""
        return 1 if self.is_forward else self.sender_parallelism

    @property
    def is_dealt_out(self) -> bool:
        """Whether its rows can be redistributed to another number of subtasks."""
        return isinstance(self.partitioning, HashByKey | Rebalance | Chosen)

    @property
    def channels(self) -> int:
        if self.is_forward:
            return self.sender_parallelism
        return self.sender_parallelism * self.receiver_parallelism


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A chain of operators that runs as one, with the edges that come in and go out."""

    id: str
    parallelism: int
    operators: tuple[OperatorSpec, ...]
    inputs: tuple[EdgeSpec, ...] = ()
    outputs: tuple[EdgeSpec, ...] = ()
    is_in_loop: bool = False

    @property
    def is_source(self) -> bool:
        return self.operators[0].source is not None

    @property
    def takes_channel_state(self) -> bool:
        """Whether it may cut before its markers have come, in an unaligned snapshot.

        Within a loop it may not: the tail must not cut before the head has.
        """
        edges = self.inputs
        return bool(edges) and not self.is_in_loop and all(edge.is_dealt_out for edge in edges)

    @property
    def has_sink(self) -> bool:
        return any(operator.sink is not None for operator in self.operators)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A whole job. ``tasks`` are in topological order, sources first.

    ``max_parallelism`` is the number of key-groups of operators that do not say their own.
    ``backend`` says where keyed state is kept, and how. ``allow_pickle`` says that what a snapshot
    holds may be unpickled. ``keeps_in_flight`` says that markers may overtake rows, which are
    stored with the epoch then: any epoch where the job is unaligned, otherwise those that a halt
    waits for.
    """

    tasks: tuple[TaskSpec, ...]
    max_parallelism: int
    mode: str
    backend: BackendSettings = field(default_factory=HeapSettings)
    allow_pickle: bool = True
    keeps_in_flight: bool = False

    @property
    def workers(self) -> int:
        return max(task.parallelism for task in self.tasks)

    @property
    def is_unaligned(self) -> bool:
        """Whether markers overtake rows in ordinary epochs."""
        return self.mode == "unaligned"

    def key_groups(self, operator: OperatorSpec) -> int:
        """How many key-groups an operator has: as many as it says, or those of the job."""
        own = operator.max_parallelism
        return self.max_parallelism if own is None else own

    def subtasks(self) -> Iterator[tuple[TaskSpec, int]]:
        for task in self.tasks:
            for subtask in range(task.parallelism):
                yield task, subtask

    def operators(self) -> Iterator[tuple[TaskSpec, OperatorSpec]]:
        for task in self.tasks:
            for operator in task.operators:
                yield task, operator

    def sources(self) -> dict[str, Source]:
        """The sources by their uids."""
        found = ((operator.uid, operator.source) for _, operator in self.operators())
        return {uid: source for uid, source in found if source is not None}


@dataclass(frozen=True, slots=True)
class Tuning:
    """Sizes that trade throughput against latency and memory."""

    window_bytes: int = 1 << 22
    least_window_bytes: int = 1 << 6
    batch_rows: int = 8192
    slice_s: float = 0.003
    slice_limit_s: float = 0.1
    first_piece_rows: int = 8
    first_slice_rows: int = 16
    max_slice_rows: int = 65536
    flush_s: float = 0.005
    max_chain: int = 8

    @property
    def first_window_bytes(self) -> int:
        """What a sender may have in flight before anything was taken."""
        return min(self.least_window_bytes, self.window_bytes)
