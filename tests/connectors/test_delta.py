"""The Delta sink, read back with deltalake itself: whole epochs, each once."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mainstay.connectors import SinkContext, SinkWriter
from mainstay.connectors.delta import writer as writing
from mainstay.connectors.delta.files import Handle
from mainstay.connectors.delta.sink import DeltaSink
from mainstay.errors import GraphError, SinkError
from mainstay.schema import rows_to_batch, to_schema
from tests.drive.ledger import PATIENCE_S, Ids, await_until
from tests.edges import CRASH_POINTS, Crashing, kill_workers, start, when_more_is
from tests.sinks import prepare, write

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed (mainstay[delta])")

pytestmark = pytest.mark.xdist_group("delta")

SCHEMA = "n long, name string"


def opened(sink: DeltaSink, attempt: int = 1, subtask: int = 0) -> SinkWriter:
    return sink.open(SinkContext("out", subtask, attempt, "job"))


def prepared(
    writer: SinkWriter, epoch: int, *rows: tuple[Any, ...], schema: str = SCHEMA
) -> list[bytes]:
    if rows:
        write(writer, rows_to_batch(list(rows), to_schema(schema), "a test"))
    handle = prepare(writer, epoch)
    return [] if handle is None else [handle]


def table(path: Path) -> pa.Table:
    return deltalake.DeltaTable(str(path)).to_pyarrow_table()


def numbers(path: Path) -> list[int]:
    return sorted(table(path).column("n").to_pylist())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


# ---------------------------------------------------------------- transactions


def test_an_epoch_is_one_version_of_the_table(path: Path) -> None:
    sink = DeltaSink(path)
    first, second = opened(sink), opened(sink, subtask=1)
    handles = [*prepared(first, 1, (1, "a")), *prepared(second, 1, (2, "b"))]
    assert not deltalake.DeltaTable.is_deltatable(str(path))
    sink.commit_epoch(1, handles)
    assert numbers(path) == [1, 2]
    sink.commit_epoch(2, [*prepared(first, 2, (3, "c")), *prepared(second, 2, (4, "d"))])
    assert numbers(path) == [1, 2, 3, 4]
    assert deltalake.DeltaTable(str(path)).version() == 1


def test_an_epoch_that_is_committed_again_is_found_in_the_table(path: Path) -> None:
    sink = DeltaSink(path)
    writer = opened(sink)
    first, second = prepared(writer, 1, (1, "a")), prepared(writer, 2, (2, "b"))
    sink.commit_epoch(1, first)
    for epoch, handles in ((1, first), (2, first + second), (2, first + second), (3, second)):
        DeltaSink(path).commit_epoch(epoch, handles)
    assert numbers(path) == [1, 2]
    assert deltalake.DeltaTable(str(path)).version() == 1


def test_of_two_drivers_that_commit_an_epoch_the_table_refuses_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = DeltaSink(path)
    writer = opened(sink)
    sink.commit_epoch(1, prepared(writer, 1, (1, "a")))
    handles = prepared(writer, 2, (2, "b"))
    stale = deltalake.DeltaTable(str(path))
    sink.commit_epoch(2, handles)
    with monkeypatch.context() as patched:
        patched.setattr("mainstay.connectors.delta.sink.open_table", lambda *_: stale)
        with pytest.raises(deltalake.exceptions.CommitFailedError):
            sink.commit_epoch(2, handles)
    sink.commit_epoch(2, handles)
    assert numbers(path) == [1, 2]


def test_a_job_of_the_same_name_that_begins_anew_adds_to_the_table(path: Path) -> None:
    sink = DeltaSink(path)
    for n in (1, 2):
        copy = pickle.loads(pickle.dumps(sink))
        sink.commit_epoch(1, prepared(opened(copy), 1, (n, "x")))
    assert numbers(path) == [1, 2]


def test_others_may_write_to_the_table_meanwhile(path: Path) -> None:
    sink = DeltaSink(path)
    writer = opened(sink)
    sink.commit_epoch(1, prepared(writer, 1, (1, "a")))
    deltalake.write_deltalake(str(path), table(path), mode="append")
    handles = prepared(writer, 2, (2, "b"))
    deltalake.DeltaTable(str(path)).optimize.compact()
    for _ in range(2):
        sink.commit_epoch(2, handles)
    assert numbers(path) == [1, 1, 2]


def test_a_file_that_is_missing_is_refused_before_it_is_named(path: Path) -> None:
    sink = DeltaSink(path)
    for epoch, kind in ((1, FileNotFoundError), (2, SinkError)):
        handles = prepared(opened(sink), epoch, (1, "a"))
        lost = path / Handle.from_bytes(handles[0]).files[0].path
        lost.rename(path / "lost")
        with pytest.raises(
            kind, match=rf"{lost.name}.*epoch {epoch}.*not in the table.*same store"
        ):
            sink.commit_epoch(epoch, handles)
        (path / "lost").rename(lost)
        sink.commit_epoch(epoch, handles)


def test_a_handle_of_a_later_version_is_refused(path: Path) -> None:
    sink = DeltaSink(path)
    (handle,) = prepared(opened(sink), 1, (1, "a"))
    later = json.dumps({**json.loads(handle), "version": 2}).encode()
    with pytest.raises(SinkError, match=r"version 2.*version 1"):
        sink.commit_epoch(1, [later])


def test_credentials_are_not_in_the_handles(path: Path) -> None:
    sink = DeltaSink(path, storage_options={"secret_key": "hush"})
    (handle,) = prepared(opened(sink), 1, (1, "a"))
    assert b"hush" not in handle


# ---------------------------------------------------------------- rows


def test_every_type_arrives_as_what_it_was(path: Path) -> None:
    ddl = (
        "flag boolean, tiny byte, small short, medium int, big long, ratio float, exact double, "
        "price decimal(10,2), name string, raw binary, day date, at timestamp, "
        "wall timestamp_ntz, tags array<string>, counts map<string,long>, inner struct<a:int>"
    )
    at = datetime(2024, 5, 1, 12, 30, 0, 123456, tzinfo=timezone.utc)
    row = (
        *(True, 1, 2, 3, 4, 0.5, 0.25, Decimal("12.34"), "é", b"\x00\xff", date(1969, 7, 20)),
        *(at, at.replace(tzinfo=None), ["x", "y"], {"k": 7}, (5,)),
    )
    sink = DeltaSink(path)
    sink.commit_epoch(1, prepared(opened(sink), 1, row, (None,) * len(row), schema=ddl))
    first, second = table(path).to_pylist()
    assert list(first.values())[:-2] == list(row[:-2])
    assert first["counts"] == [("k", 7)]
    assert first["inner"] == {"a": 5}
    assert set(second.values()) == {None}


def test_rows_are_in_the_partitions_of_their_values(path: Path) -> None:
    sink = DeltaSink(path, partition_by=["kind", "day"])
    kinds = ["a", "b/c=d %", "é", None, ""]
    days = [date(2024, 5, 1), None]
    rows = [(n, kinds[n % 5], days[n % 2]) for n in range(20)]
    handles = prepared(opened(sink), 1, *rows, schema="n int, kind string, day date")
    sink.commit_epoch(1, handles)
    found = [tuple(row.values()) for row in table(path).select(["n", "kind", "day"]).to_pylist()]
    assert sorted(found) == [(n, kind or None, day) for n, kind, day in rows]
    delta = deltalake.DeltaTable(str(path))
    assert delta.metadata().partition_columns == ["kind", "day"]
    only = delta.to_pyarrow_table(filters=[("kind", "=", "é"), ("day", "=", date(2024, 5, 1))])
    assert sorted(only.column("n").to_pylist()) == [2, 12]


def test_many_rows_become_several_files_that_say_what_is_in_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "GATHERED_BYTES", 500)
    sink = DeltaSink(path)
    writer = opened(sink)
    for start_n in range(0, 100, 10):
        rows = [(n, "x" * 40 if n == 55 else f"{n:02}") for n in range(start_n, start_n + 10)]
        write(writer, rows_to_batch(rows, to_schema(SCHEMA), "a test"))
    (handle,) = prepared(writer, 1)
    sink.commit_epoch(1, [handle])
    files = Handle.from_bytes(handle).files
    assert len(files) > 2
    stats = [json.loads(file.stats) for file in files]
    assert sum(each["numRecords"] for each in stats) == 100
    assert stats[0]["minValues"] == {"n": 0, "name": "00"}
    assert stats[0]["nullCount"] == {"n": 0, "name": 0}
    assert any("name" not in each["maxValues"] for each in stats)
    assert numbers(path) == list(range(100))


@pytest.mark.parametrize(
    ("ddl", "row", "problem"),
    [
        ("n string, name string", ("1", "b"), "'n'.*string.*has it as long"),
        ("n long, name string, more int", (1, "b", 2), "'more'.*int.*has no such column"),
    ],
)
def test_rows_that_do_not_fit_the_table_are_told_before_an_epoch_holds_them(
    path: Path, ddl: str, row: tuple[Any, ...], problem: str
) -> None:
    sink = DeltaSink(path)
    sink.commit_epoch(1, prepared(opened(sink), 1, (1, "a")))
    with pytest.raises(SinkError, match=problem):
        prepared(opened(sink), 2, row, schema=ddl)


def test_a_table_that_changed_since_the_rows_were_written_refuses_them(path: Path) -> None:
    sink = DeltaSink(path)
    handles = prepared(opened(sink), 1, (1, "a"))
    deltalake.write_deltalake(str(path), pa.table({"n": ["text"], "name": ["b"]}))
    with pytest.raises(SinkError, match=r"'n'.*long.*has it as string"):
        sink.commit_epoch(1, handles)


def test_a_column_that_the_rows_lack_is_null_where_it_may_be(path: Path) -> None:
    sink = DeltaSink(path)
    sink.commit_epoch(1, prepared(opened(sink), 1, (1, "a")))
    sink.commit_epoch(2, prepared(opened(sink), 2, (2,), schema="n long"))
    assert sorted(table(path).column("name").to_pylist(), key=str) == [None, "a"]


def test_another_partitioning_is_refused(path: Path) -> None:
    sink = DeltaSink(path)
    sink.commit_epoch(1, prepared(opened(sink), 1, (1, "a")))
    with pytest.raises(SinkError, match=r"partitioned by \[\].*partition_by=\[\]"):
        prepared(opened(DeltaSink(path, partition_by="name")), 2, (1, "a"))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"mode": "overwrite"}, "mode='overwrite'.*append"),
        ({"uri": ""}, "path or the URL"),
        ({"partition_by": ["a", "a"]}, "each once"),
    ],
)
def test_wrong_arguments_are_graph_errors(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        DeltaSink(**{"uri": "table", **arguments})


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(GraphError, match=r"pip install 'mainstay\[delta\]'"):
        DeltaSink("table")


# ---------------------------------------------------------------- in a job


def ids(path: Path) -> list[int]:
    if not deltalake.DeltaTable.is_deltatable(str(path)):
        return []
    return sorted(table(path).column("id").to_pylist())


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_crash_at_every_edge_of_a_commit_loses_and_doubles_nothing(
    path: Path, tmp_path: Path, point: str
) -> None:
    sink = Crashing(
        DeltaSink(path),
        point,
        tmp_path / "crashed",
        within=(
            "mainstay.connectors.delta.sink:_check_is_there" if point == "during_commit" else None
        ),
        observe=lambda: ids(path),
    )
    source = Ids(1_500, 1_200.0)
    job = start(
        lambda env: env.source(source, uid="ids").sink(sink, uid="out"), tmp_path, every_s=0.1
    )
    assert job.wait(2 * PATIENCE_S) == "finished"
    assert sink.has_crashed
    assert len(job.attempts()) == 2
    assert ids(path) == list(range(1_500))
    early = sink.observed
    assert len(early) == len(set(early)) < 1_500


def test_an_outage_of_the_store_is_waited_for_and_seen(path: Path, tmp_path: Path) -> None:
    sink, source = DeltaSink(path), Ids(3_000, 1_000.0)
    job = start(lambda env: env.source(source, uid="ids").sink(sink, uid="out"), tmp_path)
    await_until(lambda: bool(ids(path)), "something is committed")
    log = path / "_delta_log"
    log.rename(tmp_path / "away")
    log.write_text("in the way of a folder")
    await_until(lambda: bool(job.problems()), "the problem is seen")
    log.unlink()
    (tmp_path / "away").rename(log)
    assert job.wait(2 * PATIENCE_S) == "finished"
    assert len(job.attempts()) == 1
    assert ids(path) == list(range(3_000))


def kill_in_a_run(path: Path, folder: Path, kills: int) -> None:
    count = 3_000 * kills
    sink, source = DeltaSink(path), Ids(count, 1_500.0)
    job = start(
        lambda env: env.source(source, uid="ids").sink(sink, uid="out"),
        folder,
        drive="processes",
        max_failures=kills + 1,
    )
    kill_workers(job, kills, moment=when_more_is(lambda: len(ids(path)), "committed"))
    assert job.wait(2 * PATIENCE_S * kills) == "finished"
    assert Counter(ids(path)) == Counter(range(count))


def test_a_worker_that_is_killed_loses_and_doubles_nothing(path: Path, tmp_path: Path) -> None:
    kill_in_a_run(path, tmp_path, kills=1)


@pytest.mark.soak
def test_twenty_kills_lose_and_double_nothing(path: Path, tmp_path: Path) -> None:
    kill_in_a_run(path, tmp_path, kills=20)
