"""Which process becomes which worker, by what its host has."""

from __future__ import annotations

from mainstay.runtime.coordinator.worker_numbers import MOST_FILES, files_by_worker, hand_out
from mainstay.runtime.deployment import RestoredState
from mainstay.snapshot.manifest import FileRef, SegmentRef


def test_where_no_host_has_anything_the_numbers_are_those_of_the_processes() -> None:
    assert hand_out({0: (), 1: (), 2: ()}) == {0: 0, 1: 1, 2: 2}
    assert hand_out({0: (0, 0), 1: (0, 0)}) == {0: 0, 1: 1}


def test_workers_go_where_their_files_are() -> None:
    assert hand_out({0: (0, 500), 1: (400, 0)}) == {0: 1, 1: 0}


def test_on_a_single_host_nobody_changes_places() -> None:
    held = (100, 300, 200)
    assert hand_out({0: held, 1: held, 2: held}) == {0: 0, 1: 1, 2: 2}


def test_processes_of_a_host_share_what_it_has() -> None:
    one, other = (90, 0, 80, 0), (0, 90, 0, 80)
    found = hand_out({0: other, 1: other, 2: one, 3: one})
    assert {found[0], found[1]} == {1, 3}
    assert {found[2], found[3]} == {0, 2}


def test_the_most_bytes_count_first() -> None:
    assert hand_out({0: (100, 0), 1: (900, 0)}) == {1: 0, 0: 1}


def test_a_process_of_a_new_host_gets_what_is_left() -> None:
    assert hand_out({0: (0, 0, 0), 1: (700, 0, 0), 2: (0, 700, 0)}) == {0: 2, 1: 0, 2: 1}


def test_what_a_host_has_of_a_worker_that_is_no_more_does_not_count() -> None:
    assert hand_out({0: (0, 10, 999), 1: (10, 0, 999)}) == {0: 1, 1: 0}


def segment(name: str, *parts: str) -> SegmentRef:
    files = [FileRef(each, 10, "crc32:00000000") for each in (name, *parts)]
    return SegmentRef(name, files[0], 0, 127, 1, parts=tuple(files[1:]))


def test_a_worker_reads_the_files_of_its_subtasks_in_the_jobs_own_storage() -> None:
    restored = {
        ("count", 0): RestoredState((segment("a"), segment("b", "c"))),
        ("sum", 0): RestoredState((segment("d"),)),
        ("sum", 1): RestoredState((segment("e"),)),
        ("other", 1): RestoredState((segment("f"),), origin="s3://elsewhere"),
    }
    files = files_by_worker(restored, 3)
    assert [[file.path for file in each] for each in files] == [["a", "b", "c", "d"], ["e"], []]


def test_a_list_that_would_be_too_long_for_every_process_is_left_out() -> None:
    many = tuple(segment(f"s{number}") for number in range(MOST_FILES))
    assert len(files_by_worker({("sum", 0): RestoredState(many)}, 2)[0]) == MOST_FILES
    assert files_by_worker({("sum", 0): RestoredState((*many, segment("one more")))}, 2) == ()
