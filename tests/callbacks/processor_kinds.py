"""Callbacks of PySpark's own stateful processors."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tests.callbacks.conducts import Fault
from tests.callbacks.keyed_kinds import firsts, numbered
from tests.callbacks.kind import Kind
from tests.callbacks.plain_kinds import OUT


class Numbering(StatefulProcessor):
    """Numbers the rows of each key; its method of a name does wrong."""

    def __init__(self, fault: Fault, at: str) -> None:
        self.fault, self.faulty = fault, at

    def meet(self, method: str, n: int | None = None) -> None:
        if method == self.faulty:
            self.fault(n)

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n long")
        self.has_rows = False

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        found, self.has_rows = [], True
        for row in rows:
            count = (self.count.get() or (0,))[0] + 1
            self.count.update((count,))
            self.meet("handleInputRows", row.n)
            found.append(Row(k=key[0], n=count))
        return iter(found)

    def close(self) -> None:
        # It is called once while the graph is built, too.
        if self.has_rows:
            self.meet("close")


class Rung(Numbering):
    """Tells the first row of each key when a timer fires."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        if self.count.get() is None:
            self.count.update((min(row.n for row in rows) % 3,))
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs())
        return iter([])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        self.meet("handleExpiredTimer")
        return iter([Row(k=key[0], n=self.count.get()[0])])


def processor(cls: Any, at: str, **more: Any) -> Kind:
    def apply(stream: Any, fault: Fault) -> Any:
        keyed = stream.key_by("k")
        return keyed.transform_with_state(
            cls(fault, at), OUT, time_mode="ProcessingTime", uid="subject"
        )

    return Kind(f"processor-{at}", at, apply, **more)


KINDS = (
    processor(Numbering, "handleInputRows", expected=numbered),
    processor(Rung, "handleExpiredTimer", expected=firsts, hook="handleExpiredTimer"),
    processor(Numbering, "close", expected=numbered, hook="close", how="told"),
)
