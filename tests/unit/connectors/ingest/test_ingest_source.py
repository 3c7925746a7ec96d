"""The source that reads the ingest log: what it plans, forgets, and lets be deleted."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence

import pytest

import mainstay as ms
from mainstay.connectors.ingest.log import Mark
from mainstay.connectors.ingest.retention import IngestRetention, first_needed
from mainstay.errors import (
    SourceError,
)
from mainstay.runtime.coordinator.splits import SplitBook
from mainstay.runtime.own_states import SPLITS
from mainstay.snapshot.layout import manifest_path
from mainstay.snapshot.manifest import Manifest, OperatorState, SubtaskState
from mainstay.state.operator import to_units
from mainstay.testing import run
from tests.unit.connectors.ingest.logs import UID, Written, read, read_all

# ---------------------------------------------------------------- the source


@pytest.mark.parametrize("offset", [0, 1, 9, 10, 11, 24])
def test_a_file_is_read_from_any_row_on(written: Written, offset: int) -> None:
    written.add(0, range(25))
    (split,) = written.source().plan(frozenset())
    assert read(written.source(), split, offset) == list(range(offset, 25))


def test_planning_gives_only_what_was_added_since(written: Written) -> None:
    source = written.source()
    written.add(0, [1])
    seen = frozenset(split.id for split in source.plan(frozenset()))
    written.add(1, [2])
    assert [split.id for split in source.plan(seen)] == ["1/0"]
    assert read_all(source, seen) == [2]


def test_a_bounded_source_is_not_planned_before_its_log_is_sealed(written: Written) -> None:
    written.add(0, [1])
    with pytest.raises(SourceError, match="to the end"):
        written.source(bounded=True).plan(frozenset())
    written.log.seal()
    written.log.seal()
    assert read_all(written.source(bounded=True)) == [1]


def test_a_source_can_be_shipped_after_it_was_used(written: Written) -> None:
    written.add(0, [1])
    source = written.source()
    assert read_all(pickle.loads(pickle.dumps(source))) == read_all(source) == [1]


def test_a_sealed_log_runs_through_a_job_with_crashes(written: Written) -> None:
    written.log.commit(0, None, written.files(0, range(200), file_bytes=300))
    written.log.seal()

    def build(env: ms.Environment) -> None:
        stream = env.source(written.source(bounded=True), uid=UID)
        stream.map(lambda row: (row.n,), "n long", uid="same").sink(
            ms.connectors.Memory(), uid="out"
        )

    result = run(build, seed=3, crashes=2, parallelism=2)
    assert sorted(result.output("out")) == [(n,) for n in range(200)]


# ---------------------------------------------------------------- forgetting


def test_what_is_deleted_from_the_log_is_forgotten_but_for_its_end(written: Written) -> None:
    source = written.source()
    for batch in range(4):
        written.log.commit(batch, "query", written.files(batch, range(40), file_bytes=200))
    seen = frozenset(split.id for split in source.plan(frozenset()))
    assert not source.forget(seen), "all of it is there"
    written.log.truncate(2)
    assert not source.plan(seen)
    assert set(source.forget(seen)) == {"0/0", "0/1", "1/0"}
    kept = seen.difference(source.forget(seen))
    assert not written.source().plan(kept), "a job restored with what is kept goes on"


def test_the_end_is_kept_while_batches_without_rows_follow(written: Written) -> None:
    source = written.source()
    written.add(0, [1])
    for batch in (1, 2, 3):
        written.log.commit(batch, "query", [])
    seen = frozenset(split.id for split in source.plan(frozenset()))
    for keep_from in (1, 2, 3):
        written.log.truncate(keep_from)
        source.plan(seen)
        assert seen.difference(source.forget(seen)) == {"0/0"}
    assert first_needed(manifest_of(["0/0"], []), UID) == 1


def test_a_log_that_is_read_for_long_leaves_few_ids_behind(written: Written) -> None:
    source, book = written.source(), SplitBook(1, bounded=False, notes=None)
    for batch in range(200):
        written.add(batch, [batch])
        book.assign(source.plan(book.seen))
        book.forget(source.forget(book.seen))
        written.log.truncate(first_needed(manifest_of(book.notes()["seen"], []), UID) - 3)
    assert len(book.seen) <= 5


# ---------------------------------------------------------------- deleting


def manifest_of(seen: Sequence[str], unfinished: Sequence[str], epoch: int = 1) -> Manifest:
    units = to_units(SPLITS, [json.dumps({"id": id}) for id in unfinished])
    part = SubtaskState(0, (), {SPLITS.name: units})
    operator = OperatorState(UID, 1, None, (), (part,))
    sources = {UID: {"seen": list(seen), "complete": False}}
    return Manifest(
        "job", "job", epoch, 1, "exactly_once", 128, "hash", 0.0, {UID: operator}, sources
    )


@pytest.mark.parametrize(
    ("seen", "unfinished", "needed"),
    [
        ([], [], 0),
        (["0/0"], ["0/0"], 0),
        (["0/0", "0/1"], ["0/1"], 0),
        (["0/0", "0/1"], [], 1),
        (["0/0", "1/0", "2/0", "10/0"], ["2/0", "10/0"], 2),
        (["0/0", "9/0", "10/0"], [], 11),
    ],
)
def test_the_first_batch_that_an_epoch_needs(
    seen: list[str], unfinished: list[str], needed: int
) -> None:
    assert first_needed(manifest_of(seen, unfinished), UID) == needed
    assert first_needed(manifest_of(seen, unfinished), "another source") == 0


def test_truncation_deletes_slots_and_all_files_below_and_nothing_else(written: Written) -> None:
    for batch in range(4):
        written.files(batch, [-1])  # an attempt that lost
        written.add(batch, [batch])
    assert written.log.truncate(2) == 2
    assert written.log.batches() == [2, 3]
    assert len(written.data()) == 4
    assert written.log.truncate(2) == 0
    assert read_all(written.source(), frozenset(["0/0", "1/0"])) == [2, 3]


def test_the_newest_batch_stays_for_the_next_to_build_on(written: Written) -> None:
    for batch in range(3):
        written.add(batch, [batch])
    written.log.truncate(99)
    assert written.log.batches() == [2]
    written.add(3, [3])
    assert written.log.batches() == [2, 3]


def test_a_start_that_would_need_deleted_rows_is_refused(written: Written) -> None:
    for batch in range(3):
        written.add(batch, [batch])
    written.log.truncate(2)
    with pytest.raises(SourceError, match="begins with batch 2"):
        written.source().plan(frozenset(["0/0"]))


def store(written: Written, epoch: int, seen: Sequence[str], unfinished: Sequence[str]) -> None:
    manifest = manifest_of(seen, unfinished, epoch)
    written.storage.write(manifest_path(epoch, 1), manifest.to_bytes())


def test_what_an_older_retained_epoch_needs_is_kept(written: Written) -> None:
    for batch in range(4):
        written.add(batch, [batch])
    size = written.log.slot(0).bytes_after  # type: ignore[union-attr]
    store(written, 1, ["0/0", "1/0"], ["1/0"])
    store(written, 2, ["0/0", "1/0", "2/0"], [])
    retention = IngestRetention(written.storage, UID)
    retention.advance()
    assert written.log.batches() == [1, 2, 3]
    assert written.log.mark() == Mark(read_bytes=3 * size)

    written.storage.delete(manifest_path(1, 1))
    retention.advance()
    assert written.log.batches() == [3]


def test_everything_read_is_everything_released(written: Written) -> None:
    written.add(0, [0])
    written.add(1, [1])
    store(written, 1, ["0/0", "1/0"], [])
    IngestRetention(written.storage, UID).advance()
    assert written.log.mark().read_bytes == written.log.slot(1).bytes_after  # type: ignore[union-attr]


def test_nothing_is_deleted_while_there_is_no_epoch(written: Written) -> None:
    written.add(0, [0])
    written.add(1, [1])
    IngestRetention(written.storage, UID).advance()
    assert written.log.batches() == [0, 1]


def test_moving_the_mark_does_not_take_back_that_the_job_ends(written: Written) -> None:
    written.add(0, [0])
    written.log.set_mark(Mark(is_closing=True))
    store(written, 1, ["0/0"], [])
    IngestRetention(written.storage, UID).advance()
    assert written.log.mark().is_closing
    assert written.log.mark().read_bytes > 0
