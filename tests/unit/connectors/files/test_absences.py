"""When a file that was read and is not there any more may be forgotten."""

from __future__ import annotations

import pytest

from mainstay.connectors.files.absences import FORGET_S, Absences


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


SEEN = frozenset({"/in/a", "/in/b"})


def test_a_file_is_long_gone_when_it_was_missing_for_the_whole_time(clock: Clock) -> None:
    absences = Absences(["/in"], clock)
    absences.note(["/in/b"], SEEN)
    clock.now += FORGET_S - 1
    absences.note(["/in/b"], SEEN)
    assert absences.long_gone() == []
    clock.now += 1
    absences.note(["/in/b"], SEEN)
    assert absences.long_gone() == ["/in/a"]


def test_a_file_that_comes_back_in_between_begins_anew(clock: Clock) -> None:
    absences = Absences(["/in"], clock)
    absences.note(["/in/b"], SEEN)
    clock.now += FORGET_S
    absences.note(["/in/a", "/in/b"], SEEN)
    absences.note(["/in/b"], SEEN)
    assert absences.long_gone() == []


def test_nothing_is_missing_from_a_path_under_which_nothing_is_found(clock: Clock) -> None:
    absences = Absences(["/in", "/inner", "/other/*.csv"], clock)
    seen = SEEN | {"/inner/c", "/other/d.csv"}
    for _ in range(2):
        absences.note(["/inner/e", "/other/f.csv"], seen)
        clock.now += FORGET_S
    assert sorted(absences.long_gone()) == ["/inner/c", "/other/d.csv"]


@pytest.mark.parametrize(
    ("given", "other", "gone"),
    [
        ("in", "in/day-2/b", "in/day-1/a"),
        ("in/", "in/b", "in/a"),
        ("in/day-*/*.csv", "in/day-2/b.csv", "in/day-1/a.csv"),
        ("*.csv", "b.csv", "a.csv"),
        ("/*.csv", "/b.csv", "/a.csv"),
    ],
)
def test_folders_may_go_with_their_files(clock: Clock, given: str, other: str, gone: str) -> None:
    absences = Absences([given], clock)
    for _ in range(2):
        absences.note([other], frozenset({gone, other}))
        clock.now += FORGET_S
    assert absences.long_gone() == [gone]


def test_a_file_that_was_given_by_name_is_never_missing(clock: Clock) -> None:
    absences = Absences(["/in/a"], clock)
    for _ in range(2):
        absences.note([], frozenset({"/in/a"}))
        clock.now += FORGET_S
    assert absences.long_gone() == []
