"""Rows as records of a Kafka topic, each exactly once for readers of committed records.

::

    stream.sink(KafkaSink("localhost:9092", "totals", value=Json(), key="customer"), uid="out")

A client cannot take up a transaction that another has prepared. So rows wait in the snapshot, and
once it is complete a short transaction writes the rows of a subtask together with an entry in the
ledger (``ledger``) that says so. A delivery whose outcome nobody knows is looked up there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from mainstay.connectors.bases.write_ahead import Delivery, WriteAheadSink, WriteAheadWriter
from mainstay.connectors.formats.records import Format, Json
from mainstay.connectors.formats.soundness import UNWRITABLE
from mainstay.connectors.kafka.channel import (
    TIMEOUT_MS,
    TIMEOUT_SETTING,
    Channel,
    Record,
    flush,
    queue_all,
)
from mainstay.connectors.kafka.client import (
    KafkaSettings,
    Noted,
    load_confluent,
    meaning,
    partitions_of,
)
from mainstay.connectors.kafka.ledger import page_name
from mainstay.errors import GraphError, SinkError, named
from mainstay.own_frames import made_with_own_frames
from mainstay.runtime.connector import SinkContext, SinkWriter

_OURS = (
    "transactional.id",
    "enable.idempotence",
    "group.id",
    "isolation.level",
    "delivery.report.only.error",
)
_TOPIC = b"mainstay.kafka.topic"


@made_with_own_frames
class KafkaSink(WriteAheadSink):
    """Appends to a topic, which has to exist.

    ``value`` says how rows become bytes; ``key`` names a column whose value is the record's key,
    so that equal keys go to the same partition. With ``transactional=False`` rows are written as
    they come: they are seen sooner, and those since the last epoch again after a crash.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        topic: str,
        *,
        value: Format | None = None,
        key: str | None = None,
        transactional: bool = True,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings = KafkaSettings.checked("KafkaSink", servers, config, _OURS)
        if not isinstance(topic, str) or not topic:
            raise GraphError(f"KafkaSink(topic={topic!r}): give the name of a topic.")
        self.value = Json() if value is None else value
        if not isinstance(self.value, Format):
            raise GraphError(
                f"KafkaSink(value={value!r}): say how rows become bytes, as in value=Json()."
            )
        if key is not None and self.value.packs_rows:
            raise GraphError(
                f"KafkaSink(key={key!r}, value={type(value).__name__}()): many rows in one record "
                "have no one key. Leave out key=, or use Json."
            )
        _check_timeout(self.settings.config)
        self.topic = topic
        self.key = key
        self.transactional = transactional
        self._attempt = 0
        self._channels: dict[str, Channel] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_channels": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def open(self, context: SinkContext) -> SinkWriter:
        if not self.transactional:
            return PlainWriter(self)
        self._attempt = max(self._attempt, context.attempt)
        return _TopicWriter(self, context)

    def commit(self, handles: Sequence[bytes]) -> None:
        super().commit(handles)
        # What earlier attempts had prepared is delivered now, and nothing is added to it.
        with self._lock:
            known = self._channels.items()
            self._channels = {name: channel for name, channel in known if channel.is_own}

    def deliver(self, delivery: Delivery) -> None:
        topic = (delivery.rows.schema.metadata or {})[_TOPIC].decode()
        records = self.records_of(delivery.rows)
        is_own = delivery.attempt == self._attempt
        channel = self._channel(page_name(delivery), topic, is_own)
        with channel.lock:
            try:
                channel.deliver(records, delivery.epoch)
            finally:
                if channel.is_broken:
                    self.forget(channel.name)

    def records_of(self, rows: pa.Table) -> list[Record]:
        """The keys and values of rows."""
        records: list[Record] = []
        try:
            for batch in rows.to_batches():
                values = self.value.encode(batch)
                keys = [None] * len(values) if self.key is None else _keys(batch.column(self.key))
                records += zip(keys, values, strict=True)
        except UNWRITABLE as error:
            raise SinkError(
                f"rows cannot be written to topic {self.topic!r}: {named(error)}. "
                f"Give the sink rows that {type(self.value).__name__}() has a spelling for."
            ) from error
        return records

    def check_schema(self, schema: pa.Schema) -> None:
        """Refuse rows that could never be delivered, before they are part of a snapshot."""
        self.value.check(schema)
        if self.key is None:
            return
        if self.key not in schema.names:
            raise SinkError(
                f"KafkaSink(key={self.key!r}): the rows have no such column, but "
                f"{', '.join(schema.names)}. Name one of these."
            )
        data_type = schema.field(self.key).type
        if data_type.num_fields:
            raise SinkError(
                f"KafkaSink(key={self.key!r}): the column is of type {data_type}. Name one that is "
                "a string, binary or a number."
            )

    def forget(self, name: str) -> None:
        with self._lock:
            self._channels.pop(name, None)

    def _channel(self, name: str, topic: str, is_own: bool) -> Channel:
        with self._lock:
            if name not in self._channels:
                self._channels[name] = Channel(self.settings, topic, name, is_own)
            return self._channels[name]


