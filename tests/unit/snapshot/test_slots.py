from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from mainstay.errors import DamagedFileError, RestoreError
from mainstay.snapshot.history import (
    Begin,
    Ended,
    EpochCommitted,
    Facts,
    Finished,
    History,
    Record,
    SavepointTaken,
)
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.slots import Slot, decode_slot, encode_slot


def begin(attempt: int, restored_from: int | None = None, next_epoch: int = 1) -> Begin:
    return Begin(attempt, f"leader-{attempt}", restored_from, "l1", "words", 128, "h1", next_epoch)


def epoch(number: int, attempt: int) -> EpochCommitted:
    return EpochCommitted(number, attempt, FileRef(f"epochs/{number}", 10, "crc32:00000000"))


RECORDS: list[Record] = [
    begin(1),
    begin(2, restored_from=7, next_epoch=9),
    Begin(1, "leader", None, "l1", "words", 128, "h1", 1, origin="./savepoint", begun_at=1.5),
    epoch(7, 1),
    SavepointTaken("before-upgrade", 7, FileRef("savepoints/x", 5, "crc32:12345678")),
    Finished(7, 1),
    Ended("failed", 1, 1.5, "the disk is gone"),
]

BEFORE = History(
    [
        *(begin(1), epoch(1, 1), epoch(2, 1), Finished(2, 1)),
        *(begin(2, 1, 3), epoch(3, 2), SavepointTaken("s", 3, FileRef("p", 5, "crc32:12345678"))),
    ]
).facts


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize(
    "before", [Facts(next_slot=7), BEFORE, replace(BEFORE, ended=Ended("stopped", 2, 1.5))]
)
def test_a_record_its_claim_and_what_came_before_are_read_back(
    record: Record, before: Facts
) -> None:
    slot = Slot(record, "token", before)
    assert decode_slot(encode_slot(slot), 7, "log/7") == slot


def test_a_slot_is_spelled_the_same_way_by_every_version() -> None:
    before = History([begin(1), epoch(7, 1)]).facts
    assert json.loads(encode_slot(Slot(epoch(8, 1), "token", before))) == SLOT


def test_an_end_is_spelled_the_same_way_by_every_version() -> None:
    before = replace(History([begin(1)]).facts, ended=Ended("stopped", 1, 1.5))
    slot = json.loads(encode_slot(Slot(Ended("failed", 1, 2.5, "why"), "token", before)))
    del slot["checksum"], slot["before"]["attempts"], slot["before"]["last_begin"]
    assert slot == {
        "format": 4,
        "kind": "ended",
        "claim": "token",
        "how": "failed",
        "attempt": 1,
        "at": 2.5,
        "reason": "why",
        "before": {
            "last_claim": None,
            "next_epoch": 1,
            "head": None,
            "epochs": [],
            "finished": [],
            "completed": 0,
            "savepoints": [],
            "ended": {"how": "stopped", "attempt": 1, "at": 1.5, "reason": ""},
        },
    }


MANIFEST = {"size_bytes": 10, "checksum": "crc32:00000000"}
BEGIN = {
    "attempt": 1,
    "leader": "leader-1",
    "restored_from": None,
    "lineage": "l1",
    "job": "words",
    "max_parallelism": 128,
    "hash_id": "h1",
    "next_epoch": 1,
}
SLOT = {
    "format": 4,
    "kind": "epoch",
    "claim": "token",
    "epoch": 8,
    "attempt": 1,
    "manifest": {"path": "epochs/8", **MANIFEST},
    "before": {
        "last_claim": None,
        "last_begin": BEGIN,
        "next_epoch": 8,
        "head": 7,
        "epochs": [
            {
                "epoch": 7,
                "attempt": 1,
                "manifest": {"path": "epochs/7", **MANIFEST},
                "parent": None,
            }
        ],
        "finished": [],
        "completed": 1,
        "attempts": [{"begin": BEGIN, "slot": 0, "epochs": 1}],
        "savepoints": [],
    },
    "checksum": "crc32:d57bd57a",
}
OLD_SLOT = {
    "format": 3,
    "kind": "epoch",
    "claim": "token",
    "epoch": 7,
    "attempt": 3,
    "manifest": {"path": "epochs/7", **MANIFEST},
    "checksum": "crc32:be580770",
}


def test_a_slot_that_carries_its_record_alone_is_read() -> None:
    data = json.dumps(OLD_SLOT).encode()
    assert decode_slot(data, 5, "log/5") == Slot(epoch(7, 3), "token", None)


def test_a_slot_of_a_version_that_sealed_none_is_read() -> None:
    old = {name: value for name, value in OLD_SLOT.items() if name != "checksum"} | {"format": 1}
    assert decode_slot(json.dumps(old).encode(), 5, "log/5") == Slot(epoch(7, 3), "token", None)


def test_every_flipped_bit_of_a_slot_is_noticed_or_harmless() -> None:
    slot = Slot(begin(3), "token", BEFORE)
    data = encode_slot(slot)
    for place in range(len(data)):
        for bit in (1, 16):
            flipped = data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]
            found = decoded_or_why_not(flipped)
            assert found == slot or "log/0000000007" in found, place


def decoded_or_why_not(data: bytes) -> Any:
    try:
        return decode_slot(data, 7, "log/0000000007")
    except RestoreError as error:
        return str(error)


def test_a_slot_of_another_format_is_refused_by_name() -> None:
    data = encode_slot(Slot(begin(1), "token", Facts())).replace(b'"format": 4', b'"format": 9')
    with pytest.raises(RestoreError, match="log/0000000003 has commit log format 9"):
        decode_slot(data, 3, "log/0000000003")


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
        decode_slot(data, 3, "log/0000000003")
