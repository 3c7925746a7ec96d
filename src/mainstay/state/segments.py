"""Reading segments: the rows of a segment, whatever the format of its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from mainstay.errors import RestoreError
from mainstay.snapshot.manifest import CHECKPOINT, EXTERNAL, PARQUET, SegmentRef
from mainstay.snapshot.savepoint_files import read_keyed
from mainstay.snapshot.statefile import StateTable, open_state_file
from mainstay.snapshot.storage import Storage
from mainstay.state.compaction import LoadedPart, Part, StoredPart
from mainstay.state.dropping import without_dropped
from mainstay.state.whole import to_rows

ReadOwn = Callable[[Storage, SegmentRef], Iterable[StateTable]]
ReadRef = Callable[[SegmentRef], Iterator[StateTable]]

OWN_FORMATS: dict[str, str | ReadOwn] = {
    CHECKPOINT: "mainstay.state.backends.rocksdb.checkpoint:read_checkpoint",
    EXTERNAL: "mainstay.state.backends.external.descriptor:read_external",
}
"""What reads the bases that a backend writes in a format of its own: a function, or its name. A
backend is imported when the first of its bases is read."""

OWN_CHECKS: dict[str, str] = {
    EXTERNAL: "mainstay.state.backends.external.descriptor:check_chain",
}
"""What says whether a chain with such bases can still be read, where that may change."""


def check_readable(storage: Storage, chain: Sequence[SegmentRef]) -> None:
    """Refuse a chain whose state is nowhere any more.

    Who reads one asks when it has read it: what is asked before may be over soon.
    """
    for format in {ref.format for ref in chain} & OWN_CHECKS.keys():
        _imported(OWN_CHECKS[format])(storage, chain)


def read_segment(
    storage: Storage, ref: SegmentRef, only: str | None = None
) -> Iterator[StateTable]:
    """The rows of a segment that may be applied, checked against the manifest.

    The rows of a state come in order, in tables of which each fits into arrays. With ``only`` the
    rows of other states need not be read.
    """
    for table in _read(storage, ref, only):
        if only is None or table.name == only:
            yield from table.in_arrays()


def _read(storage: Storage, ref: SegmentRef, only: str | None) -> Iterable[StateTable]:
    if ref.is_backends_own:
        return _reader_of(ref)(storage, ref)
    if ref.format == PARQUET:
        return map(to_rows, read_keyed(storage, ref.file, ref.first_group, ref.last_group))
    file = open_state_file(storage, ref.file)
    names = [name for name in file.states if only is None or name == only]
    return [file.read(name, ref.first_group, ref.last_group) for name in names]


def _reader_of(ref: SegmentRef) -> ReadOwn:
    found = OWN_FORMATS.get(ref.format)
    if found is None:
        raise RestoreError(
            f"{ref.file.path} is a base in the format {ref.format!r}, which this version of "
            f"Mainstay does not read. It reads {', '.join(sorted(OWN_FORMATS))}."
        )
    if isinstance(found, str):
        reader: ReadOwn = _imported(found)
        return reader
    return found


def _imported(named: str) -> Any:
    module, _, name = named.partition(":")
    return getattr(import_module(module), name)


def read_chain(storage: Storage, chain: tuple[SegmentRef, ...]) -> list[StateTable]:
    """The rows of a whole chain, in the order they must be applied."""
    found = [table for ref in chain for table in read_segment(storage, ref)]
    check_readable(storage, chain)
    return found


def read_undropped(storage: Storage, chain: Sequence[SegmentRef]) -> ReadRef:
    """Reads the segments of a chain, each without what later ones drop of it, and without drops.

    For who gives rows other keys: a drop is of the key-groups that they were stored in.
    """
    files = [each for each in chain if not each.is_backends_own and each.format != PARQUET]
    opened = {each: open_state_file(storage, each.file) for each in files}

    def read(ref: SegmentRef) -> Iterator[StateTable]:
        later = [(each, opened[each]) for each in chain[chain.index(ref) + 1 :] if each in opened]
        for rows in read_segment(storage, ref):
            drops = [
                drop
                for each, file in later
                if rows.name in file.states
                for drop in file.drops(rows.name, each.first_group, each.last_group)
            ]
            yield replace(without_dropped(rows, drops), drops=())

    return read


def part_of(storage: Storage, ref: SegmentRef) -> Part:
    """A segment for a compaction: what is stored by key-group is read by key-group."""
    if ref.is_backends_own or ref.format == PARQUET:
        return LoadedPart(read_segment(storage, ref))
    return StoredPart(open_state_file(storage, ref.file), ref)
