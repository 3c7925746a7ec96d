"""The names of part files: who wrote a part, and whether it was made of others.

A part is called ``part-a0003-s0001-00007-5d1f09c2.parquet``: the attempt and subtask that wrote
it, a number, and a random word that keeps apart jobs with histories of their own. One that was
merged of others has an ``m`` and their count in the place of the subtask. A hidden one begins with
a dot.
"""

from __future__ import annotations

import re
import uuid

_PART = re.compile(
    r"\.?part-(a(?P<attempt>\d{4,})-(?P<kind>[sm])\d{4,})-(?P<number>\d{5,})-(?P<word>[0-9a-f]{8})"
    r"\.[a-z]+(?:\.gz)?"
)


def part_name(attempt: int, subtask: int, number: int, word: str) -> str:
    """The name of a part without its extension."""
    return f"part-a{attempt:04}-s{subtask:04}-{number:05}-{word}"


def merged_name(attempt: int, count: int) -> str:
    """A new name, without its extension, for a number of parts in one."""
    return f"part-a{attempt:04}-m{count:04}-00000-{uuid.uuid4().hex[:8]}"


def attempt_of(name: str) -> int | None:
    """The attempt that wrote a part, whole or not; None where the name is not that of a part."""
    match = _PART.fullmatch(name)
    return int(match["attempt"]) if match else None


def is_merged(name: str) -> bool:
    """Whether a file was made of parts that were there before."""
    match = _PART.fullmatch(name)
    return match is not None and match["kind"] == "m"


def numbered_of(name: str) -> tuple[str, int] | None:
    """The writer of a part and the part's number there; None for all other files."""
    match = _PART.fullmatch(name)
    if match is None or match["kind"] == "m":
        return None
    return f"{match[1]}-{match['word']}", int(match["number"])
