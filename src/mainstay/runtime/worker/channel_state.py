"""Unaligned snapshots: the in-flight rows between tasks as a part of the cut.

An epoch that is *overtaken* waits for no queue. Each task cuts at once and goes on; what it then
still gets on a channel, until the sender's own cut, was sent before that cut and belongs to the
epoch, so it is logged as it arrives. Markers do not stand in line behind rows: the sender says how
many elements it had sent when it cut, and keeps the rows itself that it had no credit to send.

Only edges that can be redistributed are overtaken: by key, or round-robin. A task with any other
input waits for its markers as ever.

An operator that is restored from such an epoch takes these rows before any others: first what had
come to it, then what senders had kept for it (``in_flight``, ``replays``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from mainstay.runtime.deferred import Late
from mainstay.runtime.feedback_log import bytes_of
from mainstay.runtime.messages import ChannelId, Element, Epoch, Marker
from mainstay.runtime.own_states import INCOMING, OUTGOING
from mainstay.runtime.ports import Background
from mainstay.runtime.spec import TaskSpec
from mainstay.runtime.worker.gate import Gate
from mainstay.runtime.worker.output import Output, OutputChannel
from mainstay.runtime.worker.replays import Replays
from mainstay.snapshot.manifest import OperatorUnits
from mainstay.state.keyed import frozen_elements
from mainstay.state.operator import OperatorList


def encoded_rows(units: Mapping[str, list[Any]]) -> dict[str, OperatorUnits]:
    """The in-flight rows of a cut as the manifest holds them, by the names of their states."""
    infos = {info.name: info for info in (INCOMING, OUTGOING)}
    return {name: OperatorList(infos[name]).encode(kept) for name, kept in units.items()}


Kept = tuple[str, pa.RecordBatch]
"""The name of an edge and of the subtask that sends, and rows."""


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
        self,
        spec: TaskSpec,
        subtask: int,
        gate: Gate,
        outputs: list[Output],
        replays: Replays,
        background: Background,
    ) -> None:
        self._names = [channel.edge for channel in gate.channels]
        self._gate = gate
        self._replays = replays
        self._background = background
        self._outputs = [
            (edge.name._replace(subtask=subtask).text, output)
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

    def begin_at_once(
        self, epoch: Epoch, arrived: AbstractSet[int], rest: Sequence[Kept] = ()
    ) -> Late:
        """A cut that waits for no marker: rows of all other channels are logged from now on.

        ``rest`` was taken from a queue and is not processed; ``arrived`` are the channels whose
        marker has come.
        """
        cut = self._cuts[epoch] = _Cut(incoming=[*rest, *self._replays.kept()])
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

    def on_overtaken(self, channel: ChannelId, epoch: Epoch, sequence: int) -> None:
        """``sequence`` is how many elements the sender of a channel had sent when it cut."""
        number = self._gate.number_of(channel)
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
            cut.late.rows = sum(batch.num_rows for _, batch in (*incoming, *outgoing))
            cut.late.is_known = True

        def failed(error: Exception) -> None:
            cut.late.failure = f"in-flight rows could not be encoded: {error}"

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
