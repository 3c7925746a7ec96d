"""Evolution: whether values of a stored type are still values of a declared one, and how.

What converts by itself loses nothing, and a value that comes back is the one that was stored:

- integers to wider integers, float to double, decimals to decimals with at least as many digits
  before and after the point;
- structs by the names of their fields: an added field that may be null is null, fields may change
  places; a field that is gone is dropped, if that is allowed by name;
- arrays, maps and structs of these, at any depth.

Keys (of an operator, of a map) are found by hash and by equality. They widen as integers and
decimals, over which both are canonical, and their structs keep their fields.

::

    compare(pa.int32(), pa.int64()).changes       # ("int to bigint",)
    convert(pa.array([1], pa.int32()), pa.int64())
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mainstay.schema import format_type


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a stored type fits a declared one.

    ``problem`` says why it does not, ``changes`` what is converted, and ``dropped`` names the
    fields whose values would be lost, by their path below the value.
    """

    problem: str | None = None
    changes: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def compare(stored: pa.DataType, declared: pa.DataType, path: str = "") -> Comparison:
    """How values of one type become values of another."""
    if stored.equals(declared):
        return Comparison()
    if pa.types.is_struct(stored) and pa.types.is_struct(declared):
        return _compare_structs(stored, declared, path)
    if pa.types.is_map(stored) and pa.types.is_map(declared):
        keys = compare_keys(stored.key_type, declared.key_type, _below(path, "key"))
        return _joined([keys, compare(stored.item_type, declared.item_type, _below(path, "value"))])
    if pa.types.is_list(stored) and pa.types.is_list(declared):
        return compare(stored.value_type, declared.value_type, _below(path, "element"))
    is_wider = _is_wider_key(stored, declared) or (
        pa.types.is_float32(stored) and pa.types.is_float64(declared)
    )
    return _scalar(stored, declared, path, is_wider)


def compare_keys(stored: pa.DataType, declared: pa.DataType, path: str = "") -> Comparison:
    """The same for keys, which must be found again after it."""
    if stored.equals(declared):
        return Comparison()
    if pa.types.is_struct(stored) and pa.types.is_struct(declared):
        if [field.name for field in stored] != [field.name for field in declared]:
            change = f"{format_type(stored)} to {format_type(declared)}"
            return Comparison(f"{_at(path)}{change}: the fields of a key keep names and places")
        pairs = zip(stored, declared, strict=True)
        return _joined(compare_keys(a.type, b.type, _below(path, a.name)) for a, b in pairs)
    return _scalar(stored, declared, path, _is_wider_key(stored, declared))


def _scalar(stored: pa.DataType, declared: pa.DataType, path: str, is_wider: bool) -> Comparison:
    change = f"{_at(path)}{format_type(stored)} to {format_type(declared)}"
    return Comparison(changes=(change,)) if is_wider else Comparison(change)


def _is_wider_key(stored: pa.DataType, declared: pa.DataType) -> bool:
    if pa.types.is_integer(stored) and pa.types.is_integer(declared):
        return bool(stored.bit_width < declared.bit_width)
    if pa.types.is_decimal(stored) and pa.types.is_decimal(declared):
        whole = stored.precision - stored.scale
        return bool(declared.scale >= stored.scale and declared.precision - declared.scale >= whole)
    return False


def _compare_structs(stored: pa.DataType, declared: pa.DataType, path: str) -> Comparison:
    old, new = {f.name: f for f in stored}, {f.name: f for f in declared}
    found = [
        _compare_fields(old[name], new[name], _below(path, name)) for name in old if name in new
    ]
    found += [_added(new[name], _below(path, name)) for name in new if name not in old]
    found += [Comparison(dropped=(_below(path, name),)) for name in old if name not in new]
    kept = [name for name in old if name in new]
    if kept != [name for name in new if name in old]:
        found.append(Comparison(changes=(f"{_at(path)}fields in another order",)))
    return _joined(found)


def _compare_fields(stored: pa.Field, declared: pa.Field, path: str) -> Comparison:
    found = compare(stored.type, declared.type, path)
    if stored.nullable and not declared.nullable:
        return Comparison(f"{_at(path)}may be null in the snapshot and is declared NOT NULL")
    if not stored.nullable and declared.nullable:
        return _joined([found, Comparison(changes=(f"{_at(path)}may be null",))])
    return found


def _added(field: pa.Field, path: str) -> Comparison:
    if field.nullable:
        return Comparison(changes=(f"{_at(path)}added, null",))
    return Comparison(f"{_at(path)}added and NOT NULL, so stored values have nothing for it")


def _joined(found: Iterable[Comparison]) -> Comparison:
    parts = list(found)
    problems = [part.problem for part in parts if part.problem is not None]
    return Comparison(
        "; ".join(problems) or None,
        tuple(change for part in parts for change in part.changes),
        tuple(path for part in parts for path in part.dropped),
    )


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _at(path: str) -> str:
    return f"{path}: " if path else ""


# ------------------------------------------------------------ columns


def convert(array: pa.Array, declared: pa.DataType) -> pa.Array:
    """The same values in another type, which ``compare`` has found to fit."""
    if array.type.equals(declared):
        return array
    if pa.types.is_struct(declared):
        return _convert_structs(array, declared)
    if pa.types.is_map(declared):
        return _convert_maps(array, declared)
    if pa.types.is_list(declared):
        values = convert(array.flatten(), declared.value_type)
        return pa.ListArray.from_arrays(_offsets(array), values, declared)
    return array.cast(declared)


def _convert_structs(array: pa.StructArray, declared: pa.StructType) -> pa.Array:
    # Flattened fields are null where the struct is.
    stored = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    fields = [
        convert(stored[field.name], field.type)
        if field.name in stored
        else pa.nulls(len(array), field.type)
        for field in declared
    ]
    return pa.StructArray.from_arrays(fields, fields=list(declared), mask=array.is_null())


def _convert_maps(array: pa.MapArray, declared: pa.MapType) -> pa.Array:
    entries = array.cast(
        pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)]))
    )
    keys, items = entries.flatten().flatten()
    return pa.MapArray.from_arrays(
        _offsets(array),
        convert(keys, declared.key_type),
        convert(items, declared.item_type),
        declared,
    )


def _offsets(array: pa.Array) -> pa.Array:
    """Offsets of lists into their flattened values, wherever the array was cut from; null stays."""
    if pa.types.is_map(array.type):
        lengths = np.diff(array.offsets.to_numpy())
        is_null = array.is_null().to_numpy(zero_copy_only=False)
        lengths = np.where(is_null, 0, lengths)
    else:
        lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        is_null = array.is_null().to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    # A null offset makes a null list.
    return pa.array(offsets, mask=np.append(is_null, False))
