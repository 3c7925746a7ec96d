"""Errors of sources and sinks: with the operator they are of, and the frames of their author."""

from __future__ import annotations

from typing import TypeVar

from mainstay.errors import SinkError, SourceError, named
from mainstay.tracebacks import has_own_frames_in_chain, own_traceback

Told = TypeVar("Told", SourceError, SinkError)


def of_connector(
    kind: type[Told], what: str, error: BaseException, uid: str, subtask: int | None = None
) -> Told:
    """What a connector raised, said of its operator. ``what`` is what could not be done.

    The connector itself does not say that it is of no use to try again.
    """
    broken = kind(f"{what}: {named(error)}")
    broken.__cause__ = error  # its frames show where the connector's author has to look
    broken.is_final = False
    broken.uid, broken.subtask = uid, subtask
    if has_own_frames_in_chain(error):
        broken.user_traceback = own_traceback(error)
    return broken


class RemoteError(Exception):
    """What caused an error of another process. Its text is the traceback it had there."""

    def __str__(self) -> str:
        return f"\n{super().__str__()}".rstrip()


def with_remote_cause(error: Exception) -> Exception:
    """An error that comes from a worker: what caused it has stayed there, and its text has not."""
    if isinstance(error, SourceError | SinkError) and error.user_traceback:
        error.__cause__ = error.__cause__ or RemoteError(error.user_traceback)
    return error
