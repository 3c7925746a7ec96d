"""The file sink with compact=: small files are merged, and nobody sees a row twice."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mainstay.connectors import (
    Files,
    read_committed,
)
from mainstay.connectors.files import committed as reading
from mainstay.connectors.files import compaction as compacting
from mainstay.connectors.files.listing import FOLDER, WHOLE_EVERY, FileListing
from mainstay.connectors.files.sink import FileSink
from mainstay.errors import SinkError, SourceError
from mainstay.schema import rows_to_batch, to_schema
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.object_storage import open_storage
from tests.connectors.file_sinks import (
    FORMATS,
    SCHEMA,
    _visible,
    committed,
    opened,
    prepared,
    seen,
    shown,
)
from tests.sinks import recovery, write


def merging(path: Path, format: str, epochs: int, attempt: int = 1, **more: Any) -> FileSink:
    """A directory with some epochs of one row, by a sink that merges small files."""
    sink = FileSink(path, format=format, compact="1MiB", **more)
    sink.recover(recovery(attempt))
    writer = opened(sink, attempt)
    for epoch in range(1, epochs + 1):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    return sink


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("format", FORMATS)
def test_small_files_become_one(path: Path, format: str, compression: str | None) -> None:
    merging(path, format, 23, compression=compression)
    assert committed(path) == list(range(1, 24))
    assert len(shown(path)) < compacting.MIN_FILES
    assert read_committed(path, SCHEMA).column("n").to_pylist() == list(range(1, 24))


def test_files_are_merged_within_their_directory_and_their_columns(path: Path) -> None:
    sink = FileSink(path, format="csv", compact="1MiB", partition_by="name")
    sink.recover(recovery(1))
    for epoch in range(1, 21):
        ddl = "n long, name string" if epoch <= 10 else "n long, name string, more string"
        row = (epoch, "ab"[epoch % 2], "x")[: 2 if epoch <= 10 else 3]
        writer = opened(sink, subtask=epoch)
        write(writer, rows_to_batch([row], to_schema(ddl), "a test"))
        sink.commit_epoch(epoch, prepared(writer, epoch))
    assert seen(path) == list(range(1, 21))
    headers = {file.read_text().splitlines()[0] for file in _visible(path)}
    assert headers == {'"n"', '"n","more"'}
    assert len(shown(path)) < 20


def test_large_files_are_left_alone(path: Path) -> None:
    sink = FileSink(path, format="csv", compact=10)
    sink.recover(recovery(1))
    writer = opened(sink)
    for epoch in range(1, 20):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    assert len(shown(path)) == 19


@pytest.mark.parametrize(("format", "compression"), [("parquet", None), ("json", "gzip")])
def test_a_committed_file_that_was_damaged_ends_the_attempt_that_would_merge_it(
    path: Path, format: str, compression: str | None
) -> None:
    sink = merging(path, format, compacting.MIN_FILES - 1, compression=compression)
    damaged = _visible(path)[0]
    damaged.write_bytes(b"?" * damaged.stat().st_size)
    handles = prepared(opened(sink), 8, 8)
    with pytest.raises(SinkError, match=rf"{damaged.name}.*cannot be read to be merged.*compact="):
        sink.commit_epoch(8, handles)


@pytest.mark.parametrize("step", ["_merge", "_replace", "_hide", "show"])
def test_a_driver_that_dies_while_it_merges_loses_and_doubles_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    sink = merging(path, "csv", compacting.MIN_FILES - 1)
    right = getattr(compacting, step)

    def die_after(*args: Any) -> Any:
        right(*args)
        raise KeyboardInterrupt

    handles = prepared(opened(sink), 8, 8)
    with monkeypatch.context() as patched:
        patched.setattr(compacting, step, die_after)
        with pytest.raises(KeyboardInterrupt):
            sink.commit_epoch(8, handles)
    assert committed(path) == list(range(1, 9))
    assert max(Counter(seen(path)).values(), default=1) <= (2 if step == "_replace" else 1)
    again = FileSink(path, format="csv", compact="1MiB")
    again.commit_epoch(8, handles)
    again.recover(recovery(2))
    assert seen(path) == committed(path) == list(range(1, 9))
    again.commit_epoch(9, prepared(opened(again, attempt=2), 9, 9))
    assert seen(path) == committed(path) == list(range(1, 10))
    assert os.listdir(path / "_mainstay" / "parts") == []


def test_a_driver_that_lives_on_after_its_successor_began_replaces_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = merging(path, "csv", compacting.MIN_FILES - 1)
    right, merged = compacting.merged, []

    def merge_while_another_takes_over(*args: Any) -> Any:
        result = right(*args)
        if not merged:
            merged.append(True)
            with monkeypatch.context() as patched:
                patched.setattr("mainstay.connectors.files.sink._driving", _NoLock())
                FileSink(path, format="csv", compact="1MiB").recover(recovery(2))
        return result

    handles = prepared(opened(old), 8, 8)
    monkeypatch.setattr(compacting, "merged", merge_while_another_takes_over)
    old.commit_epoch(8, handles)
    assert merged
    assert seen(path) == committed(path) == list(range(1, 9))
    assert len(shown(path)) == 8


class _NoLock:
    """In the place of the lock of one process, where two are meant."""

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return


def merge_while_files_are_read(
    sink: FileSink, monkeypatch: pytest.MonkeyPatch, times: int, epochs: int = 16
) -> list[int]:
    """Commit, and so merge, before each of so many files is read; the number of files read."""
    right, writer, count = reading.read_batches, opened(sink), [0]

    def merge_and_read(*args: Any) -> Any:
        first = 8 + count[0] * epochs
        for epoch in range(first, first + epochs) if count[0] < times else ():
            sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
        count[0] += 1
        return right(*args)

    monkeypatch.setattr(reading, "read_batches", merge_and_read)
    return count


def test_a_reader_under_way_finds_the_files_of_its_listing_after_many_merges(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = merging(path, "csv", compacting.MIN_FILES - 1)
    merge_while_files_are_read(sink, monkeypatch, times=7)
    assert committed(path) == list(range(1, 8))
    assert committed(path) == list(range(1, 8 + 7 * 16))


def test_a_reader_looks_again_as_often_as_merges_outrun_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "REPLACED_LIVE_S", 0.0)
    sink = merging(path, "csv", compacting.MIN_FILES - 1)
    merge_while_files_are_read(sink, monkeypatch, times=10)
    assert committed(path) == list(range(1, 8 + 10 * 16))


def test_a_reader_that_looks_again_reads_only_what_it_has_not_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "REPLACED_LIVE_S", 0.0)
    sink = FileSink(path, format="csv", compact=400)
    sink.recover(recovery(1))
    writer = opened(sink)
    for epoch in range(1, 8):
        rows = range(50) if epoch <= 3 else (epoch,)
        sink.commit_epoch(epoch, prepared(writer, epoch, *rows))
    right, read = reading.read_batches, []

    def outrun_at_the_small_ones(place: str, *args: Any) -> Any:
        read.append(os.path.basename(place))
        if len(read) == 4:
            for epoch in range(8, 24):
                sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
        return right(place, *args)

    monkeypatch.setattr(reading, "read_batches", outrun_at_the_small_ones)
    assert committed(path) == sorted([*range(50)] * 3 + [*range(4, 24)])
    assert len(read) > 4
    assert len(read) == len(set(read))


def test_replaced_files_are_removed_by_a_merge_when_nobody_may_be_reading_them(path: Path) -> None:
    sink = merging(path, "csv", 2 * compacting.MIN_FILES)
    replaced = path / "_mainstay" / "replaced"
    long_ago = time.time() - compacting.REPLACED_LIVE_S
    old, *young = sorted(replaced.iterdir())
    os.utime(old, (long_ago, long_ago))
    writer = opened(sink, subtask=1)
    for epoch in range(17, 17 + compacting.MIN_FILES):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    assert not old.exists()
    assert all(file.exists() for file in young)


def test_a_file_counts_as_replaced_from_the_moment_it_was_not_from_when_it_was_written(
    path: Path,
) -> None:
    sink = merging(path, "csv", compacting.MIN_FILES - 1)
    for file in _visible(path):
        os.utime(file, (0, 0))
    writer = opened(sink)
    for epoch in range(8, 8 + 2 * compacting.MIN_FILES):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    assert len(os.listdir(path / "_mainstay" / "replaced")) > 2 * compacting.MIN_FILES


def test_a_listed_file_that_is_gone_is_an_error_also_while_the_listing_grows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FileSink(path, format="csv")
    writer = opened(sink)
    for epoch in range(1, 8):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    merge_while_files_are_read(sink, monkeypatch, times=100, epochs=1)
    lost = _visible(path)[0]
    lost.unlink()
    with pytest.raises(SourceError, match=rf"{lost.name}.*is not there.*Put it back"):
        committed(path)


@pytest.mark.parametrize("looks", [1, 2])
@pytest.mark.parametrize("moves", ["show", "hide"])
def test_a_file_that_moves_while_it_is_looked_for_is_found(
    path: Path, monkeypatch: pytest.MonkeyPatch, moves: str, looks: int
) -> None:
    sink = FileSink(path, format="csv")
    handles = prepared(opened(sink), 1, 1)
    with monkeypatch.context() as patched:
        if moves == "show":
            patched.setattr("mainstay.connectors.files.sink.show", lambda *_: None)
        sink.commit_epoch(1, handles)
    (file,) = FileListing(open_storage(str(path)), SourceError).read().files
    right, looked = os.path.isfile, []

    def move_after_looking(place: str) -> bool:
        found = right(place)
        looked.append(place)
        if len(looked) == looks:
            if moves == "show":
                compacting.show(str(path), [file.path])
            else:
                compacting._hide(str(path), [file])
        return found

    monkeypatch.setattr("os.path.isfile", move_after_looking)
    assert compacting.place_of(str(path), file.path) is not None


def test_a_listing_that_is_forgotten_while_it_is_read_is_read_again_until_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mainstay.connectors.files.listing.RETAINED_BATCHES", 0)
    storage = _Forgetful()
    listing = FileListing(storage, SourceError)
    _grow(listing)
    storage.forgets = 10
    assert listing.read().latest == 11 * WHOLE_EVERY
    assert storage.forgets == 0


class _Forgetful(MemoryStorage):
    """A listing in it moves on so far, so many times, that what is read has just gone."""

    forgets = 0

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if self.forgets and path.startswith(FOLDER):
            left, self.forgets = self.forgets - 1, 0
            _grow(FileListing(self, SourceError))
            self.forgets = left
        return super().read(path, start, length)


def _grow(listing: FileListing) -> None:
    """Change it until a whole batch has just been written, and those before it are forgotten."""
    changes = WHOLE_EVERY if listing.read().latest >= 0 else WHOLE_EVERY + 1
    for number in range(changes):
        listing.change(lambda before, number=number: replace(before, fence=f"{number}"))


def test_a_source_that_watches_refuses_merged_files(path: Path) -> None:
    merging(path, "csv", compacting.MIN_FILES)
    source = Files(path, schema=SCHEMA, watch=True)
    with pytest.raises(SourceError, match=r"merged.*without compact="):
        source.plan(frozenset())
    assert Files(path, schema=SCHEMA).plan(frozenset())
