"""Sourcing: plans the splits of a job's sources in one attempt and gives them to the readers.

Planning may block and is done beside the loop. Assignments and triggers reach a worker in the
order they were sent, which ties the notes in a manifest to the state of the readers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from mainstay.errors import SourceError
from mainstay.runtime.connector import Source, Split
from mainstay.runtime.messages import AssignSplits, Attempt
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.splits import SplitBook


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
        self._replan_at: dict[str, float] = {}
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
        for uid in [uid for uid, due in self._replan_at.items() if now >= due]:
            # It is due again only when this plan is done: a source is never planned twice at once.
            del self._replan_at[uid]
            self._plan(uid, *self._sources[uid])

    def deadline(self) -> float | None:
        return min(self._replan_at.values(), default=None)

    def _plan(self, uid: str, source: Source, book: SplitBook) -> None:
        seen = book.seen

        def plan() -> tuple[list[Split], Collection[str]]:
            planned = list(source.plan(seen))
            return planned, () if source.bounded else source.forget(seen)

        def done(result: tuple[list[Split], Collection[str]]) -> None:
            planned, forgotten = result
            book.forget(forgotten)
            self._assign(uid, book, book.assign(planned))
            if not book.bounded and source.replan_s is not None:
                self._replan_at[uid] = self._ports.clock.monotonic() + source.replan_s

        def failed(error: Exception) -> None:
            self._failed(
                SourceError(f"source {uid!r} cannot be planned: {type(error).__name__}: {error}")
            )

        self._ports.background.submit(plan, done, failed)

    def _assign(self, uid: str, book: SplitBook, shares: list[tuple[Split, ...]]) -> None:
        for subtask, splits in enumerate(shares):
            if splits or book.is_complete:
                message = AssignSplits(self._attempt, uid, subtask, splits, book.is_complete)
                self._ports.send(subtask, message)
