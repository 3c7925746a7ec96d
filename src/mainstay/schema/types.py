"""The types that a column, a key or a state may have, and how others become one of them.

Every pyarrow type that enters Mainstay is *normalised*: of the several pyarrow types that mean
the same Spark type exactly one is kept, so that two schemas are equal whenever Spark would call
them equal.

=====================  =====================================
Spark                  kept
=====================  =====================================
boolean                ``bool``
byte, short, int, long ``int8``, ``int16``, ``int32``, ``int64``
float, double          ``float32``, ``float64``
decimal(p,s)           ``decimal128(p, s)``, p ≤ 38
string, binary         ``string``, ``binary``
date                   ``date32``
timestamp              ``timestamp("us", tz="UTC")``
timestamp_ntz          ``timestamp("us")``
array, map, struct     ``list``, ``map``, ``struct`` of these
=====================  =====================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

from mainstay.errors import SchemaError

MAX_DECIMAL_PRECISION = 38
TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")

# By pyarrow's own name of the type: some of these types exist only in newer versions of pyarrow.
_SIMPLE: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.int16(),
    "uint16": pa.int32(),
    "uint32": pa.int64(),
    "uint64": pa.decimal128(20, 0),
    "halffloat": pa.float32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.string(),
    "string_view": pa.string(),
    "binary": pa.binary(),
    "large_binary": pa.binary(),
    "binary_view": pa.binary(),
    "date32[day]": pa.date32(),
    "date64[ms]": pa.date32(),
}


def normalise(data_type: pa.DataType) -> pa.DataType:
    """The type of the table above that holds every value of ``data_type``.

    A type with no counterpart in Spark (a time of day, a duration, a union) is a SchemaError.
    """
    simple = _SIMPLE.get(str(data_type))
    if simple is not None:
        return simple
    if pa.types.is_timestamp(data_type):
        return TIMESTAMP if data_type.tz is not None else TIMESTAMP_NTZ
    if pa.types.is_decimal(data_type):
        return _normal_decimal(data_type)
    if pa.types.is_fixed_size_binary(data_type):
        return pa.binary()
    if pa.types.is_dictionary(data_type):
        return normalise(data_type.value_type)
    return _normal_nested(data_type)


def _normal_nested(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(data_type):
        return pa.struct(normal_fields(data_type))
    if pa.types.is_map(data_type):
        return pa.map_(normalise(data_type.key_type), normalise(data_type.item_type))
    if "list" in str(data_type).partition("<")[0]:
        return pa.list_(normalise(data_type.value_type))
    raise SchemaError(
        f"pyarrow's type {data_type} has no Spark type; cast the column to one that has, "
        "for example a long, a string or a timestamp"
    )


def _normal_decimal(data_type: pa.DataType) -> pa.DataType:
    precision, scale = data_type.precision, data_type.scale
    if precision > MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
        raise SchemaError(
            f"{data_type} is not a Spark decimal: the precision may be at most "
            f"{MAX_DECIMAL_PRECISION} and the scale must lie between 0 and the precision"
        )
    return pa.decimal128(precision, scale)


def normal_fields(fields: Iterable[pa.Field]) -> list[pa.Field]:
    """The fields with normalised types and no metadata; a repeated name is a SchemaError."""
    normal = [pa.field(f.name, normalise(f.type), nullable=f.nullable) for f in fields]
    check_names_differ(f.name for f in normal)
    return normal


def check_names_differ(names: Iterable[str]) -> None:
    """Raise a SchemaError that names every name that occurs more than once."""
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise SchemaError(
            f"the column names {', '.join(map(repr, repeated))} occur more than once; "
            "give every column a name of its own"
        )
