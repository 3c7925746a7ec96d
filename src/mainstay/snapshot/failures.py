"""Failures of attempts in a job's storage: each in a small file of its own, the newest are kept.

They are for people, who look for them after the driver that had them in memory is gone. Nothing
depends on them, and what cannot be stored is not waited for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import TypeVar

from mainstay.errors import DamagedFileError
from mainstay.snapshot.history import Ended
from mainstay.snapshot.layout import FAILURES_PREFIX, by_number, failure_path
from mainstay.snapshot.sealed import sealed, unsealed
from mainstay.snapshot.storage import Storage

FAILURES_FORMAT = 1
KEPT_FAILURES = 200

RESTARTED = "restarted"
GIVEN_UP = "given up"
TAKEN_OVER = "taken over"
HANDED_OVER = "handed over"


@dataclass(frozen=True, slots=True)
class StoredFailure:
    """Why an attempt ended before its time, and what was done about it.

    ``attempt`` is None where none had begun. ``at`` is in seconds since 1970. ``leader`` is the
    token of the leader that says so, as in the log. ``wait_s``, ``next_attempt`` and
    ``from_epoch`` are of the attempt that follows; ``why_last`` says why none does.
    """

    attempt: int | None
    at: float
    leader: str
    cause: str
    outcome: str
    traceback: str = ""
    operator: str = ""
    subtask: int | None = None
    worker: int | None = None
    wait_s: float | None = None
    next_attempt: int | None = None
    from_epoch: int | None = None
    why_last: str = ""


AnyFailure = TypeVar("AnyFailure", bound=StoredFailure)


def write_failure(storage: Storage, failure: StoredFailure, number: int) -> None:
    """Store the failure that is a leader's so many-th, and delete the oldest beyond the bound."""
    document = {"format": FAILURES_FORMAT, "failure": asdict(failure)}
    data = json.dumps(sealed(document), sort_keys=True).encode()
    storage.write(failure_path(failure.attempt or 0, failure.leader, number), data)
    storage.delete(*by_number(storage.list(FAILURES_PREFIX))[:-KEPT_FAILURES])


def read_failures(storage: Storage) -> list[StoredFailure]:
    """The stored failures, oldest first."""
    found = [_read(storage, path) for path in storage.list(FAILURES_PREFIX)]
    return in_order(found)


def in_order(failures: Iterable[AnyFailure]) -> list[AnyFailure]:
    """Oldest first: by attempts, because the clocks of leaders may differ."""
    return sorted(failures, key=lambda each: (each.attempt or 0, each.at))


def with_end(failures: list[StoredFailure], ended: Ended | None) -> list[StoredFailure]:
    """The failures, and the one that the log says a job has ended with, if it is not among them."""
    if ended is None or ended.how != "failed":
        return failures
    if any(each.attempt == ended.attempt and each.outcome == GIVEN_UP for each in failures):
        return failures
    cause = ended.reason.strip().partition("\n")[0]
    last = StoredFailure(ended.attempt, ended.at or 0.0, "", cause, GIVEN_UP)
    return in_order([*failures, last])


def _read(storage: Storage, path: str) -> StoredFailure:
    try:
        document = unsealed(json.loads(storage.read(path)), is_required=True)
        if document["format"] != FAILURES_FORMAT:
            raise ValueError(f"its format is {document['format']}")
        names = {field.name for field in fields(StoredFailure)}
        known = {name: value for name, value in document["failure"].items() if name in names}
        return StoredFailure(**known)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFileError(
            f"{path} does not hold the failure of an attempt ({error}). Nothing depends on it: "
            "delete the file."
        ) from error
