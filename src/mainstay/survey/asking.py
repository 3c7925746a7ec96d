"""``mainstay query`` and ``mainstay sql``: ask the state of a job, and print what it says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from mainstay.errors import StateTypeError
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.connection import NO_KEY, connect
from mainstay.schema.transpose import shown
from mainstay.spelling import counted

LIMIT = 20
"""Rows of a scan that are shown unless more are asked for."""


def run_query(
    console: Console,
    path: str,
    state: str | None,
    keys: Sequence[str],
    *,
    epoch: str,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print what a state holds; without a state, which there are."""
    job = connect(path)
    at = int(epoch) if epoch.isdigit() else epoch
    if state is None:
        _print_states(console, job.states(at), as_json)
        return
    columns = job.states(at).get(state)
    wanted = None if columns is None or not keys else [key_of(columns, key) for key in keys]
    if wanted is None and keys:
        wanted = list(keys)  # the state is unknown, which the answer says
    limit = None if wanted is not None else LIMIT if limit is None else limit
    answer = job.query(state, key=NO_KEY, keys=wanted, limit=limit, epoch=at)
    if as_json:
        moment = answer.moment
        document = {
            "job": moment.job,
            "epoch": moment.epoch,
            "attempt": moment.attempt,
            "committed_at": moment.committed_at.isoformat(),
            "age_s": answer.age_s,
            "took_s": answer.took_s,
            "rows": answer.rows(),
        }
        print(json.dumps(document, default=_plain))
        return
    _print_rows(console, answer.table)
    console.print(
        f"epoch {answer.epoch} of job {answer.moment.job!r}, {answer.age_s:.1f} s ago; "
        f"{counted(answer.table.num_rows, 'row')} in {answer.took_s * 1000:.1f} ms",
        style="dim",
        highlight=False,
    )


def run_sql(console: Console, path: str, statement: str, *, epoch: str, as_json: bool) -> None:
    """Print the rows of a statement."""
    found = connect(path).sql(statement, epoch=int(epoch) if epoch.isdigit() else epoch)
    if as_json:
        print(json.dumps(found.to_pylist(), default=_plain))
    else:
        _print_rows(console, found)


def key_of(columns: StateColumns, text: str) -> Any:
    """A key as it is written in a command: one value, or a JSON object of the key's columns."""
    names = columns.key_columns() if columns.is_keyed else []
    if len(names) < 2:
        return _value(columns, text, 0) if names else text
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        example = json.dumps(dict.fromkeys(names, "..."))
        raise StateTypeError(f"{columns.label}: write the key as a JSON object: --key '{example}'.")
    return {
        name: _value(columns, value, names.index(name)) if name in names else value
        for name, value in given.items()
    }


def _value(columns: StateColumns, value: Any, number: int) -> Any:
    """What a text says as the type of a column of the key."""
    field = columns.key_fields()[number]
    if not isinstance(value, str) or pa.types.is_string(field.type):
        return value
    try:
        return pa.scalar(value).cast(field.type).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise StateTypeError(
            f"{columns.label}: {value!r} is no {field.type}, which the key's column "
            f"{field.name!r} is."
        ) from None


def _print_states(console: Console, states: dict[str, StateColumns], as_json: bool) -> None:
    rows = [
        (name, columns.schema.kind, columns.key_type or "", columns.schema.value_type)
        for name, columns in states.items()
    ]
    names = ("state", "kind", "key", "value")
    if as_json:
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows]))
        return
    table = Table(*names, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _print_rows(console: Console, rows: pa.Table) -> None:
    table = Table(*rows.column_names, box=None, pad_edge=False)
    for row in rows.to_pylist():
        table.add_row(
            *(value if isinstance(value, str) else shown(value) for value in row.values())
        )
    console.print(table)


def _plain(value: Any) -> Any:
    """What JSON has no word for, as a text."""
    return value.hex() if isinstance(value, bytes) else str(value)
