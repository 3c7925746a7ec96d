"""Looking keys up in a state at an epoch: of the files, little more than their rows is read.

A segment that is a state file is asked for one chunk of it. What a backend stores in a way of its
own is read by key-group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import DamagedFileError
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.open_files import OpenFiles
from mainstay.inspect.reading import StateView
from mainstay.snapshot.manifest import PARQUET, SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.state.by_key import place_in_group
from mainstay.state.codes import codes_of
from mainstay.state.elements import without_expired
from mainstay.state.hashing import groups_of, hash_columns
from mainstay.state.segments import check_readable
from mainstay.state.stored_key import KEY
from mainstay.state.whole import to_whole


@dataclass(frozen=True, slots=True)
class SoughtKey:
    """A key that is looked for: as a column of one row, its hash, and where rows of it are."""

    column: pa.Array
    hash: int
    group: int
    place: int

    def rows_in(self, rows: StateTable) -> StateTable:
        """The rows of this very key."""
        keys = rows.table.column(KEY).combine_chunks()
        alike = np.flatnonzero(hash_columns([keys]) == np.uint64(self.hash))
        if len(alike):
            both = pa.concat_arrays([self.column, keys.take(pa.array(alike))])
            codes = codes_of(both)
            alike = alike[codes[1:] == codes[0]]
        return replace(
            rows, table=rows.table.take(pa.array(alike)), groups=rows.groups[alike], hashes=None
        )


def sought(columns: StateColumns, keys: Sequence[tuple[Any, ...]], groups: int) -> list[SoughtKey]:
    """Keys, each given as the values of the key's columns, of a state with so many key-groups."""
    joined = columns.joined_key(columns.key_arrays(keys))
    hashes = hash_columns([joined])
    of_keys, places = groups_of(hashes, groups), place_in_group(hashes)
    found = zip(hashes.tolist(), of_keys.tolist(), places.tolist(), strict=True)
    return [SoughtKey(joined.slice(n, 1), *each) for n, each in enumerate(found)]


def look_up(view: StateView, files: OpenFiles, keys: Sequence[tuple[Any, ...]]) -> pa.Table:
    """What is kept for some keys, in their order, as it is shown; nothing of those not there."""
    columns = view.columns
    refs, horizon_us = view.refs(), view.horizon_us()
    found: dict[int, pa.Table] = {}
    wanted = sought(columns, keys, view.key_groups)
    # In the order of the files, so that a chunk is read once for all keys in it.
    order = sorted(range(len(wanted)), key=lambda n: (wanted[n].group, wanted[n].place))
    for number in order:
        key = wanted[number]
        chain = [ref for each in refs if (ref := each.clipped(key.group, key.group)) is not None]
        parts = [key.rows_in(part) for ref in chain for part in _parts(view, files, ref, key)]
        check_readable(files.storage, chain)
        if horizon_us is not None:
            parts = [without_expired(part, columns.stored_as, horizon_us) for part in parts]
        whole = to_whole(parts, columns.stored_as)
        if whole is not None:
            found[number] = columns.shown(whole)
    nothing = pa.schema(columns.fields()).empty_table()
    return pa.concat_tables([nothing, *(found[number] for number in sorted(found))])


def _parts(
    view: StateView, files: OpenFiles, ref: SegmentRef, key: SoughtKey
) -> Iterator[StateTable]:
    name = view.columns.schema.name
    try:
        if ref.is_backends_own or ref.format == PARQUET:
            yield from files.read(ref, name)
            return
        file = files.open(ref)
        if name in file.states:
            yield file.find(name, key.group, key.place)
    except DamagedFileError as error:
        view.check_kept(files.storage)
        raise DamagedFileError(f"{view.columns.label} at {view.place!r}: {error}") from error
