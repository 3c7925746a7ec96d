"""The ingest log and its files, without Spark: what counts, once."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors.ingest.files import write_files
from mainstay.connectors.ingest.log import DataFile, IngestLog
from mainstay.errors import (
    DamagedFileError,
    GraphError,
    OutcomeUnknownError,
    SchemaError,
    SourceError,
)
from mainstay.schema import to_schema
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import BytesLike
from mainstay.testing import rows, run
from tests.unit.connectors.ingest.logs import UID, Written, read_all

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
    written.storage.write(f"ingest/{UID}/log/{0:010d}", json.dumps({"format": 3}).encode())
    with pytest.raises(SourceError, match="format 3"):
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


@pytest.mark.parametrize("is_streaming", [False, True])
def test_a_dataframe_in_a_job_with_several_drivers_is_refused_before_anything_is_started(
    tmp_path: Path, is_streaming: bool
) -> None:
    df = Frame("n long")
    df.isStreaming = is_streaming
    place = tmp_path / "snapshots"
    env = ms.Environment(snapshots=ms.Snapshots(place), ha=ms.HighAvailability())
    env.from_dataframe(df, uid=UID).sink(ms.connectors.Memory(), uid="out")
    with pytest.raises(
        GraphError, match=rf"the DataFrames of \['{UID}'\] .* no other driver .* leave out ha="
    ):
        env.start("numbers")
    assert not place.exists()


def test_a_program_with_a_dataframe_is_tested_with_rows() -> None:
    def build(env: ms.Environment) -> None:
        env.from_dataframe(Frame("n long"), uid=UID).sink(ms.connectors.Memory(), uid="out")

    result = run(build, inputs={UID: rows("n long", [(1,), (2,)])})
    assert sorted(result.output("out")) == [(1,), (2,)]
