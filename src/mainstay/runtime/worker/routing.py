"""Routing: where the elements of a channel go, and the credit for them, on one worker.

A channel has its sending end in an output and its receiving end in a gate. If both are on this
worker an element is put into the gate at once; if not, it goes out as a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainstay.runtime.messages import (
    Attempt,
    ChannelId,
    Credit,
    Data,
    Element,
    Epoch,
    Overtaken,
)
from mainstay.runtime.ports import Ports
from mainstay.runtime.worker.gate import Gate
from mainstay.runtime.worker.output import OutputChannel

OnOvertaken = Callable[[ChannelId, Epoch, int], None]


class Router:
    """The channels of one worker in one attempt, by their numbers."""

    def __init__(self, worker: int, attempt: Attempt, ports: Ports) -> None:
        self._worker = worker
        self._attempt = attempt
        self._ports = ports
        self._gates: dict[ChannelId, Gate] = {}
        self._on_overtaken: dict[ChannelId, OnOvertaken] = {}
        self._sending_worker: dict[ChannelId, int] = {}
        self._receiving_worker: dict[ChannelId, int] = {}
        self.senders: dict[ChannelId, OutputChannel] = {}

    def add_gate(
        self, gate: Gate, senders: Mapping[ChannelId, int], on_overtaken: OnOvertaken
    ) -> None:
        """The receiving ends of some channels, with the worker that sends on each."""
        for channel, sender in senders.items():
            self._gates[channel] = gate
            self._on_overtaken[channel] = on_overtaken
            self._sending_worker[channel] = sender

    def add_sender(self, sender: OutputChannel, receiver: int) -> None:
        """The sending end of a channel, with the worker that receives."""
        self.senders[sender.id] = sender
        self._receiving_worker[sender.id] = receiver

    # ------------------------------------------------------------ from this worker

    def send(self, channel: ChannelId, sequence: int, element: Element, size_bytes: int) -> None:
        """Have the receiver take an element that costs so much credit."""
        receiver = self._receiving_worker[channel]
        if receiver == self._worker:
            self._gates[channel].put(channel, sequence, element, size_bytes)
        else:
            data = Data(self._attempt, channel, sequence, element, size_bytes)
            self._ports.send(receiver, data)

    def announce(self, channel: ChannelId, epoch: Epoch, sequence: int) -> None:
        """Have the receiver know how much was sent when the sender cut for an epoch."""
        receiver = self._receiving_worker[channel]
        if receiver == self._worker:
            self._on_overtaken[channel](channel, epoch, sequence)
        else:
            self._ports.send(receiver, Overtaken(self._attempt, channel, epoch, sequence))

    def grant(self, channel: ChannelId, size_bytes: int) -> None:
        """Give credit back to the sender."""
        sender = self._sending_worker[channel]
        if sender == self._worker:
            self.senders[channel].grant(size_bytes)
        else:
            self._ports.send(sender, Credit(self._attempt, channel, size_bytes))

    # ------------------------------------------------------------ to this worker

    def receive(self, message: Data | Credit | Overtaken) -> None:
        """Take what another worker has sent."""
        match message:
            case Data(_, channel, sequence, element, size_bytes):
                self._gates[channel].put(channel, sequence, element, size_bytes)
            case Credit(_, channel, size_bytes):
                self.senders[channel].grant(size_bytes)
            case Overtaken(_, channel, epoch, sequence):
                self._on_overtaken[channel](channel, epoch, sequence)
