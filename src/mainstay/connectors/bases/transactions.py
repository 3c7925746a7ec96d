"""The names of transactions, which say whose transaction it is.

A name says the lineage and the sink it belongs to, which attempt and subtask began it, and a
number that the subtask counts up. Where a target limits the length of names, the lineage and the
uid are cut short and told apart by a digest.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_SAFE = re.compile(r"[^A-Za-z0-9.-]")
_NAME = re.compile(r"(?P<owner>mainstay_.+)_a(?P<attempt>\d+)_s(?P<subtask>\d+)_(?P<number>\d+)")


@dataclass(frozen=True, slots=True)
class TransactionId:
    """One transaction of one subtask of one attempt."""

    owner: str
    attempt: int
    subtask: int
    number: int

    def __str__(self) -> str:
        return f"{self.owner}_a{self.attempt}_s{self.subtask}_{self.number}"

    @staticmethod
    def parse(name: str) -> TransactionId | None:
        """What a name says, or None if it is not one of ours."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        numbers = (int(found[part]) for part in ("attempt", "subtask", "number"))
        return TransactionId(found["owner"], *numbers)


def owner_of(lineage: str, uid: str) -> str:
    """How the names of all transactions of a sink begin: the same for every attempt.

    At most 60 letters, digits, dots, dashes and underscores.
    """
    digest = hashlib.sha256(f"{lineage}\n{uid}".encode()).hexdigest()[:12]
    return f"mainstay_{_SAFE.sub('-', lineage)[:18]}_{_SAFE.sub('-', uid)[:18]}_{digest}"
