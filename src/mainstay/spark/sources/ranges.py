"""The ranges of offsets that a streaming data source was planned in, known from split ids alone.

A range goes from the end of the one before it to an offset that the data source named, and has a
number. The id of a split holds the whole range, so the ids in a snapshot say where planning goes
on, and the unfinished ones how far everything is read. A range without partitions has one split
all the same, which holds no rows: otherwise its end would be forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from mainstay.errors import SourceError
from mainstay.runtime.connector import Json

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets after ``start``, up to ``end``. The first range, number 0, holds nothing:
    it remembers where the data source began."""

    number: int
    start: Json
    end: Json

    def split_id(self, part: int) -> str:
        """The id of one of its splits."""
        return json.dumps(
            {
                "format": FORMAT,
                "range": self.number,
                "part": part,
                "start": self.start,
                "end": self.end,
            }
        )

    @staticmethod
    def of(split_id: str) -> Range:
        """The range that an id belongs to."""
        try:
            found = json.loads(split_id)
            if found["format"] == FORMAT:
                return Range(found["range"], found["start"], found["end"])
        except (ValueError, TypeError, KeyError):
            found = None
        known = "another version of Mainstay" if found else "a source of another kind"
        raise SourceError(
            f"the snapshot has the split {split_id!r}, which {known} has planned. Restore it with "
            "that one, or give this source another uid."
        )


@dataclass(frozen=True, slots=True)
class Reached:
    """Everything up to the end of a range is read, and what that end is."""

    number: int
    offset: Json


def last_range(seen: Iterable[str]) -> Range | None:
    """The last range that was planned; None at the very beginning."""
    return max(map(Range.of, seen), key=lambda each: each.number, default=None)


def before_the_last(seen: Collection[str]) -> set[str]:
    """The ids of all ranges but the last: planning goes on without them."""
    last = last_range(seen)
    return {id for id in seen if Range.of(id) != last}


def reached(seen: Collection[str], unfinished: Collection[str]) -> Reached | None:
    """How far everything is read; None where nothing was planned."""
    open_ranges = [Range.of(id) for id in unfinished]
    if open_ranges:
        first = min(open_ranges, key=lambda each: each.number)
        return Reached(first.number - 1, first.start)
    last = last_range(seen)
    return None if last is None else Reached(last.number, last.end)


def as_json(offset: object, place: str) -> Json:
    """An offset as it looks after it was stored: as Spark does, it goes through JSON at once."""
    try:
        return json.loads(json.dumps(offset))
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"{place} gave the offset {offset!r}, which is not JSON: {error}. An offset is a dict "
            "of texts, numbers, booleans and such dicts."
        ) from error
