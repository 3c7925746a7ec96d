"""Handles that hold the rows themselves: an Arrow stream, with a versioned note in its schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mainstay.connectors.bases.json_handles import check_version
from mainstay.schema.ipc import from_ipc, to_ipc


def write_row_handle(
    key: bytes,
    version: int,
    about: Sequence[Any],
    rows: pa.Table,
    *,
    compression: str | None = None,
) -> bytes:
    """Rows, and what is to be known of them, under a key of the sink in the schema's metadata."""
    metadata = {**(rows.schema.metadata or {}), key: json.dumps([version, *about])}
    noted = rows.replace_schema_metadata(metadata)
    return to_ipc(noted.to_batches(), noted.schema, compression=compression)


def read_row_handle(data: bytes, key: bytes, version: int, sink: str) -> tuple[list[Any], pa.Table]:
    """What ``write_row_handle`` was told of the rows, and they; ``sink`` names it in errors."""
    rows = from_ipc(data)
    metadata = dict(rows.schema.metadata)
    found, *about = json.loads(metadata.pop(key))
    check_version(found, version, sink)
    return about, rows.replace_schema_metadata(metadata or None)
