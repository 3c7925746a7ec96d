"""The footer of a state file: what the file holds, and where in it each key-group begins.

The footer is JSON, followed by a trailer of fixed size that says how long the footer is. It
carries the checksum of every chunk, so its own checksum, kept in the manifest, vouches for all.
The trailer keeps its shape in every version of the format, so that any reader can name a version
that it does not know.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from bisect import bisect_left, bisect_right
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.snapshot.drops import Drop, Drops
from mainstay.snapshot.storage import BytesLike

STATE_FILE_FORMAT = 3
DROPPING_FORMAT = 2
PLAIN_FORMAT = 1
"""Format 2 is written where a state has drops, format 3 where rows append to rows of accumulators.
What needs nothing newer is written as format 1."""
MAGIC = b"MSTY"
HEADER = struct.pack("<4sI", MAGIC, PLAIN_FORMAT)
"""It is the same in every format: which it is the trailer says, because a file is written front to
back, and what it needs is known at its end."""

# Length of the footer, its CRC-32, the version of the format, the magic.
TRAILER = struct.Struct("<QII4s")

Groups = npt.NDArray[np.integer[Any]]
Hashes = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of rows, stored as an Arrow IPC stream of its own."""

    offset: int
    length: int
    first_row: int
    rows: int
    crc32: int


@dataclass(frozen=True, slots=True, eq=False)
class StateIndex:
    """One state of the file: ``groups[i]`` begins at row ``starts[i]``; absent groups are left out.

    Rows are sorted by key-group, and chunks lie one behind the other in the order of their rows.
    With ``hashes``, rows are sorted by the hash of their key within a group, and it has that of the
    first row of each chunk. Files of before have none. What ``drops`` say comes before all rows.
    """

    name: str
    schema: pa.Schema
    rows: int
    chunks: tuple[Chunk, ...]
    groups: Groups
    starts: Groups
    hashes: Hashes | None = None
    drops: Drops = ()
    appends: bool = False
    """Whether rows append to rows of accumulators. Not stored: the format says it of the file."""

    @property
    def counts(self) -> Groups:
        """How many rows each of the groups has."""
        bounds = self._bounds()
        return bounds[1:] - bounds[:-1]

    def _bounds(self) -> Groups:
        """Where each of the groups begins, and the end of the last."""
        bounds = np.empty(len(self.starts) + 1, np.int64)
        bounds[:-1], bounds[-1] = self.starts, self.rows
        return bounds

    def row_range(self, first_group: int, last_group: int) -> tuple[int, int]:
        """The first row of these key-groups, and the first row after them."""
        bounds = self._bounds()
        first = self.groups.searchsorted(first_group, side="left")
        after = self.groups.searchsorted(last_group, side="right")
        return int(bounds[first]), int(bounds[max(first, after)])

    def groups_of(self, first_row: int, after_row: int) -> Groups:
        """The key-group of each row in a range that begins and ends with whole groups."""
        if first_row == 0 and after_row == self.rows:
            return self.groups.repeat(self.counts)
        inside = (self.starts >= first_row) & (self.starts < after_row)
        return np.repeat(self.groups[inside], self.counts[inside])

    def chunks_with(self, group: int, hash: int) -> tuple[tuple[Chunk, ...], int, int]:
        """The chunks that may have a key of a group, by its hash, and that group's rows in them.

        All chunks of the group where its rows are not sorted.
        """
        first, after = self.row_range(group, group)
        if first == after:
            return (), 0, 0
        at = bisect_right(self.chunks, first, key=lambda chunk: chunk.first_row) - 1
        end = bisect_left(self.chunks, after, key=lambda chunk: chunk.first_row)
        if self.hashes is not None:
            # The first chunk may begin with another group; the others begin with a hash of this.
            within = self.hashes[at + 1 : end]
            low = int(np.searchsorted(within, hash, side="left"))
            high = int(np.searchsorted(within, hash, side="right"))
            at, end = at + low, at + high + 1
        chunks = self.chunks[at:end]
        last = chunks[-1].first_row + chunks[-1].rows
        return chunks, max(first, chunks[0].first_row), min(after, last)

    def chunks_over(self, first_row: int, after_row: int) -> tuple[Chunk, ...]:
        """The chunks with a row in this range."""
        return tuple(
            chunk
            for chunk in self.chunks
            if chunk.first_row < after_row and chunk.first_row + chunk.rows > first_row
        )


