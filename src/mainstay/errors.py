"""Every error that Mainstay raises on purpose, divided by what the caller can do about it.

::

    MainstayError
    ├── GraphError              the program is wrong: change it
    │   ├── NotCompiledError    something has no compiled form (plan/compiling/refusal.py)
    │   ├── SchemaError         a type or schema string is wrong, or a row does not fit it
    │   └── KeywordError        a call has an argument that does not exist; a TypeError as well
    ├── StateTypeError          a value does not fit the declared state type
    │   └── UnfitRowsError      rows of a DataFrame do not; says which (inspect/fitting.py)
    ├── UserFunctionError       code of the job's author raised; carries its traceback
    ├── RestoreError            what is stored does not fit what was asked for
    │   ├── HistoryExistsError  a fresh start was asked for in a directory with a history
    │   ├── EpochGoneError      the epoch was complete once, and is not kept any more
    │   └── DamagedFileError    a stored file is missing, truncated or altered
    ├── QueryError              live state cannot be asked just now, or not so
    │   ├── BehindError         no epoch has come up to what the query waits for
    │   └── UnreachableError    nothing answers at the address of a job
    ├── SqlError                a statement over states cannot be run, or took more than it may
    ├── SavepointError          a savepoint was not written; the job itself is not harmed
    ├── SnapshotStorageError    the storage did not do what it was asked; trying again may help
    │   ├── OutcomeUnknownError the storage may or may not have done it: ask before assuming
    │   └── NotFound            there is no such file; a finding (snapshot/storage.py)
    ├── FencedError             a newer attempt or leader owns the job: stop at once
    ├── LinkError               processes of the job cannot reach each other; the attempt ends
    ├── SparkSetupError         the Spark session cannot run the job as it is set up
    │   ├── SessionStoppedError it was stopped, or its JVM died, under a running job
    │   └── SlotsError          it has too few free slots
    ├── SourceError             a source cannot be read
    ├── SinkError               a sink cannot be written
    ├── JobFailedError          the restart strategy gave up; the cause is attached
    │   └── JobOverError        the job has ended, and cannot do what it was asked for
    ├── NotLeadingError         another process leads the job: ask that one
    └── ProtocolError           a rule of the runtime was broken: a bug in Mainstay

Not in the tree, because nobody gets them from a job:

- ``UnavailableError`` (runtime/connector.py), a ``ConnectionError``: a connector raises it to be
  tried again; ``job.problems()`` shows it.
- ``StoreAwayError`` (state/backends/external/store.py): the database of a job's state does not
  answer; it is asked again, and ``job.problems()`` shows it.
- ``FenceHeldError`` (state/backends/external/votes.py), a ``StoreAwayError``: a write of another
  attempt is under way; who raises the fence settles it.
- ``StateRefusedError`` (connectors/postgres/states/sessions.py): a server refuses what the state
  of a job needs; its message is that of a ``MainstayError`` which names the operator.
- ``AggregateFailedError`` (state/partials.py): its caller raises a ``UserFunctionError`` or
  ``StateTypeError`` that names the operator.
- ``DoesNotFitError`` (state/accumulating.py): its caller raises a ``StateTypeError`` that names the
  operator.
- ``RemoteError`` (runtime/connector_errors.py): the cause of a ``SourceError`` or ``SinkError``
  that comes from another process.
- ``UnfitValueError`` (spark/processors/errors.py): what Spark raises where a value does not fit a
  state; the job ends with a ``UserFunctionError`` that names the operator.
- ``Trap`` (runtime/compiled/arithmetic.py): a kernel stops, and the function itself is called for
  that row. ``Full`` (runtime/compiled/arithmetic.py): it stops, and goes on with more room.
- ``LostError`` (runtime/compiled/finding.py): a constant of a compiled function is gone; the
  function itself is called.
- ``UnknownNameError`` (plan/compiling/lifting.py), ``WrongFormError`` (plan/compiling/fitting.py),
  ``NoSuchOperationError`` (plan/compiling/operations.py): who catches them raises a
  ``NotCompiledError`` that names the line.
- ``TooLargeError`` (schema/sizes.py): its caller makes smaller batches.
- ``UnsureError`` (inspect/sql_keys.py): which keys a statement reads is not known; its caller reads
  all.
- ``RefusedError`` (serve/refusals.py): a request over HTTP is answered with its text and status.
- ``NoSuchJobError`` (control/target.py): a command names no job, or several, or one that is gone.
- ``UnreadableError`` (registry/entry.py): a file of the registry is left out, with a warning.
- ``NothingYetError`` (testing/listed.py): the simulation asks a list again when its turn comes.
- ``StuckError`` (testing/simulation.py) is an ``AssertionError`` of the simulation.

A message says what happened, to which named thing, and what to do next. Each error also says
whether a restart may heal what it tells of (``is_final``): a job is not started again after one
that says no. A single error may say otherwise than its class.
"""

from __future__ import annotations

import asyncio
import pickle

RAISED = (Exception, asyncio.CancelledError, GeneratorExit, SystemExit)
"""What the machinery reports: operators may raise anything, and it is reported as theirs."""


class MainstayError(Exception):
    """The base of every error raised by Mainstay itself."""

    is_final: bool = False
    """Whether somebody has to change something first: no restart heals it."""
    is_final_at_start: bool = False
    """The same, for a job that has not completed an epoch yet: nothing says that it ever works."""
    is_of_process: bool = False
    """Whether it lies with this process alone: another driver of the job may go on with it."""


def words(error: BaseException) -> str:
    """What an error says. That of another author may fail to say it."""
    try:
        return str(error)
    except Exception as failure:
        return f"(its __str__ raised {type(failure).__name__})"


