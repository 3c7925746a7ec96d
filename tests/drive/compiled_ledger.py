"""A ledger whose function is compiled: how many ids of a key there were, and what they come to."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import mainstay as ms
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import committed_state
from tests.drive.ledger import KEYS, LedgerJob

RARE = 1_000
"""Of so many ids one is multiplied beyond 64 bits, which is what the function itself is for."""


class Digest(ms.KeyedProcess, compiled=True):
    """Passes each id on."""

    sums = ms.ValueState("struct<n:long,total:long>")
    last = ms.ReducingState("long", max)
    rest = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        n, total = self.sums.get() or (0, 0)
        self.sums.update((n + 1, total + row.id))
        self.last.add(row.id)
        large = (row.id + 1) * (1 << 60 if row.id % RARE == 0 else 3)
        self.rest.update(((self.rest.get() or 0) + large * 16) % 1_000_003)
        return ctx.key, row.id


class Plain(Digest, compiled=False):
    """The same as ordinary Python."""


class CompiledLedgerJob(LedgerJob):
    """A ledger with that function."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, function=Digest(), **settings)  # type: ignore[arg-type]

    def check_state(self) -> None:
        storage = open_storage(self.directory)
        found = {
            name: committed_state(storage, self.spec, "ledger", name)
            for name in ("sums", "last", "rest")
        }
        assert found["sums"] == {key: sums(self.count, key) for key in range(KEYS)}
        assert found["last"] == {key: max(ids(self.count, key)) for key in range(KEYS)}
        assert found["rest"] == {key: rest(self.count, key) for key in range(KEYS)}

    def check(self) -> None:
        self.check_state()
        assert self.shelf.ids() == Counter(range(self.count))


def ids(count: int, key: int) -> range:
    return range(key, count, KEYS)


def sums(count: int, key: int) -> tuple[int, int]:
    return len(ids(count, key)), sum(ids(count, key))


def rest(count: int, key: int) -> int:
    """The sum does not depend on the order in which the splits of a key come."""
    large = ((id + 1) * (1 << 60 if id % RARE == 0 else 3) * 16 for id in ids(count, key))
    return sum(large) % 1_000_003