class _TopicWriter(WriteAheadWriter):
    """Gathers rows with the name of their topic: the job may be given another one later."""

    def __init__(self, sink: KafkaSink, context: SinkContext) -> None:
        super().__init__(context)
        self._sink = sink
        nothing = pa.table({})
        self._name = page_name(
            Delivery(context.lineage, context.uid, context.attempt, context.subtask, 0, nothing)
        )

    def write(self, batch: pa.RecordBatch) -> None:
        self._sink.check_schema(batch.schema)
        metadata = {**(batch.schema.metadata or {}), _TOPIC: self._sink.topic.encode()}
        super().write(batch.replace_schema_metadata(metadata))

    def close(self) -> None:
        self._sink.forget(self._name)


class PlainWriter(SinkWriter):
    """Sends rows as they come. Rows are kept until the brokers have them all."""

    def __init__(self, sink: KafkaSink) -> None:
        self._sink = sink
        self._noted = Noted()
        self._producer: Any = None

    def write(self, batch: pa.RecordBatch) -> Callable[[], None]:
        self._sink.check_schema(batch.schema)
        return lambda: self._send(batch)

    def prepare(self, epoch: int) -> None:
        """Nothing is left to be done: a batch is not written before the brokers have it."""

    def _send(self, batch: pa.RecordBatch) -> None:
        kafka = load_confluent()
        sink = self._sink
        what = f"rows cannot be written to topic {sink.topic!r}"
        is_sent = False
        try:
            if self._producer is None:
                self._producer = self._open()
            records = sink.records_of(pa.Table.from_batches([batch]))
            failures: list[Any] = []
            queue_all(self._producer, sink.topic, records, lambda error, _: failures.append(error))
            flush(self._producer, sink.topic, TIMEOUT_MS / 1000)
            if failures:
                raise kafka.KafkaException(failures[0])
            is_sent = True
        except kafka.KafkaException as error:
            raise meaning(error, what, SinkError, self._noted) from error
        finally:
            if not is_sent:
                # What it still holds would otherwise come after what is sent again.
                self._producer = None

    def _open(self) -> Any:
        producer = self._sink.settings.producer(
            self._noted,
            enable_idempotence=True,
            partitioner="murmur2_random",
            linger_ms=1,
            compression_type="lz4",
            delivery_report_only_error=True,
        )
        partitions_of(producer, self._sink.topic, SinkError, self._noted)
        return producer


def _keys(column: pa.Array) -> list[bytes | None]:
    texts = column if pa.types.is_binary(column.type) else column.cast(pa.string())
    return texts.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def _check_timeout(config: Mapping[str, Any]) -> None:
    given = config.get(TIMEOUT_SETTING, TIMEOUT_MS)
    if not isinstance(given, int) or given < 1000:
        raise GraphError(
            f"KafkaSink(config={{{TIMEOUT_SETTING!r}: {given!r}}}) must be a number of at least "
            "1000 milliseconds."
        )
