"""Answers as Arrow streams, one after the other: the rows, and in the schema all else.

The field ``mainstay`` of a schema's metadata is a JSON object: the state, its columns as they were
declared, the moment, and whether there are more rows than were given.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import pyarrow as pa

from mainstay.inspect.answers import Answer, Moment
from mainstay.inspect.columns import StateColumns
from mainstay.snapshot.manifest import StateSchema

FIELD = b"mainstay"


def as_stream(table: pa.Table, out: io.BytesIO | None = None) -> bytes:
    """The bytes of an Arrow IPC stream, behind what has been written already."""
    sink = io.BytesIO() if out is None else out
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def answers_as_streams(answers: Sequence[tuple[str, Answer, bool]]) -> bytes:
    """Each with the name it was asked by, and whether it was cut."""
    sink, found = io.BytesIO(), b""
    for name, answer, is_cut in answers:
        told = json.dumps({"state": name, "is_cut": is_cut, **_told(answer)})
        kept = answer.table.schema.metadata or {}
        found = as_stream(answer.table.replace_schema_metadata({**kept, FIELD: told}), sink)
    return found


def answers_of_streams(data: bytes) -> Iterator[tuple[str, Answer, bool]]:
    """What ``answers_as_streams`` was given."""
    source = pa.BufferReader(data)
    while source.tell() < len(data):
        table = pa.ipc.open_stream(source).read_all()
        metadata = dict(table.schema.metadata)
        told = json.loads(metadata.pop(FIELD))
        yield told["state"], _answer(told, table.replace_schema_metadata(metadata)), told["is_cut"]


def _told(answer: Answer) -> dict[str, Any]:
    moment = answer.moment
    return {
        "columns": columns_document(answer.columns),
        "moment": {
            "job": moment.job,
            "epoch": moment.epoch,
            "attempt": moment.attempt,
            "committed_at": moment.committed_at.isoformat(),
            "position": dict(moment.position),
            "level": moment.level,
        },
        "age_s": answer.age_s,
        "took_s": answer.took_s,
    }


def _answer(told: dict[str, Any], table: pa.Table) -> Answer:
    at = datetime.fromisoformat(told["moment"]["committed_at"])
    moment = Moment(**{**told["moment"], "committed_at": at})
    return Answer(columns_of(told["columns"]), table, moment, told["age_s"], told["took_s"])


# ---------------------------------------------------------------- columns


def columns_document(columns: StateColumns) -> dict[str, Any]:
    """How a state was declared, for ``columns_of``."""
    return asdict(columns)


def columns_of(document: dict[str, Any]) -> StateColumns:
    schema = StateSchema(**document["schema"])
    names = tuple(document["key_names"])
    return StateColumns(document["operator"], schema, document["key_type"], names)
