"""Unaligned snapshots: the rows on their way between tasks as a part of the cut.

An epoch that is *overtaken* waits for no queue. Each task cuts at once and goes on; what it then
still gets on a channel, until the sender's own cut, was sent before that cut and belongs to the
epoch, so it is logged as it arrives. Markers do not stand in line behind rows: the sender says how
many elements it had sent when it cut, and keeps the rows itself that it had no credit to send.

Only edges that can be dealt out anew are overtaken: by key, or in turn. A task with any other
input waits for its markers as ever.

A task that restores such an epoch has all of these rows before any others: first what had come to
it, then what senders had kept for it. It takes of them what is its own, by key-group.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from mainstay.errors import RestoreError
from mainstay.runtime.feedback_log import bytes_of, rows_of
from mainstay.runtime.gate import Gate
from mainstay.runtime.late import Late
from mainstay.runtime.messages import Element, Epoch, Marker
from mainstay.runtime.output import Output, OutputChannel
from mainstay.runtime.ports import Background
from mainstay.runtime.spec import EdgeSpec, HashByKey, TaskSpec
from mainstay.snapshot.manifest import Manifest, SubtaskState
from mainstay.state.declaration import OperatorListState, StateInfo
from mainstay.state.hashing import key_groups
from mainstay.state.keyed import frozen_elements
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.operator import to_units, values_in


class ChannelStates:
    """The states that the first operator of a chain has where snapshots may be unaligned.

    A restore shows all of it to every subtask of the receiving task.
    """

    channels_in = OperatorListState("struct<edge:string,rows:binary>", redistribute="union")
    channels_out = OperatorListState("struct<edge:string,rows:binary>", redistribute="union")


INCOMING: StateInfo = ChannelStates.__dict__["channels_in"].info()
OUTGOING: StateInfo = ChannelStates.__dict__["channels_out"].info()

Kept = tuple[str, pa.RecordBatch]
"""The name of an edge, and rows on it."""


def name_of(edge: EdgeSpec) -> str:
    """What an edge is known by when it is restored."""
    return json.dumps([edge.sender, edge.sender_operator, edge.receiver, edge.port])


def receiver_of(name: str) -> str:
    """The task that an edge leads to, by the uid of its first operator."""
    return str(json.loads(name)[2])


@dataclass(slots=True, eq=False)
class _Cut:
    """The channel state of one epoch, while it is gathered."""

    incoming: list[Kept] = field(default_factory=list)
    outgoing: list[Kept] = field(default_factory=list)
    open: set[int] = field(default_factory=set)
    """Channels whose sender has not cut yet, as far as is known."""
    lining_up: list[OutputChannel] = field(default_factory=list)
    """Where the marker stands in line, so that it may still be overtaken."""
    cuts: dict[int, int] = field(default_factory=dict)
    units: dict[str, list[Any]] = field(default_factory=dict)
    late: Late = field(init=False)
    is_encoding: bool = False

    def __post_init__(self) -> None:
        self.late = Late(lambda: self.units)


class TaskChannels:
    """The channels of one task, as far as cuts that are overtaken go through them."""

    def __init__(
        self, spec: TaskSpec, gate: Gate, outputs: list[Output], background: Background
    ) -> None:
        self._names = [name_of(edge) for edge in spec.inputs for _ in range(edge.fan_in)]
        self._gate = gate
        self._background = background
        self._outputs = [
            (name_of(edge), output)
            for edge, output in zip(spec.outputs, outputs, strict=True)
            if output.may_be_overtaken
        ]
        self._cuts: dict[Epoch, _Cut] = {}
        self._told: set[Epoch] = set()
        gate.watch = self._on_arrival
        self.may_cut_at_once = spec.takes_channel_state

    # ------------------------------------------------------------ cuts

    def begin(self, epoch: Epoch) -> Late:
        """An aligned cut: its markers stand in line, and may be overtaken later."""
        waiting = [ch for _, output in self._outputs for ch in output.channels]
        cut = self._cuts[epoch] = _Cut(lining_up=waiting)
        return cut.late

    def begin_at_once(self, epoch: Epoch, arrived: set[int]) -> Late:
        """A cut that waits for no marker: rows of all other channels are logged from now on."""
        cut = self._cuts[epoch] = _Cut(incoming=self._gate.replayed)
        for number in range(len(self._gate.channels)):
            if number not in arrived:
                self._log_queued(cut, epoch, number)
        return cut.late

    def _log_queued(self, cut: _Cut, epoch: Epoch, number: int) -> None:
        for element in self._gate.channels[number].queue:
            if element == Marker(epoch):
                return
            if isinstance(element, pa.RecordBatch):
                cut.incoming.append((self._names[number], element))
        cut.open.add(number)

    def overtake(self, epoch: Epoch) -> None:
        """Have the markers of a cut go before the rows that they stand in line behind."""
        self._told.add(epoch)
        cut = self._cuts.get(epoch)
        if cut is None:
            return
        for name, output in self._outputs:
            for channel in output.channels:
                cut.outgoing += [(name, batch) for batch in channel.overtake(epoch)]
        cut.lining_up = []
        self._settle(cut)

    def overtake_if_told(self, epoch: Epoch) -> None:
        """A cut comes after the word that its markers are to overtake."""
        if epoch in self._told:
            self.overtake(epoch)

    def tick(self) -> None:
        """See whether markers have come to the end of their lines."""
        for cut in self._cuts.values():
            if cut.lining_up:
                cut.lining_up = [ch for ch in cut.lining_up if ch.has_markers_waiting]
            self._settle(cut)

    def drop(self, epoch: Epoch) -> None:
        self._cuts.pop(epoch, None)

    def _on_arrival(self, number: int, element: Element) -> None:
        """An element has come in on a channel: before it is taken, and even if it is held back."""
        for epoch, cut in self._cuts.items():
            if number not in cut.open:
                continue
            if isinstance(element, pa.RecordBatch):
                cut.incoming.append((self._names[number], element))
            if element == Marker(epoch) or self._has_all(cut, number):
                cut.open.discard(number)
                self._settle(cut)

    def _has_all(self, cut: _Cut, number: int) -> bool:
        at = cut.cuts.get(number)
        return at is not None and self._gate.channels[number].expected >= at

    def on_overtaken(self, number: int, epoch: Epoch, sequence: int) -> None:
        """The sender of a channel had sent so many elements when it cut."""
        cut = self._cuts.get(epoch)
        if cut is not None and number in cut.open:
            cut.cuts[number] = sequence
            if self._has_all(cut, number):
                cut.open.discard(number)
                self._settle(cut)

    def _settle(self, cut: _Cut) -> None:
        if cut.open or cut.lining_up or cut.is_encoding or cut.late.is_known:
            return
        if not cut.incoming and not cut.outgoing:
            cut.late.is_known = True
            return
        cut.is_encoding = True
        incoming, outgoing = cut.incoming, cut.outgoing

        def work() -> dict[str, list[Any]]:
            kept = ((INCOMING, incoming), (OUTGOING, outgoing))
            return {info.name: frozen_elements(info, _units_of(rows)) for info, rows in kept}

        def done(units: dict[str, list[Any]]) -> None:
            cut.units = units
            cut.late.is_known = True

        def failed(error: Exception) -> None:
            cut.late.failure = f"rows on their way could not be encoded: {error}"

        self._background.submit(work, done, failed)

    def finished(self, epoch: Epoch) -> None:
        """Everything up to this epoch is decided."""
        self._cuts = {later: cut for later, cut in self._cuts.items() if later > epoch}
        self._told = {later for later in self._told if later > epoch}


def _units_of(rows: list[Kept]) -> Iterator[tuple[str, bytes]]:
    """One unit for each run of batches of an edge, in order."""
    run: list[pa.RecordBatch] = []
    name = ""
    for edge, batch in rows:
        if run and edge != name:
            yield name, bytes_of(run)
            run = []
        name = edge
        run.append(batch)
    if run:
        yield name, bytes_of(run)


# ---------------------------------------------------------------- restore


def at_receivers(manifest: Manifest) -> Manifest:
    """The manifest with all rows on their way at the tasks that they were on their way to."""
    units: dict[str, list[Any]] = {}
    for info in (INCOMING, OUTGOING):
        for stored in manifest.operators.values():
            for subtask in stored.subtasks:
                for unit in _units_in(subtask, info):
                    units.setdefault(receiver_of(unit.edge), []).append(tuple(unit))
    if not units:
        return manifest
    operators = {
        uid: replace(
            stored,
            subtasks=tuple(_with(subtask, units.get(uid, ())) for subtask in stored.subtasks),
        )
        for uid, stored in manifest.operators.items()
    }
    return replace(manifest, operators=operators)


def _units_in(subtask: SubtaskState, info: StateInfo) -> list[Any]:
    if info.name not in subtask.units:
        return []
    return values_in(info, subtask.units[info.name])


def _with(subtask: SubtaskState, incoming: Sequence[Any]) -> SubtaskState:
    if INCOMING.name not in subtask.units:
        return subtask
    units = dict(subtask.units)
    # They are shown to every subtask, so one of the old ones has them all.
    for info, kept in ((INCOMING, incoming if subtask.subtask == 0 else ()), (OUTGOING, ())):
        units[info.name] = to_units(info, kept)
    return replace(subtask, units=units)


def restore_incoming(
    spec: TaskSpec,
    units: Iterable[Any],
    gate: Gate,
    groups: KeyGroupRange,
    subtask: int,
    max_parallelism: int,
) -> None:
    """Put what was on its way before everything else, as far as it is this subtask's."""
    edges = {name_of(edge): edge for edge in spec.inputs}
    for number, unit in enumerate(units):
        edge = _edge(edges, unit.edge, spec)
        for batch in rows_of(unit.rows):
            if isinstance(edge.partitioning, HashByKey):
                key = edge.partitioning.key
                columns = [batch.column(n) for n in key.columns]
                owned = key_groups(columns, max_parallelism)
                batch = batch.filter(pa.array((owned >= groups.first) & (owned <= groups.last)))
            elif number % spec.parallelism != subtask:
                continue
            if batch.num_rows:
                gate.replay(unit.edge, edge.port, batch)


def _edge(edges: dict[str, EdgeSpec], name: str, spec: TaskSpec) -> EdgeSpec:
    if name not in edges:
        raise RestoreError(
            f"the snapshot holds rows on the edge {name}, and task {spec.id!r} has no such edge "
            "any more. Restore them with the program that wrote the snapshot, and take a "
            "savepoint: it holds no rows on their way."
        )
    return edges[name]
