"""Rows through a sink or a source, without a job around it."""

from __future__ import annotations

import itertools

import pyarrow as pa

from mainstay.connectors import Sink, SinkContext, SinkRecovery, Source

MOST_POLLS = 100_000
_numbers = itertools.count(1)


def committed(
    sink: Sink, *batches: pa.RecordBatch, lineage: str | None = None, attempt: int = 1
) -> None:
    """Rows that went through one epoch of a sink as a job has it: checked, written, committed.

    Without a lineage it is another job each time.
    """
    for batch in batches:
        sink.check_schema(batch.schema)
    job = lineage or f"trip-{next(_numbers)}"
    if sink.is_global:
        sink.recover(SinkRecovery("out", job, attempt, ()))
    writer = sink.open(SinkContext("out", 0, attempt, job))
    try:
        if not sink.is_global:
            sink.recover(SinkRecovery("out", job, attempt, ()))
        for batch in batches:
            put_off = writer.write(batch)
            if put_off is not None:
                put_off()
        handle = writer.prepare(attempt)
        handle = handle() if callable(handle) else handle
        if handle is not None and sink.is_global:
            sink.commit_epoch(attempt, [handle])
        elif handle is not None:
            sink.commit([handle])
    finally:
        writer.close()


def read(source: Source, max_rows: int = 1000) -> pa.Table:
    """Everything that a bounded source has, and no record left out."""
    batches: list[pa.RecordBatch] = []
    for split in source.plan(frozenset()):
        reader = source.read(split, None)
        try:
            for _ in range(MOST_POLLS):
                polled = reader.poll(max_rows)
                if polled.batch is not None:
                    batches.append(polled.batch)
                if polled.finished:
                    break
            else:
                raise AssertionError("the split has no end")
            assert reader.skipped == 0
        finally:
            reader.close()
    return pa.Table.from_batches(batches, source.schema)
