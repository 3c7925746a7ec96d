"""Sink writers without a worker: what they put off is done at once."""

from __future__ import annotations

import pyarrow as pa

from mainstay.connectors import SinkWriter


def write(writer: SinkWriter, batch: pa.RecordBatch) -> None:
    put_off = writer.write(batch)
    if put_off is not None:
        put_off()


def prepare(writer: SinkWriter, epoch: int) -> bytes | None:
    handle = writer.prepare(epoch)
    return handle() if callable(handle) else handle
