"""Sourcing: plans the splits of a job's sources in one attempt and gives them to the readers.

Planning may block and is done beside the loop. Assignments and triggers reach a worker in the
order they were sent, which ties the notes in a manifest to the state of the readers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstay.errors import SourceError
from mainstay.runtime.connector import Source, Split
from mainstay.runtime.messages import AssignSplits, Attempt
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.splits import SplitBook

REPLAN_S = 1.0


class Sourcing:
    """The sources of one attempt."""

    def __init__(
        self,
        job: JobSpec,
        attempt: Attempt,
        ports: Ports,
        notes: dict[str, Any],
        failed: Callable[[Exception], None],
    ) -> None:
        self._attempt = attempt
        self._ports = ports
        self._failed = failed
        self._replan_at: float | None = None
        self._sources: dict[str, tuple[Source, SplitBook]] = {}
        for task, operator in job.operators():
            if operator.source is not None:
                book = SplitBook(
                    task.parallelism,
                    bounded=operator.source.bounded,
                    notes=notes.get(operator.uid),
                )
                self._sources[operator.uid] = (operator.source, book)

    def notes(self) -> dict[str, Any]:
        """What is known of every source at this moment: the manifest keeps it."""
        return {uid: book.notes() for uid, (_, book) in self._sources.items()}

    def start(self) -> None:
        """All workers are ready: plan what is not planned yet."""
        for uid, (source, book) in self._sources.items():
            if book.is_complete:
                self._assign(uid, book, book.nothing())
            else:
                self._plan(uid, source, book)

    def tick(self, now: float) -> None:
        if self._replan_at is None or now < self._replan_at:
            return
        self._replan_at = None
        for uid, (source, book) in self._sources.items():
            if not book.bounded:
                self._plan(uid, source, book)

    def deadline(self) -> float | None:
        return self._replan_at

    def _plan(self, uid: str, source: Source, book: SplitBook) -> None:
        seen = book.seen

        def done(planned: list[Split]) -> None:
            self._assign(uid, book, book.assign(planned))
            if not book.bounded:
                self._replan_at = self._ports.clock.monotonic() + REPLAN_S

        def failed(error: Exception) -> None:
            self._failed(
                SourceError(f"source {uid!r} cannot be planned: {type(error).__name__}: {error}")
            )

        self._ports.background.submit(lambda: list(source.plan(seen)), done, failed)

    def _assign(self, uid: str, book: SplitBook, shares: list[tuple[Split, ...]]) -> None:
        for subtask, splits in enumerate(shares):
            if splits or book.is_complete:
                message = AssignSplits(self._attempt, uid, subtask, splits, book.is_complete)
                self._ports.send(subtask, message)
