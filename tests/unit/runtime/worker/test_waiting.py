"""Operators that wait for the background while a watermark or the end of input is under way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mainstay.runtime.messages import EndOfInput, Epoch, Marker, TimeMark
from tests.unit.runtime.worker.test_operator_chain import Subject

MARKED = [("out", Marker(Epoch(1))), ("a", "freeze", 1), ("b", "freeze", 1)]


@pytest.fixture
def subject(world: Any) -> Subject:
    """A task whose first operator waits until its answer is there."""
    subject = Subject(world, fires=(0, 0))
    first: Any = type("Waiting", (type(subject.first),), dict(vars(Waiting)))
    subject.first.__class__ = first
    subject.first.is_answered = False  # type: ignore[attr-defined]
    # The task has noted when it was made which of its operators may fall behind.
    subject.task._may_fall_behind.append(subject.first)
    return subject


class Waiting:
    """What is put in the place of the methods of the first operator."""

    may_be_cut = True
    is_full = False

    @property
    def is_waiting(self) -> bool:
        return not self.is_answered  # type: ignore[attr-defined, no-any-return]

    @property
    def is_behind(self) -> bool:
        return self.is_full

    def on_watermark(self: Any, watermark: TimeMark) -> Iterator[None]:
        yield from self.before_end()
        self.calls.append((self.name, "time", watermark.time_us))

    def before_end(self: Any) -> Iterator[None]:
        while not self.is_answered:
            yield


def test_a_task_has_nothing_to_do_while_a_watermark_waits(subject: Subject) -> None:
    subject.feed(TimeMark(7))
    subject.step()
    assert not subject.task.step(), "it would be asked again and again"
    subject.first.is_answered = True  # type: ignore[attr-defined]
    assert subject.run() == [("a", "time", 7), ("b", "time", 7), ("out", TimeMark(7))]


def test_no_rows_pass_a_watermark_that_waits(subject: Subject, numbers: Any) -> None:
    subject.feed(TimeMark(7), numbers(1))
    assert subject.run() == []
    subject.first.is_answered = True  # type: ignore[attr-defined]
    assert [call[:2] for call in subject.run()][:3] == [
        ("a", "time"),
        ("b", "time"),
        ("out", TimeMark(7)),
    ]


def test_a_marker_passes_a_watermark_that_waits(subject: Subject) -> None:
    subject.feed(TimeMark(7), Marker(Epoch(1)))
    assert subject.run() == MARKED


def test_a_cut_that_waits_for_no_marker_does_not_wait_for_an_answer(subject: Subject) -> None:
    subject.feed(TimeMark(7))
    subject.step()
    subject.input.on_overtake(Epoch(1))
    assert subject.calls == MARKED


def test_the_end_of_input_waits(subject: Subject) -> None:
    subject.feed(EndOfInput())
    assert subject.run() == []
    subject.feed(Marker(Epoch(1)))
    assert subject.run() == MARKED
    subject.first.is_answered = True  # type: ignore[attr-defined]
    assert subject.run() == [("a", "end"), ("b", "end"), ("out", EndOfInput())]


@pytest.mark.parametrize("may_be_cut", [True, False])
def test_a_marker_passes_where_no_rows_may_be_taken_if_the_operator_allows_it(
    subject: Subject, numbers: Any, may_be_cut: bool
) -> None:
    type(subject.first).is_full = True  # type: ignore[attr-defined]
    type(subject.first).may_be_cut = may_be_cut
    subject.feed(Marker(Epoch(1)), numbers(1))
    assert subject.run() == (MARKED if may_be_cut else [])
    subject.output.has_room = False
    subject.feed(Marker(Epoch(2)))
    assert subject.run() == []
