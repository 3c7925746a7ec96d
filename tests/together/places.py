"""Where the rows of a job really come from and go to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mainstay as ms
from mainstay.connectors.kafka import Json, KafkaSink, KafkaSource
from mainstay.connectors.postgres import PostgresSink, PostgresUpsertSink
from tests.together.program import EVENT, MOVE, Ends


@dataclass(frozen=True)
class Places:
    """What there is in them is the end of the input where they are bounded."""

    servers: str
    dsn: str
    parquet: str
    files: str
    is_bounded: bool

    def ends(self, job: str) -> Ends:
        return self._orders() if job == "orders" else self._accounts()

    def _orders(self) -> Ends:
        until = "latest" if self.is_bounded else None
        source = KafkaSource(self.servers, "events", value=Json(EVENT), until=until)
        sinks: dict[str, Any] = {
            name: KafkaSink(self.servers, name, value=Json(), key="k")
            for name in ("totals", "buckets", "rounds")
        }
        return Ends(source, sinks | self._folders("windows", "pairs"))

    def _accounts(self) -> Ends:
        source = ms.connectors.Files(self.files, schema=MOVE, watch=not self.is_bounded)
        sinks = {
            "moves": PostgresSink(self.dsn, "moves", create=True),
            "balances": PostgresUpsertSink(self.dsn, "balances", key="k", create=True),
        }
        return Ends(source, sinks | self._folders("copies"))

    def _folders(self, *names: str) -> dict[str, Any]:
        return {name: ms.connectors.ParquetSink(f"{self.parquet}/{name}") for name in names}
