"""Functions that keep what they see: a row that is lost, doubled or out of order shows.

Every input row has an id of its own, the number of the split it comes from, and its place there.
Every stateful function keeps the ids it has seen, in order, and passes each row on with them.
"""

from __future__ import annotations

import operator
from typing import Any

import mainstay as ms
from tests.namespaces import enter, namespaced

BUCKETS = 5
ROW = "id long, split long, place long, key string, other long"


class Ledger(ms.KeyedProcess):
    """Keeps every id it sees, in four kinds of state, and tries to break them by aliasing."""

    ids = ms.ListState("long")
    count = ms.ReducingState("long", operator.add)
    splits = ms.MapState("long", "long")
    recent = ms.ValueState("array<long>")
    parity = ms.ValueState("long")
    slots = ms.MapState("long", "long")
    tail = ms.ListState("long")
    buckets = namespaced(ms.ReducingState("long", operator.add), "long")
    last_of = namespaced(ms.ListState("long"), "string")

    def process(self, row: Any, ctx: Any) -> Any:
        self.ids.add(row.id)
        self.count.add(1)
        if len(self.ids.get()) != self.count.get():
            raise AssertionError(f"{self.ids.get()} are not {self.count.get()} rows")
        self.splits.put(row.split, (self.splits.get(row.split) or 0) + 1)
        recent = self.recent.get() or []
        recent.append(row.id)
        if row.id % 3:
            self.recent.update(recent)
        recent.append(-1)  # must change nothing: what get() returned is ours, not the state's
        self.take_and_put_back(row.id)
        self.keep_by_bucket(row.id)
        yield tuple(row)

    def take_and_put_back(self, number: int) -> None:
        """States that shrink: what was deleted must stay deleted."""
        self.parity.update(number if number % 4 else None)
        self.slots.put(number % 5, number)
        self.slots.remove((number + 1) % 5)
        if number % 6:
            self.tail.add(number)
        else:
            self.tail.clear()

    def keep_by_bucket(self, number: int) -> None:
        """States by key and namespace, as windows will keep them."""
        enter(self.buckets, number % BUCKETS).add(1)
        last_of = enter(self.last_of, "odd" if number % 2 else "even")
        if number % 7:
            last_of.add(number)
        else:
            last_of.clear()


def ledger(keyed: Any) -> Any:
    """The rows of a keyed stream, behind a ledger."""
    return keyed.process(Ledger(), ROW, uid="ledger")


class Marked(ms.CoKeyedProcess):
    """Counts what it sees under the rules that were broadcast to it."""

    ids = ms.ListState("long")
    rules = ms.OperatorListState("long", redistribute="broadcast")

    def process_left(self, row: Any, ctx: Any) -> Any:
        self.ids.add(row.id)
        yield tuple(row)

    def process_right(self, row: Any, ctx: Any) -> Any:
        self.rules.add(row.id)


class Numbered(ms.Process):
    """Counts what passes through a subtask, in operator state that a rescale deals out."""

    passed = ms.OperatorListState("long", redistribute="split")

    def process(self, row: Any, ctx: Any) -> Any:
        self.passed.add(row.id)
        return tuple(row)


class BatchLedger(ms.KeyedBatchProcess):
    """The same by batches."""

    total = ms.ValueState("long")

    def process(self, batch: Any, ctx: Any) -> Any:
        counts = [group.num_rows for _, group in batch.groups()]
        before = self.total.get_many(batch.keys)
        after = [(old or 0) + n for old, n in zip(before, counts, strict=True)]
        self.total.put_many(batch.keys, after)
        return batch.batch


class Around(ms.KeyedProcess):
    """Takes one from the rounds that a row has left, and counts how often it sees the row."""

    visits = ms.MapState("long", "long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.visits.put(row.id, (self.visits.get(row.id) or 0) + 1)
        yield one_round_less(row)


def one_round_less(row: Any) -> tuple[Any, ...]:
    return (*tuple(row)[:-1], row.other - 1)


class Sorting(ms.KeyedProcess):
    """Rows with an odd id go into a side output; nobody reads the other one."""

    count = ms.ReducingState("long", operator.add)
    odd = ms.SideOutput(ROW)
    unread = ms.SideOutput("id long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.count.add(1)
        self.unread.emit((row.id,))
        if row.id % 2:
            self.odd.emit(tuple(row))
            return
        yield tuple(row)


class Rejoined(ms.CoKeyedProcess):
    """Takes the rows of the two outputs on two inputs, and no row on the wrong one."""

    def process_left(self, row: Any, ctx: Any) -> Any:
        assert row.id % 2 == 0, f"{row} of the side output came from the main one"
        return tuple(row)

    def process_right(self, row: Any, ctx: Any) -> Any:
        assert row.id % 2, f"{row} of the main output came from the side output"
        return tuple(row)


class AroundAside(ms.KeyedProcess):
    """Rows that have rounds left go back by a side output."""

    visits = ms.MapState("long", "long")
    back = ms.SideOutput(ROW)

    def process(self, row: Any, ctx: Any) -> Any:
        self.visits.put(row.id, (self.visits.get(row.id) or 0) + 1)
        stepped = one_round_less(row)
        if stepped[-1] < 0:
            return stepped
        return self.back.emit(stepped)
