"""``mainstay query`` and ``mainstay sql``: ask the state of a job, and print what it says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from mainstay.errors import GraphError, StateTypeError
from mainstay.inspect.answers import Answer
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.connection import COMMITTED, LIVE, Connection
from mainstay.inspect.json_values import not_of_type, plain
from mainstay.inspect.positions import After
from mainstay.inspect.reading import LATEST
from mainstay.schema.transpose import shown
from mainstay.spelling import counted

LIMIT = 20
"""Rows of a scan that are shown unless more are asked for."""


@dataclass(frozen=True, slots=True)
class When:
    """Of which moment the state is asked."""

    epoch: str = LATEST
    is_live: bool = False
    after: str | None = None
    timeout: float | None = None

    def arguments(self) -> dict[str, Any]:
        """As ``query`` takes them."""
        return {
            "epoch": self.epoch,
            "at": LIVE if self.is_live else COMMITTED,
            "after": None if self.after is None else after_of(self.after),
            "timeout": self.timeout,
        }


def run_query(
    console: Console,
    job: Connection,
    state: str | None,
    keys: Sequence[str | None],
    when: When,
    *,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print what a state holds; without a state, which there are."""
    if state is None:
        _print_states(console, job.states(when.epoch), as_json)
        return
    # Of a state that is unknown the answer says so, whatever the keys.
    columns = job.states(when.epoch).get(state) if keys else None
    wanted = [
        key if columns is None or key is None else key_of(columns, key) for key in keys
    ] or None
    limit = None if wanted is not None else LIMIT if limit is None else limit
    answer = job.query(state, keys=wanted, limit=limit, **when.arguments())
    if as_json:
        print(json.dumps(_document(answer)))
        return
    _print_rows(console, answer.table)
    console.print(_foot(answer), style="dim", highlight=False)


def _document(answer: Answer) -> dict[str, Any]:
    moment = answer.moment
    return {
        "job": moment.job,
        "level": moment.level,
        "epoch": moment.epoch,
        "attempt": moment.attempt,
        "committed_at": moment.committed_at.isoformat(),
        "age_s": answer.age_s,
        "took_s": answer.took_s,
        "rows": plain(answer.rows()),
    }


def _foot(answer: Answer) -> str:
    job, rows = answer.moment.job, counted(answer.table.num_rows, "row")
    took = f"{rows} in {answer.took_s * 1000:.1f} ms"
    if answer.moment.level == LIVE:
        return f"live, after epoch {answer.epoch} of job {job!r}; {took}"
    return f"epoch {answer.epoch} of job {job!r}, {answer.age_s:.1f} s ago; {took}"


def run_sql(
    console: Console, job: Connection, statement: str, *, epoch: str, as_json: bool
) -> None:
    """Print the rows of a statement."""
    found = job.sql(statement, epoch=epoch)
    if as_json:
        print(json.dumps(plain(found.to_pylist())))
    else:
        _print_rows(console, found)


def after_of(text: str) -> After:
    """What ``--after`` says: the number of an epoch, or the offsets of sources as JSON."""
    if text.isdigit():
        return int(text)
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise GraphError(
            f"--after {text!r} is neither the number of an epoch nor offsets as a JSON object, as "
            """in '{"orders": {"orders-0": 1200}}'."""
        )
    return found


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
        if pa.types.is_binary(field.type):
            return bytes.fromhex(value)
        return pa.scalar(value).cast(field.type).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise not_of_type(columns, field, value) from None


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
        table.add_row(*map(_cell, row.values()))
    console.print(table)


def _cell(value: Any) -> str:
    """As ``--json`` has it: what is written here can be given to ``--key``."""
    said = plain(value)
    return said if isinstance(said, str) else shown(said)
