"""How many requests an epoch of a small job takes of an object store."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

import mainstay as ms
from tests.services.s3_proxy import S3Proxy

PLACE = "s3://bucket/job"
KEYS = 256
EPOCHS = 16
"""So many that chains are compacted and old epochs deleted within them."""


def changes(first: int, number: int) -> pa.RecordBatch:
    ids = range(first, first + number)
    return pa.record_batch({"n": list(ids), "k": [id % KEYS for id in ids]})


def requests_of_epochs(
    proxy: S3Proxy, operators: int, parallelism: int, epochs: int = EPOCHS
) -> Counter[tuple[str, str]]:
    """The requests of epochs of a job with keyed state in all subtasks, by kind and by folder."""
    env = ms.Environment(
        spark="embedded",
        parallelism=parallelism,
        snapshots=ms.Snapshots(PLACE, every="1h"),
    )
    source = ms.connectors.Generate("n long, k long", changes, rows_per_second=20_000)
    rows = env.source(source, uid="in").key_by("k")
    for number in range(operators):
        counts = rows.aggregate(c=ms.count(), uid=f"counts-{number}")
        counts.sink(ms.connectors.Memory(), uid=f"out-{number}")
    job: Any = env.start("counted")
    try:
        for _ in range(8):
            job.snapshot(timeout=60)
        proxy.forget()
        for _ in range(epochs):
            job.snapshot(timeout=60)
    finally:
        job.cancel()
    return proxy.counts(below="job/")
