"""Writing DataFrames to their ingest logs: a batch one by a Spark job, a streaming one by a query.

A batch DataFrame is written once: a log that is sealed is left as it is, and one whose only batch
was committed is sealed. A streaming query goes on from its checkpoint, which lies beside its log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from mainstay.connectors.ingest.log import DataFile, IngestLog
from mainstay.connectors.ingest.source import IngestSource
from mainstay.errors import SourceError
from mainstay.schema import format_schema
from mainstay.spark.ingest.dataframes import Ingest
from mainstay.spark.ingest.sink import FORMAT, MOST_UNREAD_BYTES, IngestSink, write_task
from mainstay.spark.launch.cluster import Cluster, is_of_connect

# How Spark's file systems call what the snapshot storage calls otherwise.
_SPARK_SCHEMES = {"s3": "s3a"}


def write_batch(ingest: Ingest, cluster: Cluster, tag: str) -> None:
    """Write a batch DataFrame to its log, unless that was done before; returns when it is sealed.

    Its Spark job has the tag, so that another thread can cancel it.
    """
    source = ingest.source
    log = IngestLog(source.storage, source.uid)
    if log.is_sealed:
        return
    if log.slot(0) is None:
        with cluster.tagged(tag, f"mainstay: ingest of {source.uid}"):
            rows = ingest.df.mapInArrow(_writing(source), "file string").collect()
        log.commit(0, None, [DataFile(**json.loads(row.file)) for row in rows])
    log.seal()


def _writing(source: IngestSource) -> Callable[[Iterator[Any]], Iterator[Any]]:
    location, uid, columns = source.location, source.uid, format_schema(source.schema)
    assert location is not None

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = write_task(location, uid, columns, 0, batches)
        names = pa.array([json.dumps(file.document()) for file in files], pa.string())
        yield pa.RecordBatch.from_arrays([names], ["file"])

    return write


def start_query(ingest: Ingest, tasks: int, most_unread_bytes: int = MOST_UNREAD_BYTES) -> Any:
    """Start, or go on with, the query that writes a streaming DataFrame to its log.

    It runs ``tasks`` tasks at a time and no more, so that it leaves the workers their slots.
    """
    source = ingest.source
    session = ingest.df.sparkSession
    _offer_sink(session)
    log = IngestLog(source.storage, source.uid)
    writer = (
        ingest.df.coalesce(tasks)
        .writeStream.format(FORMAT)
        .option("location", source.location)
        .option("uid", source.uid)
        .option("columns", format_schema(source.schema))
        .option("time_column", "" if ingest.time_column is None else str(ingest.time_column))
        .option("most_unread_bytes", str(most_unread_bytes))
        .option("checkpointLocation", _for_spark(f"{source.location}/{log.checkpoint}"))
    )
    return (writer.trigger(availableNow=True) if ingest.available_now else writer).start()


def _offer_sink(session: Any) -> None:
    """Have the session know the sink, on this thread: Spark asks the thread's active session.

    One of Spark Connect does not tell what it knows, and takes the sink again.
    """
    if is_of_connect(session):
        session.dataSource.register(IngestSink)
        return
    java_session = session._jsparkSession
    session._jvm.SparkSession.setActiveSession(java_session)
    if not java_session.sessionState().dataSourceManager().dataSourceExists(FORMAT):
        session.dataSource.register(IngestSink)


def _for_spark(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    if scheme == "az":
        raise SourceError(
            f"{url} cannot hold the checkpoint of a streaming query: Spark has no az://. Keep the "
            "snapshots of a job with a streaming DataFrame on a shared disk, S3 or GCS."
        )
    return f"{_SPARK_SCHEMES.get(scheme, scheme)}://{rest}"
