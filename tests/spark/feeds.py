"""Data sources of PySpark as a user would write them, for the tests that drive them.

They keep what they have to remember in a folder, because readers and writers are made anew in
many processes.
"""

# ruff: noqa: N802, N803 - the names are PySpark's

from __future__ import annotations

import json
import os
import random
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

KEYS = 97
COLUMNS = "id long, k long"


def note(folder: Path, name: str, value: Any) -> None:
    """Append a line to a file; one write of a few bytes is one act."""
    with (folder / name).open("ab", buffering=0) as file:
        file.write(json.dumps(value).encode() + b"\n")


def notes(folder: Path, name: str) -> list[Any]:
    path = folder / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def is_first(marker: Path) -> bool:
    """Whether nobody else was here before."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


# ---------------------------------------------------------------- streaming readers


@dataclass
class Ids(InputPartition):
    first: int
    after: int


class Feed(DataSource):
    """The numbers up to ``count`` in ranges of ``limit``, three partitions each; slowly."""

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return FeedReader(self.options)


class FeedReader(DataSourceStreamReader):
    def __init__(self, options: Any) -> None:
        self.options = options
        self.folder = Path(options["folder"])
        self.count = int(options["count"])

    def initialOffset(self) -> dict[str, Any]:
        note(self.folder, "begun", 0)
        return {"at": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(int(self.options["limit"]))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        assert isinstance(limit, ReadMaxRows)
        return {"at": min(start["at"] + limit.max_rows, self.count)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, after = start["at"], end["at"]
        bounds = [first + (after - first) * n // 3 for n in range(4)]
        return [Ids(*pair) for pair in pairwise(bounds)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Ids)
        ids = list(range(partition.first, partition.after))
        if self.options.get("shuffled"):
            random.shuffle(ids)
        for number, id in enumerate(ids):
            if number % 50 == 0:
                threading.Event().wait(0.005)  # so that a job has a middle
            yield id, id % KEYS

    def commit(self, end: dict[str, Any]) -> None:
        note(self.folder, "commits", end["at"])


class OldFeed(Feed):
    """As before Spark 4.2: offsets without a limit. It has an empty range at the beginning."""

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return OldFeedReader(self.options)


class OldFeedReader(FeedReader):
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        asked = len(notes(self.folder, "asked"))
        note(self.folder, "asked", asked)
        return {"at": min(max(0, asked - 1) * self.count // 4, self.count), "asked": min(asked, 5)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [Ids(start["at"], end["at"])] if start["at"] < end["at"] else []


class Queue(DataSource):
    """A queue that gives every message once, until it is acknowledged or the reader is new."""

    def schema(self) -> str:
        return COLUMNS

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        return QueueReader(self.options)


class QueueReader(SimpleDataSourceStreamReader):
    def __init__(self, options: Any) -> None:
        self.folder = Path(options["folder"])
        self.count = int(options["count"])

    def initialOffset(self) -> dict[str, Any]:
        return {"at": 0}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        after = min(start["at"] + 400, self.count)
        ids = list(range(start["at"], after))
        random.shuffle(ids)
        return iter([(id, id % KEYS) for id in ids]), {"at": after}

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:
        raise AssertionError("a queue gives nothing twice")

    def commit(self, end: dict[str, Any]) -> None:
        note(self.folder, "commits", end["at"])


# ---------------------------------------------------------------- batch readers


class Table(DataSource):
    """The numbers up to ``count`` in four partitions, as whatever a reader may yield."""

    def schema(self) -> str:
        return COLUMNS

    def reader(self, schema: Any) -> DataSourceReader:
        return TableReader(self.options)


class TableReader(DataSourceReader):
    def __init__(self, options: Any) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        count = int(self.options["count"])
        return [Ids(count * n // 4, count * (n + 1) // 4) for n in range(4)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Ids)
        for first in range(partition.first, partition.after, 50):
            threading.Event().wait(float(self.options.get("pause_s", 0.0)))
            ids = list(range(first, min(first + 50, partition.after)))
            yield from GIVEN[self.options.get("as", "tuples")](ids)


GIVEN: dict[str, Any] = {
    "tuples": lambda ids: [(id, id % KEYS) for id in ids],
    "lists": lambda ids: [[id, id % KEYS] for id in ids],
    "rows": lambda ids: [Row(k=id % KEYS, id=id) for id in ids],
    "batches": lambda ids: [pa.record_batch({"k": [id % KEYS for id in ids], "id": ids})],
}


# ---------------------------------------------------------------- stream writers


@dataclass
class Page(WriterCommitMessage):
    """A file that was written, and that counts once its batch is published."""

    path: str
    rows: int


class Book(DataSource):
    """Rows in files; a batch is a list of files that is published under its id."""

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return BookWriter(self.options)


class BookWriter(DataSourceStreamWriter):
    def __init__(self, options: Any) -> None:
        self.options = options
        self.folder = Path(options["folder"])

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        return self.written([row.id for row in iterator])

    def written(self, ids: list[int]) -> Page:
        context = TaskContext.get()
        assert context is not None
        path = self.folder / f"page-{context.partitionId()}-{context.taskAttemptId()}"
        with path.open("x") as file:
            json.dump(ids, file)
        return Page(str(path), len(ids))

    def commit(self, messages: Any, batchId: int) -> None:
        note(self.folder, "committed", [batchId, len(messages)])
        if self.options.get("history"):
            note(self.folder, "known", [batchId, self.latest_epoch()])
        pages = [page.path for page in messages]
        # Two acts, with a middle in which a commit can be interrupted.
        publish(self.folder / f"draft-{batchId}", json.dumps(pages))
        publish(self.folder / f"batch-{batchId}", json.dumps(pages))

    def abort(self, messages: Any, batchId: int) -> None:
        note(self.folder, "aborted", [batchId, len(messages)])

    def latest_epoch(self) -> int:
        from mainstay.snapshot.commitlog import read_history
        from mainstay.snapshot.object_storage import open_storage

        latest = read_history(open_storage(self.options["history"])).latest_epoch
        return latest.epoch if latest is not None else 0


class ArrowBook(Book):
    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return ArrowBookWriter(self.options)


class ArrowBookWriter(BookWriter, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self.written([id for batch in iterator for id in batch.column("id").to_pylist()])


class FailingBook(Book):
    """Its first call of ``write`` fails after all of its work is done."""

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return FailingBookWriter(self.options)


class FailingBookWriter(BookWriter):
    def written(self, ids: list[int]) -> Page:
        page = super().written(ids)
        if is_first(self.folder / "has-failed"):
            raise ConnectionError("the shelf is out of reach")
        return page


def publish(path: Path, text: str) -> None:
    """Write a file in one act, in the place of what was there."""
    draft = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    draft.write_text(text)
    draft.replace(path)


def published(folder: Path) -> Counter[int]:
    """The ids of all published batches."""
    found: Counter[int] = Counter()
    for batch in folder.glob("batch-*"):
        for page in json.loads(batch.read_text()):
            found.update(json.loads(Path(page).read_text()))
    return found
