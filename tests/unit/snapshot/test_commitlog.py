from __future__ import annotations

from dataclasses import replace

import pytest

from mainstay.errors import (
    OutcomeUnknownError,
    ProtocolError,
    RestoreError,
    SnapshotStorageError,
)
from mainstay.snapshot.commitlog import (
    Begin,
    ClaimOutcome,
    Ended,
    EpochCommitted,
    Finished,
    History,
    Record,
    SavepointTaken,
    claim_slot,
    delete_slots,
    read_history,
    slots_below,
)
from mainstay.snapshot.history import Facts
from mainstay.snapshot.layout import log_slot
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.slots import Slot, encode_slot
from mainstay.snapshot.storage import BytesLike
from tests.unit.snapshot.old_slots import old_slot


def begin(attempt: int, restored_from: int | None = None, next_epoch: int = 1) -> Begin:
    return Begin(attempt, f"leader-{attempt}", restored_from, "l1", "words", 128, "h1", next_epoch)


def epoch(number: int, attempt: int) -> EpochCommitted:
    return EpochCommitted(number, attempt, FileRef(f"epochs/{number}", 10, "crc32:00000000"))


def lineage(history: History) -> list[int]:
    return [record.epoch for record in history.lineage_epochs()]


def latest(history: History) -> int | None:
    return history.latest_epoch.epoch if history.latest_epoch else None


TWO_EPOCHS: list[Record] = [begin(1), epoch(1, 1), epoch(2, 1)]


def test_an_empty_history_begins_at_the_beginning() -> None:
    history = History()
    assert history.next_slot == 0
    assert history.next_attempt == 1
    assert history.next_epoch == 1
    assert history.last_begin is None
    assert latest(history) is None
    assert lineage(history) == []
    assert not history.finished


def test_epochs_of_an_attempt_follow_each_other() -> None:
    history = History([begin(1), epoch(1, 1), epoch(2, 1)])
    assert lineage(history) == [1, 2]
    assert latest(history) == 2
    assert history.next_epoch == 3
    assert history.next_attempt == 2
    assert history.next_slot == 3
    assert history.last_begin == begin(1)


def test_a_restart_goes_on_from_the_last_epoch() -> None:
    history = History([begin(1), epoch(1, 1), epoch(2, 1), begin(2, 2, 5), epoch(5, 2)])
    assert lineage(history) == [1, 2, 5]


def test_a_begin_reserves_the_epoch_numbers_below_its_own() -> None:
    history = History([begin(1), epoch(1, 1), begin(2, 1, next_epoch=9)])
    assert history.next_epoch == 9
    assert history.with_record(begin(3, 1, next_epoch=4)).next_epoch == 9


def test_restoring_an_older_epoch_cuts_off_the_later_ones() -> None:
    history = History([begin(1), epoch(1, 1), epoch(2, 1), epoch(3, 1), begin(2, 1, 4)])
    assert lineage(history) == [1]
    assert latest(history) == 1
    assert history.next_epoch == 4
    assert lineage(history.with_record(epoch(4, 2))) == [1, 4]


def test_restoring_a_cut_off_epoch_brings_its_ancestors_back() -> None:
    history = History(
        [
            *(begin(1), epoch(1, 1), epoch(2, 1), epoch(3, 1)),
            *(begin(2, 1, 4), epoch(4, 2), epoch(5, 2)),
            *(begin(3, 3, 6), epoch(6, 3)),
        ]
    )
    assert lineage(history) == [1, 2, 3, 6]
    assert history.epoch(5) == epoch(5, 2)
    assert history.epoch(7) is None


def test_a_begin_that_restores_nothing_starts_an_empty_lineage() -> None:
    history = History([begin(1), epoch(1, 1), begin(2, None, 2)])
    assert lineage(history) == []
    assert latest(history) is None
    assert history.next_epoch == 2


def test_a_job_is_finished_once_its_last_epoch_is() -> None:
    history = History([begin(1), epoch(1, 1)])
    assert not history.finished
    assert history.with_record(Finished(1, 1)).finished


def test_restoring_a_finished_job_leaves_it_finished() -> None:
    history = History([begin(1), epoch(1, 1), epoch(2, 1), Finished(2, 1)])
    assert history.with_record(begin(2, 2, 3)).finished
    assert not history.with_record(begin(2, 1, 3)).finished
    assert not history.with_record(begin(2, 2, 3)).with_record(epoch(3, 2)).finished


