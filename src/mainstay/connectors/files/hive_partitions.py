"""Hive-style directories: rows go to ``day=2024-05-01/country=DE/``, by the values of columns.

The columns are not in the files: readers take them from the names of the directories. Names are
escaped, and null and the empty text both called ``__HIVE_DEFAULT_PARTITION__``, as Spark does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstay.errors import GraphError, SinkError
from mainstay.schema import format_type

DEFAULT = "__HIVE_DEFAULT_PARTITION__"
LONGEST_NAME = 255
"""How many bytes the name of a directory may have on the disks there are."""
_ESCAPED = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{\\[\\]^]")


def columns_of(partition_by: Any, sink: str) -> tuple[str, ...]:
    """The columns that a sink was given to partition by, checked."""
    names = [partition_by] if isinstance(partition_by, str) else list(partition_by or ())
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise GraphError(
            f"{sink}(partition_by={partition_by!r}): give names of columns, each once, as in "
            'partition_by=["day"].'
        )
    return tuple(names)


def escaped(text: str) -> str:
    """A name or a value as it is written in the name of a directory."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def folder_of(values: Sequence[tuple[str, str]]) -> str:
    """The directory of named values."""
    return "/".join(f"{escaped(name)}={escaped(value)}" for name, value in values)


def is_hidden(name: str) -> bool:
    """Whether readers pass over a directory of this name. One of a partition, such as ``_day=1``,
    they read, as Spark does."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def check_is_name(folder: str) -> None:
    """Refuse a directory that no disk can have a name for."""
    for part in folder.split("/"):
        size = len(part.encode())
        if size > LONGEST_NAME:
            column = unquote(part.split("=", 1)[0])
            raise SinkError(
                f"partition_by names column {column!r}, and a value of it is too long to be the "
                f"name of a directory: {part[:60]!r}… has {size} bytes, and {LONGEST_NAME} are "
                "possible. Partition by something shorter; map() can derive it."
            )


def values_of(folder: str) -> dict[str, str | None]:
    """What the name of a directory says about its rows."""
    pairs = (part.split("=", 1) for part in folder.split("/") if "=" in part)
    named = {unquote(name): unquote(value) for name, value in pairs}
    return {name: None if value == DEFAULT else value for name, value in named.items()}


def with_values(
    tables: Sequence[tuple[str, pa.Table]], schema: pa.Schema | None = None
) -> list[pa.Table]:
    """Tables with the columns that their directories name.

    Without a schema they are of the type that all values have: int, long or date, and string
    otherwise. A directory does not say, and this is what Spark takes its name for.
    """
    found = [values_of(folder) for folder, _ in tables]
    names = list(dict.fromkeys(name for values in found for name in values))
    columns = {}
    for name in names:
        texts = pa.array([values.get(name) for values in found], pa.string())
        if schema is not None and name in schema.names:
            columns[name] = texts.cast(schema.field(name).type)
        else:
            columns[name] = _inferred(texts)
    return [_extended(table, n, columns) for n, (_, table) in enumerate(tables)]


def _extended(table: pa.Table, number: int, columns: dict[str, pa.Array]) -> pa.Table:
    for name, values in columns.items():
        table = table.append_column(name, pa.repeat(values[number], table.num_rows))
    return table


def _inferred(texts: pa.Array) -> pa.Array:
    for type in (pa.int32(), pa.int64(), pa.date32()):
        with suppress(pa.ArrowInvalid):
            return texts.cast(type)
    return texts


class HivePartitions:
    """Deals out rows over the directories of some columns; without columns there is one."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self._checked: pa.Schema | None = None

    def without(self, schema: pa.Schema) -> pa.Schema:
        """The columns that are in the files."""
        return pa.schema([field for field in schema if field.name not in self.columns])

    def check_is_seen(self) -> None:
        """Refuse columns whose directories no reader would look into."""
        for name in self.columns:
            if name.startswith("."):
                raise SinkError(
                    f"partition_by names column {name!r}, and readers pass over directories whose "
                    "names begin with a dot. Rename the column, as with map()."
                )

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Each directory with its rows, in their order and without the columns."""
        if not self.columns or not batch.num_rows:
            yield "", batch
            return
        self.check(batch.schema)
        texts = [_texts(batch.column(name), name) for name in self.columns]
        rows = batch.drop_columns(list(self.columns))
        for indices in _groups(texts):
            first = int(indices[0])
            values = [text.dictionary[text.indices[first].as_py()].as_py() for text in texts]
            folder = folder_of(list(zip(self.columns, values, strict=True)))
            yield folder, rows if len(indices) == len(rows) else rows.take(pa.array(indices))

    def check(self, schema: pa.Schema) -> None:
        """Refuse rows that cannot be distributed by these columns."""
        if schema is self._checked or not self.columns:
            return
        missing = [name for name in self.columns if name not in schema.names]
        if missing:
            raise SinkError(
                f"partition_by names {missing}, but the rows have the columns {schema.names}. "
                "Correct partition_by."
            )
        if len(self.columns) == len(schema.names):
            raise SinkError(
                f"partition_by names all columns ({', '.join(self.columns)}), so nothing would be "
                "left for the files. Leave one out."
            )
        for name in self.columns:
            _check_type(schema.field(name))
        self._checked = schema


def _check_type(field: pa.Field) -> None:
    kinds = (
        pa.types.is_string,
        pa.types.is_integer,
        pa.types.is_boolean,
        pa.types.is_date,
        pa.types.is_decimal,
    )
    if not any(is_kind(field.type) for is_kind in kinds):
        raise SinkError(
            f"partition_by names column {field.name!r} of type {format_type(field.type)}, whose "
            "values have no one spelling as the name of a directory. Partition by a string, "
            "integer, boolean, date or decimal; map() can derive one, such as the day of a time."
        )


def _texts(column: pa.Array, name: str) -> pa.DictionaryArray:
    texts = column.cast(pa.string())
    if pc.any(pc.equal(texts, DEFAULT)).as_py():
        raise SinkError(
            f"partition_by names column {name!r}, and a value of it is {DEFAULT!r}, which readers "
            "of directories take for null. Replace it with map()."
        )
    named = pc.if_else(pc.equal(texts, ""), DEFAULT, texts)
    return pc.fill_null(named, DEFAULT).dictionary_encode()


def _groups(texts: Sequence[pa.DictionaryArray]) -> Iterator[np.ndarray[Any, Any]]:
    """The numbers of the rows with equal values, group by group in the order they appear."""
    codes = np.zeros(len(texts[0]), dtype=np.int64)
    for text in texts:
        codes = codes * len(text.dictionary) + text.indices.to_numpy(zero_copy_only=False)
    _, firsts, group = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(len(firsts) + 1))
    for number in np.argsort(firsts, kind="stable"):
        yield order[bounds[number] : bounds[number + 1]]
