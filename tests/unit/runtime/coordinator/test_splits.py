from __future__ import annotations

import json

import pytest

from mainstay.errors import RestoreError
from mainstay.runtime.connector import Split
from mainstay.runtime.coordinator.splits import RUN, SplitBook, seen_in


def splits(*ids: str) -> list[Split]:
    return [Split(id) for id in ids]


def ids(shares: list[tuple[Split, ...]]) -> list[list[str]]:
    return [[split.id for split in share] for share in shares]


def test_splits_are_spread_evenly() -> None:
    book = SplitBook(2, bounded=True, notes=None)
    assert ids(book.assign(splits("a", "b", "c"))) == [["a", "c"], ["b"]]


def test_later_splits_go_to_whoever_was_given_the_fewest() -> None:
    book = SplitBook(3, bounded=False, notes=None)
    assert ids(book.assign(splits("a", "b"))) == [["a"], ["b"], []]
    assert ids(book.assign(splits("c", "d"))) == [["d"], [], ["c"]]


def test_a_split_is_given_out_once_however_often_it_is_planned() -> None:
    book = SplitBook(1, bounded=False, notes=None)
    assert ids(book.assign(splits("a", "a", "b"))) == [["a", "b"]]
    assert ids(book.assign(splits("b", "c"))) == [["c"]]
    assert book.seen == {"a", "b", "c"}


def test_a_bounded_source_is_complete_once_it_was_planned() -> None:
    book = SplitBook(1, bounded=True, notes=None)
    assert not book.is_complete
    book.assign([])
    assert book.is_complete


def test_an_unbounded_source_is_never_complete() -> None:
    book = SplitBook(1, bounded=False, notes=None)
    book.assign(splits("a"))
    assert not book.is_complete


def test_notes_are_what_was_known_when_they_were_taken() -> None:
    book = SplitBook(1, bounded=False, notes=None)
    before = book.notes()
    book.assign(splits("a"))
    after = book.notes()
    book.assign(splits("b"))
    assert before == {"seen": [], "complete": False}
    assert after == {"seen": ["a"], "complete": False}


def test_a_book_goes_on_from_its_notes_at_another_parallelism() -> None:
    book = SplitBook(1, bounded=False, notes=None)
    book.assign(splits("a", "b"))
    restored = SplitBook(2, bounded=False, notes=book.notes())
    assert restored.seen == {"a", "b"}
    assert ids(restored.assign(splits("a", "b", "c"))) == [["c"], []]


def test_a_complete_source_stays_complete_after_a_restore() -> None:
    book = SplitBook(1, bounded=True, notes=None)
    book.assign(splits("a"))
    assert SplitBook(3, bounded=True, notes=book.notes()).is_complete


def test_nothing_is_an_empty_share_for_everyone() -> None:
    assert SplitBook(3, bounded=True, notes=None).nothing() == [(), (), ()]


# ---------------------------------------------------------------- started again


def marked(**marks: str) -> list[Split]:
    return [Split(id, mark=mark) for id, mark in marks.items()]


def again(book: SplitBook, *, bounded: bool = True) -> SplitBook:
    notes = json.loads(json.dumps(book.notes()))
    return SplitBook(1, bounded=bounded, notes=notes, plan_again=True)


def test_a_bounded_source_is_planned_again_by_another_start() -> None:
    book = SplitBook(1, bounded=True, notes=None)
    book.assign(splits("a"))
    later = again(book)
    assert not later.is_complete
    assert ids(later.assign(splits("a", "b"))) == [["b"]]
    assert later.is_complete
    assert later.seen == {"a", "b"}


def test_a_source_that_has_lost_its_end_is_not_complete() -> None:
    book = SplitBook(1, bounded=True, notes=None)
    book.assign(splits("a"))
    for plan_again in (False, True):
        endless = SplitBook(1, bounded=False, notes=book.notes(), plan_again=plan_again)
        assert not endless.is_complete
        assert ids(endless.assign(splits("a", "b"))) == [["b"]]


def test_a_split_that_is_what_it_was_is_passed_over() -> None:
    book = SplitBook(1, bounded=True, notes=None)
    book.assign(marked(a="3 bytes", b="4 bytes"))
    assert ids(again(book).assign(marked(a="3 bytes", c="5 bytes"))) == [["c"]]
    assert ids(again(again(book)).assign(splits("b"))) == [[]]


def test_a_split_that_has_changed_is_refused_with_what_it_was() -> None:
    book = SplitBook(1, bounded=True, notes=None)
    book.assign(marked(a="3 bytes", b="4 bytes"))
    with pytest.raises(RestoreError, match=r"'b' has changed .* was 4 bytes, and is 9 bytes now"):
        again(book).assign(marked(a="3 bytes", b="9 bytes"))