def test_what_a_job_has_come_to_holds_until_the_next_begin() -> None:
    history = History([begin(1), epoch(1, 1)])
    assert history.ended is None
    finished = history.with_record(Finished(1, 1))
    assert finished.ended == Ended("finished", 1)
    assert finished.with_record(begin(2, 1, 2)).ended is None
    failed = history.with_record(Ended("failed", 1, 2.5, "why"))
    assert failed.ended == Ended("failed", 1, 2.5, "why")
    assert (lineage(failed), failed.finished) == ([1], False)
    assert failed.with_record(begin(2, 1, 2)).ended is None


def test_only_the_attempt_that_owns_the_log_can_end_the_job() -> None:
    history = History([begin(1), epoch(1, 1), begin(2, 1, 2)])
    with pytest.raises(ProtocolError, match="the attempt that owns the log is 2"):
        history.with_record(Ended("stopped", 1))


def test_a_savepoint_changes_nothing_else() -> None:
    history = History([begin(1), epoch(1, 1), epoch(2, 1)])
    longer = history.with_record(SavepointTaken("s", 1, FileRef("p", 1, "c")))
    assert longer.next_slot == 4
    assert lineage(longer) == [1, 2]


def test_adding_a_record_leaves_the_shorter_history_as_it_was() -> None:
    history = History([begin(1), epoch(1, 1)])
    longer = history.with_record(epoch(2, 1)).with_record(Finished(2, 1))
    assert (lineage(history), history.finished, history.next_slot) == ([1], False, 2)
    assert (lineage(longer), longer.finished, longer.next_slot) == ([1, 2], True, 4)
    assert longer.recent == (begin(1), epoch(1, 1), epoch(2, 1), Finished(2, 1))


@pytest.mark.parametrize(
    ("known", "record"),
    [
        ([], epoch(1, 1)),
        ([], Finished(1, 1)),
        ([begin(1)], epoch(1, 2)),
        ([begin(1), begin(2)], epoch(1, 1)),
        ([begin(1), epoch(2, 1)], epoch(2, 1)),
        ([begin(1), epoch(2, 1)], epoch(1, 1)),
        ([begin(1, next_epoch=5)], epoch(4, 1)),
        ([begin(1), epoch(2, 1), begin(2, 2)], epoch(2, 2)),
        ([begin(1)], begin(1)),
        ([begin(2)], begin(1)),
        ([begin(1)], begin(2, restored_from=1)),
        ([begin(1), epoch(1, 1), epoch(2, 1)], Finished(1, 1)),
        ([begin(1), epoch(1, 1), begin(2, 1)], Finished(1, 1)),
        ([begin(1)], SavepointTaken("s", 1, FileRef("p", 1, "c"))),
    ],
)
def test_a_record_that_cannot_follow_is_a_broken_protocol(
    known: list[Record], record: Record
) -> None:
    with pytest.raises(ProtocolError, match=f"slot {len(known)} of the commit log cannot be"):
        History(known).with_record(record)


def test_a_broken_protocol_prints_what_came_before() -> None:
    with pytest.raises(ProtocolError, match="leader-41"):
        History([begin(41), epoch(1, 42)])


def test_an_empty_storage_has_an_empty_history() -> None:
    assert read_history(MemoryStorage()).next_slot == 0


def stored(records: list[Record], storage: MemoryStorage | None = None) -> MemoryStorage:
    """A log that holds these records."""
    storage = storage or MemoryStorage()
    history = read_history(storage)
    for number, record in enumerate(records, history.next_slot):
        assert claim_slot(storage, history, record, f"t{number}") is ClaimOutcome.WON
        history = history.with_record(record, f"t{number}")
    return storage


def test_a_history_that_was_stored_is_read_back() -> None:
    records: list[Record] = [begin(1), *(epoch(number, 1) for number in range(1, 12))]
    storage = stored(records)
    storage.write("log/notes.txt", b"left by someone else")
    assert read_history(storage).facts == replace(History(records).facts, last_claim="t11")


def test_the_newest_slot_is_the_whole_history() -> None:
    storage = stored([*TWO_EPOCHS, SavepointTaken("s", 1, FileRef("p", 1, "c")), begin(2, 2, 3)])
    known = read_history(storage).facts
    for index in (0, 1, 2, 3):
        storage.delete(log_slot(index))
    assert read_history(storage).facts == known


class OldLog(MemoryStorage):
    """A log as versions before format 4 wrote it: each slot with its record alone."""

    def __init__(self, records: list[Record]) -> None:
        super().__init__()
        for index, record in enumerate(records):
            self.write(log_slot(index), old_slot(record))


