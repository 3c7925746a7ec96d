"""Any way of declaring a type, turned into the one that Mainstay keeps.

A job's author may declare a type as a Spark DDL string, as a pyarrow type, or as a
``pyspark.sql.types`` object. The last is recognised by its ``jsonValue`` method, so that pyspark
need not be installed where no pyspark type is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from mainstay.errors import SchemaError
from mainstay.schema.ddl import parse_schema, parse_type
from mainstay.schema.types import check_names_differ, normal_fields, normalise


def to_type(declared: Any) -> pa.DataType:
    """The normalised pyarrow type of a DDL string, a pyarrow type or a pyspark type."""
    if isinstance(declared, str):
        return parse_type(declared)
    if isinstance(declared, pa.DataType):
        return normalise(declared)
    if isinstance(declared, pa.Schema):
        return pa.struct(normal_fields(declared))
    return _from_json(_json_of(declared, "a type"))


def to_schema(declared: Any) -> pa.Schema:
    """The normalised pyarrow schema of a DDL string, a pyarrow schema or a pyspark StructType.

    Metadata is dropped.
    """
    if isinstance(declared, str):
        return parse_schema(declared)
    if isinstance(declared, pa.Schema):
        return pa.schema(normal_fields(declared))
    if isinstance(declared, pa.DataType):
        return _columns_of(normalise(declared))
    return _columns_of(_from_json(_json_of(declared, "a schema")))


def _columns_of(data_type: pa.DataType) -> pa.Schema:
    if not pa.types.is_struct(data_type):
        raise SchemaError(
            f"a schema needs named columns, but {data_type} has none; "
            "write for example 'value long' or use a StructType"
        )
    return pa.schema(list(data_type))


def _json_of(declared: Any, what: str) -> Any:
    json_value = getattr(declared, "jsonValue", None)
    if json_value is None or isinstance(declared, type):
        raise SchemaError(
            f"{declared!r} is not {what}; give a DDL string such as 'customer string, total long', "
            "a pyarrow type or schema, or an instance of a pyspark.sql.types class"
        )
    return json_value()


def _from_json(value: Any) -> pa.DataType:
    """The type behind pyspark's JSON form: a name, or a dict with the name under ``type``."""
    if isinstance(value, str):
        return parse_type(value)
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind == "array":
        return pa.list_(_from_json(value["elementType"]))
    if kind == "map":
        return pa.map_(_from_json(value["keyType"]), _from_json(value["valueType"]))
    if kind == "struct":
        return pa.struct(_fields_from_json(value["fields"]))
    raise SchemaError(
        f"the pyspark type {value!r} is not supported; use one of Spark's built-in types"
    )


def _fields_from_json(fields: list[dict[str, Any]]) -> list[pa.Field]:
    check_names_differ(f["name"] for f in fields)
    return [
        pa.field(f["name"], _from_json(f["type"]), nullable=f.get("nullable", True)) for f in fields
    ]
