"""JSON objects as rows, read by the column. A hot path.

What ``json_rows`` spells is read here as what it was: dates and times from texts, bytes from
base64, "NaN" and the infinities as numbers, an object as a map; also inside of structs and arrays.
pyarrow parses numbers and texts; the rest is made of those. Records with what it cannot parse at
all (maps, and numbers that are none) are rewritten first, one by one.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.json

from mainstay.connectors.formats.json_lines import count_objects
from mainstay.connectors.formats.soundness import check_values
from mainstay.connectors.formats.text_numbers import narrowed
from mainstay.connectors.formats.text_times import timestamps_of
from mainstay.errors import SchemaError
from mainstay.schema import format_type
from mainstay.schema.arrays import check_not_null
from mainstay.schema.types import TIMESTAMP

ERRORS = (pa.ArrowException, SchemaError)
"""What ``parse`` raises for records that do not fit."""

NOT_FINITE = ("NaN", "Infinity", "-Infinity")

_ENTRY = ("key", "value")
_LF = ord("\n")
_BLANK = b" \t\r\n"
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?|true|false|NaN|-?Infinity")


def parse(records: Sequence[bytes | None], schema: pa.Schema) -> pa.RecordBatch:
    """A row for each record, of the declared columns; None is a row of nulls.

    Raises one of ``ERRORS`` if any record is no object or does not fit; which one it is shows when
    they are parsed apart.
    """
    objects = _objects(records)
    data = b"\n".join(objects)
    if not _are_lines(data, len(objects)) and not all(map(_is_object_like, objects)):
        # pyarrow takes a null for an object, and does not survive one at the beginning. What does
        # not end as an object does would go on in the next record.
        raise SchemaError("a record must hold one JSON object")
    _check_is_utf8(data)
    must_rewrite = _rewriting_of(schema, data)
    if must_rewrite is not None:
        whole = pa.struct(list(schema))
        data = b"\n".join(_rewritten(r, whole) if must_rewrite(r) else r for r in objects)
    return _rows(data, len(objects), schema)


def parse_lines(data: bytes, records: int, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of so many lines, each of which begins with a brace and ends with one."""
    _check_is_utf8(data)
    if _rewriting_of(schema, data) is not None:
        raise SchemaError("some have to be rewritten, one by one")
    return _rows(data, records, schema)


def _rows(data: bytes, records: int, schema: pa.Schema) -> pa.RecordBatch:
    table = _parsed(data, schema)
    # Each gives at least one row, so that equal numbers mean one row for each.
    if table.num_rows != records:
        raise SchemaError("a record must hold one JSON object and nothing else")
    batch = table.combine_chunks().to_batches()[0]
    columns = [_fitted(batch.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _objects(records: Sequence[bytes | None]) -> Sequence[bytes]:
    if None in records:
        return [b"{}" if record is None else record for record in records]
    return cast("Sequence[bytes]", records)


def _are_lines(data: bytes, records: int) -> bool:
    letters = np.frombuffer(data, np.uint8)
    return count_objects(letters, np.flatnonzero(letters == _LF)) == records


def _is_object_like(record: bytes) -> bool:
    text = record.strip(_BLANK)
    return text.startswith(b"{") and text.endswith(b"}")


def _check_is_utf8(data: bytes) -> None:
    """Texts are taken as they are, and would fail where somebody looks at them."""
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise SchemaError(f"not UTF-8: {error.reason} at byte {error.start}") from error


def _parsed(data: bytes, schema: pa.Schema) -> pa.Table:
    return pa.json.read_json(
        pa.BufferReader(data),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=pa.schema([(field.name, _parsed_type(field.type)) for field in schema]),
            unexpected_field_behavior="ignore",
            newlines_in_values=True,
        ),
    )


def _parsed_type(data_type: pa.DataType) -> pa.DataType:
    """What a column is parsed as: pyarrow's own parser is particular about times and bytes."""
    if pa.types.is_struct(data_type):
        fields = [data_type.field(number) for number in range(data_type.num_fields)]
        return pa.struct([(field.name, _parsed_type(field.type)) for field in fields])
    if pa.types.is_list(data_type):
        return pa.list_(_parsed_type(data_type.value_type))
    if pa.types.is_map(data_type):
        parts = (data_type.key_type, data_type.item_type)
        entry = pa.struct(list(zip(_ENTRY, map(_parsed_type, parts), strict=True)))
        return pa.list_(entry)
    if pa.types.is_float32(data_type):
        return pa.float64()  # which does not take 1e39 for infinity
    is_text = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_binary)
    return pa.string() if any(is_kind(data_type) for is_kind in is_text) else data_type


# ------------------------------------------------------------ from what was parsed


def _fitted(column: pa.Array, field: pa.Field) -> pa.Array:
    check_not_null(column, field, f"column {field.name!r}")
    try:
        fitted = _converted(column, field.type)
        check_values(fitted, field.name)
        return fitted
    except (pa.ArrowException, ValueError) as error:
        raise SchemaError(
            f"column {field.name!r} is no {format_type(field.type)}: {error}"
        ) from error


