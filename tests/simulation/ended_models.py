"""What jobs that go by event time give until their input ends, in the words of their definitions.

A model is given the rows that were taken since the last end, in their order, and how far the
operator had come by that end: what is older is late. It knows nothing of watermarks, because no row
is late by one. It answers with what must have come out, and how far the operator has come now.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mainstay.runtime.joins import Interval
from mainstay.runtime.windows import FixedWindows
from tests.matching import Trying

SECOND = 1_000_000
NEVER = -(1 << 62)


@dataclass(frozen=True)
class Row:
    """A row of an input. ``at_us`` is its time."""

    input: str
    id: int
    key: str
    at_us: int


Result: TypeAlias = tuple[str, str, int, int, int]
"""What it is, its key, and three numbers, which are explained by each model."""
Given: TypeAlias = tuple["Counter[Result]", int]


def late(row: Row) -> Result:
    return ("late", row.key, row.id, 0, 0)


def windows(fixed: FixedWindows, lateness_us: int, rows: Sequence[Row], ended: int) -> Given:
    """Start and end of each window, and the sum of its ids."""
    found: Counter[Result] = Counter()
    sums: Counter[Any] = Counter()
    for row in rows:
        last = fixed.slice_end(row.at_us)
        ends = range(fixed.first_end(last), fixed.last_end(last) + 1, fixed.every_us)
        alive = [end for end in ends if end + lateness_us > ended]
        for end in alive:
            sums[row.key, fixed.start(end), end] += row.id
        if not alive:
            found[late(row)] += 1
    for (key, start, end), ids in sums.items():
        found["window", key, start, end, ids] += 1
    return found, max([ended, *(end + lateness_us for _, _, end in sums)])


def sessions(gap_us: int, rows: Sequence[Row], ended: int) -> Given:
    """Start and end of each session, and the sum of its ids."""
    found: Counter[Result] = Counter()
    open_: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for row in rows:
        start, end = row.at_us, row.at_us + gap_us
        touched = [each for each in open_[row.key] if each[0] <= end and start <= each[1]]
        if not touched and end <= ended:
            found[late(row)] += 1
            continue
        rest = [each for each in open_[row.key] if each not in touched]
        starts, ends, all_ids = zip(*touched, (start, end, row.id), strict=True)
        open_[row.key] = [*rest, (min(starts), max(ends), sum(all_ids))]
    for key, (start, end, ids) in ((key, each) for key, some in open_.items() for each in some):
        found["window", key, start, end, ids] += 1
    return found, max([ended, *(each[1] for some in open_.values() for each in some)])


def window_join(size_us: int, rows: Sequence[Row], ended: int) -> Given:
    """The ids of left and right rows of one window, and its end; 0 where a left row is alone."""
    found: Counter[Result] = Counter()
    sides: dict[tuple[str, int], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        end = row.at_us - row.at_us % size_us + size_us
        if end <= ended:
            found[late(row)] += 1
        else:
            sides[row.key, end][row.input].append(row.id)
    for (key, end), by_side in sides.items():
        for left in by_side["left"]:
            for right in by_side["right"] or [0]:
                found["pair", key, left, right, end] += 1
    return found, max([ended, *(end for _, end in sides)])


def interval_join(interval: Interval, rows: Sequence[Row], ended: int) -> Given:
    """The ids of left and right rows that are near each other; 0 where one is alone."""
    reach, pane_us = interval.reach(0), interval.pane_us(is_padded=True)
    assert reach == interval.reach(1), "rows of one side would be of use for longer"
    found: Counter[Result] = Counter(late(row) for row in rows if row.at_us + reach < ended)
    kept = [row for row in rows if row.at_us + reach >= ended]
    matched = set()
    for left in (row for row in kept if row.input == "left"):
        for right in (row for row in kept if row.input == "right" and row.key == left.key):
            if abs(left.at_us - right.at_us) <= reach:
                found["pair", left.key, left.id, right.id, 0] += 1
                matched |= {left.id, right.id}
    for row in (row for row in kept if row.id not in matched):
        left_id, right_id = (row.id, 0) if row.input == "left" else (0, row.id)
        found["pair", row.key, left_id, right_id, 0] += 1
    # Rows go with the pane that they are in.
    gone = (row.at_us - row.at_us % pane_us + pane_us + reach for row in kept)
    return found, max([ended, *gone])


def timers(rows: Sequence[Row], ended: int) -> Given:
    """Each row sets a timer, which fires once, whatever has fired at the same time before."""
    return Counter(("fired", row.key, row.id, 0, 0) for row in rows), ended


def matches(pattern: Any, rows: Sequence[Row], ended: int) -> Given:
    """The ids of the two rows of each match; and of the first one of those that timed out."""
    found: Counter[Result] = Counter(late(row) for row in rows if row.at_us < ended)
    taken = [row for row in rows if row.at_us >= ended]
    for key in {row.key for row in taken}:
        own = sorted((row for row in taken if row.key == key), key=lambda row: row.at_us)
        asked = [lambda row, _: row % 2 == 0, lambda row, _: row % 2 == 1]
        tried = Trying(pattern, asked, [(row.at_us, row.id) for row in own]).found("none")
        found.update(("match", key, own[a].id, own[b].id, 0) for (a, _), (b, _) in tried.matches)
        found.update(("open", key, own[a].id, 0, 0) for ((a, _),) in tried.timed_out)
    return found, max([ended, *(row.at_us + 1 for row in taken)])


def taken(seen: Iterable[int], rows: Sequence[Row]) -> list[Row]:
    """The rows of some ids, in their order."""
    ids = set(seen)
    return [row for row in rows if row.id in ids]
