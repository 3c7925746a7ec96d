"""Rows by bytes: what one array cannot hold is cut, and a row that cannot be cut is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import SchemaError
from mainstay.schema import rows_to_batches, sizes, to_schema, to_type
from mainstay.testing import rows, run

VALUES: list[tuple[str, list[Any], list[int]]] = [
    ("long", [1, None, 3], [8, 8, 8]),
    ("string", ["ab", None, ""], [6, 4, 4]),
    ("binary", [b"abc", None], [7, 4]),
    ("array<string>", [["ab", "c"], None, []], [15, 4, 4]),
    ("struct<a:long,b:string>", [(1, "ab"), None], [14, 12]),
    ("map<string,string>", [[("a", "bb")], []], [15, 4]),
]


@pytest.mark.parametrize(("ddl", "values", "expected"), VALUES)
def test_values_take_the_bytes_they_have(ddl: str, values: list[Any], expected: list[int]) -> None:
    array = pa.array(values, to_type(ddl))
    assert sizes.value_sizes(array).tolist() == expected
    assert sizes.value_sizes(array.slice(1)).tolist() == expected[1:]


def test_runs_are_no_larger_than_asked_unless_they_are_one_row() -> None:
    assert sizes.runs_within(np.array([1, 2, 3, 100, 1, 1]), 4) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert sizes.runs_within(np.array([], np.int64), 4) == []


def test_rows_that_one_batch_cannot_hold_come_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "ARRAY_BYTES", 1000)
    given = [(n, "x" * 300) for n in range(20)]
    batches = list(rows_to_batches(given, to_schema("n long, t string"), "here"))
    assert len(batches) > 5
    assert all(batch.column(1).nbytes <= 1000 for batch in batches)
    assert [tuple(row.values()) for b in batches for row in b.to_pylist()] == given


def test_a_row_that_no_batch_can_hold_is_an_error_that_says_where() -> None:
    def never(rows: Any) -> Any:
        raise sizes.TooLargeError

    def refuse(row: Any) -> Any:
        raise SchemaError(f"row {row}")

    with pytest.raises(SchemaError, match="row 1"):
        list(sizes.halved([1, 2, 3], never, refuse))


def test_batches_that_one_cannot_hold_stay_several(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.RecordBatch.from_pydict({"t": ["x" * 300]})
    assert len(sizes.joined([batch] * 10)) == 1
    monkeypatch.setattr(sizes, "ARRAY_BYTES", 1000)
    made = sizes.joined([batch] * 10)
    assert len(made) == 4
    assert sum(each.num_rows for each in made) == 10


class Keeping(ms.KeyedProcess):
    last = ms.ValueState("string")

    def process(self, row: Any, context: Any) -> Any:
        self.last.update(row.t)
        return (row.k, row.t, row.n)


def test_a_job_whose_rows_do_not_fit_into_one_array_gives_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sizes, "ARRAY_BYTES", 2000)
    values = [(f"k{n % 7}", "x" * (n % 3 * 400), n) for n in range(100)]
    schema = "k string, t string, n long"

    def build(env: ms.Environment) -> None:
        batches = [rows(schema, [value]) for value in values]
        stream = env.source(batches[0], uid="in0")
        for number, batch in enumerate(batches[1:20], 1):
            stream = stream.union(env.source(batch, uid=f"in{number}"))
        made = stream.flat_map(lambda row: [row] * 5, schema=schema, uid="five")
        made = made.key_by("k").process(Keeping(), schema=schema, uid="keep")
        made.sink(Memory(), uid="out")
        made.key_by("k").aggregate(n=ms.sum("n"), uid="sum").sink(Memory(), uid="sums")

    result = run(build, parallelism=2, seed=3, crashes=1)
    assert sorted(result.output("out")) == sorted(values[:20] * 5)
    sums = {key: max(n for k, n in result.output("sums") if k == key) for key in ("k0", "k6")}
    assert sums == {"k0": 5 * (0 + 7 + 14), "k6": 5 * (6 + 13)}