@dataclass(frozen=True, slots=True, eq=False)
class Footer:
    """What a state file says of itself."""

    is_base: bool
    max_parallelism: int
    hash_id: str
    states: tuple[StateIndex, ...]

    @property
    def format(self) -> int:
        """The lowest that has what is needed, for older versions to read."""
        if any(state.appends for state in self.states):
            return STATE_FILE_FORMAT
        return DROPPING_FORMAT if any(state.drops for state in self.states) else PLAIN_FORMAT

    def to_bytes(self) -> bytes:
        document = {
            "format": self.format,
            "is_base": self.is_base,
            "max_parallelism": self.max_parallelism,
            "hash_id": self.hash_id,
            "states": [_encode_index(index) for index in self.states],
        }
        return json.dumps(document, sort_keys=True).encode()

    @staticmethod
    def from_bytes(data: BytesLike) -> Footer:
        """The footer in bytes that were found undamaged and of a known format."""
        document = json.loads(bytes(data))
        return Footer(
            is_base=document["is_base"],
            max_parallelism=document["max_parallelism"],
            hash_id=document["hash_id"],
            states=tuple(_decode_index(item) for item in document["states"]),
        )


def trailer_for(footer: bytes, format: int) -> bytes:
    """The trailer that ends a file with this footer."""
    return TRAILER.pack(len(footer), zlib.crc32(footer), format, MAGIC)


def checksum_of(footer: BytesLike) -> str:
    """The checksum by which a manifest knows the file."""
    return f"crc32:{zlib.crc32(footer):08x}"


def _encode_index(index: StateIndex) -> dict[str, Any]:
    document = {
        "name": index.name,
        "schema": _text(index.schema.serialize()),
        "rows": index.rows,
        "chunks": [_encode_chunk(chunk) for chunk in index.chunks],
        "groups": _text(index.groups.astype("<u2")),
        "starts": _text(index.starts.astype("<u8")),
    }
    if index.hashes is not None:
        document["hashes"] = _text(index.hashes.astype("<u4"))
    if index.drops:
        document["drops"] = [asdict(drop) for drop in index.drops]
    return document


def _decode_index(document: dict[str, Any]) -> StateIndex:
    return StateIndex(
        name=document["name"],
        schema=_decode_schema(document["schema"]),
        rows=document["rows"],
        chunks=tuple(Chunk(**item) for item in document["chunks"]),
        groups=np.frombuffer(base64.b64decode(document["groups"]), "<u2").astype(np.uint16),
        starts=np.frombuffer(base64.b64decode(document["starts"]), "<u8").astype(np.int64),
        hashes=_decode_hashes(document.get("hashes")),
        drops=tuple(Drop(**item) for item in document.get("drops", ())),
    )


def _encode_chunk(chunk: Chunk) -> dict[str, int]:
    return {
        "offset": chunk.offset,
        "length": chunk.length,
        "first_row": chunk.first_row,
        "rows": chunk.rows,
        "crc32": chunk.crc32,
    }


@lru_cache(maxsize=256)
def _decode_schema(text: str) -> pa.Schema:
    """The files of a state mostly have the same schema, and a restore reads many of them."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _decode_hashes(text: str | None) -> Hashes | None:
    return None if text is None else np.frombuffer(base64.b64decode(text), "<u4").astype(np.uint32)


def _text(data: Any) -> str:
    return base64.b64encode(data).decode()
