"""The state file: the keyed state of one operator in one subtask, sorted by key-group.

::

    "MSTY" version
    chunk, chunk, …       per state, sorted by key-group: Arrow IPC streams of some thousand rows
    footer                JSON: schemas, where each key-group begins, a checksum per chunk
    trailer               length and checksum of the footer, version, "MSTY"

A subtask that owns a range of key-groups finds its rows through the footer and reads them in one
go. Whatever part of a file is read is verified, against checksums that the manifest vouches for.
"""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa

from mainstay.errors import DamagedFileError, RestoreError
from mainstay.snapshot.drops import Drops, clipped
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.statefooter import (
    HEADER,
    MAGIC,
    STATE_FILE_FORMAT,
    TRAILER,
    Chunk,
    Footer,
    Groups,
    StateIndex,
    checksum_of,
)
from mainstay.snapshot.statewriter import EncodedFile, StateTable, encode_state_file
from mainstay.snapshot.storage import NotFound, Storage

__all__ = ["EncodedFile", "StateFile", "StateTable", "encode_state_file", "open_state_file"]

# Enough for the footer of almost every file, and for the whole of a small one.
_TAIL_BYTES = 64 << 10
# What is read beside a running loop leaves the other cores to others.
_ALONE = pa.ipc.IpcReadOptions(use_threads=False)


def open_state_file(storage: Storage, ref: FileRef) -> StateFile:
    """Read and verify a file's footer.

    Raises ``DamagedFileError`` when the file is missing or is not the one that ``ref`` names.
    """
    tail_start = max(0, ref.size_bytes - _TAIL_BYTES)
    tail = _read_tail(storage, ref, tail_start)
    length, crc, version, magic = TRAILER.unpack(tail[-TRAILER.size :])
    footer_start = ref.size_bytes - TRAILER.size - length
    if magic != MAGIC or footer_start < len(HEADER):
        raise _damaged(ref, "a Mainstay state file", "other content")
    if footer_start < tail_start:
        tail = memoryview(_read(storage, ref, footer_start, tail_start - footer_start) + tail)
        tail_start = footer_start
    footer = tail[footer_start - tail_start : -TRAILER.size]
    _check_equal(ref, "checksum", ref.checksum, checksum_of(footer))
    _check_equal(ref, "checksum in the trailer", zlib.crc32(footer), crc)
    if version not in range(1, STATE_FILE_FORMAT + 1):
        raise RestoreError(
            f"{ref.name} has state file format {version}; this version of Mainstay reads formats "
            f"up to {STATE_FILE_FORMAT}. Restore it with a version that wrote it or a newer one."
        )
    return StateFile(storage, ref, Footer.from_bytes(footer), tail, tail_start)


