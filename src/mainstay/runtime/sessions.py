"""Sessions: which rows and which stored sessions of a key become one.

A row with a gap is a span from its time to its time and the gap. Spans of a key that overlap or
touch are one session: rows that are exactly the gap apart belong together.

This is a hot file (benchmarks/sessions.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mainstay.runtime.windows import Times

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Merged:
    """Sessions that spans have become: the key, the start and the end of each; and of each span the
    number of its session."""

    codes: Numbers
    starts: Times
    ends: Times
    of: Numbers


def merged(codes: Numbers, starts: Times, ends: Times) -> Merged:
    """Spans of keys, which are numbers from zero, as sessions: in the order of key and start."""
    order = ordered(codes, starts)
    sorted_codes, sorted_starts = codes[order], starts[order]
    reach = _reach(sorted_codes, ends[order])
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (sorted_codes[1:] != sorted_codes[:-1]) | (sorted_starts[1:] > reach[:-1])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(order)) - 1
    of = np.empty(len(order), np.int64)
    of[order] = np.cumsum(begins) - 1
    return Merged(sorted_codes[first], sorted_starts[first], reach[last], of)


def ordered(codes: Numbers, starts: Times) -> Numbers:
    """The order by code and start."""
    low = int(starts.min(initial=_LIMIT))
    width = int(starts.max(initial=low)) - low + 1
    if width * (int(codes.max(initial=0)) + 1) < _LIMIT:
        return np.argsort(codes * width + (starts - low), kind="stable")
    return np.lexsort((starts, codes))


def _reach(codes: Numbers, ends: Times) -> Times:
    """How far the spans of a key go, up to each: the greatest end so far, of sorted codes."""
    low = int(ends.min(initial=_LIMIT))
    width = int(ends.max(initial=low)) - low + 1
    if width * (int(codes.max(initial=0)) + 1) < _LIMIT:
        # A later key begins above all that an earlier one can have.
        above = codes * width
        return np.maximum.accumulate(above + (ends - low)) - above + low
    distinct, ranks = np.unique(ends, return_inverse=True)
    above = codes * len(distinct)
    return distinct[np.maximum.accumulate(above + ranks) - above]


def too_late(
    codes: Numbers,
    starts: Times,
    ends: Times,
    is_suspect: Mask,
    stored: tuple[Numbers, Times, Times],
) -> Mask:
    """Which rows come too late, in the order in which they come.

    Those that are suspect do, unless they touch a session that is there by then: one that is
    stored, or one that rows before them have begun. Only keys with suspect rows are looked at.
    """
    late = np.zeros(len(codes), np.bool_)
    suspected = np.unique(codes[is_suspect])
    open_: dict[int, list[tuple[int, int]]] = {code: [] for code in suspected.tolist()}
    is_meant = np.isin(stored[0], suspected)
    for code, start, end in zip(*(part[is_meant].tolist() for part in stored), strict=True):
        open_[code].append((start, end))
    rows = np.flatnonzero(np.isin(codes, suspected))
    columns = (rows, codes[rows], starts[rows], ends[rows], is_suspect[rows])
    for row, code, start, end, suspect in zip(*(each.tolist() for each in columns), strict=True):
        if not _joined(open_[code], start, end, must_touch=suspect):
            late[row] = True
    return late


def _joined(sessions: list[tuple[int, int]], start: int, end: int, *, must_touch: bool) -> bool:
    """Let a span join the sessions of a key; False where it must touch one and touches none."""
    touched = [each for each in sessions if each[0] <= end and start <= each[1]]
    if must_touch and not touched:
        return False
    for each in touched:
        sessions.remove(each)
        start, end = min(start, each[0]), max(end, each[1])
    sessions.append((start, end))
    return True


def rounds(numbers: Numbers) -> Iterator[Any]:
    """Positions of ascending numbers, in rounds without any twice: the last of each first."""
    left = np.arange(len(numbers))
    while len(left):
        is_last = np.ones(len(left), np.bool_)
        is_last[:-1] = numbers[left[1:]] != numbers[left[:-1]]
        yield left[is_last]
        left = left[~is_last]
