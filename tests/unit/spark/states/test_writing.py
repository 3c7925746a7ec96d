"""What Spark's tasks do to write a savepoint, called as Spark would, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("pyspark")

from mainstay.inspect.columns import StateColumns
from mainstay.inspect.reading import Origin
from mainstay.snapshot.manifest import StateSchema
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.savepoint import Savepoint, SavepointOperator, SavepointState, publish
from mainstay.spark.states import writing as state_writing
from mainstay.spark.states.writing import GROUP, TASK, AddGroups, WriteGroups, file_of, whole_groups
from mainstay.state.hashing import key_groups
from mainstay.state.keygroups import HASH_ID, range_of

GROUPS = 16
TASKS = 3
COLUMNS = StateColumns("totals", StateSchema("total", "value", "long"), "string", ("customer",))


@pytest.fixture(autouse=True)
def attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call is an attempt of its own."""
    numbers = count(0, state_writing.FILES_PER_ATTEMPT)
    monkeypatch.setattr(state_writing, "_first_number", lambda: next(numbers))


def rows(n: int = 200) -> pa.RecordBatch:
    return pa.record_batch({"customer": [f"c{i}" for i in range(n)], "total": list(range(n))})


def shuffled(batches: list[pa.RecordBatch]) -> Iterator[pa.Table]:
    """What each task is given: its rows, sorted by key-group."""
    table = pa.Table.from_batches(AddGroups(COLUMNS, GROUPS, TASKS)(iter(batches)))
    for task in range(TASKS):
        mine = table.filter(pc.equal(table.column(TASK), task))
        yield mine.drop_columns([TASK]).sort_by(GROUP)


def results(table: pa.Table, target: Path) -> list[dict[str, Any]]:
    write = WriteGroups(COLUMNS, str(target), now_us=0)
    return [row for batch in write(iter(table.to_batches(7))) for row in batch.to_pylist()]


def test_a_row_goes_to_the_task_that_owns_its_key_group() -> None:
    (batch,) = AddGroups(COLUMNS, GROUPS, TASKS)(iter([rows()]))
    assert batch.schema.names == ["customer", "total", GROUP, TASK]
    groups = key_groups([batch.column(0)], GROUPS).tolist()
    assert batch.column(2).to_pylist() == groups
    for group, task in zip(groups, batch.column(3).to_pylist(), strict=True):
        assert group in range_of(task, TASKS, GROUPS)


def test_what_tasks_write_is_a_state_that_is_read(tmp_path: Path) -> None:
    found = [row for table in shuffled([rows()]) for row in results(table, tmp_path)]
    files = tuple(file_of(row) for row in found)
    assert len({file.file.path for file in files}) == TASKS
    for earlier, later in pairwise(files):
        assert earlier.last_group is not None
        assert later.first_group is not None
        assert earlier.last_group < later.first_group
    operator = SavepointOperator(
        "totals", 1, "string", ("customer",), (SavepointState(COLUMNS.schema, files),)
    )
    document = Savepoint("j", 0, 1.0, "exactly_once", GROUPS, HASH_ID, {"totals": operator}, {})
    publish(open_storage(str(tmp_path)), document)
    slices = Origin.open(str(tmp_path)).view("totals", "total").slices(5)
    read = pa.concat_tables([part.read() for part in slices]).to_pylist()
    assert {row["customer"]: row["total"] for row in read} == {f"c{i}": i for i in range(200)}


def test_all_namespaces_of_a_key_go_to_the_task_of_the_key() -> None:
    schema = StateSchema("total", "value", "long", namespace="long")
    columns = StateColumns("totals", schema, "string", ("customer",))
    data = {"customer": ["a", "a", "b"], "namespace": [1, 2, 1], "total": [1, 2, 3]}
    (batch,) = AddGroups(columns, GROUPS, TASKS)(iter([pa.record_batch(data)]))
    assert batch.column(3).to_pylist() == key_groups([batch.column(0)], GROUPS).tolist()


def test_an_attempt_that_is_repeated_writes_other_files(tmp_path: Path) -> None:
    table = next(shuffled([rows()]))
    first, again = results(table, tmp_path), results(table, tmp_path)
    assert {row["path"] for row in first}.isdisjoint(row["path"] for row in again)
    assert [row["checksum"] for row in first] == [row["checksum"] for row in again]


def test_what_is_wrong_with_rows_is_a_result_and_no_error(tmp_path: Path) -> None:
    table = next(shuffled([rows(), rows(1)]))
    if "c0" not in table.column("customer").to_pylist():
        table = pa.concat_tables([table.slice(0, 1)] * 2)
    (row,) = results(table, tmp_path)
    assert row["path"] is None
    assert "operator 'totals', state 'total': the key 'c" in row["problem"]
    assert "occurs more than once (2 such rows" in row["problem"]


def test_files_are_of_whole_key_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch({"n": list(range(100)), GROUP: [n // 10 for n in range(100)]})
    monkeypatch.setattr(state_writing, "FILE_BYTES", batch.nbytes // 5)
    batches = iter([batch.slice(start, 7) for start in range(0, 100, 7)])
    groups = [table.column(GROUP).to_pylist() for table in whole_groups(batches)]
    assert len(groups) > 3
    assert list(chain.from_iterable(groups)) == batch.column(1).to_pylist()
    for earlier, later in pairwise(groups):
        assert earlier[-1] < later[0]


def test_one_large_key_group_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch({"n": list(range(100)), GROUP: [4] * 100})
    monkeypatch.setattr(state_writing, "FILE_BYTES", batch.nbytes // 10)
    (table,) = whole_groups(iter([batch.slice(start, 7) for start in range(0, 100, 7)]))
    assert table.num_rows == 100
