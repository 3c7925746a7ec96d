"""Data files of a Delta table before a transaction names them, and the table they are for."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from obstore.store import from_url

from mainstay.connectors.bases.json_handles import read_handle, write_handle
from mainstay.errors import GraphError, SinkError
from mainstay.schema import format_schema, format_type
from mainstay.snapshot.object_storage import ObjectStorage, open_storage
from mainstay.snapshot.store_client import RETRIES, client_options
from mainstay.spelling import unended

HANDLE_VERSION = 1


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file in the folder of a table, with what the table's log says of it."""

    path: str
    size_bytes: int
    modified_ms: int
    partition: dict[str, str | None]
    stats: str

    def action(self) -> Any:
        add = load_deltalake().transaction.AddAction
        return add(
            path=self.path,
            size=self.size_bytes,
            partition_values=self.partition,
            modification_time=self.modified_ms,
            data_change=True,
            stats=self.stats,
        )


@dataclass(frozen=True, slots=True)
class Handle:
    """The files of one subtask in one epoch. ``app_id`` and ``epoch`` make it count once."""

    uri: str
    app_id: str
    epoch: int
    schema: pa.Schema
    partition_by: tuple[str, ...]
    files: tuple[DataFile, ...]

    def to_bytes(self) -> bytes:
        schema = base64.b64encode(self.schema.serialize().to_pybytes()).decode()
        content = {
            "uri": self.uri,
            "app_id": self.app_id,
            "epoch": self.epoch,
            "schema": schema,
            "partition_by": self.partition_by,
            "files": [asdict(file) for file in self.files],
        }
        return write_handle(HANDLE_VERSION, content)

    @staticmethod
    def from_bytes(data: bytes) -> Handle:
        content = read_handle(data, HANDLE_VERSION, "Delta")
        return Handle(
            content["uri"],
            content["app_id"],
            content["epoch"],
            pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["schema"]))),
            tuple(content["partition_by"]),
            tuple(DataFile(**file) for file in content["files"]),
        )


def load_deltalake() -> Any:
    """The deltalake package, which is an extra."""
    try:
        import deltalake
        import deltalake.transaction
    except ImportError as error:
        raise GraphError(
            "DeltaSink needs the package deltalake. Install it with: pip install 'mainstay[delta]'"
        ) from error
    return deltalake


def open_table(uri: str, options: Mapping[str, str]) -> Any | None:
    """The table as it is now; None where there is none."""
    delta = load_deltalake()
    # Not is_deltatable: it keeps the interpreter to itself while a store is asked, and heartbeats
    # would wait for the store.
    try:
        return delta.DeltaTable(uri, storage_options=dict(options) or None)
    except delta.exceptions.TableNotFoundError:
        return None


def open_table_storage(uri: str, options: Mapping[str, str]) -> ObjectStorage:
    """The folder of a table, as a place for files."""
    if not options or "://" not in uri or uri.startswith("file://"):
        return open_storage(uri)
    config: Any = {name.lower(): value for name, value in options.items()}
    # Of the options of deltalake these two are not the store's, but the client's and its own.
    allow_http = config.pop("allow_http", config.pop("aws_allow_http", "false"))
    config.pop("aws_s3_allow_unsafe_rename", None)
    client: Any = {**client_options(uri.partition("://")[0]), "allow_http": allow_http.lower()}
    store = from_url(uri, config=config, client_options=client, retry_config=RETRIES)
    return ObjectStorage(store, uri)


def check_can_be_made(uri: str, schema: pa.Schema, partition_by: Sequence[str]) -> None:
    """Refuse rows for which no table can be made, as one of names that differ only in case.

    A table that nobody sees is made of them: what deltalake refuses depends on its version.
    """
    delta = load_deltalake()
    try:
        delta.transaction.create_table_with_add_actions(
            "memory:///table",
            delta.Schema.from_arrow(schema),
            [],
            mode="error",
            partition_by=list(partition_by),
        )
    except Exception as error:
        problem = str(error).partition("\n")[0]
        raise SinkError(
            f"no Delta table can be made in {uri!r} for rows with the columns "
            f"{format_schema(schema)}: {unended(problem)}. Rename or convert columns with map(), "
            "or make the table before."
        ) from error


def check_fits(table: Any, uri: str, schema: pa.Schema, partition_by: Sequence[str]) -> None:
    """Refuse rows that the table has no columns for."""
    columns = list(table.metadata().partition_columns)
    if columns != list(partition_by):
        raise SinkError(
            f"the Delta table {uri!r} is partitioned by {columns}, and the sink by "
            f"{list(partition_by)}. Give DeltaSink partition_by={columns}."
        )
    theirs = {field.name: field for field in table.schema().fields}
    for field, ours in zip(schema, load_deltalake().Schema.from_arrow(schema).fields, strict=True):
        known = theirs.pop(field.name, None)
        if known is None or known.type != ours.type or (ours.nullable and not known.nullable):
            raise SinkError(_unfit(uri, field, known))
    needed = [name for name, field in theirs.items() if not field.nullable]
    if needed:
        raise SinkError(
            f"the Delta table {uri!r} must not have null in the columns {needed}, which the rows "
            "do not have. Add them with map(), or alter the table."
        )


def _unfit(uri: str, field: pa.Field, known: Any) -> str:
    is_needed = "" if field.nullable else " not null"
    found = "has no such column"
    if known is not None:
        kind = getattr(known.type, "type", known.type)
        found = f"has it as {kind}{'' if known.nullable else ' not null'}"
    return (
        f"column {field.name!r} of the rows is {format_type(field.type)}{is_needed}, and the Delta "
        f"table {uri!r} {found}. Convert it with map(), or alter the table."
    )
