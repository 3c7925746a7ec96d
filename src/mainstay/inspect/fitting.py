"""Whether a table fits a state, and its columns in the state's types.

What fits loses nothing: the same types, or narrower ones that widen by the rules of ``evolution``.
Whether columns fit is known before anything runs. What must not be in them (nulls, a key twice) is
known only when they are read, and comes as a text for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.errors import StateTypeError
from mainstay.inspect.columns import SUBTASK, UNIT, StateColumns
from mainstay.schema import format_type, values_of
from mainstay.schema.transpose import shown
from mainstay.state.broadcast import joined, unit_type
from mainstay.state.codes import codes_of, paired
from mainstay.state.evolution import compare, compare_keys, convert

Arrays = Sequence[pa.Array]


def fitting_columns(columns: StateColumns, given: pa.Schema) -> list[str]:
    """The columns to take from a table, in order; a ``StateTypeError`` if it does not fit."""
    wanted = columns.data_fields()
    known = {field.name for field in columns.fields()}
    for name in given.names:
        if name not in known:
            raise _misfit(columns, name, f"is none of its columns, which are {_listed(columns)}")
    taken = []
    for field in wanted:
        if field.name in given.names:
            _check_type(columns, field, given.field(field.name).type)
            taken.append(field.name)
        elif field.name != columns.touched_column:
            raise _misfit(columns, field.name, f"is missing; its columns are {_listed(columns)}")
    return taken


def _check_type(columns: StateColumns, field: pa.Field, given: pa.DataType) -> None:
    has_keys = columns.is_keyed or columns.is_broadcast
    is_value = not has_keys or field.name == _value_field(columns).name
    compared = compare if is_value else compare_keys
    found = compared(given, _open(field.type))
    problem = found.problem or "; ".join(f"{path}: not in the state" for path in found.dropped)
    if problem:
        raise _misfit(
            columns,
            field.name,
            f"is {format_type(given)}, but its type is {format_type(field.type)} ({problem}). "
            "Cast it",
        )


def _value_field(columns: StateColumns) -> pa.Field:
    fields = columns.data_fields()
    return fields[-2] if columns.has_ttl else fields[-1]


def _open(data_type: pa.DataType) -> pa.DataType:
    """A type whose parts may all be null: what must not be is seen in the rows."""
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(f.name, _open(f.type)) for f in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(_open(data_type.key_type), _open(data_type.item_type))
    if pa.types.is_list(data_type):
        return pa.list_(_open(data_type.value_type))
    return data_type


def _listed(columns: StateColumns) -> str:
    return ", ".join(f"{field.name} {format_type(field.type)}" for field in columns.data_fields())


def _misfit(columns: StateColumns, column: str, what: str) -> StateTypeError:
    return StateTypeError(f"{columns.label}: the column {column!r} {what}.")


# ---------------------------------------------------------------- rows


class UnfitRowsError(StateTypeError):
    """Rows that a state cannot hold; the message names the state."""


def fitted(columns: StateColumns, given: Arrays) -> list[pa.Array]:
    """Columns in the types of the state, of which a last one may be left out."""
    found = []
    for field, column in zip(columns.data_fields(), given, strict=False):
        try:
            found.append(convert(column, field.type))
        except (pa.ArrowException, ValueError) as error:
            raise UnfitRowsError(
                f"{columns.label}: a value of the column {field.name!r} does not fit its type "
                f"{format_type(field.type)}: {error}. Correct or leave out such rows."
            ) from error
    return found


def kept_rows(columns: StateColumns, arrays: Arrays) -> npt.NDArray[np.bool_]:
    """Which rows of whole key-groups, in the types of the state, are kept: all but empty lists.

    An empty list is no list, to a job as well. Raises ``UnfitRowsError``.
    """
    count = len(columns.key_fields())
    keys, rest = columns.joined_key(arrays[:count]), list(arrays[count:])
    codes = codes_of(keys)
    if columns.has_namespace:
        _require_none(columns, keys, rest[0].is_null(), "has a namespace that is null")
        codes = paired(codes, codes_of(rest.pop(0)))
    if columns.stored_as == "map":
        _require_none(columns, keys, rest[0].is_null(), "has an entry whose map_key is null")
        codes = paired(codes, codes_of(rest.pop(0)))
    else:
        _require_none(columns, keys, rest[0].is_null(), "has a null in the place of its value")
    _check_elements(columns, keys, rest)
    is_repeated = pa.array(np.bincount(codes)[codes] > 1)
    _require_none(columns, keys, is_repeated, "occurs more than once")
    if columns.stored_as != "list":
        return np.ones(len(keys), np.bool_)
    is_full: npt.NDArray[np.bool_] = _lengths(rest[0]) > 0
    return is_full


def _check_elements(columns: StateColumns, keys: pa.Array, rest: list[pa.Array]) -> None:
    """Check the lists, and the column of when they were touched, if there is one."""
    if len(rest) > 1:
        _require_none(columns, keys, rest[1].is_null(), f"has no {columns.touched_column}")
    if columns.stored_as != "list":
        return
    for column in rest:
        _require_none(columns, keys, _with_null_inside(column), "has a null in a list")
    if len(rest) > 1:
        differ = pa.array(_lengths(rest[0]) != _lengths(rest[1]))
        what = f"has a list that is not as long as its {columns.touched_column}"
        _require_none(columns, keys, differ, what)


def _with_null_inside(lists: pa.Array) -> pa.Array:
    lengths = _lengths(lists)
    row_of = np.repeat(np.arange(len(lengths)), lengths)
    is_null = lists.flatten().is_null().to_numpy(zero_copy_only=False)
    return pa.array(np.bincount(row_of[is_null], minlength=len(lengths)) > 0)


def _lengths(lists: pa.Array) -> npt.NDArray[Any]:
    lengths: npt.NDArray[Any] = lists.value_lengths().to_numpy(zero_copy_only=False)
    return lengths


def _require_none(columns: StateColumns, keys: pa.Array, mask: pa.Array, what: str) -> None:
    rows = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
    if len(rows):
        key = values_of(keys.slice(int(rows[0]), 1))[0]
        raise UnfitRowsError(
            f"{columns.label}: the key {shown(key)} {what} ({len(rows)} such rows were met). "
            "Correct or leave out such rows."
        )


def units_of(columns: StateColumns, table: pa.Table, parallelism: int | None) -> list[pa.Array]:
    """The units of an operator state by subtask. Raises ``UnfitRowsError``."""
    if columns.is_broadcast:
        # The first has them all, and a restore gives each of the others a copy.
        nothing = pa.array([], unit_type(columns.schema))
        return [_entries(columns, table)] + [nothing] * ((parallelism or 1) - 1)
    given = [table.column(name).combine_chunks() for name in (SUBTASK, UNIT)]
    subtasks, units = fitted(columns, given)
    if subtasks.null_count or units.null_count:
        raise UnfitRowsError(f"{columns.label}: a row has a null. Leave out such rows.")
    numbers = subtasks.to_numpy(zero_copy_only=False)
    most = int(numbers.max(initial=0)) + 1
    if numbers.min(initial=0) < 0 or (parallelism is not None and most > parallelism):
        raise UnfitRowsError(
            f"{columns.label}: the column {SUBTASK!r} has numbers from {numbers.min()} to "
            f"{numbers.max()}; the subtasks of the operator are numbered from 0 to "
            f"{(parallelism or most) - 1}."
        )
    return [units.filter(pa.array(numbers == number)) for number in range(parallelism or most)]


def _entries(columns: StateColumns, table: pa.Table) -> pa.Array:
    """The entries of broadcast state, each once."""
    names = [field.name for field in columns.data_fields()]
    keys, values = fitted(columns, [table.column(name).combine_chunks() for name in names])
    _require_none(columns, keys, keys.is_null(), "is null in the place of a map_key")
    codes = codes_of(keys)
    _require_none(columns, keys, pa.array(np.bincount(codes)[codes] > 1), "occurs more than once")
    return joined(keys, values)
