"""The Parquet files of a savepoint: written sorted by key-group, read by ranges of key-groups.

Row groups end where a key-group does, unless one key-group alone is too large for that. So a
subtask that owns a range of key-groups finds its row groups through the footer and reads them one
after the other. Whatever is read is verified: the footer against the checksum that
``savepoint.json`` has of it, the pages against the checksums that they carry.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mainstay.errors import DamagedFileError
from mainstay.schema import sizes
from mainstay.schema.sizes import cut, row_sizes, runs_within
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.positioned import Positioned
from mainstay.snapshot.savepoint import SavepointFile
from mainstay.snapshot.statewriter import sorted_parts
from mainstay.snapshot.storage import NotFound, Storage

GROUP_COLUMN = "key_group"
ROW_GROUP_ROWS = 65_536
ROW_GROUP_BYTES = 16 << 20
READ_BYTES = 32 << 20
"""How much is read at a time, where row groups are no larger."""

_METADATA = b"mainstay"
_MAGIC = b"PAR1"
_TAIL = 8
_TAIL_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, eq=False)
class KeyedRows:
    """Rows of one keyed state as a savepoint has them, and the key-group of each, sorted."""

    state: str
    table: pa.Table
    groups: npt.NDArray[Any]


def write_keyed(target: Storage, path: str, rows: KeyedRows, uid: str) -> SavepointFile:
    """Store rows, which need not be sorted."""
    groups = np.sort(rows.groups, kind="stable").astype(np.int32)
    parts = list(sorted_parts(rows.table, rows.groups.astype(np.uint16)))
    table = pa.concat_tables(parts).add_column(
        0, pa.field(GROUP_COLUMN, pa.int32(), nullable=False), pa.array(groups)
    )
    data = _encode(table, _cuts(groups, table), {"operator": uid, "state": rows.state})
    target.write(path, data)
    first, last = (int(groups[0]), int(groups[-1])) if len(groups) else (0, -1)
    return SavepointFile(_reference(path, data), len(groups), first, last)


def write_units(
    target: Storage, path: str, units: Sequence[pa.Array], uid: str, state: str
) -> SavepointFile:
    """Store the units of an operator state, by the subtasks that had them."""
    subtasks = np.repeat(np.arange(len(units), dtype=np.int32), [len(each) for each in units])
    table = pa.table({"subtask": pa.array(subtasks), "unit": pa.chunked_array(list(units))})
    cuts = [first for first, _ in cut(table)] or [0]
    data = _encode(table, [*cuts, len(subtasks)], {"operator": uid, "state": state})
    target.write(path, data)
    return SavepointFile(_reference(path, data), len(subtasks))


def _encode(table: pa.Table, cuts: Sequence[int], about: dict[str, Any]) -> memoryview:
    schema = table.schema.with_metadata({_METADATA: json.dumps({"format": 1, **about}).encode()})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, schema, compression="zstd", write_page_checksum=True, store_schema=True
    ) as writer:
        for first, after in pairwise(cuts):
            rows = table.slice(first, after - first).replace_schema_metadata(schema.metadata)
            writer.write_table(rows, row_group_size=max(1, after - first))
    return memoryview(sink.getvalue()).cast("B")


def _cuts(groups: npt.NDArray[Any], table: pa.Table) -> list[int]:
    """Where row groups begin, and the end: at key-groups, unless one of them is too large."""
    count, size_bytes = len(groups), table.nbytes
    if size_bytes > sizes.ARRAY_BYTES:
        # Row by row, since a few of them may be most of it.
        return [*(first for first, _ in runs_within(row_sizes(table), ROW_GROUP_BYTES)), count]
    most = _row_group_rows(count, size_bytes)
    starts = np.flatnonzero(np.diff(groups)) + 1
    cuts = [0]
    while count - cuts[-1] > most:
        fitting = starts[(starts > cuts[-1]) & (starts <= cuts[-1] + most)]
        cuts.append(int(fitting[-1]) if len(fitting) else cuts[-1] + most)
    return [*cuts, count]


def _row_group_rows(count: int, size_bytes: int) -> int:
    row_bytes = max(1, size_bytes // max(1, count))
    return min(ROW_GROUP_ROWS, max(1, ROW_GROUP_BYTES // row_bytes))


def _reference(path: str, data: memoryview) -> FileRef:
    footer = data[_footer_start(data) :]
    return FileRef(path, len(data), f"crc32:{zlib.crc32(footer):08x}")


def _footer_start(data: memoryview) -> int:
    length = int.from_bytes(data[-_TAIL : -len(_MAGIC)], "little")
    return len(data) - _TAIL - length


# ---------------------------------------------------------------- reading


def read_keyed(
    storage: Storage, ref: FileRef, first_group: int, last_group: int
) -> Iterator[KeyedRows]:
    """The rows of a file in these key-groups, both ends included, some row groups at a time."""
    file = _Parquet(storage, ref)
    for numbers in file.reads(first_group, last_group):
        table = file.read(numbers)
        groups = table.column(GROUP_COLUMN).to_numpy()
        first, after = np.searchsorted(groups, [first_group, last_group + 1])
        rows = table.drop_columns([GROUP_COLUMN]).slice(first, after - first)
        yield KeyedRows(file.state, rows.replace_schema_metadata(None), groups[first:after])


def read_units(storage: Storage, ref: FileRef, parallelism: int) -> list[pa.Array]:
    """The units of an operator state, by the subtasks that had them."""
    file = _Parquet(storage, ref)
    table = file.read(range(file.row_groups))
    subtasks = table.column("subtask").to_numpy()
    bounds = np.searchsorted(subtasks, np.arange(parallelism + 1))
    units = table.column("unit").combine_chunks()
    return [units.slice(first, after - first) for first, after in pairwise(bounds)]


class _Parquet:
    """An open Parquet file: its footer in memory, its rows where they are stored."""

    def __init__(self, storage: Storage, ref: FileRef) -> None:
        self._storage = storage
        self._ref = ref
        footer = _read_footer(storage, ref)
        try:
            # The footer alone is read as a file of its own.
            self._metadata = pq.read_metadata(pa.BufferReader(_MAGIC + footer))
            about = json.loads((self._metadata.metadata or {})[_METADATA])
            self.state = str(about["state"])
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise _damaged(ref, "a Parquet file of a savepoint", str(error)) from error
        self.row_groups = int(self._metadata.num_row_groups)

    def reads(self, first_group: int, last_group: int) -> Iterator[list[int]]:
        """Row groups that hold some of these key-groups, as many as are read at a time."""
        found: list[int] = []
        for number in range(self.row_groups):
            statistics = self._metadata.row_group(number).column(0).statistics
            if statistics is None or not (
                statistics.max < first_group or statistics.min > last_group
            ):
                if found and self._span(number)[1] - self._span(found[0])[0] > READ_BYTES:
                    yield found
                    found = []
                found.append(number)
        if found:
            yield found

    def read(self, numbers: Sequence[int]) -> pa.Table:
        """Rows of consecutive row groups, in one read of the storage."""
        start, after = 0, 0
        if numbers:
            start, after = self._span(numbers[0])[0], self._span(numbers[-1])[1]
        data = _read(self._storage, self._ref, start, after - start)
        try:
            file = pq.ParquetFile(
                pa.PythonFile(_Window(self._ref.size_bytes, start, data), mode="r"),
                metadata=self._metadata,
                pre_buffer=False,
                page_checksum_verification=True,
            )
            return file.read_row_groups(list(numbers), use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(self._ref, "the pages that were written", str(error)) from error

    def _span(self, number: int) -> tuple[int, int]:
        row_group = self._metadata.row_group(number)
        starts, ends = [], []
        for column in map(row_group.column, range(row_group.num_columns)):
            begin = column.dictionary_page_offset or column.data_page_offset
            starts.append(min(begin, column.data_page_offset))
            ends.append(starts[-1] + column.total_compressed_size)
        return min(starts), max(ends)


class _Window(Positioned):
    """A file of which only one part is held; nothing else of it is to be read."""

    def __init__(self, size_bytes: int, start: int, data: bytes) -> None:
        super().__init__(size_bytes)
        self._start = start
        self._data = memoryview(data)

    def bytes_at(self, start: int, after: int) -> bytes:
        first, last = start - self._start, after - self._start
        if first < 0 or last > len(self._data):
            raise OSError(f"bytes {start} to {after} are outside what the footer names")
        return bytes(self._data[first:last])


def _read_footer(storage: Storage, ref: FileRef) -> bytes:
    """The footer, checked. One read, unless it is a long one."""
    start = max(0, ref.size_bytes - _TAIL_BYTES)
    # One byte more than there should be, to notice a file that is longer.
    tail = _read(storage, ref, start, ref.size_bytes - start + 1)
    if start + len(tail) != ref.size_bytes or len(tail) < _TAIL:
        raise _damaged(ref, f"{ref.size_bytes} bytes", "another length")
    footer_start = start + _footer_start(memoryview(tail))
    if tail[-len(_MAGIC) :] != _MAGIC or footer_start < 0:
        raise _damaged(ref, "a Parquet file", "other content")
    if footer_start < start:
        tail = _read(storage, ref, footer_start, start - footer_start) + tail
        start = footer_start
    footer = tail[footer_start - start :]
    found = f"crc32:{zlib.crc32(footer):08x}"
    if found != ref.checksum:
        raise _damaged(ref, f"a footer with {ref.checksum}", found)
    return footer


def _read(storage: Storage, ref: FileRef, start: int, length: int) -> bytes:
    try:
        return storage.read(ref.path, start, length)
    except NotFound:
        raise _damaged(ref, f"a file of {ref.size_bytes} bytes", "none") from None


def _damaged(ref: FileRef, expected: str, found: str) -> DamagedFileError:
    return DamagedFileError(
        f"{ref.path} of the savepoint is damaged: expected {expected}, found {found}. Bring the "
        "original file back, or restore another savepoint."
    )
