"""Checks the state in a database against the commit log of a job that had several leaders.

A look at the database comes before the look at the log: so the log knows of all that is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from mainstay.errors import SnapshotStorageError
from mainstay.snapshot.history import Begin, EpochCommitted, Record
from mainstay.snapshot.layout import LOG_PREFIX
from mainstay.snapshot.manifest import Manifest, SegmentRef
from mainstay.snapshot.slots import decode_slot
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.external.store import Applied
from mainstay.state.hashing import key_groups
from tests.drive.ledger import KEYS
from tests.ha.external_job import UID, Rows, reference
from tests.ha.external_looks import Seen

GROUPS = 128
GROUP_OF = dict(enumerate(map(int, key_groups([pa.array(range(KEYS))], GROUPS))))


@dataclass
class Log:
    """The commit log of a job, with the manifests of all epochs of its lineage.

    Those that are deleted are in ``archive``.
    """

    storage: Storage
    archive: Path
    count: int
    records: list[Record] = field(default_factory=list)
    lineage: dict[int, Manifest] = field(default_factory=dict)
    _segments: dict[int, list[SegmentRef]] = field(default_factory=dict)
    _rows: dict[int, Rows] = field(default_factory=dict)

    def read_on(self) -> None:
        paths = self.storage.list(LOG_PREFIX)
        for index in range(len(self.records), len(paths)):
            path = paths[index]
            record = decode_slot(self.storage.read(path), index, path).record
            self.records.append(record)
            self._note(record)

    def _note(self, record: Record) -> None:
        if isinstance(record, Begin):
            # What is beside the lineage does not count.
            since = record.restored_from or 0
            self.lineage = {e: m for e, m in self.lineage.items() if e <= since}
        elif isinstance(record, EpochCommitted):
            manifest = self.lineage[record.epoch] = self._manifest(record.manifest.path)
            chains = [subtask.chain for subtask in manifest.operators[UID].subtasks]
            self._segments[record.epoch] = [r for chain in chains for r in chain if not r.is_base]
            self._rows.pop(record.epoch, None)

    def _manifest(self, path: str) -> Manifest:
        try:
            data = self.storage.read(path)
        except (SnapshotStorageError, FileNotFoundError):
            data = (self.archive / Path(path).name).read_bytes()
        return Manifest.from_bytes(data, path)

    @property
    def attempt(self) -> int:
        return max((r.attempt for r in self.records if isinstance(r, Begin)), default=0)

    def chains(self, group: int) -> dict[int, list[SegmentRef]]:
        """By epoch, the segments that a key-group consists of, without bases."""
        return {
            epoch: [ref for ref in self._segments[epoch] if _has(ref, group)]
            for epoch in self.lineage
        }

    def rows_at(self, epoch: int) -> Rows:
        if epoch not in self._rows:
            self._rows[epoch] = reference(self.lineage[epoch], self.count)
        return self._rows[epoch]


def _has(ref: SegmentRef, group: int) -> bool:
    return ref.first_group <= group <= ref.last_group


def attempt_of(segment: str) -> int:
    """The attempt that has frozen a segment: it is in its name."""
    return int(segment.split("-")[0].removeprefix("a"))


# ---------------------------------------------------------------- at any time


def check_look(seen: Seen, log: Log) -> int:
    """What holds at every moment; returns of how many key-groups the rows were compared, or with
    versions of how many epochs."""
    assert seen.fence <= log.attempt, f"attempt {seen.fence} is admitted, and has not begun"
    for vote in seen.votes:
        # Who raises the fence settles all votes before.
        assert vote.attempt >= seen.fence, f"{vote} is in doubt, and {seen.fence} was admitted"
    compared = 0
    for group in sorted(set(GROUP_OF.values())):
        compared += _check_group(seen, log, group)
    if seen.is_versioned:
        _check_versions(seen, log)
    return len(seen.rows) if seen.is_versioned else compared


def _check_group(seen: Seen, log: Log, group: int) -> bool:
    rows = sorted((r for r in seen.ledger if group in r.groups), key=lambda row: row.number)
    _check_applied_once(rows, group)
    _check_terms_of(rows, group)
    chains = log.chains(group)
    _check_complete(seen, rows, chains, group)
    if chains:
        _check_none_missing(rows, chains[max(chains)], group)
    return not seen.is_versioned and _check_rows_of(seen, log, rows, chains, group)


def _check_applied_once(rows: Sequence[Applied], group: int) -> None:
    segments = [row.segment for row in rows]
    assert len(segments) == len(set(segments)), f"key-group {group} was applied twice: {rows}"
    numbers = [row.number for row in rows]
    assert len(numbers) == len(set(numbers)), f"key-group {group} has a number twice: {rows}"


def _check_terms_of(rows: Sequence[Applied], group: int) -> None:
    for one, next in pairwise(rows):
        is_later = attempt_of(one.segment) <= attempt_of(next.segment) and one.epoch <= next.epoch
        assert is_later, f"key-group {group}: {next} was applied after {one}"


def _check_complete(
    seen: Seen, rows: Sequence[Applied], chains: dict[int, list[SegmentRef]], group: int
) -> None:
    """With versions, what is not complete is there, and nobody sees it."""
    known = {ref.id for chain in chains.values() for ref in chain}
    for row in rows:
        is_hidden = seen.is_versioned and row.epoch > (seen.pointer or 0)
        assert row.segment in known or is_hidden, (
            f"key-group {group}: {row} is of no complete epoch of the lineage"
        )


def _check_none_missing(rows: Sequence[Applied], newest: Sequence[SegmentRef], group: int) -> None:
    """What the newest chain has, up to the last segment that was applied, was applied in order.
    What a base stands for, the ledger may have forgotten."""
    applied = {row.segment: row.number for row in rows}
    is_there = [ref.id in applied for ref in newest]
    assert is_there == sorted(is_there, reverse=True), (
        f"key-group {group}: of {[ref.id for ref in newest]} only {sorted(applied)} were applied"
    )
    numbers = [applied[ref.id] for ref in newest if ref.id in applied]
    assert numbers == sorted(numbers), f"key-group {group}: applied out of order: {applied}"


def _check_rows_of(
    seen: Seen,
    log: Log,
    rows: Sequence[Applied],
    chains: dict[int, list[SegmentRef]],
    group: int,
) -> bool:
    """The rows are those of an epoch whose last segment was applied last. Between the segments of
    one epoch there is nothing to compare with."""
    if not rows:
        return False
    last = rows[-1].segment
    epochs = [epoch for epoch, chain in chains.items() if chain and chain[-1].id == last]
    if epochs:
        keys = [key for key, of_key in GROUP_OF.items() if of_key == group]
        check_rows(seen.rows[None], log.rows_at(epochs[-1]), keys, f"epoch {epochs[-1]}")
    return bool(epochs)


def check_rows(found: Rows, expected: Rows, keys: Iterable[int], where: str) -> None:
    for state, values in expected.items():
        for key in keys:
            one, other = found[state].get(key), values.get(key)
            assert one == other, f"{where}: {state} of key {key} is {one}, and not {other}"


def _check_versions(seen: Seen, log: Log) -> None:
    shown = [*seen.viewable, *([seen.pointer] if seen.pointer else [])]
    for epoch in shown:
        assert epoch in log.lineage, f"epoch {epoch} is shown, and is not complete"
    assert not shown or max(shown) == seen.pointer, f"{shown} beyond the pointer {seen.pointer}"
    for epoch, rows in seen.rows.items():
        assert epoch is not None
        check_rows(rows, log.rows_at(epoch), range(KEYS), f"the view at epoch {epoch}")


def check_order(before: Seen, after: Seen) -> None:
    """Nothing goes back from one look to the next."""
    assert after.fence >= before.fence, f"the fence went from {before.fence} to {after.fence}"
    pointers = (before.pointer or 0, after.pointer or 0)
    assert pointers[0] <= pointers[1], f"the pointer went from {pointers[0]} to {pointers[1]}"


# ---------------------------------------------------------------- at the end


def check_end(seen: Seen, log: Log) -> None:
    """What holds once the job has finished and its workers are gone."""
    last = max(log.lineage)
    assert not seen.votes, f"{seen.votes} are in doubt"
    assert seen.fence == log.attempt, f"attempt {seen.fence} is admitted, and not {log.attempt}"
    assert len(seen.makings) == 1, f"there are tables of several makings: {seen.makings}"
    assert not seen.strange_tables, f"{seen.strange_tables} were left behind"
    for group in set(GROUP_OF.values()):
        _check_all_there(seen, log, group)
    compared = check_look(seen, log)
    if seen.is_versioned:
        assert seen.pointer == last, f"epoch {seen.pointer} is shown, and not {last}"
        assert set(seen.progress) == {log.attempt}, f"progress is of attempts {seen.progress}"
    else:
        assert compared == len(set(GROUP_OF.values())), f"only {compared} key-groups are whole"
        check_rows(seen.rows[None], log.rows_at(last), range(KEYS), f"the end, epoch {last}")


def _check_all_there(seen: Seen, log: Log, group: int) -> None:
    """All of the last epoch was applied, and nothing beside it."""
    applied = {row.segment for row in seen.ledger if group in row.groups}
    chains = log.chains(group)
    missing = {ref.id for ref in chains[max(chains)]} - applied
    assert not missing, f"key-group {group}: {missing} were never applied"
    strange = applied - {ref.id for chain in chains.values() for ref in chain}
    assert not strange, f"key-group {group}: {strange} are of no complete epoch"
