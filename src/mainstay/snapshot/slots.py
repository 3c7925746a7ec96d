"""Slots: a record of the commit log as bytes, with the history before it.

Because a slot carries all that came before, the newest one is the whole log: a reader needs no
other, and those further back can be deleted. Slots of formats 1 to 3 carry their record alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from mainstay.errors import DamagedFileError, RestoreError
from mainstay.snapshot.history import (
    Begin,
    Ended,
    EpochCommitted,
    Facts,
    Finished,
    PastAttempt,
    Record,
    SavepointTaken,
)
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.sealed import sealed, unsealed

LOG_FORMAT = 4
SEALED_FORMAT = 3
"""Since when a slot carries a checksum of itself. A begin may have an origin since format 2."""
FOLDED_FORMAT = 4
"""Since when a slot carries the history before it."""

_KINDS: dict[str, type[Record]] = {
    "begin": Begin,
    "epoch": EpochCommitted,
    "savepoint": SavepointTaken,
    "finished": Finished,
    "ended": Ended,
}
_KIND_OF = {record: kind for kind, record in _KINDS.items()}
_OPTIONAL = ("origin", "begun_at")
_OF_MANIFEST = ("path", "size_bytes", "checksum")


@dataclass(frozen=True, slots=True)
class Slot:
    """A record, the token of the claim that put it there, and the history before it.

    ``before`` is None in a slot of an older format.
    """

    record: Record
    claim: str
    before: Facts | None = None


def encode_slot(slot: Slot) -> bytes:
    """A slot's bytes."""
    assert slot.before is not None, "a slot carries the history before it"
    document = {
        "format": LOG_FORMAT,
        "claim": slot.claim,
        "kind": _KIND_OF[type(slot.record)],
        "before": _facts_document(slot.before),
        **_fields(slot.record),
    }
    return json.dumps(sealed(document), sort_keys=True).encode()


def decode_slot(data: bytes, index: int, name: str) -> Slot:
    """What a slot's bytes hold; ``name`` is for the message."""
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
        before = document.pop("before") if found >= FOLDED_FORMAT else None
        facts = None if before is None else _facts(before, index)
        return Slot(_record(_KINDS[kind], document), claim, facts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(name, error) from error


def _facts_document(facts: Facts) -> dict[str, Any]:
    begin = facts.last_begin
    return {
        "last_claim": facts.last_claim,
        "last_begin": None if begin is None else _fields(begin),
        "next_epoch": facts.next_epoch,
        "head": facts.head,
        "epochs": [
            {**_fields(record), "parent": facts.parents[number]}
            for number, record in facts.epochs.items()
        ],
        "finished": sorted(facts.finished),
        "completed": facts.completed,
        "attempts": [
            {"begin": _fields(each.begin), "slot": each.slot, "epochs": each.epochs}
            for each in facts.attempts
        ],
        "savepoints": [_fields(each) for each in facts.savepoints],
        **({} if facts.ended is None else {"ended": _fields(facts.ended)}),
    }


def _facts(document: dict[str, Any], next_slot: int) -> Facts:
    epochs, parents = {}, {}
    for item in document["epochs"]:
        parent = item.pop("parent")
        record = _record(EpochCommitted, item)
        epochs[record.epoch], parents[record.epoch] = record, parent
    begin, ended = document["last_begin"], document.get("ended")
    return Facts(
        next_slot=next_slot,
        last_claim=document["last_claim"],
        last_begin=None if begin is None else _record(Begin, begin),
        next_epoch=document["next_epoch"],
        head=document["head"],
        epochs=epochs,
        parents=parents,
        finished=frozenset(document["finished"]),
        completed=document["completed"],
        attempts=tuple(
            PastAttempt(_record(Begin, each["begin"]), each["slot"], each["epochs"])
            for each in document["attempts"]
        ),
        savepoints=tuple(_record(SavepointTaken, each) for each in document["savepoints"]),
        ended=None if ended is None else _record(Ended, ended),
    )


def _fields(record: Record) -> dict[str, Any]:
    # As asdict does, but that copies in depth, and a slot is written for every epoch.
    fields = {name: getattr(record, name) for name in type(record).__slots__}
    if "manifest" in fields:
        file: FileRef = fields["manifest"]
        fields["manifest"] = {name: getattr(file, name) for name in _OF_MANIFEST}
    return {n: v for n, v in fields.items() if n not in _OPTIONAL or v is not None}


def _record(kind: type[Any], fields: dict[str, Any]) -> Any:
    if "manifest" in fields:
        fields = {**fields, "manifest": FileRef(**fields["manifest"])}
    return kind(**fields)


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
