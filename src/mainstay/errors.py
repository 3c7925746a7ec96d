"""Every error that Mainstay raises on purpose, divided by what the caller can do about it.

::

    MainstayError
    ├── GraphError              the program is wrong: change it
    │   └── SchemaError         a type or schema string is wrong
    ├── StateTypeError          a value does not fit the declared state type
    ├── UserFunctionError       code of the job's author raised; carries its traceback
    ├── RestoreError            what is stored does not fit what was asked for
    │   ├── HistoryExistsError  a fresh start was asked for in a directory with a history
    │   └── DamagedFileError    a stored file is missing, truncated or altered
    ├── SavepointError          a savepoint was not written; the job itself is not harmed
    ├── SnapshotStorageError    the storage did not do what it was asked; trying again may help
    │   └── OutcomeUnknownError the storage may or may not have done it: ask before assuming
    ├── FencedError             a newer attempt or leader owns the job: stop at once
    ├── LinkError               processes of the job cannot reach each other; the attempt ends
    ├── SparkSetupError         the Spark session cannot run the job as it is set up
    │   └── SlotsError          it has too few free slots
    ├── SourceError             a source cannot be read
    ├── SinkError               a sink cannot be written
    ├── JobFailedError          the restart strategy gave up; the cause is attached
    └── ProtocolError           a rule of the runtime was broken: a bug in Mainstay

A message says what happened, to which named thing, and what to do next.
"""

from __future__ import annotations


class MainstayError(Exception):
    """The base of every error raised by Mainstay itself."""


class GraphError(MainstayError):
    """The program describes no runnable dataflow; the message names the operator."""


class SchemaError(GraphError):
    """A schema or type declaration cannot be understood."""


class StateTypeError(MainstayError, TypeError):
    """A value does not fit the type that a state was declared with."""


class UserFunctionError(MainstayError):
    """A function of the job's author raised an exception."""

    def __init__(self, uid: str, subtask: int, summary: str, user_traceback: str) -> None:
        super().__init__(uid, subtask, summary, user_traceback)
        self.uid = uid
        self.subtask = subtask
        self.summary = summary
        self.user_traceback = user_traceback

    def __str__(self) -> str:
        return (
            f"operator {self.uid!r}, subtask {self.subtask}: {self.summary}\n"
            f"The function's own traceback:\n{self.user_traceback}"
        )


class RestoreError(MainstayError):
    """Stored state does not fit the job that is to be restored from it."""


class HistoryExistsError(RestoreError):
    """A fresh start was asked for in a snapshot directory that has a history."""


class DamagedFileError(RestoreError):
    """A file that a manifest names is missing, has another length, or another checksum."""


class SavepointError(MainstayError):
    """A savepoint could not be written; the message names its path."""


class SnapshotStorageError(MainstayError):
    """The snapshot storage failed; nothing was stored."""


class OutcomeUnknownError(SnapshotStorageError):
    """The snapshot storage failed in a way that leaves open whether it stored anything."""


class FencedError(MainstayError):
    """A newer attempt or leader has taken over; whoever gets this must stop."""


class LinkError(MainstayError):
    """A connection between processes of a job broke, or could not be made."""


class SparkSetupError(MainstayError):
    """The Spark session, or the machine, is not set up for the job."""


class SlotsError(SparkSetupError):
    """The Spark application has too few free slots for the job's workers."""


class SourceError(MainstayError):
    """A source cannot be planned or read."""


class SinkError(MainstayError):
    """A sink cannot be written or committed."""


class JobFailedError(MainstayError):
    """The job ended in failure and will not be restarted."""


class ProtocolError(MainstayError):
    """An invariant of the runtime does not hold. Please report it with the history it prints."""
