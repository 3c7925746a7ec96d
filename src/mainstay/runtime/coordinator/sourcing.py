"""Sourcing: plans the splits of a job's sources in one attempt and gives them to the readers.

Planning may block and is done in the background. Assignments and triggers reach a worker in the
order they were sent, which ties the notes in a manifest to the state of the readers. A source
that cannot be reached is planned again after a while, for ever. When an epoch is complete a
source that wants to know is notified of the splits that are exhausted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from mainstay.errors import MainstayError, RestoreError, SourceError
from mainstay.runtime.connector import UNAVAILABLE, Json, Source, Split
from mainstay.runtime.connector_errors import of_connector
from mainstay.runtime.coordinator.splits import SplitBook, seen_in, unfinished_splits
from mainstay.runtime.messages import AssignSplits, Attempt
from mainstay.runtime.own_states import SPLITS
from mainstay.runtime.ports import Ports
from mainstay.runtime.retry import Retry
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import Problem
from mainstay.snapshot.manifest import Manifest
from mainstay.tracebacks import has_own_frames


@dataclass(slots=True, eq=False)
class _Planned:
    """One source: its splits, when it is planned next, and what it has to be notified of."""

    source: Source
    book: SplitBook
    replan_at: float | None = None
    is_planned: bool = False
    """Whether all subtasks of this attempt know which splits they begin with, if any."""
    planning: Retry = field(default_factory=Retry)
    telling: Retry = field(default_factory=Retry)
    is_telling: bool = False

    @property
    def wants_completions(self) -> bool:
        return type(self.source).on_complete is not Source.on_complete


class Sourcing:
    """The sources of one attempt."""

    def __init__(
        self,
        job: JobSpec,
        attempt: Attempt,
        ports: Ports,
        notes: dict[str, Any],
        failed: Callable[[Exception], None],
        *,
        plan_again: bool = False,
    ) -> None:
        self._attempt = attempt
        self._ports = ports
        self._failed = failed
        self._sources: dict[str, _Planned] = {}
        for task, operator in job.operators():
            if operator.source is not None:
                book = SplitBook(
                    task.parallelism,
                    bounded=operator.source.bounded,
                    notes=notes.get(operator.uid),
                    plan_again=plan_again,
                )
                self._sources[operator.uid] = _Planned(operator.source, book)

    def notes(self) -> dict[str, Any]:
        """What is known of every source at this moment: the manifest keeps it."""
        return {uid: planned.book.notes() for uid, planned in self._sources.items()}

    def start(self, restored: Manifest | None) -> None:
        """All workers are ready: plan what is not planned yet."""
        for uid, planned in self._sources.items():
            if planned.book.is_complete:
                self._assign(uid, planned, planned.book.nothing())
            else:
                self._plan(uid, planned)
        if restored is not None:
            self.epoch_complete(restored)

    def problems(self, now: float) -> list[Problem]:
        """The sources that cannot be reached."""
        found = []
        for uid, planned in self._sources.items():
            subject = f"source {uid!r}"
            found.append(planned.planning.problem(subject, "could not be planned", now))
            found.append(planned.telling.problem(subject, "was not told what is read", now))
        return [problem for problem in found if problem is not None]

    # ------------------------------------------------------------ planning

    def tick(self, now: float) -> None:
        for uid, planned in self._sources.items():
            if planned.replan_at is not None and now >= planned.replan_at:
                # It is due again only when this plan is done: never planned twice at once.
                planned.replan_at = None
                self._plan(uid, planned)

    def deadline(self) -> float | None:
        times = (planned.replan_at for planned in self._sources.values())
        return min((time for time in times if time is not None), default=None)

    def _plan(self, uid: str, planned: _Planned) -> None:
        source, book, seen = planned.source, planned.book, planned.book.seen

        def plan() -> tuple[list[Split], Collection[str]]:
            splits = list(source.plan(seen))
            return splits, () if source.bounded else source.forget(seen)

        def done(result: tuple[list[Split], Collection[str]]) -> None:
            splits, forgotten = result
            planned.planning.succeeded()
            book.forget(forgotten)
            try:
                shares = book.assign(splits)
            except RestoreError as error:
                self._failed(refused(uid, error))
                return
            self._assign(uid, planned, shares)
            if not book.bounded and source.replan_s is not None:
                planned.replan_at = self._ports.clock.monotonic() + source.replan_s

        def failed(error: Exception) -> None:
            if isinstance(error, UNAVAILABLE):
                planned.planning.failed(self._ports.clock.monotonic(), error)
                planned.replan_at = planned.planning.at
                return
            self._failed(refused(uid, error))

        self._ports.background.submit(plan, done, failed)

    def _assign(self, uid: str, planned: _Planned, shares: list[tuple[Split, ...]]) -> None:
        """Give the splits out. With the first of them a subtask learns of it if it gets none: then
        it holds event time back no more."""
        is_last, is_first = planned.book.is_complete, not planned.is_planned
        planned.is_planned = True
        for subtask, splits in enumerate(shares):
            if splits or is_last or is_first:
                message = AssignSplits(self._attempt, uid, subtask, splits, is_last)
                self._ports.send(subtask, message)

    # ------------------------------------------------------------ completed epochs

    def epoch_complete(self, manifest: Manifest) -> None:
        """Tell the sources that care what has been read to its end for good."""
        for uid, planned in self._sources.items():
            if planned.wants_completions and not planned.is_telling and uid in manifest.operators:
                self._tell(planned, manifest, uid)

    def _tell(self, planned: _Planned, manifest: Manifest, uid: str) -> None:
        planned.is_telling = True
        source = planned.source

        def tell() -> None:
            source.on_complete(seen_in(manifest.sources.get(uid)), unfinished(manifest, uid))

        def done(_: Any) -> None:
            planned.is_telling = False
            planned.telling.succeeded()

        def failed(error: Exception) -> None:
            # The next complete epoch tells it again, and more.
            planned.is_telling = False
            planned.telling.failed(self._ports.clock.monotonic(), error)

        self._ports.background.submit(tell, done, failed)


def refused(uid: str, error: Exception) -> MainstayError:
    """What is said of a source that cannot be planned, and could not be after a wait either.

    One that has never been planned is wrong; one that has been may be so again.
    """
    if isinstance(error, RestoreError):
        return RestoreError(f"source {uid!r}: {error}")
    what = f"source {uid!r} cannot be planned"
    if isinstance(error, MainstayError):
        unplanned = SourceError(f"{what}: {error}")
        unplanned.is_final = error.is_final
        unplanned.uid = uid
        if has_own_frames(error):
            unplanned.__cause__ = error  # the author's own code is at fault, and shows where
    else:
        unplanned = of_connector(SourceError, what, error, uid)
    unplanned.is_final_at_start = True
    return unplanned


def unfinished(manifest: Manifest, uid: str) -> dict[str, Json]:
    """The splits of a source that an epoch has not read to their end, and where each stands."""
    found: dict[str, Json] = {}
    if uid not in manifest.operators:
        return found
    for subtask in manifest.operators[uid].subtasks:
        if SPLITS.name in subtask.units:
            found.update({unit["id"]: unit["offset"] for unit in unfinished_splits(subtask)})
    return found
