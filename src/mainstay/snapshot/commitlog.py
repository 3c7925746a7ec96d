"""The commit log: the history of a job as one sequence of small JSON slots.

Each slot is made with create-if-absent, so two leaders compete for the same one and exactly one
wins. Winning the slot is the commit; a manifest that no slot names does not exist. A leader that
slept through its lease therefore cannot complete an epoch after the next leader has begun.

This module does the input and output; what the slots mean is decided in ``history``.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import Enum
from typing import Any

from mainstay.errors import (
    DamagedFileError,
    OutcomeUnknownError,
    ProtocolError,
    RestoreError,
    SnapshotStorageError,
)
from mainstay.snapshot.history import (
    Begin,
    EpochCommitted,
    Finished,
    History,
    Record,
    SavepointTaken,
)
from mainstay.snapshot.layout import LOG_PREFIX, log_slot, slot_index
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.sealed import sealed, unsealed
from mainstay.snapshot.storage import NotFound, Storage

__all__ = [
    "LOG_FORMAT",
    "Begin",
    "ClaimOutcome",
    "EpochCommitted",
    "Finished",
    "History",
    "Record",
    "SavepointTaken",
    "claim_slot",
    "decode_record",
    "encode_record",
    "read_history",
]

LOG_FORMAT = 3
SEALED_FORMAT = 3
"""Since when a slot carries a checksum of itself. A begin may have an origin since format 2."""

_KINDS: dict[str, type[Record]] = {
    "begin": Begin,
    "epoch": EpochCommitted,
    "savepoint": SavepointTaken,
    "finished": Finished,
}
_KIND_OF = {record: kind for kind, record in _KINDS.items()}


class ClaimOutcome(Enum):
    """Who owns the slot. After LOST the log must be read again before anything else is done."""

    WON = "won"
    LOST = "lost"


def encode_record(record: Record, claim: str) -> bytes:
    """A slot's bytes; ``claim`` is a token that only this claim of this slot carries."""
    fields = asdict(record)
    if fields.get("origin") is None:
        fields.pop("origin", None)
    head = {"format": LOG_FORMAT, "claim": claim, "kind": _KIND_OF[type(record)]}
    return json.dumps(sealed({**head, **fields}), sort_keys=True).encode()


def decode_record(data: bytes, name: str) -> tuple[Record, str]:
    """The record and the claim in a slot's bytes; ``name`` is the slot, for the message."""
    document = _parse(data, name)
    found = document.get("format")
    if not isinstance(found, int) or not 1 <= found <= LOG_FORMAT:
        raise RestoreError(
            f"{name} has commit log format {found}; this version of Mainstay reads formats up to "
            f"{LOG_FORMAT}. Use a version that wrote it or a newer one."
        )
    try:
        document = unsealed(document, is_required=found >= SEALED_FORMAT)
        del document["format"]
        kind, claim = document.pop("kind"), document.pop("claim")
        if "manifest" in document:
            document["manifest"] = FileRef(**document["manifest"])
        return _KINDS[kind](**document), claim
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(name, error) from error


def read_history(storage: Storage) -> History:
    """The job's history; empty where nothing was ever begun."""
    indices = [slot_index(path) for path in storage.list(LOG_PREFIX)]
    last = max((index for index in indices if index is not None), default=-1)
    # Every slot is read by its number: a listing made while slots are being created may skip one
    # that exists.
    return History(_read_slot(storage, index, last) for index in range(last + 1))


def claim_slot(storage: Storage, index: int, record: Record, claim: str) -> ClaimOutcome:
    """Try to put a record into a slot.

    Raises ``OutcomeUnknownError`` when neither outcome is certain; call again with the same
    arguments, which is safe however often it is done.
    """
    path = log_slot(index)
    try:
        if storage.create(path, encode_record(record, claim)):
            return ClaimOutcome.WON
    except OutcomeUnknownError as error:
        return _outcome_in(storage, path, record, claim, error)
    # A store that lost its own first answer and tried again reports our own slot as taken.
    return _outcome_in(storage, path, record, claim, None)


def _outcome_in(
    storage: Storage, path: str, record: Record, claim: str, cause: Exception | None
) -> ClaimOutcome:
    try:
        data = storage.read(path)
    except SnapshotStorageError as error:
        raise OutcomeUnknownError(
            f"whether {path} was claimed is unknown: {cause or error}. Claim it again."
        ) from error
    found, owner = decode_record(data, path)
    if owner != claim:
        return ClaimOutcome.LOST
    if found != record:
        raise ProtocolError(f"the claim {claim!r} of {path} was used for {found} and {record}")
    return ClaimOutcome.WON


def _read_slot(storage: Storage, index: int, last: int) -> Record:
    path = log_slot(index)
    try:
        data = storage.read(path)
    except NotFound as error:
        raise RestoreError(
            f"the commit log has a gap: {path} is missing, but {log_slot(last)} exists. "
            f"Bring the missing slot back; without it the history of the job is unknown."
        ) from error
    return decode_record(data, path)[0]


def _parse(data: bytes, name: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise _damaged(name, error) from error
    if not isinstance(document, dict):
        raise _damaged(name, "it holds no JSON object")
    return document


def _damaged(name: str, why: object) -> DamagedFileError:
    return DamagedFileError(
        f"{name} is not a slot of a Mainstay commit log ({why}). Bring its original content back."
    )
