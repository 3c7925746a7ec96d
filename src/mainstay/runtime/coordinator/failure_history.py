"""The failures of a job so far, under whichever leader: for people, in memory and in its storage.

A leader stores each failure when it happens. What became of the last attempt of a leader that died
nobody has said, so its successor does, when it begins.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainstay.runtime.failure_record import FailureRecord
from mainstay.runtime.ports import Ports
from mainstay.snapshot.failures import (
    HANDED_OVER,
    KEPT_FAILURES,
    TAKEN_OVER,
    StoredFailure,
    in_order,
    read_failures,
    with_end,
    write_failure,
)
from mainstay.snapshot.history import Begin, History

SILENT = "its driver was not heard of any more"
TOLD_TO_END = "its driver was told to end"


class FailureHistory:
    """Those of earlier leaders, once they are read, and those of this one."""

    def __init__(self, ports: Ports, leader: str) -> None:
        self.records: list[FailureRecord] = []
        self.leader = leader
        self._ports = ports
        self._count = 0

    def add(self, record: FailureRecord) -> None:
        """An attempt has failed: store it, in the background. What cannot be stored is shown."""
        self._count += 1
        self._keep([record])
        number, storage = self._count, self._ports.storage
        self._ports.background.submit(
            lambda: write_failure(storage, record, number), lambda _: None, lambda _: None
        )

    def succeed(self, before: History, begin: Begin) -> None:
        """This leader has begun its first attempt: learn what failed before it."""
        storage = self._ports.storage

        def known(stored: list[StoredFailure]) -> None:
            told = with_end(stored, before.ended)
            self._keep(map(FailureRecord.known, told))
            self._note_silent_end(before, begin)

        self._ports.background.submit(lambda: read_failures(storage), known, lambda _: None)

    def _note_silent_end(self, before: History, begin: Begin) -> None:
        last = before.last_begin
        if last is None or before.ended is not None:
            return
        if not any(each.attempt == last.attempt for each in self.records):
            self.add(
                FailureRecord(
                    attempt=last.attempt,
                    at=self._ports.clock.wall(),
                    leader=self.leader,
                    cause=SILENT,
                    outcome=TAKEN_OVER,
                    next_attempt=begin.attempt,
                    from_epoch=begin.restored_from,
                )
            )

    def handed_over(self, attempt: int) -> None:
        """This leader ends, and leaves its attempt to another."""
        at = self._ports.clock.wall()
        self.add(FailureRecord(attempt, at, self.leader, TOLD_TO_END, HANDED_OVER))

    def _keep(self, records: Iterable[FailureRecord]) -> None:
        self.records[:] = in_order([*self.records, *records])[-KEPT_FAILURES:]