class StateFile:
    """An open state file: its footer in memory, its rows where they are stored."""

    def __init__(
        self, storage: Storage, ref: FileRef, footer: Footer, tail: memoryview, tail_start: int
    ) -> None:
        self._storage = storage
        self._ref = ref
        self._footer = footer
        self._tail = tail
        self._tail_start = tail_start
        self._states = {index.name: index for index in footer.states}
        self._last: tuple[Chunk, pa.Table] | None = None

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states in the file, in the order they were given."""
        return tuple(self._states)

    @property
    def indexes(self) -> tuple[StateIndex, ...]:
        """Where the rows of each state are, to count them without reading them."""
        return self._footer.states

    @property
    def is_base(self) -> bool:
        return self._footer.is_base

    @property
    def max_parallelism(self) -> int:
        return self._footer.max_parallelism

    @property
    def hash_id(self) -> str:
        return self._footer.hash_id

    def schema(self, state: str) -> pa.Schema:
        """The Arrow schema of a state's rows."""
        return self._index(state).schema

    def counts(self, state: str) -> tuple[Groups, Groups]:
        """The key-groups that have rows of a state, and how many each has."""
        index = self._index(state)
        return index.groups, index.counts

    def drops(self, state: str, first_group: int, last_group: int) -> Drops:
        """What the file drops of a state in these key-groups."""
        return clipped(self._index(state).drops, first_group, last_group)

    def read(self, state: str, first_group: int, last_group: int) -> StateTable:
        """The rows of a state in these key-groups, sorted by group; one sequential read."""
        index, drops = self._index(state), self.drops(state, first_group, last_group)
        first, after = index.row_range(first_group, last_group)
        chunks = index.chunks_over(first, after) if after > first else ()
        groups = index.groups_of(first, after)
        if not chunks:
            return StateTable(state, index.schema.empty_table(), groups, drops=drops)
        rows = pa.concat_tables(self._tables(chunks)).slice(
            first - chunks[0].first_row, after - first
        )
        return StateTable(state, rows, groups, drops=drops)

    def find(self, state: str, group: int, hash: int) -> StateTable:
        """Rows of a state in a key-group, all of the keys with this hash among them.

        Others of the group may be among them too: a few where the file is sorted by hash, all where
        it is not.
        """
        index, drops = self._index(state), self.drops(state, group, group)
        chunks, first, after = index.chunks_with(group, hash)
        groups = np.full(after - first, group, np.uint16)
        if not chunks:
            return StateTable(state, index.schema.empty_table(), groups, drops=drops)
        rows = pa.concat_tables(self._tables(chunks)).slice(
            first - chunks[0].first_row, after - first
        )
        return StateTable(state, rows, groups, drops=drops)

    def verify(self) -> None:
        """Read the whole file; raises ``DamagedFileError`` at the first byte that is not right."""
        if self._bytes(0, len(HEADER)) != HEADER:
            raise _damaged(self._ref, "the header of a state file", "another")
        for index in self._states.values():
            for chunk in index.chunks:
                self._verified((chunk,))

    def _index(self, state: str) -> StateIndex:
        if state not in self._states:
            raise RestoreError(
                f"{self._ref.name} holds no state {state!r}; it holds {', '.join(self.states)}"
            )
        return self._states[state]

    def _tables(self, chunks: tuple[Chunk, ...]) -> list[pa.Table]:
        """The rows of chunks. The last of them is kept: the next read begins with it."""
        # Once, because another thread may put its own there meanwhile.
        tables, last = [], self._last
        if last is not None and last[0] == chunks[0]:
            tables.append(last[1])
        left = chunks[len(tables) :]
        if left:
            tables.extend(_parse(part) for part in self._verified(left))
        self._last = chunks[-1], tables[-1]
        return tables

    def _verified(self, chunks: tuple[Chunk, ...]) -> list[memoryview]:
        start = chunks[0].offset
        data = self._bytes(start, chunks[-1].offset + chunks[-1].length - start)
        parts = [data[item.offset - start :][: item.length] for item in chunks]
        for chunk, part in zip(chunks, parts, strict=True):
            if (found := zlib.crc32(part)) != chunk.crc32:
                what = f"for the {chunk.length} bytes at {chunk.offset} checksum"
                raise _damaged(self._ref, f"{what} {chunk.crc32:08x}", f"{found:08x}")
        return parts

    def _bytes(self, start: int, length: int) -> memoryview:
        if start >= self._tail_start:
            return self._tail[start - self._tail_start :][:length]
        return memoryview(_read(self._storage, self._ref, start, length))


def _parse(data: memoryview) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(data), options=_ALONE).read_all()


def _read_tail(storage: Storage, ref: FileRef, start: int) -> memoryview:
    expected = ref.size_bytes - start
    # One byte more than there should be, to notice a file that is longer.
    tail = _read(storage, ref, start, expected if ref.is_shared else expected + 1)
    if len(tail) != expected:
        found = "more" if len(tail) > expected else "fewer"
        raise _damaged(ref, f"{ref.size_bytes} bytes", f"{found} (was it cut off or replaced?)")
    if expected < TRAILER.size:
        raise _damaged(ref, "a Mainstay state file", f"{expected} bytes")
    return memoryview(tail)


def _read(storage: Storage, ref: FileRef, start: int, length: int) -> bytes:
    try:
        return storage.read(ref.path, ref.start + start, length)
    except NotFound:
        raise _damaged(ref, f"a file of {ref.size_bytes} bytes", "none") from None


def _check_equal(ref: FileRef, what: str, expected: object, found: object) -> None:
    if expected != found:
        raise _damaged(ref, f"{what} {expected}", str(found))


def _damaged(ref: FileRef, expected: str, found: str) -> DamagedFileError:
    return DamagedFileError(
        f"{ref.name} is damaged: expected {expected}, found {found}. "
        f"Bring the original file back or restore an older epoch."
    )
