"""Writes the input at a steady rate: events to Kafka, moves to files."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.together.generator import MOVES_PER_FILE, Event, event, move
from tests.together.model import Prefixes

EVENTS_PER_S = 20
FILES_EVERY_S = 5.0
BEHIND_S = 0.1


class Feeder:
    """Two threads, until it is ended. What counts as produced was given to the client before."""

    def __init__(self, servers: str, files: Path, seed: int) -> None:
        self.events = 0
        self.moves = 0
        self.prefixes = Prefixes()
        self.lock = threading.Lock()
        self._seed = seed
        self._files = files
        self._ended = threading.Event()
        self._producer = self._made(servers)
        self._threads = [
            threading.Thread(target=self._repeat, args=(each, pause), daemon=True)
            for each, pause in ((self._send, BEHIND_S), (self._write, FILES_EVERY_S))
        ]
        files.mkdir(parents=True)

    def _made(self, servers: str) -> Any:
        from confluent_kafka import Producer

        # A broker that is killed and comes back finds each record once, and in order.
        settings = {"enable.idempotence": True, "message.timeout.ms": 0, "log_level": 0}
        return Producer({"bootstrap.servers": servers, **settings})

    def start(self) -> None:
        self._write()  # a schema is looked for where there is a file
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        assert self._producer.flush(120.0) == 0, "the broker does not take the input"

    def _repeat(self, what: Callable[[], None], pause_s: float) -> None:
        while not self._ended.wait(pause_s):
            what()

    def _send(self) -> None:
        for _ in range(int(EVENTS_PER_S * BEHIND_S)):
            made = event(self._seed, self.events)
            with self.lock:
                self.prefixes.add(made)
                self.events += 1
            self._producer.produce("events", encoded(made), partition=made.partition)
        self._producer.poll(0)

    def _write(self) -> None:
        rows = [move(self._seed, self.moves + number) for number in range(MOVES_PER_FILE)]
        columns = {
            name: [getattr(row, name) for row in rows] for name in ("n", "k", "kind", "amount")
        }
        table = pa.table(columns).cast(
            pa.schema([("n", "int64"), ("k", "int64"), ("kind", "string"), ("amount", "int32")])
        )
        draft = self._files / f".{self.moves:09}"
        pq.write_table(table, draft)
        draft.replace(self._files / f"{self.moves:09}.parquet")
        self.moves += MOVES_PER_FILE


def encoded(row: Event) -> bytes:
    at = datetime.fromtimestamp(row.at_us // 1_000_000, timezone.utc).replace(
        microsecond=row.at_us % 1_000_000
    )
    document = {
        "n": row.n,
        "k": row.k,
        "kind": row.kind,
        "deal": row.deal,
        "amount": row.amount,
        "at": at.isoformat(),
    }
    return json.dumps(document).encode()
