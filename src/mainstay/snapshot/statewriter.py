"""Encoding a state file: sort by key-group, cut into chunks, compress, index.

This runs on a background thread while the job goes on: everything that grows with the number of
rows is a native call that releases the interpreter. The format is described in ``statefile``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.errors import ProtocolError
from mainstay.schema import sizes
from mainstay.schema.sizes import cut, row_sizes, runs_within
from mainstay.snapshot.drops import Drops
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.statefooter import (
    HEADER,
    Chunk,
    Footer,
    Groups,
    Hashes,
    StateIndex,
    checksum_of,
    trailer_for,
)

_APPEND = 2
"""The code of that operation (``mainstay.state.operations``), which is part of the format."""
_CHUNK_ROWS = 65_536
_SOUGHT_ROWS = 4096
"""Rows of a chunk where one key is looked for: few enough to read them all for it."""
_CHUNK_BYTES = 4 << 20
Compression = Literal["lz4", "zstd"] | None
# Sorting copies; a larger table is sorted by parts, each some key-groups, to bound that copy and
# to stay clear of the 2 GiB that one Arrow string array can hold.
_SORT_BYTES = 512 << 20


@dataclass(frozen=True, slots=True, eq=False)
class StateTable:
    """Rows of one state and the key-group of each; within a group, in order of application.

    ``repeats`` says that later rows may make many earlier ones useless, so that merging pays.
    ``hashes`` has part of the hash of each row's key, where rows are sorted by group and by that.
    ``drops`` come before all rows: they are of what earlier tables of the state hold.
    """

    name: str
    table: pa.Table
    groups: Groups
    repeats: bool = False
    hashes: Hashes | None = None
    drops: Drops = ()

    def in_arrays(self) -> Iterator[StateTable]:
        """The rows in order, in tables of which each fits into arrays; mostly the one it is."""
        pieces = cut(self.table)
        if len(pieces) == 1:
            yield self
            return
        for first, after in pieces:
            rows = self.table.slice(first, after - first)
            hashes = None if self.hashes is None else self.hashes[first:after]
            drops = () if first else self.drops
            groups = self.groups[first:after]
            yield replace(self, table=rows, groups=groups, hashes=hashes, drops=drops)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedFile:
    """A state file ready to be stored."""

    data: memoryview
    size_bytes: int
    checksum: str
    rows: int

    def ref(self, path: str) -> FileRef:
        """How a manifest names this file once it is stored at a path."""
        return FileRef(path, self.size_bytes, self.checksum)


def encode_state_file(
    tables: Sequence[StateTable],
    *,
    is_base: bool,
    max_parallelism: int,
    hash_id: str,
    compression: Compression = "lz4",
) -> EncodedFile:
    """A state file of these states. Rows keep their order within each key-group."""
    writer = StateFileWriter(
        is_base=is_base, max_parallelism=max_parallelism, hash_id=hash_id, compression=compression
    )
    for state in tables:
        writer.write(state.name, state.table.schema, [state], state.drops)
    return writer.finish()


class StateFileWriter:
    """Makes a state file, one state after the other, each in as many pieces as wanted."""

    def __init__(
        self,
        *,
        is_base: bool,
        max_parallelism: int,
        hash_id: str,
        compression: Compression = "lz4",
    ) -> None:
        self._is_base = is_base
        self._max_parallelism = max_parallelism
        self._hash_id = hash_id
        # On this thread alone: the other cores belong to the job.
        self._options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
        self._sink = pa.BufferOutputStream()
        self._sink.write(HEADER)
        self._states: list[StateIndex] = []

    def write(
        self, name: str, schema: pa.Schema, pieces: Iterable[StateTable], drops: Drops = ()
    ) -> None:
        """Write a state. Key-groups come in order, and none is in two pieces."""
        if any(state.name == name for state in self._states):
            raise ProtocolError(f"a state file was given one state twice: {name}")
        chunks: list[Chunk] = []
        groups: list[Groups] = [np.empty(0, np.int64)]
        starts: list[Groups] = [np.empty(0, np.int64)]
        hashes: list[int] | None = []
        rows = 0
        appends = False
        for piece in pieces:
            appends |= _appends(piece.table)
            self._check(piece, after=int(groups[-1][-1]) if len(groups[-1]) else -1)
            of_rows = piece.groups.astype(np.uint16)
            bounds = _group_bounds(of_rows)
            present = np.flatnonzero(np.diff(bounds))
            if len(present):
                groups.append(present)
                starts.append(rows + bounds[present])
            first_of_piece = rows
            for chunk in self._write_rows(piece, of_rows, rows):
                chunks.append(chunk)
                rows += chunk.rows
                if piece.hashes is None:
                    hashes = None
                elif hashes is not None:
                    hashes.append(int(piece.hashes[chunk.first_row - first_of_piece]))
        found = None if hashes is None else np.array(hashes, np.uint32)
        self._states.append(
            StateIndex(
                name,
                schema,
                rows,
                tuple(chunks),
                np.concatenate(groups),
                np.concatenate(starts),
                found,
                drops,
                appends,
            )
        )

    def _write_rows(
        self, piece: StateTable, groups: npt.NDArray[np.uint16], first_row: int
    ) -> Iterator[Chunk]:
        most = _CHUNK_ROWS if piece.hashes is None else _SOUGHT_ROWS
        for part in sorted_parts(piece.table, groups):
            for rows in _cut(part, most):
                data = _serialize(rows, self._options)
                yield Chunk(
                    self._sink.tell(), data.size, first_row, rows.num_rows, zlib.crc32(data)
                )
                self._sink.write(data)
                first_row += rows.num_rows

    def _check(self, piece: StateTable, after: int) -> None:
        groups, most = piece.groups, self._max_parallelism
        if len(groups) != piece.table.num_rows:
            raise ProtocolError(
                f"state {piece.name!r} has {piece.table.num_rows} rows but the key-groups of "
                f"{len(groups)}"
            )
        if len(groups) and not after < int(groups.min()) <= int(groups.max()) < most:
            raise ProtocolError(
                f"state {piece.name!r} has key-groups from {groups.min()} to {groups.max()}; "
                f"they must lie in {after + 1}..{most - 1}"
            )

    def finish(self) -> EncodedFile:
        """The file, when every state was written."""
        states = tuple(self._states)
        described = Footer(self._is_base, self._max_parallelism, self._hash_id, states)
        footer = described.to_bytes()
        self._sink.write(footer)
        self._sink.write(trailer_for(footer, described.format))
        data = memoryview(self._sink.getvalue()).cast("B")
        rows = sum(state.rows for state in states)
        return EncodedFile(data, len(data), checksum_of(footer), rows)


def _appends(table: pa.Table) -> bool:
    """Whether rows append to rows of accumulators, which formats before the third do not know."""
    names = set(table.column_names)
    if not {"op", "value"} <= names or not pa.types.is_struct(table.schema.field("value").type):
        return False
    return bool((table.column("op").to_numpy() == _APPEND).any())


def sorted_parts(table: pa.Table, groups: npt.NDArray[np.uint16]) -> Iterator[pa.Table]:
    """The rows in order of their groups, in as many parts as sorting them piece by piece takes."""
    if bool(np.all(groups[1:] >= groups[:-1])):
        yield table
    elif table.nbytes <= _SORT_BYTES:
        yield table.take(pa.array(np.argsort(groups, kind="stable")))
    else:
        by_group = np.bincount(groups, weights=row_sizes(table))
        for first, after in runs_within(by_group.astype(np.int64), _SORT_BYTES):
            inside = (groups >= first) & (groups < after)
            part = table.filter(pa.array(inside))
            if after - first > 1:
                part = part.take(pa.array(np.argsort(groups[inside], kind="stable")))
            # One key-group alone is in order, and may be more than one array can hold.
            yield part


def _group_bounds(groups: npt.NDArray[np.uint16]) -> npt.NDArray[np.intp]:
    """Where each key-group from 0 to the highest begins among the sorted rows, and their end."""
    # Not bincount, which holds the interpreter while it counts.
    ordered = np.sort(groups, kind="stable")
    highest = int(ordered[-1]) if len(ordered) else -1
    return np.searchsorted(ordered, np.arange(highest + 2))


def _cut(table: pa.Table, most: int) -> Iterator[pa.Table]:
    size_bytes = table.nbytes
    if size_bytes > sizes.ARRAY_BYTES:
        # Row by row, since a few of them may be most of it.
        for first, after in runs_within(row_sizes(table), _CHUNK_BYTES):
            yield table.slice(first, after - first).combine_chunks()
        return
    row_bytes = max(1, size_bytes // max(1, table.num_rows))
    rows = min(most, max(1, _CHUNK_BYTES // row_bytes))
    for first in range(0, table.num_rows, rows):
        yield table.slice(first, rows).combine_chunks()


def _serialize(table: pa.Table, options: pa.ipc.IpcWriteOptions) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()
