"""Tracebacks as their readers want them: the author's own frames, or all of them.

What a function of a job's author raises is shown with the frames of the author's code, and of the
libraries it calls. The frames of this package around it say nothing about the error; they are kept
for those who ask (``MAINSTAY_TRACEBACKS=full``).
"""

from __future__ import annotations

import contextlib
import os
import traceback
from pathlib import Path
from types import TracebackType

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
"""Where this package lies: frames of a traceback from there are not the author's."""

SETTING = "MAINSTAY_TRACEBACKS"

CARRIED = "runtime_traceback"
"""The attribute of an exception that holds the whole traceback it had in another process."""


def are_full() -> bool:
    """Whether the frames of the runtime are to be shown as well."""
    return os.environ.get(SETTING, "") == "full"


def has_own_frames(error: BaseException) -> bool:
    """Whether any code outside this package is in the traceback."""
    return any(not _is_ours(frame) for frame in traceback.extract_tb(error.__traceback__))


def own_traceback(error: BaseException) -> str:
    """The traceback without the frames of this package, and those of its causes likewise."""
    shown = traceback.TracebackException.from_exception(error)
    _trim(shown)
    return "".join(shown.format())


def full_traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def reportable(error: BaseException) -> Exception:
    """An exception that can be reported like any other, with the same words."""
    if isinstance(error, Exception):
        return error
    wrapped = RuntimeError(f"{type(error).__name__}: {error}".removesuffix(": "))
    wrapped.__cause__ = error
    return wrapped


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(_PACKAGE)


def _trim(shown: traceback.TracebackException) -> None:
    own = [frame for frame in shown.stack if not _is_ours(frame)]
    # Where all of it is ours, the frames are all there is to say.
    shown.stack = traceback.StackSummary.from_list(own or list(shown.stack))
    for inner in (shown.__cause__, shown.__context__, *(getattr(shown, "exceptions", None) or ())):
        if inner is not None:
            _trim(inner)


def carry_traceback(error: BaseException) -> None:
    """Keep the whole traceback with an exception that is about to be sent to another process."""
    with contextlib.suppress(AttributeError):  # some have no room for it
        setattr(error, CARRIED, full_traceback(error))


def carried_traceback(error: BaseException) -> str:
    """The whole traceback of an exception, from wherever it was raised."""
    carried = getattr(error, CARRIED, None)
    return carried if isinstance(carried, str) else full_traceback(error)


def trim(error: BaseException) -> None:
    """Take the frames of this package out of the tracebacks of an error and its causes."""
    for link in _chain(error):
        link.__traceback__ = _without_ours(link.__traceback__)


def drop_frames(error: BaseException) -> None:
    """Keep the text of an error's traceback, and nothing that its frames refer to."""
    carry_traceback(error)
    for link in _chain(error):
        link.__traceback__ = None


def _chain(error: BaseException) -> list[BaseException]:
    """An error, its cause, the cause of that, and so on."""
    found: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and all(link is not each for each in found):
        found.append(link)
        link = link.__cause__ or link.__context__
    return found


def _without_ours(frames: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while frames is not None:
        if not frames.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            kept.append(frames)
        frames = frames.tb_next
    last: TracebackType | None = None
    for each in reversed(kept):
        last = TracebackType(last, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return last
