"""What Spark's tasks do to write states into a savepoint.

A DataFrame goes through two functions. The first adds to each row its key-group and the task that
will write it: tasks have ranges of key-groups. Spark moves the rows there and sorts them by
key-group; the second writes files of whole key-groups, as many as fit into memory one after the
other. Its result is a row for each file, or one that says what is wrong with the rows: to raise it
would make Spark run the task again, which would find the same.

A file's number has the number of the task's attempt in it, so an attempt that is repeated never
writes to a file of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from mainstay.inspect.columns import StateColumns
from mainstay.inspect.fitting import UnfitRowsError, fitted, kept_rows
from mainstay.runtime.coordinator.savepoint_writing import KeyedPiece
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.object_storage import open_existing, open_storage
from mainstay.snapshot.savepoint import SavepointFile, keyed_path
from mainstay.snapshot.savepoint_files import KeyedRows, write_keyed
from mainstay.snapshot.storage import Storage
from mainstay.state.hashing import key_groups
from mainstay.state.keygroups import subtasks_of

FILE_BYTES = 64 << 20
"""How much is gathered before a file is written, in memory; a key-group is never divided."""
FILES_PER_ATTEMPT = 10_000

GROUP, TASK = "__mainstay_key_group", "__mainstay_task"
RESULT = (
    "operator string, state string, path string, size_bytes long, checksum string, "
    "rows long, first_group int, last_group int, problem string"
)
_RESULT_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("operator", "state", "path")),
        ("size_bytes", pa.int64()),
        ("checksum", pa.string()),
        ("rows", pa.int64()),
        ("first_group", pa.int32()),
        ("last_group", pa.int32()),
        ("problem", pa.string()),
    ]
)

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class AddGroups:
    """The first function: which key-group each row is of, and which task writes that."""

    columns: StateColumns
    max_parallelism: int
    tasks: int

    def __call__(self, batches: Batches) -> Batches:
        count = len(self.columns.key_fields())
        for batch in batches:
            keys = fitted(self.columns, batch.columns[:count])
            groups = key_groups(keys, self.max_parallelism).astype(np.int32)
            owners = subtasks_of(groups, self.tasks, self.max_parallelism).astype(np.int32)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(groups), pa.array(owners)],
                schema=batch.schema.append(pa.field(GROUP, pa.int32())).append(
                    pa.field(TASK, pa.int32())
                ),
            )


@dataclass(frozen=True, slots=True)
class WriteGroups:
    """The second function: rows that are sorted by key-group into files of a savepoint."""

    columns: StateColumns
    target: str
    now_us: int

    def __call__(self, batches: Batches) -> Batches:
        storage, first = open_storage(self.target), _first_number()
        try:
            for number, table in enumerate(whole_groups(batches)):
                written = self._write(storage, first + number, table)
                if written is not None:
                    yield _result(self.columns.operator, self.columns.schema.name, written)
        except UnfitRowsError as error:
            yield _problem(self.columns, str(error))

    def _write(self, storage: Storage, number: int, table: pa.Table) -> SavepointFile | None:
        columns, name = self.columns, self.columns.schema.name
        groups = table.column(GROUP).to_numpy()
        data = table.drop_columns([GROUP]).columns
        arrays = fitted(columns, [column.combine_chunks() for column in data])
        kept = kept_rows(columns, arrays)
        rows = KeyedRows(
            name, columns.stored(arrays, self.now_us).filter(pa.array(kept)), groups[kept]
        )
        if not len(rows.groups):
            return None
        path = keyed_path(columns.operator, name, number)
        return write_keyed(storage, path, rows, columns.operator)


@dataclass(frozen=True, slots=True)
class CopyPieces:
    """What is carried over from another savepoint or an epoch: a piece for each row of ids."""

    source: str
    target: str
    pieces: tuple[KeyedPiece, ...]

    def __call__(self, batches: Batches) -> Batches:
        source, target, first = (
            open_existing(self.source),
            open_storage(self.target),
            _first_number(),
        )
        for batch in batches:
            for place in batch.column(0).to_pylist():
                piece = replace(self.pieces[place], number=first)
                first += 1
                for uid, state, file in piece.write(source, target):
                    yield _result(uid, state, file)


def whole_groups(batches: Batches) -> Iterator[pa.Table]:
    """Rows that are sorted by key-group in tables of whole key-groups."""
    pending: list[pa.RecordBatch] = []
    size_bytes, most = 0, FILE_BYTES
    for batch in batches:
        pending.append(batch)
        size_bytes += batch.nbytes
        if size_bytes < most:
            continue
        table = pa.Table.from_batches(pending)
        groups = table.column(GROUP).to_numpy()
        # More rows of the last key-group may come.
        cut = int(np.searchsorted(groups, groups[-1]))
        if cut:
            yield table.slice(0, cut)
        pending = table.slice(cut).to_batches()
        size_bytes = sum(each.nbytes for each in pending)
        most = max(FILE_BYTES, 2 * size_bytes)
    if pending:
        yield pa.Table.from_batches(pending)


def _first_number() -> int:
    context = TaskContext.get()
    assert context is not None
    return int(context.taskAttemptId()) * FILES_PER_ATTEMPT


def _result(uid: str, state: str, written: SavepointFile) -> pa.RecordBatch:
    file = written.file
    row = (uid, state, file.path, file.size_bytes, file.checksum)
    return _row([*row, written.rows, written.first_group, written.last_group, None])


def _problem(columns: StateColumns, text: str) -> pa.RecordBatch:
    return _row([columns.operator, columns.schema.name, *[None] * 6, text])


def _row(values: Sequence[object]) -> pa.RecordBatch:
    arrays = [pa.array([v], f.type) for v, f in zip(values, _RESULT_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_RESULT_SCHEMA)


def file_of(row: dict[str, object]) -> SavepointFile:
    """The file that a row of results names."""
    file = FileRef(str(row["path"]), _int(row["size_bytes"]), str(row["checksum"]))
    return SavepointFile(file, _int(row["rows"]), _int(row["first_group"]), _int(row["last_group"]))


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
