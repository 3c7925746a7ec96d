"""The checker sees what it is there for: each test plants one defect in a run that is right."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.snapshot.history import Begin, EpochCommitted, Record
from mainstay.snapshot.manifest import FileRef
from tests.together.answers import AnswerBook, Before, Legal, Told
from tests.together.checker import check_answers, check_courses, check_log, check_rows, check_state
from tests.together.generator import KEYS, PARTITIONS, events, moves
from tests.together.model import Prefixes, expected_of_accounts, expected_of_orders
from tests.together.outputs import of_folders
from tests.together.plan import FAULTS, LASTS_S, REQUESTS, plan
from tests.together.report import Report
from tests.together.sampling import Samples, course

SEED = 7
COUNT = 2_000


def test_a_folder_that_nothing_was_committed_to_has_no_rows(tmp_path: Path) -> None:
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(tmp_path / "snapshots"))
    source = ms.connectors.Rows("n long, k long, amount int", [])
    sink = ms.connectors.ParquetSink(tmp_path / "copies")
    env.source(source, uid="in").sink(sink, uid="out")
    assert env.start("empty").wait() == "finished"
    assert of_folders("copies", [tmp_path]) == {}


# ---------------------------------------------------------------- the model


def test_the_model_counts_every_event_once_in_every_output() -> None:
    expected = expected_of_orders(events(SEED, COUNT))
    outputs = expected.outputs
    assert sum(outputs["totals"].values()) == COUNT
    assert sum(row[3] for row in outputs["windows"].elements()) == COUNT
    assert sum(row[2] for row in outputs["buckets"].elements()) == COUNT
    assert sum(outputs["rounds"].values()) == COUNT // 5
    assert 0 < len(outputs["pairs"]) < COUNT, "some rows have a match, and some have none"
    assert sum(expected.states["totals.seen"].values()) == COUNT


def test_the_same_seed_gives_the_same_input_and_another_one_another() -> None:
    assert list(events(SEED, 50)) == list(events(SEED, 50)) != list(events(SEED + 1, 50))
    assert list(moves(SEED, 50)) == list(moves(SEED, 50)) != list(moves(SEED + 1, 50))


def test_no_event_is_older_than_the_delay_of_the_watermark_allows() -> None:
    newest = dict.fromkeys(range(PARTITIONS), 0)
    for each in events(SEED, COUNT):
        assert each.at_us > newest[each.partition] - 2_000_000
        newest[each.partition] = max(newest[each.partition], each.at_us)


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("name", ["totals", "windows", "buckets", "pairs", "rounds"])
def test_a_lost_and_a_doubled_row_are_found_in_every_output(name: str) -> None:
    expected = expected_of_orders(events(SEED, COUNT)).outputs[name]
    assert check_rows(name, expected, Counter(expected)) == []
    row = next(iter(expected))
    (lost,) = check_rows(name, expected, expected - Counter([row]))
    assert "1 rows are lost" in lost
    assert str(row) in lost
    (doubled,) = check_rows(name, expected, expected + Counter([row]))
    assert "1 rows are doubled" in doubled


def test_a_row_that_was_never_due_is_found() -> None:
    expected = expected_of_accounts(moves(SEED, COUNT)).outputs["moves"]
    (strange,) = check_rows("moves", expected, expected + Counter([(-1, 0, 0)]))
    assert "1 rows are strange" in strange


def test_a_value_of_a_state_that_is_off_by_one_is_found() -> None:
    expected = expected_of_accounts(moves(SEED, COUNT)).states["accounts.seen"]
    assert check_state("accounts.seen", expected, dict(expected)) == []
    (wrong,) = check_state("accounts.seen", expected, {**expected, 3: expected[3] + 1})
    assert "1 keys are wrong" in wrong


# ---------------------------------------------------------------- logs


def begin(attempt: int, leader: str) -> Begin:
    return Begin(attempt, leader, None, "l", "orders-1", 128, "h", 1)


def epoch(number: int, attempt: int) -> EpochCommitted:
    return EpochCommitted(number, attempt, FileRef(f"manifest-{number}", 1, 1))


RIGHT: list[Record] = [begin(1, "a"), epoch(1, 1), epoch(2, 1), begin(2, "b"), epoch(3, 2)]


def test_a_log_that_is_right_is_not_objected_to() -> None:
    assert check_log("orders", RIGHT, 0) == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (epoch(4, 1), "of an attempt that was replaced"),
        (epoch(2, 2), "an epoch number goes back"),
        (begin(2, "c"), "an attempt goes back"),
    ],
)
def test_a_leader_that_goes_on_after_its_successor_has_begun_is_found(
    more: Record, says: str
) -> None:
    (found,) = check_log("orders", [*RIGHT, more], 0)
    assert says in found


def test_slots_that_nobody_saw_are_told_of() -> None:
    assert check_log("orders", RIGHT, 2) == [
        "log of orders: 2 slots were gone before they were seen"
    ]


# ---------------------------------------------------------------- answers


class Log:
    """A log that was read."""

    def __init__(self, records: list[Record]) -> None:
        self.records = records

    def last_epochs(self) -> set[int]:
        return {2, 3}


@pytest.fixture
def prefixes() -> Prefixes:
    made = Prefixes()
    for each in events(SEED, COUNT):
        made.add(each)
    return made


@pytest.fixture
def book(prefixes: Prefixes) -> AnswerBook:
    return AnswerBook(Legal(prefixes.produced, prefixes.last_of, prefixes.count_at))


def told(prefixes: Prefixes, seen: int, **more: Any) -> Told:
    settings = {"client": 1, "incarnation": 1, "level": "live", "epoch": 1, "attempt": 1, "key": 3}
    return Told(**{**settings, "seen": seen, "last": prefixes.last_of(3, seen), **more})


def committed(prefixes: Prefixes, seen: int, epoch: int, **more: Any) -> Told:
    """An answer with a position behind the row that it has counted last."""
    offset = next(at for at in range(COUNT) if prefixes.count_at(3, at) == seen)
    position = {f"events-{3 % PARTITIONS}": offset}
    return told(prefixes, seen, level="committed", epoch=epoch, position=position, **more)


def test_answers_that_are_right_are_not_objected_to(book: AnswerBook, prefixes: Prefixes) -> None:
    book.take(committed(prefixes, 5, 1))
    book.take(told(prefixes, 7))
    book.take(told(prefixes, 9, before=book.before(1, 3)))
    book.take(committed(prefixes, 9, 2))
    book.take(told(prefixes, 9, attempt=2, before=book.before(1, 3)))
    assert check_answers("orders", book, [Log(RIGHT)]) == []  # type: ignore[list-item]
    assert book.counts == {"committed": 2, "live": 3}


def test_an_answer_that_goes_back_within_an_attempt_is_found(
    book: AnswerBook, prefixes: Prefixes
) -> None:
    book.take(told(prefixes, 9))
    book.take(told(prefixes, 8, before=book.before(1, 3)))
    assert "has told of 9 rows before" in book.differences[0]


def test_answers_that_overtake_each_other_are_legal(book: AnswerBook, prefixes: Prefixes) -> None:
    asked_at = book.before(1, 3)
    book.take(told(prefixes, 9, before=asked_at))
    book.take(told(prefixes, 8, before=asked_at))
    assert book.differences == []


def test_a_live_answer_that_is_older_than_a_commit_is_found(
    book: AnswerBook, prefixes: Prefixes
) -> None:
    book.take(committed(prefixes, 9, 2))
    book.take(told(prefixes, 8, attempt=2, before=book.before(1, 3)))
    assert "attempt 1 has committed 9 rows" in book.differences[0]


def test_an_answer_of_an_attempt_that_was_replaced_may_be_older(
    book: AnswerBook, prefixes: Prefixes
) -> None:
    book.take(committed(prefixes, 9, 2, attempt=2))
    book.take(told(prefixes, 8, attempt=1, before=book.before(1, 3)))
    assert book.differences == []


def test_an_epoch_that_goes_back_for_a_client_is_found(
    book: AnswerBook, prefixes: Prefixes
) -> None:
    book.take(committed(prefixes, 9, 2))
    book.take(committed(prefixes, 9, 1, client=2))
    assert book.differences == []
    book.take(committed(prefixes, 9, 1))
    assert "the client has seen (1, 2) before" in book.differences[0]


def test_a_count_with_the_wrong_last_row_is_found(book: AnswerBook, prefixes: Prefixes) -> None:
    book.take(replace(told(prefixes, 9), last=prefixes.last_of(3, 8)))
    assert "row 9 of the key is number" in book.differences[0]


def test_more_rows_than_were_written_are_found(book: AnswerBook, prefixes: Prefixes) -> None:
    book.take(told(prefixes, prefixes.produced(3) + 1))
    assert "rows were ever written" in book.differences[0]


def test_rows_beyond_the_position_of_an_epoch_are_found(
    book: AnswerBook, prefixes: Prefixes
) -> None:
    right = committed(prefixes, 9, 1)
    book.take(replace(right, seen=10, last=prefixes.last_of(3, 10)))
    assert "up to the position there are 9 rows" in book.differences[0]


def test_rows_missing_before_the_position_of_an_epoch_are_found_unless_the_job_was_halted(
    book: AnswerBook, prefixes: Prefixes
) -> None:
    for number, client in ((1, 1), (3, 2)):
        right = committed(prefixes, 9, number, client=client)
        book.take(replace(right, seen=8, last=prefixes.last_of(3, 8)))
    (found,) = check_answers("orders", book, [Log(RIGHT)])  # type: ignore[list-item]
    assert "at epochs 1 lack rows up to their position" in found


def test_an_answer_of_an_epoch_that_was_never_committed_is_found(
    book: AnswerBook, prefixes: Prefixes
) -> None:
    book.take(committed(prefixes, 9, 4))
    (found,) = check_answers("orders", book, [Log(RIGHT)])  # type: ignore[list-item]
    assert "at epochs 4 are of no epoch of the log" in found


def test_nothing_is_known_before_anything_was_told(book: AnswerBook) -> None:
    assert book.before(1, KEYS - 1) == Before()


# ---------------------------------------------------------------- resources


@pytest.mark.parametrize("unit", ["rss_mb", "fds", "connections", "files"])
def test_a_leak_is_found_and_a_spike_is_not(unit: str) -> None:
    flat = [100.0, 101.0] * 30
    assert course("drivers", unit, flat).is_flat
    spiked = [*flat[:50], 900.0, *flat[51:]]
    assert course("drivers", unit, spiked).is_flat
    leaking = [100.0 + 4 * number for number in range(60)]
    (found,) = check_courses([course("drivers", unit, leaking)])
    assert f"drivers: {unit} grew from" in found


def test_a_start_that_takes_a_while_is_no_leak() -> None:
    warming = [10.0] * 15 + [200.0] * 45
    assert course("workers", "rss_mb", warming).is_flat


def test_samples_are_means_over_the_processes_of_a_kind() -> None:
    samples = Samples()
    for _ in range(12):
        samples.add("workers", "fds", [10.0, 20.0])
        samples.add("workers", "rss_mb", [])
    (only,) = samples.courses()
    assert (only.second, only.last, only.is_flat) == (15.0, 15.0, True)


# ---------------------------------------------------------------- plans and reports


def test_the_same_seed_plans_the_same_events() -> None:
    assert plan(SEED, 3_600) == plan(SEED, 3_600) != plan(SEED + 1, 3_600)


def test_an_hour_has_events_of_every_kind_at_moments_that_grow() -> None:
    events = [each for seed in range(3) for each in plan(seed, 3_600)]
    assert {each.kind for each in events} == set(FAULTS | REQUESTS)
    assert {"upgrade", "upgrade from a savepoint"} <= {each.kind for each in plan(SEED, 900)}
    moments = [each.at_s for each in plan(SEED, 3_600)]
    assert moments == sorted(moments)
    assert all((each.lasts_s > 0) == (each.kind in LASTS_S) for each in events)


def test_a_report_tells_what_was_different() -> None:
    flat, grown = (
        course("drivers", "fds", [9.0] * 20),
        course("w", "fds", [float(n * n) for n in range(20)]),
    )
    report = Report(7, 60.0, {"kill worker": 3}, {"fill the disk": 1}, "only root can")
    report.courses = [flat, grown]
    assert report.text().endswith("no differences")
    report.differences.append("a row is lost")
    text = report.text()
    assert "seed 7, 60.0 minutes" in text
    assert "3 done, 0 not" in text
    assert "only root can" in text
    assert text.count("GROWS") == 1
    assert text.endswith("1 differences")
