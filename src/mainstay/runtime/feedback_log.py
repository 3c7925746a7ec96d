"""The log of a loop: the rows of a cut through it, as units of operator state.

A unit is some rows, or names a file that has them already and how many of its first rows are not
wanted. A rescale redistributes units, so each of them is small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from mainstay.runtime.deferred import Late
from mainstay.runtime.own_states import FEEDBACK
from mainstay.schema.ipc import from_ipc, to_ipc
from mainstay.snapshot.manifest import FileRef, OperatorUnits
from mainstay.state.keyed import frozen_elements
from mainstay.state.operator import to_units, values_in

CHUNK_BYTES = 1 << 20
"""Rows are stored, and moved by a rescale, in chunks of about this size."""


Entry: TypeAlias = "pa.RecordBatch | tuple[FileRef, int]"
"""Rows, or a file with the number of rows to skip."""


@dataclass(slots=True, eq=False)
class Log:
    """What an epoch keeps of a loop, in order: batches, or files with the rows to skip."""

    entries: list[Entry]
    late: Late = field(init=False)
    units: list[tuple[Any, ...]] = field(default_factory=list)
    kept: tuple[FileRef, ...] = ()

    def __post_init__(self) -> None:
        self.late = Late(self._units, lambda: self.kept)

    def _units(self) -> dict[str, list[Any]]:
        return {FEEDBACK.name: frozen_elements(FEEDBACK, self.units)}


def bytes_of(batches: list[pa.RecordBatch]) -> bytes:
    return to_ipc(batches, batches[0].schema, compression="zstd")


def rows_of(data: bytes) -> list[pa.RecordBatch]:
    return from_ipc(data).to_batches()  # type: ignore[no-any-return]


def units_of(entries: list[Entry]) -> Iterator[tuple[Any, ...]]:
    """The units of a log, in order."""
    gathered: list[pa.RecordBatch] = []
    size_bytes = 0
    for entry in entries:
        if gathered and (isinstance(entry, tuple) or size_bytes >= CHUNK_BYTES):
            yield _unit(gathered)
            gathered, size_bytes = [], 0
        if isinstance(entry, tuple):
            file, skip = entry
            yield None, file.path, file.size_bytes, file.checksum, skip
        else:
            gathered.append(entry)
            size_bytes += entry.nbytes
    if gathered:
        yield _unit(gathered)


def _unit(batches: list[pa.RecordBatch]) -> tuple[Any, ...]:
    # Together, because a loop is fed many small batches.
    table = pa.Table.from_batches(batches).combine_chunks()
    return bytes_of(table.to_batches()), None, None, None, 0


def with_rows(units: OperatorUnits, read: Callable[[FileRef], bytes]) -> OperatorUnits:
    """The units of a log with all rows in them, for readers without the job's files."""
    whole = []
    for unit in values_in(FEEDBACK, units):
        if unit.path is None:
            whole.append(tuple(unit))
            continue
        data = read(FileRef(unit.path, unit.size, unit.checksum))
        batches = without(rows_of(data), unit.skip)
        if batches:
            whole.append(_unit(batches))
    return to_units(FEEDBACK, whole)


def without(batches: Iterable[pa.RecordBatch], skip: int) -> list[pa.RecordBatch]:
    """All but the first rows."""
    kept = []
    for batch in batches:
        left = batch.slice(min(skip, batch.num_rows))
        skip -= batch.num_rows - left.num_rows
        if left.num_rows:
            kept.append(left)
    return kept
