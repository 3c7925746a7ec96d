"""Slots of the commit log as versions before format 4 wrote them."""

from __future__ import annotations

import json
from dataclasses import asdict

from mainstay.snapshot.history import Begin, EpochCommitted, Finished, Record
from mainstay.snapshot.sealed import sealed

KINDS = {Begin: "begin", EpochCommitted: "epoch", Finished: "finished"}


def old_slot(record: Record, claim: str = "token") -> bytes:
    """A slot of format 3."""
    fields = {name: value for name, value in asdict(record).items() if value is not None}
    fields.setdefault("restored_from", None) if isinstance(record, Begin) else None
    document = {"format": 3, "claim": claim, "kind": KINDS.get(type(record), "savepoint")}
    return json.dumps(sealed({**document, **fields}), sort_keys=True).encode()
