"""Sink writers without a worker: what they put off is done at once."""

from __future__ import annotations

import pyarrow as pa

from mainstay.connectors import SinkRecovery, SinkWriter


def write(writer: SinkWriter, batch: pa.RecordBatch) -> None:
    put_off = writer.write(batch)
    if put_off is not None:
        put_off()


def prepare(writer: SinkWriter, epoch: int) -> bytes | None:
    handle = writer.prepare(epoch)
    return handle() if callable(handle) else handle


def recovery(attempt: int, *handles: bytes) -> SinkRecovery:
    """What the sink "out" of lineage "job" learns at the beginning of an attempt."""
    return SinkRecovery("out", "job", attempt, handles)
