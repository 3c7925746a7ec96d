from __future__ import annotations

from mainstay.runtime.connector import Split
from mainstay.runtime.splits import SplitBook


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
