"""Records of a log: what the formats write json reads, and what json writes they read; any key."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.connectors.kafka import ArrowIpc, Json, Raw
from tests.roundtrips import kinds
from tests.roundtrips.kinds import Table
from tests.roundtrips.sameness import arrow_rows, rows_of
from tests.roundtrips.spellings import from_json, to_json


def objects_of(records: list[bytes | None], schema: pa.Schema) -> list[Any]:
    """The rows of JSON records, by the standard library."""
    objects = [json.loads(record or b"") for record in records]
    assert all(found.keys() <= set(schema.names) for found in objects)
    rows = ([from_json(found.get(f.name), f.type) for f in schema] for found in objects)
    return rows_of(rows, schema)


def check_json(table: Table, variant: int = 0) -> None:
    expected = rows_of(table.rows, table.schema)
    written = Json().encode(table.batch)
    assert objects_of(written, table.schema) == expected
    assert not any(b"\n" in (record or b"") for record in written)
    others = [
        json.dumps(
            {f.name: to_json(v, f.type) for f, v in zip(table.schema, row, strict=True)},
            ensure_ascii=bool(variant & 1),
            indent=2 if variant & 2 else None,
        ).encode()
        for row in table.rows
    ]
    for records in (written, others):
        decoded = Json(table.schema).decode(records)
        assert decoded.errors == {}
        assert arrow_rows(decoded.batch, table.schema) == expected


def check_arrow(table: Table, rows_per_record: int) -> None:
    expected = rows_of(table.rows, table.schema)
    written = ArrowIpc(rows_per_record=rows_per_record).encode(table.batch)
    seen = [pa.ipc.open_stream(record).read_all() for record in written]
    assert arrow_rows(pa.concat_tables(seen), table.schema) == expected
    decoded = ArrowIpc(table.schema).decode(written)
    assert decoded.errors == {}
    assert arrow_rows(decoded.batch, table.schema) == expected


def test_every_listed_value_of_every_type_is_in_its_record_as_it_is() -> None:
    check_json(kinds.wide(kinds.catalogue()))
    check_arrow(kinds.wide(kinds.catalogue()), rows_per_record=10)


@settings(max_examples=kinds.examples(60))
@given(kinds.tables(), st.integers(0, 3))
def test_drawn_rows_are_in_json_records_as_they_are(table: Table, variant: int) -> None:
    check_json(table, variant)


@settings(max_examples=kinds.examples(40))
@given(kinds.tables(), st.integers(1, 4))
def test_drawn_rows_are_in_arrow_records_as_they_are(table: Table, rows_per_record: int) -> None:
    check_arrow(table, rows_per_record)


@settings(max_examples=kinds.examples(40))
@given(st.lists(kinds.values_of(pa.binary())), st.lists(kinds.values_of(pa.string())))
def test_bytes_and_texts_are_records_as_they_are(
    octets: list[bytes | None], texts: list[str | None]
) -> None:
    for kind, values in ((pa.binary(), octets), (pa.string(), texts)):
        format = Raw("v", kind)
        batch = pa.RecordBatch.from_arrays([pa.array(values, kind)], ["v"])
        records = format.encode(batch)
        assert records == [v.encode() if isinstance(v, str) else v for v in values]
        assert format.decode(records).batch.column(0).to_pylist() == values
