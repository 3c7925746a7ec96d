"""Rows as bytes that stand by themselves: an Arrow IPC stream with its schema."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa


def to_ipc(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, compression: str | None = None
) -> bytes:
    """The batches of one schema, in order."""
    stream = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(stream, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return stream.getvalue().to_pybytes()  # type: ignore[no-any-return]


def ipc_schema(data: bytes) -> pa.Schema:
    """The schema of what ``to_ipc`` was given, without reading the rows."""
    return pa.ipc.open_stream(data).schema


def from_ipc(data: bytes) -> pa.Table:
    """What ``to_ipc`` was given."""
    return pa.ipc.open_stream(data).read_all()