def test_a_log_of_an_older_version_is_read_slot_by_slot() -> None:
    assert lineage(read_history(OldLog(TWO_EPOCHS))) == [1, 2]


def test_the_first_new_slot_of_an_old_log_holds_it_all() -> None:
    storage = OldLog(TWO_EPOCHS)
    stored([begin(2, 2, 3)], storage)
    delete_slots(storage, slots_below(storage, 3))
    history = read_history(storage)
    assert lineage(history) == [1, 2]
    assert history.next_slot == 4
    assert [each.epochs for each in history.attempts] == [2, 0]


@pytest.mark.parametrize("missing", [0, 1])
def test_a_gap_in_the_log_of_an_older_version_is_reported_by_name(missing: int) -> None:
    storage = OldLog(TWO_EPOCHS)
    storage.delete(log_slot(missing))
    with pytest.raises(RestoreError, match=rf"{log_slot(missing)} is missing"):
        read_history(storage)


def test_a_slot_that_the_listing_skipped_is_still_read() -> None:
    class Skipping(OldLog):
        def list(self, prefix: str) -> list[str]:
            return [path for path in super().list(prefix) if path != log_slot(1)]

    assert lineage(read_history(Skipping(TWO_EPOCHS))) == [1, 2]


def test_of_two_leaders_one_wins_the_slot() -> None:
    storage, empty = MemoryStorage(), History()
    assert claim_slot(storage, empty, begin(1), "first") is ClaimOutcome.WON
    assert claim_slot(storage, empty, begin(2), "second") is ClaimOutcome.LOST
    assert read_history(storage).last_begin == begin(1)


# ---------------------------------------------------------------- a log that does not grow


def test_a_slot_that_was_deleted_cannot_be_won_again() -> None:
    storage = stored([begin(1), epoch(1, 1)])
    asleep = read_history(storage)
    stored([begin(2, 1, 2), *(epoch(number, 2) for number in range(2, 9))], storage)
    delete_slots(storage, slots_below(storage, 7))
    known = read_history(storage).facts
    assert claim_slot(storage, asleep, epoch(2, 1), "late") is ClaimOutcome.LOST
    assert read_history(storage).facts == known


def test_the_first_leader_cannot_win_the_second_slot_again_after_it_was_deleted() -> None:
    storage = stored([begin(1)])
    asleep = read_history(storage)
    stored([begin(2), *(epoch(number, 2) for number in range(1, 9))], storage)
    delete_slots(storage, slots_below(storage, 7))
    assert claim_slot(storage, asleep, epoch(1, 1), "late") is ClaimOutcome.LOST


def test_a_slot_behind_one_that_was_won_in_vain_cannot_be_won_either() -> None:
    storage = stored([begin(1), epoch(1, 1)])
    one = read_history(storage)
    stored([begin(2, 1, 2)], storage)
    other = read_history(storage)
    stored([epoch(number, 2) for number in range(2, 9)], storage)
    delete_slots(storage, slots_below(storage, 7))
    assert claim_slot(storage, one, epoch(2, 1), "late") is ClaimOutcome.LOST
    assert claim_slot(storage, other, begin(3, 1, 2), "later") is ClaimOutcome.LOST


def test_a_leader_that_saw_no_log_at_all_cannot_begin_after_slots_were_deleted() -> None:
    storage = stored([begin(1), *(epoch(number, 1) for number in range(1, 9))])
    delete_slots(storage, slots_below(storage, 8))
    assert claim_slot(storage, History(), begin(1), "late") is ClaimOutcome.LOST


def test_slots_are_deleted_lowest_first_and_a_failure_leaves_no_hole() -> None:
    class Failing(MemoryStorage):
        def delete(self, *paths: str) -> None:
            if log_slot(3) in paths:
                raise SnapshotStorageError("not now")
            super().delete(*paths)

    storage = Failing()
    stored([begin(1), *(epoch(number, 1) for number in range(1, 9))], storage)
    with pytest.raises(SnapshotStorageError, match="not now"):
        delete_slots(storage, reversed_slots := slots_below(storage, 8)[::-1])
    assert reversed_slots[0] == 7
    assert storage.list("log/") == [log_slot(index) for index in (0, 3, 4, 5, 6, 7, 8)]


def test_a_reader_that_is_outrun_by_deletions_reads_the_newer_slot() -> None:
    class Outrun(MemoryStorage):
        is_outrun = False

        def list(self, prefix: str) -> list[str]:
            found = super().list(prefix)
            if not self.is_outrun:
                self.is_outrun = True
                stored([epoch(number, 1) for number in range(2, 9)], self)
                delete_slots(self, slots_below(self, 8))
            return found

    storage = Outrun()
    storage.is_outrun = True
    stored([begin(1), epoch(1, 1)], storage)
    storage.is_outrun = False
    assert latest(read_history(storage)) == 8


