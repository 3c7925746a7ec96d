from __future__ import annotations

import json

import pytest

from mainstay.errors import DamagedFileError
from mainstay.snapshot import failures
from mainstay.snapshot.failures import GIVEN_UP, StoredFailure, read_failures, write_failure
from mainstay.snapshot.history import Ended
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.sealed import sealed


def failure(attempt: int | None, at: float = 100.0, leader: str = "one") -> StoredFailure:
    return StoredFailure(attempt, at, leader, "a shelf broke", "restarted", next_attempt=7)


def test_failures_are_read_back_by_attempts_and_not_by_the_clocks_of_leaders() -> None:
    storage = MemoryStorage()
    told = [failure(None, 300.0), failure(1, 200.0), failure(1, 250.0), failure(2, 50.0, "two")]
    for number, each in enumerate(told):
        write_failure(storage, each, number)
    assert read_failures(storage) == told


def test_the_newest_failures_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "KEPT_FAILURES", 3)
    storage = MemoryStorage()
    for attempt in range(1, 20):
        write_failure(storage, failure(attempt), attempt)
    assert [each.attempt for each in read_failures(storage)] == [17, 18, 19]


def test_what_a_later_version_adds_to_a_failure_is_passed_over() -> None:
    storage = MemoryStorage()
    write_failure(storage, failure(3), 1)
    (path,) = storage.list("failures/")
    document = json.loads(storage.read(path))
    del document["checksum"]
    document["failure"]["colour"] = "red"
    storage.write(path, json.dumps(sealed(document)).encode())
    assert read_failures(storage) == [failure(3)]


def test_a_failure_that_was_stored_in_format_1_is_read() -> None:
    storage = MemoryStorage()
    storage.write(
        "failures/0000000003-one-0001.json",
        b'{"checksum": "crc32:242583e8", "failure": {"attempt": 3, "at": 100.5, '
        b'"cause": "KeyError: 7", "from_epoch": 2, "leader": "one", "next_attempt": 4, '
        b'"operator": "totals", "outcome": "restarted", "subtask": 1, "traceback": "line 3", '
        b'"wait_s": 0.5, "why_last": "", "worker": 0}, "format": 1}',
    )
    assert read_failures(storage) == [
        StoredFailure(
            3, 100.5, "one", "KeyError: 7", "restarted", "line 3", "totals", 1, 0, 0.5, 4, 2
        )
    ]


def test_a_file_that_is_no_failure_is_named() -> None:
    storage = MemoryStorage()
    storage.write("failures/0000000001-x-0001.json", b"[]")
    with pytest.raises(DamagedFileError, match=r"failures/0000000001-x-0001\.json.*delete"):
        read_failures(storage)


def test_the_end_of_a_job_that_only_the_log_tells_of_is_among_the_failures() -> None:
    ended = Ended("failed", 3, 400.0, "no such table\nmore")
    (*before, last) = failures.with_end([failure(2), failure(3)], ended)
    assert before == [failure(2), failure(3)]
    assert (last.attempt, last.at, last.cause, last.outcome) == (
        3,
        400.0,
        "no such table",
        GIVEN_UP,
    )
    known = [StoredFailure(3, 399.0, "one", "no such table", GIVEN_UP)]
    assert failures.with_end(known, ended) == known
    assert failures.with_end(known, Ended("stopped", 4)) == known
