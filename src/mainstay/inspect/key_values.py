"""Keys as people give them: a value, a tuple or a dictionary of the key's columns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from mainstay.errors import GraphError
from mainstay.inspect.columns import StateColumns


def key_values(columns: StateColumns, key: Any) -> tuple[Any, ...]:
    """The values of the key's columns."""
    if not columns.is_keyed:
        raise GraphError(f"{columns.label} is operator state, which has no key. Leave key out.")
    names = columns.key_columns()
    if isinstance(key, Mapping):
        if set(key) != set(names):
            raise GraphError(f"{columns.label}: key={key!r} must give just {names}.")
        return tuple(_in_utc(key[name]) for name in names)
    values = key if isinstance(key, tuple) and len(names) > 1 else (key,)
    if len(values) != len(names):
        raise GraphError(f"{columns.label}: key={key!r} must give a value for each of {names}.")
    return tuple(map(_in_utc, values))


def _in_utc(value: Any) -> Any:
    """A datetime without a zone is UTC to us, but the session's local time to Spark."""
    if type(value) is datetime and value.tzinfo is None:
        return value.replace(tzinfo=timezone.utc)
    return value
