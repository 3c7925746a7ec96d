"""The ingest log and the source that reads it, without Spark: what counts, once, and what stays."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors.ingest import IngestSource
from mainstay.connectors.ingest_files import write_files
from mainstay.connectors.ingest_log import DataFile, IngestLog, Mark
from mainstay.connectors.ingest_retention import IngestRetention, first_needed
from mainstay.errors import (
    DamagedFileError,
    GraphError,
    OutcomeUnknownError,
    SchemaError,
    SourceError,
)
from mainstay.runtime.connector import Split
from mainstay.runtime.operators.source import SPLITS
from mainstay.runtime.splits import SplitBook
from mainstay.schema import to_schema
from mainstay.snapshot.layout import manifest_path
from mainstay.snapshot.manifest import Manifest, OperatorState, SubtaskState
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import BytesLike
from mainstay.state.operator import to_units
from mainstay.testing import rows, run

SCHEMA = to_schema("n long")
UID = "numbers"


def batch_of_numbers(numbers: Sequence[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], schema=SCHEMA)


class Written:
    """A log in a directory, and what is put into it."""

    def __init__(self, directory: Path) -> None:
        self.location = str(directory)
        self.storage = open_storage(self.location)
        self.log = IngestLog(self.storage, UID)
        self._attempts = 0

    def files(
        self, batch: int, numbers: Sequence[int], file_bytes: int = 1 << 20
    ) -> list[DataFile]:
        """What one attempt of one task writes."""
        self._attempts += 1
        name = f"0-{self._attempts}"
        batches = [batch_of_numbers(numbers[at : at + 10]) for at in range(0, len(numbers), 10)]
        return write_files(
            self.storage,
            batches,
            SCHEMA,
            lambda number: self.log.data_path(batch, f"{name}-{number}"),
            file_bytes,
        )

    def add(self, batch: int, numbers: Sequence[int]) -> None:
        self.log.commit(batch, "query", self.files(batch, numbers))

    def source(self, *, bounded: bool = False) -> IngestSource:
        return IngestSource(self.location, UID, SCHEMA, bounded=bounded)

    def data(self) -> list[str]:
        return self.storage.list(f"ingest/{UID}/data")


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def read(source: IngestSource, split: Split, offset: Any = None, max_rows: int = 7) -> list[int]:
    reader, found = source.read(split, offset), []
    while True:
        polled = reader.poll(max_rows)
        found += polled.batch.column(0).to_pylist() if polled.batch is not None else []
        if polled.finished:
            return found


def read_all(source: IngestSource, seen: frozenset[str] = frozenset()) -> list[int]:
    return [n for split in source.plan(seen) for n in read(source, split)]


# ---------------------------------------------------------------- the log


def test_only_the_files_of_committed_attempts_are_read(written: Written) -> None:
    written.files(0, [1, 2])
    winner = written.files(0, [1, 2])
    written.log.commit(0, "query", winner)
    assert read_all(written.source()) == [1, 2]
    assert len(written.data()) == 2


def test_committing_a_batch_again_changes_nothing(written: Written) -> None:
    first = written.log.commit(0, "query", written.files(0, [1, 2]))
    assert written.log.commit(0, "query", written.files(0, [1, 2])) == first
    assert read_all(written.source()) == [1, 2]


def test_a_batch_without_rows_is_a_slot_without_files(written: Written) -> None:
    written.add(0, [])
    written.add(1, [5])
    assert written.log.batches() == [0, 1]
    assert read_all(written.source()) == [5]


def test_another_query_cannot_take_over_a_log(written: Written) -> None:
    written.add(0, [1])
    with pytest.raises(SourceError, match="checkpoint was lost"):
        written.log.commit(0, "another query", [])


def test_a_batch_cannot_come_without_the_one_before(written: Written) -> None:
    with pytest.raises(SourceError, match="comes without batch 0"):
        written.log.commit(1, "query", [])


def test_a_missing_slot_is_noticed(written: Written) -> None:
    for batch in range(3):
        written.add(batch, [batch])
    written.storage.delete(f"ingest/{UID}/log/{1:010d}")
    with pytest.raises(SourceError, match="some are missing"):
        written.source().plan(frozenset())


class Overtaken(MemoryStorage):
    """Another committer of the same batch comes in just before every create."""

    def create(self, path: str, data: BytesLike) -> bool:
        other = DataFile("the other's", 1, 1, "crc32:00000000")
        IngestLog(_plain(self), UID).commit(0, "query", [other])
        return super().create(path, data)


def _plain(storage: MemoryStorage) -> MemoryStorage:
    plain = MemoryStorage()
    plain.__dict__.update(storage.__dict__)
    return plain


def test_of_two_that_commit_a_batch_at_once_one_wins() -> None:
    storage = Overtaken()
    own = DataFile("mine", 1, 1, "crc32:00000000")
    slot = IngestLog(storage, UID).commit(0, "query", [own])
    assert [file.path for file in slot.files] == ["the other's"]
    assert IngestLog(storage, UID).slot(0) == slot


class Doubtful(MemoryStorage):
    """Creates files, or not, and says that it does not know."""

    stores = True

    def create(self, path: str, data: BytesLike) -> bool:
        if self.stores:
            super().create(path, data)
        raise OutcomeUnknownError("who knows")


def test_a_commit_of_unknown_outcome_is_looked_up() -> None:
    storage = Doubtful()
    log = IngestLog(storage, UID)
    assert log.commit(0, "query", []).batch == 0
    storage.stores = False
    with pytest.raises(OutcomeUnknownError):
        log.commit(1, "query", [])
    assert log.batches() == [0]


def test_a_log_of_a_newer_format_is_refused(written: Written) -> None:
    written.storage.write(f"ingest/{UID}/log/{0:010d}", json.dumps({"format": 2}).encode())
    with pytest.raises(SourceError, match="format 2"):
        written.log.slot(0)


def test_the_log_on_disk_is_versioned_json(written: Written) -> None:
    file = DataFile("ingest/numbers/data/x.arrow", 3, 40, "crc32:00000000")
    written.log.commit(0, "q", [file])
    written.log.commit(1, None, [])
    assert json.loads(written.storage.read("ingest/numbers/log/0000000001")) == {
        "format": 1,
        "batch": 1,
        "query": None,
        "files": [],
        "bytes_before": 40,
        "last_before": "0/0",
    }


# ---------------------------------------------------------------- files


def test_rows_are_cut_into_files_of_a_size(written: Written) -> None:
    files = written.files(0, range(100), file_bytes=200)
    assert [file.rows for file in files] == [30, 30, 30, 10]
    written.log.commit(0, "query", files)
    assert read_all(written.source()) == list(range(100))


def test_what_spark_gives_becomes_the_types_that_are_kept(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    at = pa.array([1], pa.timestamp("us", tz="Europe/Berlin"))
    given = pa.RecordBatch.from_arrays([at, pa.array(["a"], pa.large_string())], ["at", "name"])
    schema = to_schema("at timestamp, name string")
    (file,) = write_files(storage, [given], schema, lambda number: f"{number}.arrow")
    assert pa.ipc.open_stream(storage.read(file.path)).schema == schema


def test_a_null_where_none_may_be_is_refused(tmp_path: Path) -> None:
    given = pa.RecordBatch.from_arrays([pa.array([None], pa.int64())], ["n"])
    with pytest.raises(SchemaError, match="NOT NULL"):
        write_files(open_storage(str(tmp_path)), [given], to_schema("n long not null"), str)


def test_a_damaged_file_is_noticed_before_its_rows_are_used(written: Written) -> None:
    written.add(0, range(20))
    (path,) = written.data()
    written.storage.write(path, written.storage.read(path)[:-1] + b"?")
    with pytest.raises(DamagedFileError, match="damaged"):
        read_all(written.source())


def test_a_file_with_fewer_rows_than_promised_is_an_error(written: Written) -> None:
    (file,) = written.files(0, range(20))
    written.log.commit(0, "q", [DataFile(file.path, 21, file.bytes, file.checksum)])
    with pytest.raises(SourceError, match="20 rows; its slot promises 21"):
        read_all(written.source())


# ---------------------------------------------------------------- the source


@pytest.mark.parametrize("offset", [0, 1, 9, 10, 11, 24])
def test_a_file_is_read_from_any_row_on(written: Written, offset: int) -> None:
    written.add(0, range(25))
    (split,) = written.source().plan(frozenset())
    assert read(written.source(), split, offset) == list(range(offset, 25))


def test_planning_gives_only_what_was_added_since(written: Written) -> None:
    source = written.source()
    written.add(0, [1])
    seen = frozenset(split.id for split in source.plan(frozenset()))
    written.add(1, [2])
    assert [split.id for split in source.plan(seen)] == ["1/0"]
    assert read_all(source, seen) == [2]


def test_a_bounded_source_is_not_planned_before_its_log_is_sealed(written: Written) -> None:
    written.add(0, [1])
    with pytest.raises(SourceError, match="to the end"):
        written.source(bounded=True).plan(frozenset())
    written.log.seal()
    written.log.seal()
    assert read_all(written.source(bounded=True)) == [1]


def test_a_source_can_be_shipped_after_it_was_used(written: Written) -> None:
    written.add(0, [1])
    source = written.source()
    assert read_all(pickle.loads(pickle.dumps(source))) == read_all(source) == [1]


def test_a_sealed_log_runs_through_a_job_with_crashes(written: Written) -> None:
    written.log.commit(0, None, written.files(0, range(200), file_bytes=300))
    written.log.seal()

    def build(env: ms.Environment) -> None:
        stream = env.source(written.source(bounded=True), uid=UID)
        stream.map(lambda row: (row.n,), "n long", uid="same").sink(
            ms.connectors.Memory(), uid="out"
        )

    result = run(build, seed=3, crashes=2, parallelism=2)
    assert sorted(result.output("out")) == [(n,) for n in range(200)]


# ---------------------------------------------------------------- forgetting


def test_what_is_deleted_from_the_log_is_forgotten_but_for_its_end(written: Written) -> None:
    source = written.source()
    for batch in range(4):
        written.log.commit(batch, "query", written.files(batch, range(40), file_bytes=200))
    seen = frozenset(split.id for split in source.plan(frozenset()))
    assert not source.forget(seen), "all of it is there"
    written.log.truncate(2)
    assert not source.plan(seen)
    assert set(source.forget(seen)) == {"0/0", "0/1", "1/0"}
    kept = seen.difference(source.forget(seen))
    assert not written.source().plan(kept), "a job restored with what is kept goes on"


def test_the_end_is_kept_while_batches_without_rows_follow(written: Written) -> None:
    source = written.source()
    written.add(0, [1])
    for batch in (1, 2, 3):
        written.log.commit(batch, "query", [])
    seen = frozenset(split.id for split in source.plan(frozenset()))
    for keep_from in (1, 2, 3):
        written.log.truncate(keep_from)
        source.plan(seen)
        assert seen.difference(source.forget(seen)) == {"0/0"}
    assert first_needed(manifest_of(["0/0"], []), UID) == 1


def test_a_log_that_is_read_for_long_leaves_few_ids_behind(written: Written) -> None:
    source, book = written.source(), SplitBook(1, bounded=False, notes=None)
    for batch in range(200):
        written.add(batch, [batch])
        book.assign(source.plan(book.seen))
        book.forget(source.forget(book.seen))
        written.log.truncate(first_needed(manifest_of(book.notes()["seen"], []), UID) - 3)
    assert len(book.seen) <= 5


# ---------------------------------------------------------------- deleting


def manifest_of(seen: Sequence[str], unfinished: Sequence[str], epoch: int = 1) -> Manifest:
    units = to_units(SPLITS, [json.dumps({"id": id}) for id in unfinished])
    part = SubtaskState(0, (), {SPLITS.name: units})
    operator = OperatorState(UID, 1, None, (), (part,))
    sources = {UID: {"seen": list(seen), "complete": False}}
    return Manifest(
        "job", "job", epoch, 1, "exactly_once", 128, "hash", 0.0, {UID: operator}, sources
    )


@pytest.mark.parametrize(
    ("seen", "unfinished", "needed"),
    [
        ([], [], 0),
        (["0/0"], ["0/0"], 0),
        (["0/0", "0/1"], ["0/1"], 0),
        (["0/0", "0/1"], [], 1),
        (["0/0", "1/0", "2/0", "10/0"], ["2/0", "10/0"], 2),
        (["0/0", "9/0", "10/0"], [], 11),
    ],
)
def test_the_first_batch_that_an_epoch_needs(
    seen: list[str], unfinished: list[str], needed: int
) -> None:
    assert first_needed(manifest_of(seen, unfinished), UID) == needed
    assert first_needed(manifest_of(seen, unfinished), "another source") == 0


def test_truncation_deletes_slots_and_all_files_below_and_nothing_else(written: Written) -> None:
    for batch in range(4):
        written.files(batch, [-1])  # an attempt that lost
        written.add(batch, [batch])
    assert written.log.truncate(2) == 2
    assert written.log.batches() == [2, 3]
    assert len(written.data()) == 4
    assert written.log.truncate(2) == 0
    assert read_all(written.source(), frozenset(["0/0", "1/0"])) == [2, 3]


def test_the_newest_batch_stays_for_the_next_to_build_on(written: Written) -> None:
    for batch in range(3):
        written.add(batch, [batch])
    written.log.truncate(99)
    assert written.log.batches() == [2]
    written.add(3, [3])
    assert written.log.batches() == [2, 3]


def test_a_start_that_would_need_deleted_rows_is_refused(written: Written) -> None:
    for batch in range(3):
        written.add(batch, [batch])
    written.log.truncate(2)
    with pytest.raises(SourceError, match="begins with batch 2"):
        written.source().plan(frozenset(["0/0"]))


def store(written: Written, epoch: int, seen: Sequence[str], unfinished: Sequence[str]) -> None:
    manifest = manifest_of(seen, unfinished, epoch)
    written.storage.write(manifest_path(epoch, 1), manifest.to_bytes())


def test_what_an_older_retained_epoch_needs_is_kept(written: Written) -> None:
    for batch in range(4):
        written.add(batch, [batch])
    size = written.log.slot(0).bytes_after  # type: ignore[union-attr]
    store(written, 1, ["0/0", "1/0"], ["1/0"])
    store(written, 2, ["0/0", "1/0", "2/0"], [])
    retention = IngestRetention(written.storage, UID)
    retention.advance()
    assert written.log.batches() == [1, 2, 3]
    assert written.log.mark() == Mark(read_bytes=3 * size)

    written.storage.delete(manifest_path(1, 1))
    retention.advance()
    assert written.log.batches() == [3]


def test_everything_read_is_everything_released(written: Written) -> None:
    written.add(0, [0])
    written.add(1, [1])
    store(written, 1, ["0/0", "1/0"], [])
    IngestRetention(written.storage, UID).advance()
    assert written.log.mark().read_bytes == written.log.slot(1).bytes_after  # type: ignore[union-attr]


def test_nothing_is_deleted_while_there_is_no_epoch(written: Written) -> None:
    written.add(0, [0])
    written.add(1, [1])
    IngestRetention(written.storage, UID).advance()
    assert written.log.batches() == [0, 1]


def test_moving_the_mark_does_not_take_back_that_the_job_ends(written: Written) -> None:
    written.add(0, [0])
    written.log.set_mark(Mark(is_closing=True))
    store(written, 1, ["0/0"], [])
    IngestRetention(written.storage, UID).advance()
    assert written.log.mark().is_closing
    assert written.log.mark().read_bytes > 0


# ---------------------------------------------------------------- in a program


class Frame:
    """As much of a DataFrame as is asked for before a job starts."""

    isStreaming = False  # noqa: N815

    def __init__(self, schema: str) -> None:
        self.schema = to_schema(schema)


def test_a_dataframe_is_refused_where_there_is_no_spark() -> None:
    env = ms.Environment(spark="embedded")
    with pytest.raises(GraphError, match="needs Spark"):
        env.from_dataframe(Frame("n long"), uid=UID)


def test_what_is_no_dataframe_is_refused() -> None:
    with pytest.raises(GraphError, match="needs a DataFrame"):
        ms.Environment().from_dataframe([1, 2], uid=UID)


def test_a_program_with_a_dataframe_is_tested_with_rows() -> None:
    def build(env: ms.Environment) -> None:
        env.from_dataframe(Frame("n long"), uid=UID).sink(ms.connectors.Memory(), uid="out")

    result = run(build, inputs={UID: rows("n long", [(1,), (2,)])})
    assert sorted(result.output("out")) == [(1,), (2,)]
