"""Rows in any of the shapes that a user function may return, turned into columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from mainstay.errors import MainstayError, SchemaError
from mainstay.spelling import counted

_SHOWN_CHARACTERS = 200


def columns_of(rows: Sequence[Any], names: tuple[str, ...], place: str) -> Sequence[Sequence[Any]]:
    """One sequence of values for each name; ``place`` names the rows' origin in errors.

    A row is a tuple or a list in column order; a dict, a Row, a named tuple or a pyspark Row,
    taken by name; or, where there is one column only, the bare value.
    """
    if not rows:
        return [()] * len(names)
    # A batch has one or two kinds of rows: asking the kinds spares asking every row.
    kinds = set(map(type, rows))
    if not all(_is_in_order(kind, names) for kind in kinds):
        rows = [_in_order(row, names, place) for row in rows]
    if set(map(len, rows)) != {len(names)}:
        wrong = next(row for row in rows if len(row) != len(names))
        raise SchemaError(
            f"{place}: a row has {counted(len(wrong), 'value')} but the schema has "
            f"{counted(len(names), 'column')} "
            f"({', '.join(names)}): {shown(wrong)}. Give a value for each column, or change the "
            f"schema{hint_of(wrong)}"
        )
    if kinds == {tuple}:
        # A pass for each column is quicker than zip, which opens every row at the same time.
        return [list(map(itemgetter(position), rows)) for position in range(len(names))]
    return list(zip(*rows, strict=True))


def shown(value: Any) -> str:
    """The value as an error message shows it: its repr, cut if it is long."""
    try:
        text = repr(value)
    except MainstayError:
        raise  # it says itself what is wrong, as the key does where there is none
    except Exception as error:  # what cannot even be shown must not hide what is wrong with it
        text = f"<{type(value).__name__}, whose __repr__ raised {type(error).__name__}>"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _is_in_order(kind: type, names: tuple[str, ...]) -> bool:
    return kind is tuple or kind is list or getattr(kind, "_fields", None) == names


def _in_order(row: Any, names: tuple[str, ...], place: str) -> Sequence[Any]:
    if isinstance(row, Mapping):
        return _by_name(row, names, place)
    if isinstance(row, (tuple, list)):
        # pyspark's Row keeps its names in each object, a named tuple in its class.
        fields = getattr(row, "__fields__", None) or getattr(row, "_fields", None)
        if fields is None or tuple(fields) == names:
            return row
        return _by_name(dict(zip(fields, row, strict=True)), names, place)
    if len(names) == 1:
        return (row,)
    error = SchemaError(
        f"{place}: {shown(row)} is not a row; give a tuple, a list, a dict or a Row "
        f"with the columns {', '.join(names)}{hint_of(row)}"
    )
    error.is_no_row = row is not None
    raise error


def hint_of(row: Any) -> str:
    """What to write instead of some things that are often given in the place of a row."""
    if row is None:
        return ". To leave rows out, use filter(...), or flat_map(...) and return nothing"
    if type(row).__module__.partition(".")[0] == "pyarrow":
        return ". For whole batches use map_batches(...) or process_batches(...)"
    is_several = isinstance(row, list) and row and all(isinstance(n, tuple | dict) for n in row)
    if is_several:
        return ". To emit several rows, yield each, or return the list from flat_map or process"
    return ""


def _by_name(row: Mapping[str, Any], names: tuple[str, ...], place: str) -> Sequence[Any]:
    missing = [name for name in names if name not in row]
    if not missing and len(row) == len(names):
        return [row[name] for name in names]
    problems = [f"lacks {', '.join(missing)}"] if missing else []
    if unknown := [str(name) for name in row if name not in names]:
        problems.append(f"has {', '.join(unknown)}, which the schema does not")
    raise SchemaError(
        f"{place}: a row {' and '.join(problems)}; the columns are {', '.join(names)}: {shown(row)}"
    )