def test_notes_of_a_version_without_marks_are_read() -> None:
    """What was read then cannot be told from what is there now, and is taken for the same."""
    notes = {"seen": ["a"], "complete": True}
    book = SplitBook(1, bounded=True, notes=notes, plan_again=True)
    assert ids(book.assign(marked(a="3 bytes", b="4 bytes"))) == [["b"]]
    with pytest.raises(RestoreError, match="'b' has changed"):
        again(book).assign(marked(b="5 bytes"))


def test_notes_without_marks_are_spelled_as_ever() -> None:
    book = SplitBook(1, bounded=True, notes=None)
    book.assign(splits("a"))
    assert book.notes() == {"seen": ["a"], "complete": True}


def test_an_unbounded_source_keeps_no_marks() -> None:
    book = SplitBook(1, bounded=False, notes=None)
    book.assign(marked(a="3 bytes"))
    assert book.notes() == {"seen": ["a"], "complete": False}
    assert ids(again(book, bounded=False).assign(marked(a="4 bytes"))) == [[]]


def test_the_marks_of_many_splits_are_packed_with_their_ids() -> None:
    book = SplitBook(1, bounded=True, notes=None)
    book.assign([Split(id, mark=f"mark of {id}") for id in many(0, 3 * RUN)])
    later = again(book)
    assert json.dumps(later.notes()) == json.dumps(book.notes() | {"complete": False})
    changed = [Split(many(0, 1)[0], mark="another")]
    with pytest.raises(RestoreError, match="it was mark of /in/day-000/orders-0000"):
        later.assign(changed)
    later.forget(many(0, RUN + 1))
    assert ids(again(later).assign(changed)) == [[many(0, 1)[0]]]
    with pytest.raises(RestoreError, match="has changed"):
        again(later).assign([Split(many(RUN + 1, RUN + 2)[0], mark="another")])


# ---------------------------------------------------------------- forgetting and packing


def many(first: int, after: int) -> list[str]:
    return [f"/in/day-{n // 1440:03d}/orders-{n % 1440:04d}.parquet" for n in range(first, after)]


def test_a_forgotten_id_is_in_no_notes_and_would_be_a_new_split() -> None:
    book = SplitBook(1, bounded=False, notes=None)
    book.assign(splits("a", "b", "c"))
    book.forget(["a", "c", "never seen"])
    assert book.seen == {"b"}
    assert book.notes() == {"seen": ["b"], "complete": False}
    assert ids(book.assign(splits("a", "b"))) == [["a"]]


def test_notes_taken_before_ids_are_forgotten_still_have_them() -> None:
    book = SplitBook(1, bounded=False, notes=None)
    book.assign(splits(*many(0, 3 * RUN)))
    before = book.notes()
    book.forget(many(0, RUN + 1))
    assert seen_in(before) == frozenset(many(0, 3 * RUN))
    assert seen_in(book.notes()) == frozenset(many(RUN + 1, 3 * RUN))


def test_many_ids_are_packed_and_found_again() -> None:
    book = SplitBook(1, bounded=False, notes=None)
    for first in range(0, 5 * RUN, 1000):
        book.assign(splits(*many(first, first + 1000)))
    notes = json.loads(json.dumps(book.notes()))
    restored = SplitBook(2, bounded=False, notes=notes)
    assert restored.seen == book.seen == seen_in(notes)
    assert ids(restored.assign(splits(*many(0, 5 * RUN)))) == [[], []]
    assert len(json.dumps(notes)) < len(json.dumps(many(0, 5 * RUN))) / 2


def test_a_packed_run_is_the_same_text_in_all_notes_while_it_is_whole() -> None:
    book = SplitBook(1, bounded=False, notes=None)
    book.assign(splits(*many(0, 4 * RUN)))
    first = book.notes()["packed"]
    book.assign(splits(*many(4 * RUN, 6 * RUN)))
    later = book.notes()["packed"]
    assert len(later) > len(first) > 1
    assert all(old is new for old, new in zip(first, later, strict=False))
    book.forget(many(0, 2))
    thinned = book.notes()["packed"]
    assert [text in later for text in thinned] == [False] + [True] * (len(thinned) - 1)


def test_runs_of_which_nothing_is_left_are_gone() -> None:
    book = SplitBook(1, bounded=False, notes=None)
    book.assign(splits(*many(0, 4 * RUN)))
    book.forget(many(0, 4 * RUN - 1))
    assert book.notes() == {"seen": many(4 * RUN - 1, 4 * RUN), "complete": False}


def test_packed_notes_cannot_be_taken_for_plain_ones() -> None:
    book = SplitBook(1, bounded=False, notes=None)
    book.assign(splits(*many(0, 2 * RUN)))
    assert "seen" not in book.notes()


def test_notes_of_a_later_format_are_refused_by_number() -> None:
    with pytest.raises(RestoreError, match=r"format 3.*reads the formats 1 and 2"):
        SplitBook(1, bounded=False, notes={"format": 3, "complete": False})
