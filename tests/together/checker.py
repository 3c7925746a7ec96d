"""One judgement over everything: each check gives sentences about what is not as it must be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mainstay.snapshot.history import EpochCommitted, Record
from tests.ha.histories import check_leaders
from tests.together.answers import AnswerBook
from tests.together.logs import LogReader
from tests.together.model import Rows
from tests.together.sampling import Course

SHOWN = 5


def check_rows(name: str, expected: Rows, found: Rows) -> list[str]:
    """Every row once."""
    lost, more = expected - found, found - expected
    doubled = {row: times for row, times in more.items() if row in expected}
    strange = {row: times for row, times in more.items() if row not in expected}
    kinds = (("lost", lost), ("doubled", doubled), ("strange", strange))
    return [
        f"output {name!r}: {sum(rows.values())} rows are {what}, among them {_some(rows)}"
        for what, rows in kinds
        if rows
    ]


def check_state(name: str, expected: dict[Any, Any], found: dict[Any, Any]) -> list[str]:
    wrong = {
        key: (expected.get(key), found.get(key))
        for key in expected.keys() | found.keys()
        if expected.get(key) != found.get(key)
    }
    told = f"state {name!r}: {len(wrong)} keys are wrong, as (expected, found): {_some(wrong)}"
    return [told] if wrong else []


def check_log(name: str, records: Sequence[Record], missed: int) -> list[str]:
    """Epochs only grow, and no attempt does anything after its successor has begun."""
    found = [f"log of {name}: {missed} slots were gone before they were seen"] if missed else []
    try:
        check_leaders(records)
    except AssertionError as error:
        found.append(f"log of {name}: {error}")
    return found


def check_answers(name: str, book: AnswerBook, logs: Sequence[LogReader]) -> list[str]:
    """Each committed answer is of an epoch of the log. Only a job that halts has rows in flight."""
    found = [f"answer of {name}: {each}" for each in book.differences]
    for number, log in enumerate(logs, start=1):
        known = {each.epoch for each in log.records if isinstance(each, EpochCommitted)}
        told = {epoch for incarnation, epoch in book.epochs if incarnation == number}
        behind = {epoch for incarnation, epoch in book.behind if incarnation == number}
        found += _unknown(name, "are of no epoch of the log", told - known)
        found += _unknown(name, "lack rows up to their position", behind - log.last_epochs())
    return found


def _unknown(name: str, why: str, epochs: set[int]) -> list[str]:
    return [f"answers of {name} at epochs {_some(sorted(epochs))} {why}"] if epochs else []


def check_courses(courses: Iterable[Course]) -> list[str]:
    return [
        f"{each.name}: {each.unit} grew from {each.second:.0f} to {each.last:.0f}"
        for each in courses
        if not each.is_flat
    ]


def _some(things: Iterable[Any]) -> str:
    listed = list(things.items()) if isinstance(things, dict) else list(things)
    shown = ", ".join(str(each) for each in listed[:SHOWN])
    return shown + (", …" if len(listed) > SHOWN else "")