def test_a_history_is_as_large_after_many_epochs_as_after_some() -> None:
    history = History([begin(1)])
    sizes = []
    for number in range(1, 400):
        history = history.with_record(epoch(number, 1), "token").kept(20)
        sizes.append(len(encode_slot(Slot(epoch(number + 1, 1), "token", history.facts))))
    assert lineage(history) == list(range(380, 400))
    assert history.completed == 399
    assert max(sizes[30:]) <= max(sizes[:30]) * 1.1


def test_a_history_forgets_old_attempts_and_savepoints() -> None:
    history = History()
    for number in range(1, 200):
        history = history.with_record(begin(number)).with_record(epoch(number, number))
        saved = SavepointTaken(f"s{number}", number, FileRef("p", 1, "c"))
        history = history.with_record(saved).kept(1)
    assert [each.begin.attempt for each in history.attempts][-1] == 199
    assert (len(history.attempts), len(history.savepoints)) == (20, 50)
    assert history.next_attempt == 200


def test_a_savepoint_of_an_epoch_that_is_forgotten_still_counts() -> None:
    history = History([begin(1), *(epoch(number, 1) for number in range(1, 50))]).kept(3)
    longer = history.with_record(SavepointTaken("slow", 2, FileRef("p", 1, "c")))
    assert [each.name for each in longer.savepoints] == ["slow"]


def test_epochs_beside_the_lineage_are_known_as_long_as_those_of_it() -> None:
    branch = [epoch(number, 1) for number in range(2, 30)]
    history = History([begin(1), epoch(1, 1), *branch, begin(2, 1, 30), epoch(30, 2)]).kept(3)
    assert lineage(history) == [1, 30]
    assert [record.epoch for record in history.lineage_epochs(29)] == list(range(22, 30))


class Flaky(MemoryStorage):
    """Fails every create with an unknown outcome, after storing or before."""

    def __init__(self, stores: bool) -> None:
        super().__init__()
        self.stores = stores

    def create(self, path: str, data: BytesLike) -> bool:
        if self.stores:
            super().create(path, data)
        raise OutcomeUnknownError("the connection was lost")


def test_an_unknown_outcome_is_won_when_our_claim_is_in_the_slot() -> None:
    assert claim_slot(Flaky(stores=True), History(), begin(1), "mine") is ClaimOutcome.WON


def test_an_unknown_outcome_is_lost_when_another_claim_is_in_the_slot() -> None:
    storage = Flaky(stores=True)
    storage.write(log_slot(0), encode_slot(Slot(begin(1), "theirs", Facts())))
    assert claim_slot(storage, History(), begin(1), "mine") is ClaimOutcome.LOST


def test_an_unknown_outcome_stays_unknown_while_the_slot_is_empty() -> None:
    storage = Flaky(stores=False)
    with pytest.raises(OutcomeUnknownError, match=r"log/0000000000.*connection was lost"):
        claim_slot(storage, History(), begin(1), "mine")
    storage.stores = True
    assert claim_slot(storage, History(), begin(1), "mine") is ClaimOutcome.WON


def test_an_unknown_outcome_stays_unknown_while_the_slot_cannot_be_read() -> None:
    class Unreadable(Flaky):
        def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
            raise SnapshotStorageError("still no connection")

    with pytest.raises(OutcomeUnknownError, match="log/0000000000"):
        claim_slot(Unreadable(stores=True), History(), begin(1), "mine")


def test_claiming_again_after_winning_is_winning() -> None:
    storage = MemoryStorage()
    claim_slot(storage, History(), begin(1), "mine")
    assert claim_slot(storage, History(), begin(1), "mine") is ClaimOutcome.WON


def test_one_claim_for_two_records_is_a_broken_protocol() -> None:
    storage = MemoryStorage()
    claim_slot(storage, History(), begin(1), "mine")
    with pytest.raises(ProtocolError, match="log/0000000000"):
        claim_slot(storage, History(), begin(2), "mine")


def test_a_storage_that_refuses_to_create_is_not_mistaken_for_a_lost_slot() -> None:
    class Refusing(MemoryStorage):
        def create(self, path: str, data: BytesLike) -> bool:
            raise SnapshotStorageError("this folder is read-only")

    with pytest.raises(SnapshotStorageError, match="read-only"):
        claim_slot(Refusing(), History(), begin(1), "mine")
