from __future__ import annotations

import json
from typing import Any

import pytest

from mainstay.errors import (
    DamagedFileError,
    OutcomeUnknownError,
    ProtocolError,
    RestoreError,
    SnapshotStorageError,
)
from mainstay.snapshot.commitlog import (
    Begin,
    ClaimOutcome,
    EpochCommitted,
    Finished,
    History,
    Record,
    SavepointTaken,
    claim_slot,
    decode_record,
    encode_record,
    read_history,
)
from mainstay.snapshot.layout import log_slot
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.storage import BytesLike


def begin(attempt: int, restored_from: int | None = None, next_epoch: int = 1) -> Begin:
    return Begin(attempt, f"leader-{attempt}", restored_from, "l1", "words", 128, "h1", next_epoch)


def epoch(number: int, attempt: int) -> EpochCommitted:
    return EpochCommitted(number, attempt, FileRef(f"epochs/{number}", 10, "crc32:00000000"))


def lineage(history: History) -> list[int]:
    return [record.epoch for record in history.lineage_epochs()]


def latest(history: History) -> int | None:
    return history.latest_epoch.epoch if history.latest_epoch else None


RECORDS: list[Record] = [
    begin(1),
    begin(2, restored_from=7, next_epoch=9),
    epoch(7, 1),
    SavepointTaken("before-upgrade", 7, FileRef("savepoints/x", 5, "crc32:12345678")),
    Finished(7, 1),
]

TWO_EPOCHS: list[Record] = [begin(1), epoch(1, 1), epoch(2, 1)]


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_and_its_claim_come_back_from_a_slot(record: Record) -> None:
    assert decode_record(encode_record(record, "token"), "log/0") == (record, "token")


def test_a_slot_is_spelled_the_same_way_by_every_version() -> None:
    assert json.loads(encode_record(epoch(7, 3), "token")) == SLOT


SLOT = {
    "format": 3,
    "kind": "epoch",
    "claim": "token",
    "epoch": 7,
    "attempt": 3,
    "manifest": {"path": "epochs/7", "size_bytes": 10, "checksum": "crc32:00000000"},
    "checksum": "crc32:be580770",
}


def test_a_slot_of_a_version_that_sealed_none_is_read() -> None:
    old = {name: value for name, value in SLOT.items() if name != "checksum"} | {"format": 1}
    assert decode_record(json.dumps(old).encode(), "log/0") == (epoch(7, 3), "token")


def test_every_flipped_bit_of_a_slot_is_noticed_or_harmless() -> None:
    data = encode_record(begin(3), "token")
    for place in range(len(data)):
        for bit in (1, 16):
            flipped = data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]
            found = decoded_or_why_not(flipped)
            assert found == (begin(3), "token") or "log/0000000003" in found, place


def decoded_or_why_not(data: bytes) -> Any:
    try:
        return decode_record(data, "log/0000000003")
    except RestoreError as error:
        return str(error)


def test_a_slot_of_another_format_is_refused_by_name() -> None:
    data = encode_record(begin(1), "token").replace(b'"format": 3', b'"format": 9')
    with pytest.raises(RestoreError, match="log/0000000003 has commit log format 9"):
        decode_record(data, "log/0000000003")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"format": 1}',
        b'{"format": 1, "kind": "strange", "claim": "x"}',
        b'{"format": 1, "kind": "finished", "claim": "x", "epoch": 1}',
        b'{"format": 1, "kind": "epoch", "claim": "x", "epoch": 1, "attempt": 1, "manifest": 3}',
    ],
)
def test_a_damaged_slot_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(DamagedFileError, match="log/0000000003"):
        decode_record(data, "log/0000000003")


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
    assert History([*history.records, begin(3, 1, next_epoch=4)]).next_epoch == 9


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
    assert longer.records == (begin(1), epoch(1, 1), epoch(2, 1), Finished(2, 1))


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


def test_a_history_is_read_in_the_order_of_its_slots() -> None:
    storage = MemoryStorage()
    records: list[Record] = [begin(1), *(epoch(number, 1) for number in range(1, 12))]
    for index, record in enumerate(records):
        assert claim_slot(storage, index, record, f"t{index}") is ClaimOutcome.WON
    storage.write("log/notes.txt", b"left by someone else")
    assert read_history(storage).records == tuple(records)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_gap_in_the_log_is_reported_by_name(missing: int) -> None:
    storage = MemoryStorage()
    for index, record in enumerate(TWO_EPOCHS):
        claim_slot(storage, index, record, "t")
    storage.delete(log_slot(missing))
    with pytest.raises(RestoreError, match=rf"{log_slot(missing)} is missing"):
        read_history(storage)


def test_a_slot_that_the_listing_skipped_is_still_read() -> None:
    class Skipping(MemoryStorage):
        def list(self, prefix: str) -> list[str]:
            return [path for path in super().list(prefix) if path != log_slot(1)]

    storage = Skipping()
    for index, record in enumerate(TWO_EPOCHS):
        claim_slot(storage, index, record, "t")
    assert lineage(read_history(storage)) == [1, 2]


def test_of_two_leaders_one_wins_the_slot() -> None:
    storage = MemoryStorage()
    assert claim_slot(storage, 0, begin(1), "first") is ClaimOutcome.WON
    assert claim_slot(storage, 0, begin(2), "second") is ClaimOutcome.LOST
    assert read_history(storage).last_begin == begin(1)


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
    assert claim_slot(Flaky(stores=True), 0, begin(1), "mine") is ClaimOutcome.WON


def test_an_unknown_outcome_is_lost_when_another_claim_is_in_the_slot() -> None:
    storage = Flaky(stores=True)
    storage.write(log_slot(0), encode_record(begin(1), "theirs"))
    assert claim_slot(storage, 0, begin(1), "mine") is ClaimOutcome.LOST


def test_an_unknown_outcome_stays_unknown_while_the_slot_is_empty() -> None:
    storage = Flaky(stores=False)
    with pytest.raises(OutcomeUnknownError, match=r"log/0000000000.*connection was lost"):
        claim_slot(storage, 0, begin(1), "mine")
    storage.stores = True
    assert claim_slot(storage, 0, begin(1), "mine") is ClaimOutcome.WON


def test_an_unknown_outcome_stays_unknown_while_the_slot_cannot_be_read() -> None:
    class Unreadable(Flaky):
        def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
            raise SnapshotStorageError("still no connection")

    with pytest.raises(OutcomeUnknownError, match="log/0000000000"):
        claim_slot(Unreadable(stores=True), 0, begin(1), "mine")


def test_claiming_again_after_winning_is_winning() -> None:
    storage = MemoryStorage()
    claim_slot(storage, 0, begin(1), "mine")
    assert claim_slot(storage, 0, begin(1), "mine") is ClaimOutcome.WON


def test_one_claim_for_two_records_is_a_broken_protocol() -> None:
    storage = MemoryStorage()
    claim_slot(storage, 0, begin(1), "mine")
    with pytest.raises(ProtocolError, match="log/0000000000"):
        claim_slot(storage, 0, begin(2), "mine")


def test_a_storage_that_refuses_to_create_is_not_mistaken_for_a_lost_slot() -> None:
    class Refusing(MemoryStorage):
        def create(self, path: str, data: BytesLike) -> bool:
            raise SnapshotStorageError("this folder is read-only")

    with pytest.raises(SnapshotStorageError, match="read-only"):
        claim_slot(Refusing(), 0, begin(1), "mine")
