"""Record formats: what the bytes of one record of a log or queue mean, as rows.

::

    Json("customer string, amount long")        # one object is one row
    Raw("body")                                 # the bytes as they are, in one column
    ArrowIpc("customer string, amount long")    # an Arrow IPC stream, many rows in one record

A format both reads and writes. To write, no schema is needed: the rows have one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.connectors.files.formats import check_types
from mainstay.connectors.formats import json_reading, json_records
from mainstay.connectors.formats.soundness import check_values
from mainstay.errors import GraphError, SchemaError, SinkError
from mainstay.masking import shown_settings
from mainstay.own_frames import made_with_own_frames
from mainstay.schema import to_schema, to_type
from mainstay.schema.arrays import check_not_null
from mainstay.schema.ipc import from_ipc, to_ipc
from mainstay.spelling import one_of

TOO_LONG = 200


@dataclass(frozen=True, slots=True)
class Decoded:
    """What records came to: the rows of the good ones in order, and what is wrong with others.

    ``rows`` is how many rows each record gave, which is none for a bad one.
    """

    batch: pa.RecordBatch
    rows: np.ndarray[Any, np.dtype[np.int64]]
    errors: dict[int, str] = field(default_factory=dict)


class Format(ABC):
    """How records become rows, and rows records."""

    schema: pa.Schema | None = None
    """The columns that reading gives; None where only writing is possible."""
    packs_rows: bool = False
    """Whether a record may hold more rows than one."""

    def __repr__(self) -> str:
        return shown_settings(self)

    @abstractmethod
    def decode(self, records: Sequence[bytes | None]) -> Decoded:
        """The rows of records. A record without a value is None."""

    @abstractmethod
    def encode(self, batch: pa.RecordBatch) -> list[bytes | None]:
        """The records of rows, in order."""

    def check(self, schema: pa.Schema) -> None:  # noqa: B027 - most take any rows
        """Refuse to write rows of a schema: before they are part of a snapshot."""

    def schema_to_read(self) -> pa.Schema:
        """The schema, which a source cannot do without."""
        if self.schema is None:
            name = type(self).__name__
            raise GraphError(
                f"{name}() does not say what columns its records have. Give it a schema to read "
                f'with, as in {name}("customer string, amount long").'
            )
        return self.schema


@made_with_own_frames
class Json(Format):
    """Records of one JSON object each. Fields that the schema does not name are left out.

    An absent field is null, and so are all columns of a record without a value. Times are texts in
    ISO 8601, UTC where they have no zone; binary values are base64; a map is an object.
    """

    def __init__(self, schema: Any = None) -> None:
        self.schema = None if schema is None else to_schema(schema)
        if self.schema is not None:
            check_types(self.schema, "json", GraphError)

    def decode(self, records: Sequence[bytes | None]) -> Decoded:
        schema = self.schema_to_read()
        errors: dict[int, str] = {}
        pieces = _parsed(records, schema, 0, errors)
        batch = _joined(pieces, schema)
        rows = np.ones(len(records), dtype=np.int64)
        rows[list(errors)] = 0
        return Decoded(batch, rows, errors)

    def encode(self, batch: pa.RecordBatch) -> list[bytes | None]:
        return list(json_records.write(batch))


def _parsed(
    records: Sequence[bytes | None], schema: pa.Schema, first: int, errors: dict[int, str]
) -> list[pa.RecordBatch]:
    """The good rows; the bad ones are found by halves, as there are few or none."""
    if not records:
        return []
    try:
        return [json_reading.parse(records, schema)]
    except json_reading.ERRORS as error:
        if len(records) == 1:
            errors[first] = str(error)[:TOO_LONG]
            return []
    middle = len(records) // 2
    return [
        *_parsed(records[:middle], schema, first, errors),
        *_parsed(records[middle:], schema, first + middle, errors),
    ]


@made_with_own_frames
class Raw(Format):
    """The bytes of a record in one column, as they are; of type "string" if they are UTF-8.

    Writing takes the column of that name and leaves out all others.
    """

    def __init__(self, column: str = "value", type: Any = "binary") -> None:
        self.column = column
        self.type = to_type(type)
        if not (pa.types.is_binary(self.type) or pa.types.is_string(self.type)):
            raise GraphError(f'Raw({column!r}, {type!r}): the type is "binary" or "string".')
        self.schema = pa.schema([(column, self.type)])

    def decode(self, records: Sequence[bytes | None]) -> Decoded:
        values = pa.array(records, pa.binary())
        errors: dict[int, str] = {}
        if pa.types.is_string(self.type):
            try:
                values = values.cast(pa.string())
            except pa.ArrowException:
                errors = _not_utf8(records)
                good = [r for number, r in enumerate(records) if number not in errors]
                values = pa.array(good, pa.binary()).cast(pa.string())
        rows = np.ones(len(records), dtype=np.int64)
        rows[list(errors)] = 0
        return Decoded(pa.RecordBatch.from_arrays([values], schema=self.schema), rows, errors)

    def encode(self, batch: pa.RecordBatch) -> list[bytes | None]:
        self.check(batch.schema)
        column = batch.column(self.column)
        return column.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]

    def check(self, schema: pa.Schema) -> None:
        if self.column not in schema.names:
            raise SinkError(
                f"Raw({self.column!r}) writes the column of that name, but the rows have "
                f"{', '.join(schema.names)}. Name one of these."
            )
        data_type = schema.field(self.column).type
        if not (pa.types.is_binary(data_type) or pa.types.is_string(data_type)):
            raise SinkError(
                f"Raw({self.column!r}) writes the bytes of a column, but this one is of type "
                f"{data_type}. Convert it to a string or binary with map(), or use Json()."
            )


def _not_utf8(records: Sequence[bytes | None]) -> dict[int, str]:
    errors = {}
    for number, record in enumerate(records):
        try:
            (record or b"").decode()
        except UnicodeDecodeError as error:
            errors[number] = f"not UTF-8: {error.reason} at byte {error.start}"
    return errors


@made_with_own_frames
class ArrowIpc(Format):
    """Records that are Arrow IPC streams. Columns are found by name and cast to the schema.

    A record without a value has no rows. Written are up to ``rows_per_record`` rows in a record.
    """

    packs_rows = True

    def __init__(self, schema: Any = None, *, rows_per_record: int = 1000) -> None:
        if not isinstance(rows_per_record, int) or rows_per_record < 1:
            raise GraphError(f"ArrowIpc(rows_per_record={rows_per_record!r}) must be at least 1.")
        self.schema = None if schema is None else to_schema(schema)
        self.rows_per_record = rows_per_record

    def decode(self, records: Sequence[bytes | None]) -> Decoded:
        schema = self.schema_to_read()
        rows = np.zeros(len(records), dtype=np.int64)
        errors: dict[int, str] = {}
        pieces = []
        for number, record in enumerate(records):
            if record is None:
                continue
            try:
                batch = _batch_of(record, schema)
            except (pa.ArrowException, SchemaError, OSError, ValueError) as error:
                errors[number] = str(error)[:TOO_LONG]
                continue
            rows[number] = batch.num_rows
            pieces.append(batch)
        return Decoded(_joined(pieces, schema), rows, errors)

    def encode(self, batch: pa.RecordBatch) -> list[bytes | None]:
        count = self.rows_per_record
        starts = range(0, batch.num_rows, count)
        return [to_ipc([batch.slice(start, count)], batch.schema) for start in starts]


def _batch_of(record: bytes, schema: pa.Schema) -> pa.RecordBatch:
    table = from_ipc(record)
    table.validate(full=True)  # what a record says of its own buffers need not be true
    missing = [name for name in schema.names if name not in table.schema.names]
    if missing:
        raise SchemaError(
            f"there is no column {one_of(missing)}; it has {one_of(table.schema.names)}"
        )
    fitted = table.select(schema.names).cast(pa.schema([f.with_nullable(True) for f in schema]))
    batch = fitted.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema)]
    for column, each in zip(batch[0].columns, schema, strict=True):
        check_values(column, each.name)
        check_not_null(column, each, f"column {each.name!r}")
    return pa.RecordBatch.from_arrays(batch[0].columns, schema=schema)


def _joined(pieces: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(pieces) == 1:
        return pieces[0]
    table = pa.Table.from_batches(pieces, schema=schema).combine_chunks()
    return (table.to_batches() or [pa.RecordBatch.from_pylist([], schema)])[0]
