"""Links of workers that are all in this process, each with a context of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import zmq

from mainstay.transport.keys import AttemptKeys
from mainstay.transport.links import Links

PATIENCE_S = 10.0


class Party:
    """One worker with its own context, as in a process of its own."""

    def __init__(self, number: int, keys: AttemptKeys, place: str) -> None:
        self.number = number
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.links = Links(self.context, "127.0.0.1", place, keys)

    def receive(self, timeout_s: float, schema: pa.Schema) -> list[Any]:
        """What has arrived, or arrives in time."""
        ready = dict(self.links.poller().poll(timeout_s * 1000))
        return list(self.links.receive(ready, lambda _: schema))

    def close(self) -> None:
        self.links.close()
        self.context.term()


def link_up(parties: list[Party], timeout_s: float = PATIENCE_S) -> None:
    peers = {party.number: party.links.own for party in parties}
    with ThreadPoolExecutor(len(parties)) as pool:
        for done in [pool.submit(p.links.connect, p.number, peers, timeout_s) for p in parties]:
            done.result()
