"""The console sink: what it prints, how much of it, and once."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Rows, SinkContext, SinkWriter
from mainstay.connectors.console import Console
from mainstay.errors import GraphError
from mainstay.schema import rows_to_batch, to_schema
from tests.sinks import prepare, write

SCHEMA = to_schema("name string, n long")


def rows(*numbers: int) -> pa.RecordBatch:
    return rows_to_batch([(f"name {n}", n) for n in numbers], SCHEMA, "a test")


def opened(sink: Console, subtask: int = 0) -> SinkWriter:
    return sink.open(SinkContext("out", subtask, 1, "job"))


def prepared(writer: SinkWriter, epoch: int, *numbers: int) -> bytes:
    write(writer, rows(*numbers))
    handle = prepare(writer, epoch)
    assert handle is not None
    return handle


def test_an_epoch_is_a_table_with_a_heading(capsys: pytest.CaptureFixture[str]) -> None:
    sink = Console()
    sink.commit_epoch(3, [prepared(opened(sink), 3, 1, 22), prepared(opened(sink, 1), 3, 3)])
    assert capsys.readouterr().out == (
        "out, epoch 3: 3 rows\n  name    │ n\n  name 1  │ 1\n  name 22 │ 22\n  name 3  │ 3\n"
    )


def test_beyond_the_limit_rows_are_counted_and_go_through_no_snapshot(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = Console(limit=2)
    handle = prepared(opened(sink), 1, *range(5_000))
    assert len(handle) < 2_000
    sink.commit_epoch(1, [handle, prepared(opened(sink, 1), 1, 7)])
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "out, epoch 1: 5,001 rows"
    assert [line.split("│")[-1].strip() for line in printed[2:4]] == ["0", "1"]
    assert printed[4:] == ["  … and 4,999 more"]


def test_a_repeated_commit_prints_nothing_and_what_is_new_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = Console()
    writer = opened(sink)
    first, second = prepared(writer, 1, 1), prepared(writer, 2, 2)
    sink.commit_epoch(1, [first])
    sink.commit_epoch(2, [first, second])
    sink.commit_epoch(2, [first, second])
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if "epoch" in line] == [
        "out, epoch 1: 1 row",
        "out, epoch 2: 1 row",
    ]


def test_null_long_values_and_line_ends_keep_the_table_in_shape(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = Console()
    writer = opened(sink)
    write(writer, rows_to_batch([(None, 1), ("a\nb", None), ("x" * 99, 3)], SCHEMA, "a test"))
    handle = prepare(writer, 1)
    assert handle is not None
    sink.commit_epoch(1, [handle])
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split("│")[0].strip() for line in lines] == ["null", "a\\nb", "x" * 59 + "…"]
    assert len({line.index("│") for line in lines}) == 1


def test_an_epoch_without_rows_is_not_spoken_of() -> None:
    assert prepare(opened(Console()), 1) is None


@pytest.mark.parametrize("limit", [0, -1, True, "all"])
def test_a_limit_is_a_number(limit: object) -> None:
    with pytest.raises(GraphError, match="limit="):
        Console(limit=limit)  # type: ignore[arg-type]


def test_a_job_prints_where_it_was_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = pickle.loads(pickle.dumps(Console(limit=3)))
    env = ms.Environment(
        spark="embedded", parallelism=2, snapshots=ms.Snapshots(tmp_path, every="50ms")
    )
    source = Rows("n long", [(n,) for n in range(100)], splits=2)
    env.source(source, uid="in").sink(sink, uid="shown")
    assert env.start("console").wait(60) == "finished"
    printed = capsys.readouterr().out
    heads = [line for line in printed.splitlines() if line.startswith("shown, epoch ")]
    totals = [int(line.split(": ")[1].split()[0]) for line in heads]
    assert sum(totals) == 100
