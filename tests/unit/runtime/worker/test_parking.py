"""Rows that wait for remote state keep their order, and are asked for again where a read fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from mainstay.runtime.operators.base import Operator
from mainstay.runtime.worker.parking import MOST_SLICES, Parking
from mainstay.state.backends.contract import Work


class Later:
    """Work that is done when a test says so."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Callable[[], Any], Any, Any]] = []

    def submit(self, work: Any, done: Any, failed: Any) -> None:
        self.submitted.append((work, done, failed))

    def do(self, number: int = 0) -> None:
        work, done, _ = self.submitted.pop(number)
        done(work())

    def fail(self, number: int = 0) -> None:
        self.submitted.pop(number)[2](ConnectionError("away"))


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    wall = cpu = monotonic


class Reading(Operator):
    """Needs a read for every batch but those of port 1."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def ahead(self, batch: pa.RecordBatch, port: int) -> Work | None:
        if port:
            return None
        number = batch.column(0)[0].as_py()
        return Work(lambda: number, self.read.append, lambda error: None)


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch({"n": [number]})


def parked() -> tuple[Parking, Later, Reading]:
    later, head = Later(), Reading()
    return Parking(head, later, Clock()), later, head


def numbers(parking: Parking) -> list[int]:
    found = []
    while (ready := parking.next()) is not None:
        found.append(ready.batch.column(0)[0].as_py())
    return found


def test_rows_that_need_no_read_do_not_wait() -> None:
    parking, _, _ = parked()
    assert not parking.take(batch(1), 1, "edge")
    assert parking.is_empty


def test_rows_keep_their_order_whichever_read_is_done_first() -> None:
    parking, later, head = parked()
    assert parking.take(batch(1), 0, "edge")
    assert parking.take(batch(2), 0, "edge")
    assert parking.take(batch(3), 1, "edge"), "it needs no read, but others are before it"
    later.do(1)
    assert numbers(parking) == []
    later.do()
    assert numbers(parking) == [1, 2, 3]
    assert head.read == [2, 1]
    assert parking.is_empty
    assert parking.reads == 2


def test_a_read_that_failed_is_asked_for_again() -> None:
    parking, later, head = parked()
    parking.take(batch(1), 0, "edge")
    later.fail()
    assert numbers(parking) == []
    later.do()
    assert numbers(parking) == [1]
    assert head.read == [1]


def test_only_a_few_slices_wait() -> None:
    parking, _, _ = parked()
    for number in range(MOST_SLICES):
        assert not parking.is_full
        parking.take(batch(number), 0, f"edge-{number}")
    assert parking.is_full
    assert parking.rows == MOST_SLICES
    assert [edge for edge, _ in parking.kept()] == [f"edge-{n}" for n in range(MOST_SLICES)]
