"""The handle of a running job: what its author may ask of it, and what the answers mean."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from mainstay.inspect.answers import Answer
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.coordinator.slowness import Silent
from mainstay.runtime.failure_record import FailureRecord
from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.record_list import RecordList
from mainstay.runtime.status import AttemptRecord, Problem, Recovery


class Job(Protocol):
    """What ``Environment.start`` returns.

    What it returns as a list is a table in a terminal and in a notebook.
    """

    name: str

    @property
    def status(self) -> str:
        """starting, launching, running, restarting, finished, stopped, failed or cancelled.

        Or standby: this process does not lead the job.
        """

    @property
    def leader(self) -> str:
        """Who leads a job with several drivers, as far as is known; empty for a job with one."""

    @property
    def url(self) -> str | None:
        """The address of its page, with the token in it; None without ``Environment(ui=...)``."""

    @property
    def exit_code(self) -> int | None:
        """What a program that runs this job alone should end with; None while it has not ended.

        0: finished, stopped or cancelled. 75: start it again. 78: starting it again does not help.
        1: it has failed for good. 143: SIGTERM has ended it.
        """

    @property
    def parallelism(self) -> int:
        """The parallelism of every operator that was not given its own, as the job runs now."""

    @property
    def asked_parallelism(self) -> int:
        """The parallelism that was asked for; more than ``parallelism`` where there are too few
        slots for it, and ``Environment(min_parallelism=...)`` allows less.
        """

    def wait(self, timeout: float | None = None, *, progress: bool = True) -> str:
        """Wait for the end and return the final status; raises what made the job fail.

        After ``timeout`` seconds it returns the status that the job has then: equal to the bare
        word, and printed with what the job waits for, or why it is restarting. In a terminal a line
        shows how the job is doing. Ctrl-C cancels the job and says how to go on. So does SIGTERM in
        the main thread, unless the program handles it; with several drivers it leaves the job to
        another one. ``SystemExit`` is raised then.
        """

    def cancel(self) -> None:
        """End the job, whatever it waits for. The last complete epoch can be restored."""

    def snapshot(self, timeout: float | None = None) -> int:
        """Take an epoch now instead of when it is due; returns its number when it is complete.

        What the job had taken in when this was called is in it. An epoch that fails is followed by
        another one. Without an answer within ``timeout`` seconds ``TimeoutError`` is raised.
        """

    def savepoint(self, path: str | os.PathLike[str], timeout: float | None = None) -> str:
        """Write a savepoint of the running job; returns its path when it is there.

        The path is a folder that is absent or empty, or a URL of an object store. The job goes on
        meanwhile. Without an answer within ``timeout`` seconds ``TimeoutError`` is raised; the
        savepoint may still be finished.
        """

    def stop(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        drain: bool = False,
        timeout: float | None = None,
    ) -> str | None:
        """Bring the job to a standstill: one last epoch, confirmed by every sink, then the end.

        With a path that epoch is a savepoint as well, and the path is returned. The job can be
        started again from either and loses nothing. ``drain`` ends the input first, as at the end
        of a bounded job: operators emit what they hold back. For a job that has finished or
        stopped already there is nothing to do.
        """

    def rescale(self, parallelism: int, timeout: float | None = None) -> None:
        """Go on at another parallelism; returns when the job runs again.

        Takes an epoch, halts, and starts new workers from it. Operators that were given a
        parallelism of their own keep it. At the parallelism that it has nothing is done.
        """

    def metrics(self) -> dict[tuple[str, int], TaskMetrics]:
        """What each subtask, named by its task and number, has done in the running attempt."""

    def problems(self) -> RecordList[Problem]:
        """What keeps the job from making progress just now; ``str`` of each is a line for people.

        What it waits for outside, such as a sink's target that does not answer: it goes on by
        itself when that is over. And the last failed attempt, until an epoch is complete again.
        """

    def silent(self) -> list[Silent]:
        """The operators of the running attempt that took rows and have emitted none.

        A filter may do so; a function that does has perhaps forgotten its ``yield``.
        """

    def snapshots(self) -> RecordList[EpochRecord]:
        """The epochs so far, oldest first, with what each subtask measured.

        Of a job that had finished and has nothing new to read, the last epochs that it had.
        """

    @property
    def restored(self) -> tuple[str, ...]:
        """What the job went on from when it was started, a line for each thing.

        Which states were matched, added, dropped, converted and migrated; ``attempts`` has the
        same for each restart. For a job that had finished, what input is new; where there is none,
        when that was and what would be new. Empty where it started fresh, and until the first
        attempt begins.
        """

    def query(
        self,
        state: str,
        *,
        key: Any = ...,
        keys: Iterable[Any] | None = None,
        limit: int | None = None,
        at: str = "live",
        epoch: int | str = "latest",
        after: Any = None,
        timeout: float | None = None,
    ) -> Answer:
        """What a state, named ``operator.state``, holds: of a key, of some keys, or of some.

        ``live`` asks the owner of each key, between two slices of rows: all rows that it has taken
        are in the answer, which a restart may take back. ``at="committed"``, ``epoch`` and
        ``after`` read the snapshots instead, whether the job runs or not: see ``connect``. Raises
        ``QueryError`` where there is no live state just now.
        """

    def query_states(
        self,
        states: Sequence[str],
        *,
        key: Any = ...,
        keys: Iterable[Any] | None = None,
        limit: int | None = None,
        at: str = "live",
        epoch: int | str = "latest",
        after: Any = None,
        timeout: float | None = None,
    ) -> dict[str, Answer]:
        """The same of several states, by their names.

        Committed ones are all of one epoch. Of live ones those of one operator are of one moment
        for each of its subtasks.
        """

    def sql(self, statement: str, *, epoch: int | str = "latest") -> pa.Table:
        """The rows of a ``SELECT`` over committed states, each the table ``operator.state``."""

    def recoveries(self) -> RecordList[Recovery]:
        """How each attempt that has run took over from the one before it, and how long it took."""

    def attempts(self) -> RecordList[AttemptRecord]:
        """The attempts so far, with what each was restored from and why it ended."""

    def failures(self) -> RecordList[FailureRecord]:
        """The failed attempts, oldest first: when, where, the cause, and what was done about it.

        Also those of earlier starts and of other drivers: the newest 200 are kept in the snapshot
        directory. A process on standby knows those up to the end of the last time it led.
        """
