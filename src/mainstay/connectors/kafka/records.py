"""From Kafka messages to rows: keys, values, metadata, and what is none of these. A hot path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.connectors.formats.malformed import BadRecord, Malformed, settle
from mainstay.connectors.formats.records import Decoded, Format
from mainstay.connectors.kafka.client import load_confluent
from mainstay.errors import GraphError, SchemaError
from mainstay.schema.types import TIMESTAMP, check_names_differ

METADATA: dict[str, tuple[pa.DataType, Callable[[Any], Any]]] = {
    "topic": (pa.string(), lambda message: message.topic()),
    "partition": (pa.int32(), lambda message: message.partition()),
    "offset": (pa.int64(), lambda message: message.offset()),
    "timestamp": (TIMESTAMP, lambda message: _microseconds(*message.timestamp())),
}
"""What is known of a message besides its key and value: the type, and how to ask for it."""


def _microseconds(kind: int, milliseconds: int) -> int | None:
    return milliseconds * 1000 if kind else None


class Records:
    """What the rows of a source are made of: columns of keys, of values, and of metadata."""

    def __init__(
        self, value: Format, key: Format | None, metadata: Mapping[str, str], malformed: str
    ) -> None:
        for name, given in (("value", value), ("key", key)):
            if not isinstance(given, Format) and not (name == "key" and given is None):
                raise GraphError(
                    f"KafkaSource({name}={given!r}): say how bytes become columns, as in "
                    f'{name}=Json("customer string, amount long") or {name}=Raw().'
                )
        if key is not None and key.packs_rows:
            raise GraphError(
                f"KafkaSource(key={type(key).__name__}(...)): a key is one row. Use Json or Raw."
            )
        self.value, self.key, self.malformed = value, key, malformed
        self.metadata = dict(metadata)
        self._plain = pa.schema(
            [
                *([] if key is None else key.schema_to_read()),
                *value.schema_to_read(),
                *(pa.field(name, METADATA[what][0]) for what, name in metadata.items()),
            ]
        )
        try:
            check_names_differ(self._plain.names)
        except SchemaError as error:
            raise GraphError(
                f"KafkaSource: {error} (keys, values and metadata become columns of one row; "
                'metadata={"timestamp": "sent_at"} gives a column another name)'
            ) from error
        self.schema: pa.Schema = Malformed.with_column(self._plain, malformed)

    def rows_of(self, messages: Sequence[Any]) -> tuple[pa.RecordBatch, int]:
        """The rows of messages, and how many bad ones were left out."""
        message = load_confluent().Message
        value = self.value.decode(list(map(message.value, messages)))
        key = None
        if self.key is not None:
            key = self.key.decode(list(map(message.key, messages)))
        bad = self._bad(messages, value, key)
        good = self._good(messages, value, key, bad)
        if not bad:
            return settle(self.malformed, good, {}), 0
        # A bad record takes the place of one row among those of the good ones.
        taken = value.rows.copy()
        taken[list(bad)] = 1
        firsts = np.cumsum(taken) - taken
        placed = {int(firsts[number]): record for number, record in bad.items()}
        skipped = len(bad) if self.malformed == "skip" else 0
        return settle(self.malformed, good, placed), skipped

    def _bad(
        self, messages: Sequence[Any], value: Decoded, key: Decoded | None
    ) -> dict[int, BadRecord]:
        bad = {}
        for number, error in value.errors.items():
            message = messages[number]
            bad[number] = BadRecord(_position(message), error, message.value() or b"")
        for number, error in ({} if key is None else key.errors).items():
            message = messages[number]
            bad[number] = BadRecord(_position(message), f"the key: {error}", message.key() or b"")
        return bad

    def _good(
        self,
        messages: Sequence[Any],
        value: Decoded,
        key: Decoded | None,
        bad: Mapping[int, BadRecord],
    ) -> pa.RecordBatch:
        if not bad and not self.value.packs_rows:
            keys = [] if key is None else key.batch.columns
            columns = [*keys, *value.batch.columns, *self._metadata_of(messages)]
            return pa.RecordBatch.from_arrays(columns, schema=self._plain)
        record_of_row = np.repeat(np.arange(len(messages)), value.rows)
        is_good = np.ones(len(messages), dtype=bool)
        is_good[list(bad)] = False
        keep = is_good[record_of_row]
        records = record_of_row[keep]
        keys = [] if key is None else _taken(key.batch, (np.cumsum(key.rows) - 1)[records])
        metadata = [column.take(pa.array(records)) for column in self._metadata_of(messages)]
        values = _taken(value.batch, np.flatnonzero(keep))
        return pa.RecordBatch.from_arrays([*keys, *values, *metadata], schema=self._plain)

    def _metadata_of(self, messages: Sequence[Any]) -> list[pa.Array]:
        columns = []
        for what in self.metadata:
            data_type, ask = METADATA[what]
            columns.append(pa.array(map(ask, messages), data_type, size=len(messages)))
        return columns


def _taken(batch: pa.RecordBatch, numbers: np.ndarray[Any, Any]) -> list[pa.Array]:
    return [column.take(pa.array(numbers)) for column in batch.columns]


def _position(message: Any) -> str:
    return f"{message.topic()}-{message.partition()}@{message.offset()}"
