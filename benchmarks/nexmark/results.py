"""Comparing what a query gave with what it had to give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

_SHOWN = 5


def compare(actual: pa.Table, expected: pa.Table) -> None:
    """Assert that both have the same rows equally often, whatever their order.

    Columns and types have to be the same as well; whether they may be null is not looked at.
    """
    _compare_columns(actual.schema, expected.schema)
    order = [(name, "ascending") for name in expected.column_names]
    if actual.num_rows == expected.num_rows and _same(
        actual.sort_by(order), expected.sort_by(order)
    ):
        return
    found, wanted = _counted(actual), _counted(expected)
    raise AssertionError(
        f"{actual.num_rows:,} rows, and {expected.num_rows:,} are expected."
        + _listed("Missing", wanted - found, expected.column_names)
        + _listed("Too many", found - wanted, expected.column_names)
    )


def last_per_key(table: pa.Table, keys: Sequence[str], order: Sequence[str] = ()) -> pa.Table:
    """The last row of each key: the greatest by ``order``, or without one the last in the table."""
    place = "_place"
    if order:
        # Sorting keeps rows that are equal by the order as they were.
        table = table.sort_by([(name, "ascending") for name in order])
    numbered = table.append_column(place, pa.array(range(table.num_rows), pa.int64()))
    last = numbered.group_by(list(keys)).aggregate([(place, "max")])[f"{place}_max"]
    return table.take(last)


def _same(one: pa.Table, other: pa.Table) -> bool:
    return all(a.equals(b) for a, b in zip(one.columns, other.columns, strict=True))


def _compare_columns(actual: pa.Schema, expected: pa.Schema) -> None:
    found = [(field.name, field.type) for field in actual]
    wanted = [(field.name, field.type) for field in expected]
    if found != wanted:
        shown = [", ".join(f"{name} {type}" for name, type in each) for each in (found, wanted)]
        raise AssertionError(f"the columns are\n    {shown[0]}\nand have to be\n    {shown[1]}")


def _counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _listed(title: str, rows: Counter[tuple[Any, ...]], names: Sequence[str]) -> str:
    if not rows:
        return ""
    shown = sorted(rows.items(), key=repr)[:_SHOWN]
    lines = [
        f"\n    {count} × " + ", ".join(f"{n}={v!r}" for n, v in zip(names, row, strict=True))
        for row, count in shown
    ]
    more = rows.total() - sum(count for _, count in shown)
    lines += [f"\n    and {more:,} more"] if more else []
    return f"\n{title} ({rows.total():,}):{''.join(lines)}"