def named(error: BaseException) -> str:
    """The class of an error, and what it says."""
    return f"{type(error).__name__}: {words(error)}".removesuffix(": ")


def retold(where: object, error: Exception) -> MainstayError:
    """An error with the place before it; whether a restart may heal it stays as it is."""
    told = MainstayError(f"{where}: {words(error)}")
    told.is_final = isinstance(error, MainstayError) and error.is_final
    return told


def brief(error: BaseException) -> str:
    """What an error says in one line. Those of Mainstay need no name of a class before it."""
    line = words(error).strip().partition("\n")[0]
    if isinstance(error, MainstayError) and line:
        return line
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


class GraphError(MainstayError):
    """The program describes no runnable dataflow; the message names the operator."""

    is_final = True


class SchemaError(GraphError):
    """A schema or type declaration cannot be understood, or a row does not fit its schema."""

    is_no_row: bool = False
    """Whether something was given in the place of a row that is none, such as a bare value."""


class KeywordError(GraphError, TypeError):
    """A constructor or method has no argument of the name that it was given."""


class StateTypeError(MainstayError, TypeError):
    """A value does not fit the type that a state was declared with."""

    is_final = True


class UserFunctionError(MainstayError):
    """A function of the job's author raised an exception.

    ``user_traceback`` has the frames of the author's code alone. ``hook`` is the method of the
    function where it was not called for a row, such as ``open``.
    """

    def __init__(
        self, uid: str, subtask: int, summary: str, user_traceback: str, hook: str = ""
    ) -> None:
        super().__init__(uid, subtask, summary, user_traceback, hook)
        self.uid = uid
        self.subtask = subtask
        self.summary = summary
        self.user_traceback = user_traceback
        self.hook = hook
        self._original: BaseException | bytes | None = None
        self.is_final_at_start = hook == "open"

    @property
    def original(self) -> BaseException | None:
        """The exception itself; None where it could not be sent from the worker."""
        if isinstance(self._original, bytes):
            try:
                self._original = pickle.loads(self._original)
            except Exception:
                # Its class may be known on the workers alone.
                self._original = None
        found = self._original
        return found if isinstance(found, BaseException) else None

    @original.setter
    def original(self, error: BaseException | bytes | None) -> None:
        """The exception, or the pickle of it, which is read when somebody asks."""
        self._original = error

    def __str__(self) -> str:
        where = f", in {self.hook}()" if self.hook else ""
        head = f"operator {self.uid!r}, subtask {self.subtask}{where}: {self.summary}"
        return f"{head}\n{self.user_traceback}".rstrip()


class RestoreError(MainstayError):
    """Stored state does not fit the job that is to be restored from it."""

    is_final = True


class HistoryExistsError(RestoreError):
    """A fresh start was asked for in a snapshot directory that has a history."""


class EpochGoneError(RestoreError):
    """The epoch that was asked for is not kept any more: newer ones have taken its place."""


class DamagedFileError(RestoreError):
    """A file that a manifest names is missing, has another length, or another checksum."""


class QueryError(MainstayError):
    """Live state cannot be asked just now, or not so."""


class BehindError(QueryError, TimeoutError):
    """No epoch has come up to what a query waits for; the message says how far the job is."""


class UnreachableError(QueryError):
    """Nothing answers at the address of a job, or nothing that is one."""


class SqlError(MainstayError):
    """A statement over the states of a job cannot be run, or took more than it may."""


class SavepointError(MainstayError):
    """A savepoint could not be written; the message names its path."""


class SnapshotStorageError(MainstayError):
    """The snapshot storage failed; nothing was stored."""


class OutcomeUnknownError(SnapshotStorageError):
    """The snapshot storage failed in a way that leaves open whether it stored anything."""


class FencedError(MainstayError):
    """A newer attempt or leader has taken over: the one that gets this must stop."""


class LinkError(MainstayError):
    """A connection between processes of a job broke, or could not be made."""

    is_hearsay: bool = False
    """Whether it only says that another process is gone, which something else knows more of."""


class SparkSetupError(MainstayError):
    """The Spark session, or the machine, is not set up for the job."""

    is_final = True


class SessionStoppedError(SparkSetupError):
    """The Spark session was stopped, or its JVM died, under a running job."""

    is_of_process = True


class SlotsError(SparkSetupError):
    """The Spark application has too few free slots for the job's workers."""

    is_final = False


class SourceError(MainstayError):
    """A source cannot be planned or read."""

    is_final = True
    uid: str = ""
    """The operator that it is of, where code of the source's author has failed."""
    subtask: int | None = None
    """None where the driver called the source, and not a worker."""
    user_traceback: str = ""
    """The frames of the author's code; empty where there are none."""


class SinkError(MainstayError):
    """A sink cannot be written or committed."""

    is_final = True
    uid: str = ""
    """The operator that it is of, where code of the sink's author has failed."""
    subtask: int | None = None
    """None where the driver called the sink, and not a worker."""
    user_traceback: str = ""
    """The frames of the author's code; empty where there are none."""


class JobFailedError(MainstayError):
    """The job ended in failure and will not be restarted.

    The message names the class of what made it fail and says the same; ``original`` is that error
    itself, where there is one.
    """

    original: Exception | None = None


class JobOverError(JobFailedError):
    """Something was asked of a job that has ended, however it did."""


class NotLeadingError(MainstayError):
    """Something was asked of a process on standby that only the leader of the job can do."""


class ProtocolError(MainstayError):
    """An invariant of the runtime does not hold. Please report it with the history it prints."""
