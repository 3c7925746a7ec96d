"""A key of one column may be a struct: joins emit it as it is. A null within matches nothing."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

import mainstay as ms
from mainstay.testing import rows, run

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
JOINS = {
    "interval": {"within": ms.interval("0s", "0s")},
    "window": {"window": ms.tumbling("10s")},
    "as of": {"as_of": "left"},
    "by key": {"keep": "forever"},
}
KEYS: dict[str, list[Any]] = {
    "struct<a:int,b:string>": [(1, "x"), (1, "y"), (1, None), None],
    "struct<a:struct<b:int>>": [((1,),), ((2,),), ((None,),), (None,), None],
    "struct<a:string>": [("x",), ("y",), (None,), None],
}


def by_numbers(row: tuple[Any, ...]) -> str:
    """An order for rows whose numbers may be null."""
    return repr(row[1:])


def joined(key: str, values: list[Any], how: str, options: dict[str, Any]) -> list[Any]:
    """What comes out, as the key and the numbers of both rows."""
    numbered = [(value, AT, n) for n, value in enumerate(values)]

    def build(env: ms.Environment) -> None:
        left, right = (
            env.source(
                rows(f"k {key}, at timestamp, n long", numbered),
                uid=uid,
                watermark=ms.Watermark("at"),
            ).key_by("k")
            for uid in ("left", "right")
        )
        found = left.join(right, how=how, suffix="_right", uid="join", **options)
        found.sink(ms.connectors.Memory(), uid="out")

    found = run(build, crashes=1, seed=3).output("out")
    return sorted(((row[0], row[2], row[4]) for row in found), key=by_numbers)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", JOINS)
def test_a_key_that_is_a_struct_comes_out_as_it_went_in(name: str, key: str) -> None:
    whole = KEYS[key][:2]
    expected = [(value, n, n) for n, value in enumerate(whole)]
    assert joined(key, KEYS[key], "inner", JOINS[name]) == sorted(expected, key=by_numbers)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", ["interval", "window"])
def test_rows_with_a_null_in_a_struct_match_nothing_and_keep_their_key(name: str, key: str) -> None:
    values = KEYS[key]
    expected = [(value, n, n) for n, value in enumerate(values[:2])]
    for n, value in enumerate(values[2:], 2):
        expected += [(value, n, None), (value, None, n)]  # type: ignore[list-item]
    assert joined(key, values, "full", JOINS[name]) == sorted(expected, key=by_numbers)
