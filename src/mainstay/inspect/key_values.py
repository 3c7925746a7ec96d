"""Keys as people give them: a value, a tuple or a dictionary of the key's columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np

from mainstay.errors import GraphError
from mainstay.inspect.columns import StateColumns
from mainstay.state.codes import codes_of

ALL_KEYS: Any = ...
"""Stands for no key in particular: None is a key like others."""


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


def listed(keys: Iterable[Any] | None) -> Iterable[Any] | None:
    """Keys that several states are asked for; a text in their place stays one, to be refused."""
    return keys if keys is None or isinstance(keys, str) else list(keys)


def check_limit(limit: Any) -> None:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise GraphError(f"limit={limit!r} must be a number of rows.")


def check_keys(key: Any, keys: Iterable[Any] | None, limit: int | None) -> None:
    """Refuse what does not go together where keys are given."""
    if limit is not None:
        raise GraphError("limit= is for a scan. Leave it out where keys are given.")
    if key is not ALL_KEYS and keys is not None:
        raise GraphError("key= and keys= were both given. Give one of them.")
    if isinstance(keys, str):
        raise GraphError(f"keys={keys!r} is one key. Give it as key={keys!r}, or give a list.")


def wanted_keys(
    columns: StateColumns, key: Any, keys: Iterable[Any] | None, limit: int | None
) -> Sequence[tuple[Any, ...]]:
    """The keys that a query names, each once."""
    check_keys(key, keys, limit)
    if keys is None:
        return [key_values(columns, key)]
    return distinct(columns, [key_values(columns, each) for each in keys])


def distinct(columns: StateColumns, keys: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Each key once, equal as keys of a job are: every NaN is the same one."""
    given = list(keys)
    codes = codes_of(columns.joined_key(columns.key_arrays(given)))
    firsts = np.unique(codes, return_index=True)[1]
    return [given[number] for number in sorted(firsts.tolist())]


def _in_utc(value: Any) -> Any:
    """A datetime without a zone is UTC to us, but the session's local time to Spark."""
    if type(value) is datetime and value.tzinfo is None:
        return value.replace(tzinfo=timezone.utc)
    return value
