"""A ledger that compiles: it keeps no list of what it sees, but what shows the same.

It numbers the rows of a key, and its digest depends on their order. One row in five or so takes the
digest beyond 64 bits: for that row the kernel gives way to the function itself.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import mainstay as ms
from tests.simulation.ledgers import ROW

NUMBERED = f"{ROW}, n long"
FACTOR = 10_485_767
MODULUS = 1 << 40


class Mean:
    """The mean of ids, which are whole and few: their sum is exact in any order."""

    def create(self) -> Any:
        return (0, 0.0)

    def add(self, kept: Any, value: Any) -> Any:
        return (kept.n + 1, kept.total + value)

    def result(self, kept: Any) -> Any:
        return kept.total / kept.n


class CompiledLedger(ms.KeyedProcess, compiled=True):
    """States of each kind that compiles: numbers, flat structs, texts, and one that shrinks."""

    count = ms.ReducingState("long", operator.add)
    newest = ms.ReducingState("long", max)
    mean = ms.AggregatingState(Mean(), "struct<n: long, total: double>")
    digest = ms.ValueState("long")
    last = ms.ValueState("struct<id: long, key: string>")
    parity = ms.ValueState("long")
    name = ms.ValueState("string")

    def process(self, row: Any, ctx: Any) -> Any:
        self.count.add(1)
        self.newest.add(row.id)
        self.mean.add(row.id)
        self.parity.update(row.id if row.id % 4 else None)
        self.last.update((row.id, row.key if row.id % 3 else None))
        if row.id % 5:
            self.name.update(row.key)
        else:
            self.name.clear()
        # Behind what was written: where it traps none of that may stay.
        self.digest.update(((self.digest.get() or 0) * FACTOR + row.id) % MODULUS)
        yield row.id, row.split, row.place, row.key, row.other, self.count.get()


class OwnLedger(CompiledLedger, compiled=False):
    """The same as ordinary Python."""


def compiled_ledger(keyed: Any) -> Any:
    """The rows of a keyed stream, behind a compiled ledger."""
    return keyed.process(CompiledLedger(), NUMBERED, uid="ledger")


def own_ledger(keyed: Any) -> Any:
    """The same, not compiled."""
    return keyed.process(OwnLedger(), NUMBERED, uid="ledger")


def digest_of(key: str, ids: Sequence[int]) -> dict[str, Any]:
    """What the states that depend on the order come to, of a key that has seen these ids."""
    digest = 0
    for number in ids:
        digest = (digest * FACTOR + number) % MODULUS
    last = ids[-1]
    return {
        "digest": digest,
        "last": (last, key if last % 3 else None),
        "parity": last if last % 4 else None,
        "name": key if last % 5 else None,
    }
