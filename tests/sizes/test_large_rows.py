"""Very large things in one job: values, keys, rows of many columns, lists and maps, manifests.

Each is small in the suite and large in the soak, where it has a process of its own and the bounds
are those of memory: what a process may take at the most is asserted.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.api.overrides import WITHOUT_SPARK
from mainstay.connectors import FileSink, Generate, Memory, read_committed
from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.manifest import (
    FileRef,
    Manifest,
    OperatorState,
    SegmentRef,
    StateSchema,
    SubtaskState,
)
from tests.sizes.measuring import PATIENCE_S, within

LARGE = 100_000_000
KEPT = "id long, before string, s string"


def environment(folder: Path, restore: str = "latest-or-new", **settings: Any) -> ms.Environment:
    return ms.Environment(
        snapshots=ms.Snapshots(folder / "snapshots", every="10min", timeout="20min"),
        restore=restore,
        **{"spark": "embedded", **settings},
    )


def finished(env: ms.Environment) -> None:
    assert env.start("large").wait(PATIENCE_S, progress=False) == "finished"


# ---------------------------------------------------------------- values


def text(number: int, size: int) -> str:
    """A text with letters of several bytes."""
    return f"é{number:07d}" * (size // 9)


def digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()


class Keep(ms.KeyedProcess):
    """Keeps a text in every kind of state, and says what it had of the row before."""

    text = ms.ValueState("string")
    data = ms.ValueState("binary")
    items = ms.ListState("string")
    entries = ms.MapState("string", "string")

    def process(self, row: Any, ctx: Any) -> Any:
        before = self.text.get()
        if before is not None:
            assert self.data.get() == before.encode()
            assert self.items.get() == [before]
            assert dict(self.entries.items()) == {before: before}
        self.text.update(row.s)
        self.data.update(row.s.encode())
        self.items.update([row.s])
        self.entries.clear()
        self.entries.put(row.s, row.s)
        return row.id, "" if before is None else digest(before), row.s


def value_job(folder: Path, size: int, end: int, key: str, settings: dict[str, Any]) -> None:
    def made(first: int, count: int) -> pa.RecordBatch:
        ids = list(range(first, first + count))
        return pa.record_batch({"id": ids, "k": [0] * count, "s": [text(n, size) for n in ids]})

    env = environment(folder, **settings)
    source = Generate("id long, k long, s string", made, end=end, splits=1, batch_rows=1)
    kept = env.source(source, uid="rows").key_by(key)
    kept = kept.process(Keep(), KEPT, uid="keep")
    for form in ("parquet", "json"):
        kept.sink(FileSink(folder / form, format=form), uid=form)
    finished(env)


def large_values(folder: Path, size: int, drive: str, state: str, key: str) -> None:
    settings: dict[str, Any] = {"spark": WITHOUT_SPARK[drive], "parallelism": 2}
    if state == "rocksdb":
        settings["state"] = ms.RocksDB("64MiB", folder / "db")
    for end in (1, 2):
        value_job(folder, size, end, key, settings)
    befores = {0: "", 1: digest(text(0, size)) if key == "k" else ""}
    for form in ("parquet", "json"):
        found = read_committed(folder / form, schema=KEPT).to_pylist()
        assert {row["id"]: row["before"] for row in found} == befores
        assert all(digest(row["s"]) == digest(text(row["id"], size)) for row in found)
    if key == "k":
        answer = ms.connect(folder / "snapshots").query("keep.text", key=0)
        assert digest(answer.value) == digest(text(1, size))


def test_a_value_goes_all_the_way_whatever_its_size(tmp_path: Path) -> None:
    large_values(tmp_path, 100_000, "embedded", "rocksdb", "k")


@pytest.mark.soak
@pytest.mark.parametrize("key", ["k", "s"])
@pytest.mark.parametrize("state", ["heap", "rocksdb"])
@pytest.mark.parametrize("drive", ["embedded", "processes"])
def test_a_value_of_a_hundred_megabytes_goes_all_the_way(
    tmp_path: Path, drive: str, state: str, key: str
) -> None:
    within(6.0, large_values, tmp_path, LARGE, drive, state, key)


# ---------------------------------------------------------------- many elements


class Many(ms.KeyedProcess):
    """Fills a list and a map with the first row, and looks at all of them with the next."""

    items = ms.ListState("long")
    entries = ms.MapState("long", "long")

    def process(self, row: Any, ctx: Any) -> Any:
        items = self.items.get()
        if items:
            wrong = sum(self.entries.get(number) != -number for number in range(row.n))
            wrong += sum(number + value != 0 for number, value in self.entries.items())
            return items == list(range(row.n)), len(self.entries), wrong
        self.items.extend(range(row.n))
        for number in range(row.n):
            self.entries.put(number, -number)
        return None


def many_elements(folder: Path, count: int, state: str) -> None:
    for end in (1, 2):
        out = Memory()
        env = environment(
            folder, state="heap" if state == "heap" else ms.RocksDB("64MiB", folder / "db")
        )
        source = Generate(
            "k long, n long",
            lambda first, rows: pa.record_batch({"k": [0] * rows, "n": [count] * rows}),
            end=end,
        )
        stream = env.source(source, uid="rows").key_by("k")
        stream.process(Many(), "is_same boolean, entries long, wrong long", uid="many").sink(
            out, uid="out"
        )
        finished(env)
    assert out.rows() == [(True, count, 0)]


@pytest.mark.parametrize("state", ["heap", "rocksdb"])
def test_many_elements_of_one_key_are_restored(tmp_path: Path, state: str) -> None:
    many_elements(tmp_path, 2_000, state)


@pytest.mark.soak
@pytest.mark.parametrize("state", ["heap", "rocksdb"])
def test_a_million_elements_of_one_key_are_restored(tmp_path: Path, state: str) -> None:
    within(3.0, many_elements, tmp_path, 1_000_000, state)


# ---------------------------------------------------------------- many columns


def wide_rows(folder: Path, columns: int) -> None:
    schema = ", ".join(f"c{number} long" for number in range(columns))
    fields = ",".join(f"c{number}:long" for number in range(columns))

    class Wide(ms.KeyedProcess):
        row = ms.ValueState(f"struct<{fields}>")

        def process(self, row: Any, ctx: Any) -> Any:
            self.row.update(tuple(row))
            return tuple(row)

    def made(first: int, count: int) -> pa.RecordBatch:
        ids = range(first, first + count)
        return pa.record_batch(
            {f"c{c}": [n % 3 if c == 0 else n + c for n in ids] for c in range(columns)}
        )

    for end in (10, 20):
        env = environment(folder)
        stream = env.source(Generate(schema, made, end=end, splits=1), uid="rows").key_by("c0")
        stream.process(Wide(), schema, uid="wide").sink(FileSink(folder / "out"), uid="out")
        finished(env)
    found = read_committed(folder / "out")
    assert found.num_columns == columns
    assert sorted(found.column(f"c{columns - 1}").to_pylist()) == [
        n + columns - 1 for n in range(20)
    ]
    kept = ms.connect(folder / "snapshots").query("wide.row", key=1).value
    assert tuple(kept.values()) == (1, *(19 + c for c in range(1, columns)))


def test_a_row_of_many_columns_goes_all_the_way(tmp_path: Path) -> None:
    wide_rows(tmp_path, 200)


@pytest.mark.soak
def test_a_row_of_five_thousand_columns_goes_all_the_way(tmp_path: Path) -> None:
    within(2.0, wide_rows, tmp_path, 5_000)


# ---------------------------------------------------------------- manifests


def manifest_of(operators: int, subtasks: int) -> Manifest:
    def operator(uid: str) -> OperatorState:
        chain = [
            SegmentRef(
                f"a1-s{task}-e1", FileRef(f"state/{uid}/a0001/s{task}.msty", 9, "crc32:0"), 0, 63, 5
            )
            for task in range(subtasks)
        ]
        return OperatorState(
            uid,
            subtasks,
            "string",
            (StateSchema("n", "value", "long"),),
            tuple(SubtaskState(number, (ref,)) for number, ref in enumerate(chain)),
            ("k",),
        )

    states = {f"op{number}": operator(f"op{number}") for number in range(operators)}
    return Manifest("job", "line", 7, 1, "exactly_once", 128, "hash", 0.0, states, {})


@pytest.mark.parametrize(
    ("operators", "most_s"), [(200, 2.0), pytest.param(10_000, 20.0, marks=pytest.mark.soak)]
)
def test_a_manifest_of_many_operators_is_written_and_read(operators: int, most_s: float) -> None:
    from mainstay.snapshot.checked import reference
    from mainstay.snapshot.memory_storage import MemoryStorage

    storage, manifest = MemoryStorage(), manifest_of(operators, 4)
    began = time.process_time()
    data = manifest.to_bytes()
    storage.write("epochs/1", data)
    found = read_manifest(storage, reference("epochs/1", data))
    assert time.process_time() - began < most_s
    assert found == manifest
    assert len(list(found.files())) == operators * 4
    assert len(json.dumps(sorted(found.operators))) < len(data)
