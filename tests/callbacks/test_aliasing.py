"""What a function does to an object after it has given it, or was given it, changes nothing.

Each case is a job whose function does so, and the rows that a function without such habits gives.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import mainstay as ms
from mainstay.runtime.operators.taken import Taking
from mainstay.testing import rows, run

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROWS = [(f"k{n % 3}", n, START + timedelta(seconds=n), [n]) for n in range(30)]
SCHEMA = "k string, n long, at timestamp, tags array<long>"
OUT, NESTED = "k string, n long", "k string, tags array<long>"
PLAIN = [(k, n) for k, n, _, _ in ROWS]
TAGS = [(k, tags) for k, _, _, tags in ROWS]


class OneRow:
    """Keeps one dict and fills it anew for every row."""

    def __init__(self) -> None:
        self.row: dict[str, Any] = {}

    def filled(self, k: str, n: int) -> dict[str, Any]:
        self.row.update(k=k, n=n)
        return self.row


class Yields(OneRow, ms.Process):
    def process(self, row: Any, ctx: Any) -> Any:
        yield self.filled(row.k, row.n)


class Returns(OneRow, ms.Process):
    def process(self, row: Any, ctx: Any) -> Any:
        return self.filled(row.k, row.n)


class KeyedYields(OneRow, ms.KeyedProcess):
    def process(self, row: Any, ctx: Any) -> Any:
        yield self.filled(row.k, row.n)


class KeyedTwice(OneRow, ms.KeyedProcess):
    """Yields one object twice for a row, and changes it between."""

    def process(self, row: Any, ctx: Any) -> Any:
        yield self.filled(row.k, row.n)
        yield self.filled(row.k, -row.n)


class KeyedLists(ms.KeyedProcess):
    def __init__(self) -> None:
        self.row: list[Any] = []

    def process(self, row: Any, ctx: Any) -> Any:
        self.row[:] = [row.k, row.n]
        yield self.row


class KeyedNested(ms.KeyedProcess):
    def __init__(self) -> None:
        self.tags: list[int] = []

    def process(self, row: Any, ctx: Any) -> Any:
        self.tags[:] = row.tags
        yield row.k, self.tags


class KeyedAfterwards(ms.KeyedProcess):
    def process(self, row: Any, ctx: Any) -> Any:
        yield row.k, row.tags
        row.tags.append(99)


class Fired(OneRow, ms.KeyedProcess):
    numbers = ms.MapState("timestamp", "long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.numbers.put(row.at, row.n)
        ctx.timers.event_time(row.at)

    def on_timer(self, at: Any, ctx: Any) -> Any:
        return self.filled(ctx.key, self.numbers.pop(at))


class Aside(OneRow, ms.Process):
    aside = ms.SideOutput(OUT)

    def process(self, row: Any, ctx: Any) -> Any:
        self.aside.emit(self.filled(row.k, row.n))


class InWindow(OneRow, ms.WindowProcess):
    def process(self, rows: Any, window: Any, ctx: Any) -> Any:
        for row in rows:
            yield self.filled(ctx.key, row.n)


class ChangingWindow(ms.WindowProcess):
    def process(self, rows: Any, window: Any, ctx: Any) -> Any:
        for row in rows:
            yield ctx.key, list(row.tags)
            row.tags.append(7)


class Gathering(ms.AggregateFunction):
    """One list is where all accumulators begin, and it is changed in place."""

    empty: list[int] = []  # noqa: RUF012 - that is the habit

    def create(self) -> Any:
        return self.empty

    def add(self, accumulator: Any, value: Any) -> Any:
        accumulator.append(value)
        return accumulator

    def merge(self, accumulator: Any, other: Any) -> Any:
        accumulator.extend(other)
        return accumulator

    def result(self, accumulator: Any) -> Any:
        return accumulator


class Gathers(ms.KeyedProcess):
    all = ms.AggregatingState(Gathering(), "array<long>")

    def process(self, row: Any, ctx: Any) -> Any:
        self.all.add(row.n)
        yield ctx.key, len(self.all.get())


class Reduces(ms.KeyedProcess):
    all = ms.ReducingState("array<long>", lambda a, b: (a.extend(b), a)[1])

    def process(self, row: Any, ctx: Any) -> Any:
        tags = row.tags
        self.all.add(tags)
        tags.append(5)
        self.all.get().append(5)
        yield ctx.key, len(self.all.get())


class Operators(ms.Process):
    all = ms.OperatorListState("array<long>")

    def process(self, row: Any, ctx: Any) -> Any:
        tags = row.tags
        self.all.add(tags)
        tags.append(3)
        self.all.get()[-1].append(4)
        yield row.k, self.all.get()[-1]


class Shared(ms.KeyedProcess):
    """A mutable attribute of the class is no state: each subtask has one, and it harms no state."""

    seen: list[Any] = []  # noqa: RUF012 - that is the habit
    last = ms.ListState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.seen.append(row.n)
        self.last.update(self.seen[-1:])
        self.seen.append(-1)
        yield ctx.key, self.last.get()[0]


def in_place(one: Any, other: Any) -> Any:
    one.tags.extend(other.tags)
    return one


def asked(stream: Any) -> Any:
    row: dict[str, Any] = {}

    async def answer(given: Any) -> Any:
        row.update(k=given.k, n=given.n)
        given.tags.append(1)
        return row

    return stream.map_async(answer, OUT, uid="f")


def mapped(stream: Any) -> Any:
    row: dict[str, Any] = {}
    return stream.map(lambda given: row.update(k=given.k, n=given.n) or row, OUT, uid="f")


def flat_mapped(stream: Any) -> Any:
    row: dict[str, Any] = {}
    rows = [row]
    return stream.flat_map(lambda given: row.update(k=given.k, n=given.n) or rows, OUT, uid="f")


def gathered(stream: Any) -> Any:
    own = ms.udaf(Gathering(), "n", accumulator="array<long>", returns="array<long>")
    windows = stream.key_by("k").window(ms.tumbling("10s"))
    return windows.aggregate(tags=own, uid="f").select("k", "tags")


def two_readers(stream: Any) -> Any:
    one = stream.map(lambda row: (row.tags.append(1), (row.k, row.n))[1], OUT, uid="f")
    return one.union(stream.map(lambda row: (row.k, len(row.tags)), OUT, uid="g"))


def numbered() -> list[Any]:
    counts: Counter[str] = Counter()
    return [(k, counts.update([k]) or counts[k]) for k, *_ in ROWS]  # type: ignore[func-returns-value]


def in_tens() -> list[Any]:
    found = defaultdict(list)
    for k, n, _, _ in ROWS:
        found[k, n // 10].append(n)
    return [(k, values) for (k, _), values in found.items()]


def plain(function: Any, schema: str = OUT) -> Callable[[Any], Any]:
    return lambda stream: stream.process(function(), schema, uid="f")


def keyed(function: Any, schema: str = OUT) -> Callable[[Any], Any]:
    return lambda stream: stream.key_by("k").process(function(), schema, uid="f")


def windowed(function: Any, window: Any, schema: str = OUT) -> Callable[[Any], Any]:
    return lambda s: s.key_by("k").window(window).process(function(), schema, uid="f")


CASES: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "one dict that process yields": (plain(Yields), PLAIN),
    "one dict that process returns": (plain(Returns), PLAIN),
    "one dict of a keyed function": (keyed(KeyedYields), PLAIN),
    "one dict twice for a row": (keyed(KeyedTwice), PLAIN + [(k, -n) for k, n in PLAIN]),
    "one list that is a row": (keyed(KeyedLists), PLAIN),
    "one list within rows": (keyed(KeyedNested, NESTED), TAGS),
    "a list that is changed afterwards": (keyed(KeyedAfterwards, NESTED), TAGS),
    "one dict of on_timer": (keyed(Fired), PLAIN),
    "one dict of map": (mapped, PLAIN),
    "one dict of flat_map": (flat_mapped, PLAIN),
    "one dict of map_async": (asked, PLAIN),
    "one dict in a side output": (lambda s: plain(Aside)(s).side("aside"), PLAIN),
    "one dict of a window": (windowed(InWindow, ms.tumbling("10s")), PLAIN),
    "rows that several windows have": (
        windowed(ChangingWindow, ms.sliding("4s", every="2s"), NESTED),
        TAGS + TAGS,
    ),
    "one list for all accumulators": (keyed(Gathers), numbered()),
    "one list for all accumulators of windows": (gathered, in_tens()),
    "a reducer that works in place": (keyed(Reduces), numbered()),
    "a reduce that works in place": (
        lambda s: (
            s.key_by("k")
            .reduce(in_place, uid="f")
            .map(lambda row: (row.k, len(row.tags)), OUT, uid="g")
        ),
        numbered(),
    ),
    "an element of operator state": (plain(Operators, NESTED), TAGS),
    "a list of the class": (keyed(Shared), PLAIN),
    "rows that two operators are given": (two_readers, PLAIN + [(k, 1) for k, *_ in ROWS]),
}


def check(name: str) -> None:
    build, wanted = CASES[name]

    def job(env: ms.Environment) -> None:
        source = env.source(rows(SCHEMA, ROWS), uid="in", watermark=ms.Watermark("at"))
        build(source).sink(ms.connectors.Memory(), uid="out")

    seen = run(job, parallelism=1).output("out")
    assert Counter(map(repr, map(tuple, seen))) == Counter(map(repr, wanted))


@pytest.mark.parametrize("name", CASES)
def test_changing_it_changes_no_row_and_no_state(name: str) -> None:
    check(name)


@pytest.mark.mutation
@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("one dict")])
def test_rows_that_are_not_copied_are_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Taking, "of", staticmethod(lambda schema: Taking(tuple, lambda row: row)))
    with pytest.raises(AssertionError):
        check(name)
