"""The seam: what REST, metrics and the page see of a job.

There are two views: ``RunningView`` over the handle of a job in this process, and ``StoredView``
over a snapshot directory alone. One suite of tests holds for both.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from mainstay.inspect.answers import Answer
from mainstay.serve.documents import (
    AttemptDocument,
    EpochDetail,
    EpochDocument,
    FailureDocument,
    GraphDocument,
    HealthDocument,
    JobDocument,
    KeyGroupsDocument,
    RecoveryDocument,
    StateDocument,
    TasksDocument,
    TimelineEntry,
)
from mainstay.serve.output import OutputDocument
from mainstay.serve.requests import QueryRequest, SqlRequest

LATEST = "latest"


class JobView(Protocol):
    """A job as it is shown. Any thread may ask; what takes long says so."""

    @property
    def is_live(self) -> bool:
        """Whether the job is one of this process, so that it can be asked for things."""

    def now(self) -> tuple[JobDocument, TasksDocument]:
        """``job`` and ``tasks`` of one moment, for the price of one look."""

    def job(self) -> JobDocument: ...
    def health(self) -> HealthDocument: ...
    def graph(self) -> GraphDocument: ...
    def tasks(self) -> TasksDocument: ...

    def epochs(self, limit: int, before: int | None = None) -> list[EpochDocument]:
        """The newest epochs, oldest first; those with a number below ``before``."""

    def kept_epochs(self) -> list[int]:
        """The epochs that can be restored and asked for state, oldest first."""

    def epoch(self, number: int) -> EpochDetail: ...
    def attempts(self) -> list[AttemptDocument]: ...
    def recoveries(self) -> list[RecoveryDocument]: ...
    def failures(self) -> list[FailureDocument]: ...
    def timeline(self) -> list[TimelineEntry]: ...

    def output(self, limit: int, attempt: int | None = None) -> OutputDocument:
        """The last lines that functions have printed, of all attempts or of one."""

    # ------------------------------------------------------------ state; reads the storage

    def key_groups(self, operator: str) -> KeyGroupsDocument: ...
    def states(self, epoch: int | str = LATEST) -> list[StateDocument]: ...

    def query(self, request: QueryRequest, most: int) -> dict[str, Answer]:
        """What states hold, ``most`` rows of each and one more where there are more.

        Committed ones are of one epoch, live ones of one operator are of one moment.
        """

    def sql(self, request: SqlRequest, most: int) -> pa.Table: ...

    # ------------------------------------------------------------ actions; wait for the answer

    def savepoint(self, path: str, timeout_s: float) -> str: ...
    def stop(self, path: str | None, *, drain: bool, timeout_s: float) -> str | None: ...
    def rescale(self, parallelism: int, timeout_s: float) -> None: ...

    def cancel(self, timeout_s: float) -> None:
        """Raises ``TimeoutError`` where it has not ended by then; it will."""