def _converted(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    if column.type == data_type:
        return column
    if pa.types.is_struct(data_type):
        fields = [data_type.field(number) for number in range(data_type.num_fields)]
        parts = [
            _converted(column.field(number), field.type) for number, field in enumerate(fields)
        ]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=column.is_null())
    if pa.types.is_list(data_type):
        values = _converted(column.values, data_type.value_type)
        return pa.ListArray.from_arrays(
            column.offsets, values, type=data_type, mask=column.is_null()
        )
    if pa.types.is_map(data_type):
        return _map(column, data_type)
    if data_type == TIMESTAMP:
        return timestamps_of(column)
    if pa.types.is_float32(data_type):
        return narrowed(column, data_type)
    if pa.types.is_binary(data_type):
        return pa.array([_unbase64(text) for text in column.to_pylist()], pa.binary())
    return column.cast(data_type)


def _map(column: pa.Array, data_type: pa.MapType) -> pa.Array:
    keys = _converted(column.values.field(0), data_type.key_type)
    if not pa.types.is_string(data_type.key_type):
        _check_keys_differ(column, keys)
    items = _converted(column.values.field(1), data_type.item_type)
    return pa.MapArray.from_arrays(
        column.offsets, keys, items, type=data_type, mask=column.is_null()
    )


def _check_keys_differ(maps: pa.Array, keys: pa.Array) -> None:
    """Names that differ may stand for equal keys, such as ``1`` and ``1.0``."""
    bounds, values = maps.offsets.to_pylist(), keys.to_pylist()
    for begin, end in pairwise(bounds):
        if len(set(values[begin:end])) < end - begin:
            raise ValueError("a map has a key twice")


def _unbase64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


# ------------------------------------------------------------ before it is parsed


@lru_cache(maxsize=64)
def _holds(data_type: pa.DataType, kind: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type is, or has inside, one of a kind."""
    inner = (data_type.field(number).type for number in range(data_type.num_fields))
    return kind(data_type) or any(_holds(each, kind) for each in inner)


def _rewriting_of(schema: pa.Schema, data: bytes) -> Callable[[bytes], bool] | None:
    """Which records must be rewritten; None where all may stay as they are.

    That depends on the record alone: the two parsers differ in what they take (how deep it may be,
    names that occur twice), and what a record means must not depend on those beside it.
    """
    if any(_holds(field.type, pa.types.is_map) for field in schema):
        return lambda _: True
    has_floats = any(_holds(field.type, pa.types.is_floating) for field in schema)
    return _is_suspect if has_floats and _is_suspect(data) else None


def _is_suspect(data: bytes) -> bool:
    # A single letter is looked for much more quickly.
    return (b"N" in data and b'NaN"' in data) or (b"I" in data and b'Infinity"' in data)


class _Literal(str):
    """A number as it is written, of which no digit may be lost."""


def _rewritten(record: bytes, data_type: pa.DataType) -> bytes:
    try:
        value = json.loads(
            record,
            parse_int=_Literal,
            parse_float=_Literal,
            parse_constant=_Literal,
            object_pairs_hook=_members,
        )
        return _spelled(value, data_type).encode()
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"a record must hold one JSON object: {error}") from error


class _Members(dict[str, Any]):
    """An object, and the names that it has more than once."""

    repeated: frozenset[str] = frozenset()


def _members(pairs: list[tuple[str, Any]]) -> _Members:
    members = _Members(pairs)
    if len(members) < len(pairs):
        names = Counter(name for name, _ in pairs)
        members.repeated = frozenset(name for name, count in names.items() if count > 1)
    return members


def _spelled(value: Any, data_type: pa.DataType | None) -> str:
    """A value as pyarrow reads it; a type is None where nobody reads it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, _Literal):
        return value
    if isinstance(value, str):
        is_number = data_type is not None and pa.types.is_floating(data_type)
        return value if is_number and value in NOT_FINITE else json.dumps(value)
    if isinstance(value, list):
        inner = None
        if data_type is not None and pa.types.is_list(data_type):
            inner = data_type.value_type
        return f"[{','.join(_spelled(each, inner) for each in value)}]"
    if data_type is not None and pa.types.is_map(data_type):
        return _spelled_entries(value, data_type)
    types = _types_of(data_type)
    _check_once(value.repeated & types.keys())
    members = (f"{json.dumps(k)}:{_spelled(v, types.get(k))}" for k, v in value.items())
    return f"{{{','.join(members)}}}"


def _types_of(data_type: pa.DataType | None) -> dict[str, pa.DataType]:
    if data_type is None or not pa.types.is_struct(data_type):
        return {}
    fields = (data_type.field(number) for number in range(data_type.num_fields))
    return {field.name: field.type for field in fields}


def _check_once(repeated: Collection[str]) -> None:
    """Refuse names of which it cannot be known which is meant; of others nothing is read."""
    if repeated:
        raise ValueError(f"the name {min(repeated)!r} occurs twice")


def _spelled_entries(value: _Members, data_type: pa.MapType) -> str:
    """A map as a list of its entries. Keys of an object are texts, whatever they stand for."""
    _check_once(value.repeated)
    kinds = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_floating)
    is_number = any(is_kind(data_type.key_type) for is_kind in kinds)
    entries = []
    for key, item in value.items():
        spelled = key if is_number and _NUMBER.fullmatch(key) else json.dumps(key)
        entries.append(f'{{"key":{spelled},"value":{_spelled(item, data_type.item_type)}}}')
    return f"[{','.join(entries)}]"
