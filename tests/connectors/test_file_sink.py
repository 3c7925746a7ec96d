"""The file sink: two phases, whatever crashes, by itself and in a job."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainstay.connectors import (
    ParquetSink,
    SinkContext,
    SinkRecovery,
    read_committed,
)
from mainstay.connectors.files.listing import has_listing
from mainstay.connectors.files.sink import FileSink
from mainstay.errors import GraphError, SinkError, SourceError
from tests.connectors.file_sinks import _visible, committed, opened, prepared, seen, shown
from tests.drive.ledger import PATIENCE_S, Ids, await_until
from tests.edges import CRASH_POINTS, Crashing, kill_workers, start, when_more_is
from tests.sinks import recovery

# ---------------------------------------------------------------- two phases


def test_nothing_is_seen_before_the_commit_and_all_of_it_after(path: Path) -> None:
    sink = FileSink(path, format="csv")
    handles = [*prepared(opened(sink), 1, 1, 2), *prepared(opened(sink, subtask=1), 1, 3)]
    assert shown(path) == []
    sink.commit_epoch(1, handles)
    assert len(shown(path)) == 2
    assert seen(path) == committed(path) == [1, 2, 3]


def test_committing_again_changes_nothing_even_if_a_reader_took_the_files(path: Path) -> None:
    sink = FileSink(path, format="csv")
    handles = prepared(opened(sink), 1, 1, 2)
    sink.commit_epoch(1, handles)
    for file in _visible(path):
        file.rename(path.parent / file.name)
    for epoch in (1, 2):
        pickle.loads(pickle.dumps(sink)).commit_epoch(epoch, handles)
    assert shown(path) == []


def test_an_epoch_that_was_listed_and_not_shown_is_whole_for_readers_of_the_listing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FileSink(path, format="csv")
    handles = prepared(opened(sink), 1, 1, 2)
    with monkeypatch.context() as patched:
        patched.setattr("mainstay.connectors.files.sink.show", lambda *_: None)
        sink.commit_epoch(1, handles)
    assert shown(path) == []
    assert committed(path) == [1, 2]
    sink.recover(recovery(2))
    assert seen(path) == committed(path) == [1, 2]


def test_a_job_of_the_same_name_that_begins_anew_adds_to_the_directory(path: Path) -> None:
    sink = FileSink(path, format="csv")
    for _ in range(2):
        copy = pickle.loads(pickle.dumps(sink))
        sink.commit_epoch(1, prepared(opened(copy), 1, 1))
    assert seen(path) == committed(path) == [1, 1]


def test_parts_of_earlier_attempts_that_no_epoch_knows_are_removed(path: Path) -> None:
    sink = FileSink(path, format="csv")
    sink.commit_epoch(1, prepared(opened(sink), 1, 1))
    prepared(opened(sink), 2, 2)
    kept = prepared(opened(sink, attempt=2), 2, 3)
    (path / "part-of-mine.csv").write_text("n,name\n9,x\n")
    assert len(os.listdir(path / "_mainstay" / "parts")) == 2
    sink.recover(recovery(2))
    sink.commit_epoch(2, kept)
    assert os.listdir(path / "_mainstay" / "parts") == []
    assert committed(path) == [1, 3]
    assert seen(path) == [1, 3, 9]


@pytest.mark.parametrize("make", [FileSink, ParquetSink])
def test_nobody_cleans_up_in_the_directory_of_another_job(
    path: Path, make: Callable[..., FileSink | ParquetSink]
) -> None:
    sink = make(path)
    handles = prepared(opened(sink), 1, 1)
    make(path).recover(SinkRecovery("out", "another job", 7, ()))
    sink.commit_epoch(1, handles)
    assert committed(path) == [1]


def test_a_part_that_is_missing_is_refused_before_it_is_listed(path: Path) -> None:
    sink = FileSink(path)
    handles = prepared(opened(sink), 1, 1)
    (part,) = (path / "_mainstay" / "parts").iterdir()
    part.unlink()
    with pytest.raises(SinkError, match=r"part-a0001.*epoch 1.*is not there.*same directory"):
        sink.commit_epoch(1, handles)
    assert committed(path) == []


def test_a_directory_that_has_gone_is_waited_for(path: Path, tmp_path: Path) -> None:
    sink = FileSink(path, format="csv")
    handles = prepared(opened(sink), 1, 1)
    path.rename(tmp_path / "unmounted")
    with pytest.raises(FileNotFoundError, match="mount it again"):
        sink.commit_epoch(1, handles)
    (tmp_path / "unmounted").rename(path)
    sink.commit_epoch(1, handles)
    assert seen(path) == [1]


def test_many_epochs_are_read_back_by_a_listing_that_stays_short(path: Path) -> None:
    sink = FileSink(path, format="csv")
    writer = opened(sink)
    for epoch in range(1, 131):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    assert committed(path) == list(range(1, 131))
    assert len(os.listdir(path / "_mainstay" / "files")) <= 111


def test_a_damaged_listing_is_an_error_that_says_what_is_missing(path: Path) -> None:
    sink = FileSink(path, format="csv")
    writer = opened(sink)
    for epoch in range(1, 4):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    (path / "_mainstay" / "files" / "0000000001").unlink()
    with pytest.raises(SourceError, match="batch 1 is missing"):
        committed(path)


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"path": "s3://bucket/out"}, "local or mounted disk"),
        ({"format": "orc"}, "format='orc'.*parquet, csv, json"),
        ({"format": "csv", "compression": "zstd"}, "compression='zstd'.*none, gzip"),
        ({"roll_rows": 0}, "roll_rows=0"),
        ({"roll_bytes": "many"}, "roll_bytes='many'"),
        ({"roll_bytes": 0}, "roll_bytes=0"),
        ({"roll_every": "soon"}, "roll_every='soon'"),
        ({"compact": 0}, "compact=0"),
        ({"partition_by": ["a", "a"]}, "each once"),
        ({"partition_by": [1]}, "names of columns"),
    ],
)
def test_wrong_arguments_are_graph_errors(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        FileSink(**{"path": "out", **arguments})


def test_a_directory_with_a_log_of_sparks_is_refused(path: Path) -> None:
    opened(ParquetSink(path))
    with pytest.raises(GraphError, match=r"log of Spark's.*ParquetSink"):
        FileSink(path)


def test_a_directory_belongs_to_one_sink(path: Path) -> None:
    opened(FileSink(path))
    with pytest.raises(SinkError, match="belongs to"):
        FileSink(path).open(SinkContext("out", 0, 1, "other"))


# ---------------------------------------------------------------- in a job

STEPS = (
    "mainstay.connectors.files.sink:FileListing.change",
    "mainstay.connectors.files.sink:show",
)


def csv_ids(path: Path) -> list[int]:
    texts = [file.read_text() for file in _visible(path)]
    return sorted(int(line.split(",")[0]) for text in texts for line in text.splitlines()[1:])


@pytest.mark.xdist_group("files")
@pytest.mark.parametrize(
    ("point", "within"),
    [(p, None) for p in CRASH_POINTS if p != "during_commit"]
    + [("during_commit", step) for step in STEPS],
)
@pytest.mark.parametrize("compact", [None, "1MiB"])
def test_a_crash_at_every_edge_of_a_commit_loses_and_doubles_nothing(
    path: Path, tmp_path: Path, point: str, within: str | None, compact: str | None
) -> None:
    sink = Crashing(
        FileSink(path, format="csv", compact=compact),
        point,
        tmp_path / "crashed",
        within=within,
        observe=lambda: csv_ids(path),
    )
    job = start(
        lambda env: env.source(Ids(1_500, 1_200.0), uid="ids").sink(sink, uid="out"),
        tmp_path,
        every_s=0.1,
    )
    assert job.wait(2 * PATIENCE_S) == "finished"
    assert sink.has_crashed
    assert len(job.attempts()) == 2
    assert csv_ids(path) == list(range(1_500))
    assert sorted(read_committed(path, "id long, k long").column("id").to_pylist()) == list(
        range(1_500)
    )
    assert os.listdir(path / "_mainstay" / "parts") == []
    early = sink.observed
    assert len(early) == len(set(early)) < 1_500


@pytest.mark.xdist_group("files")
def test_an_outage_of_the_disk_is_waited_for_and_seen(path: Path, tmp_path: Path) -> None:
    sink = FileSink(path, format="csv")
    job = start(
        lambda env: env.source(Ids(3_000, 1_000.0), uid="ids").sink(sink, uid="out"),
        tmp_path,
        every_s=0.1,
    )
    await_until(lambda: path.exists() and bool(csv_ids(path)), "something is committed")
    path.rename(tmp_path / "unmounted")
    await_until(lambda: bool(job.problems()), "the problem is seen")
    assert any("out" in str(problem) for problem in job.problems())
    if path.exists():
        await_until(
            lambda: not any(path.rglob("*.csv")), "nothing is written beside the mount", 5.0
        )
        path.rmdir()
    (tmp_path / "unmounted").rename(path)
    assert job.wait(2 * PATIENCE_S) == "finished"
    assert csv_ids(path) == list(range(3_000))


def committed_count(path: Path) -> int:
    """How many rows whoever goes by the listing sees: exact while files are merged."""
    return read_committed(path, "id long, k long").num_rows if has_listing(str(path)) else 0


def kill_in_a_run(path: Path, folder: Path, kills: int) -> None:
    sink = FileSink(path, format="csv", compact="1MiB", partition_by="k")
    job = start(
        lambda env: env.source(Ids(3_000 * kills, 1_500.0), uid="ids").sink(sink, uid="out"),
        folder,
        drive="processes",
        max_failures=kills + 1,
    )
    kill_workers(job, kills, moment=when_more_is(lambda: committed_count(path), "committed"))
    assert job.wait(2 * PATIENCE_S * kills) == "finished"
    assert csv_ids(path) == list(range(3_000 * kills))


@pytest.mark.xdist_group("files")
def test_a_worker_that_is_killed_loses_and_doubles_nothing(path: Path, tmp_path: Path) -> None:
    kill_in_a_run(path, tmp_path, kills=1)


@pytest.mark.soak
@pytest.mark.xdist_group("files")
def test_twenty_kills_lose_and_double_nothing(path: Path, tmp_path: Path) -> None:
    kill_in_a_run(path, tmp_path, kills=20)
