"""Tracebacks as their readers want them: the author's own frames, or all of them.

What a function of a job's author raises is shown with the frames of the author's code, and of the
libraries it calls. The frames of this package around it say nothing about the error; they are kept
for those who ask (``MAINSTAY_TRACEBACKS=full``).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from mainstay.errors import MainstayError, named, words

_PACKAGE = str(Path(__file__).parent) + os.sep
"""Where this package lies: frames of a traceback from there are not the author's."""
_THREADS = str(Path(os.__file__).with_name("concurrent")) + os.sep
_NOT_THE_AUTHOR_S = (_PACKAGE, _THREADS, "pyarrow/")
"""Nor are those of the threads that this package calls things in, and the inside of Arrow."""

SETTING = "MAINSTAY_TRACEBACKS"

CARRIED = "runtime_traceback"
"""The attribute of an exception that holds the whole traceback it had in another process."""

_TRIES = 100


def are_full() -> bool:
    """Whether the frames of the runtime are to be shown as well."""
    return os.environ.get(SETTING, "") == "full"


def has_own_frames(error: BaseException) -> bool:
    """Whether any code outside this package is in the traceback."""
    return any(not _is_ours(frame) for frame in traceback.extract_tb(error.__traceback__))


def has_own_frames_in_chain(error: BaseException) -> bool:
    """The same of the error or any of its causes."""
    return any(has_own_frames(link) for link in _chain(error))


def own_traceback(error: BaseException) -> str:
    """The traceback without the frames of this package, and those of its causes likewise."""
    shown = traceback.TracebackException.from_exception(error)
    _trim(shown)
    return _written(shown.format)


def full_traceback(error: BaseException) -> str:
    return _written(lambda: traceback.format_exception(type(error), error, error.__traceback__))


def _written(lines: Callable[[], Iterable[str]]) -> str:
    """The lines as one text.

    To mark places Python 3.11 parses them, and may fail where another thread parses at the same
    time (CPython's gh-106905); then it is done again.
    """
    for _ in range(_TRIES):
        try:
            return "".join(lines())
        except SystemError:
            continue
    return "".join(lines())


def reportable(error: BaseException) -> Exception:
    """An exception that can be reported like any other, with the same words."""
    if isinstance(error, Exception):
        return error
    wrapped = RuntimeError(named(error))
    wrapped.__cause__ = error
    return wrapped


def pass_on_interrupt(error: BaseException) -> None:
    """Raise an interrupt again that may be of a user who pressed Ctrl-C, and not of a function.

    Signals reach the main thread alone, and where they are left to others they raise nothing.
    """
    is_main = threading.current_thread() is threading.main_thread()
    is_deaf = signal.getsignal(signal.SIGINT) is _leave_to_others
    if is_main and not is_deaf and isinstance(error, KeyboardInterrupt):
        raise error


@contextlib.contextmanager
def interrupts_left_to_others() -> Iterator[None]:
    """For a worker in a process of its own: the program that Ctrl-C ends will end the worker.

    So an interrupt that is raised meanwhile is the function's. Only the main thread can say so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A handler, for what is ignored would be ignored by the programs that a function starts, too.
    before = signal.signal(signal.SIGINT, _leave_to_others)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def _leave_to_others(number: int, frame: FrameType | None) -> None:
    """The terminal sends an interrupt to all processes of a program."""


def place_of(function: Any) -> str:
    """The file and line of a function of the job's author, or nothing where it has none."""
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "__code__") and not inspect.ismethod(function):
        function = type(function).__call__
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or code.co_filename.startswith(_NOT_THE_AUTHOR_S):
        return ""
    return f'  File "{code.co_filename}", line {code.co_firstlineno}, in {code.co_name}'


def place_in_author_s_code(thread: int | None) -> str:
    """Where a thread is that called the author's code, or nothing where it is in no such code."""
    frame = None if thread is None else sys._current_frames().get(thread)
    stack = [] if frame is None else traceback.extract_stack(frame)
    called = [n for n, each in enumerate(stack) if _is_ours(each)]
    if not called or called[-1] + 1 == len(stack):
        return ""
    at = stack[called[-1] + 1]
    return f"{os.path.basename(at.filename)}, line {at.lineno}, in {at.name}: {at.line}"


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(_NOT_THE_AUTHOR_S)


def _trim(shown: traceback.TracebackException) -> bool:
    """Leave out the frames of this package; whether any others are left, here or in its causes."""
    own = [frame for frame in shown.stack if not _is_ours(frame)]
    inners = (shown.__cause__, shown.__context__, *(getattr(shown, "exceptions", None) or ()))
    trimmed = [_trim(inner) for inner in inners if inner is not None]
    has_own = bool(own) or any(trimmed)
    # Where all of it is ours, the frames are all there is to say.
    shown.stack = traceback.StackSummary.from_list(own if has_own else list(shown.stack))
    return has_own


def carry_traceback(error: BaseException) -> None:
    """Keep the whole traceback with an exception that is about to be sent to another process."""
    set_on(error, CARRIED, full_traceback(error))


def set_on(error: BaseException, name: str, value: Any) -> None:
    """Set an attribute of an exception, also of one that lets nobody: a frozen dataclass."""
    BaseException.__setattr__(error, name, value)


def carried_traceback(error: BaseException) -> str:
    """The whole traceback of an exception, from wherever it was raised."""
    carried = getattr(error, CARRIED, None)
    return carried if isinstance(carried, str) else full_traceback(error)


def trim(error: BaseException) -> None:
    """Take the frames of this package out of the tracebacks of an error and its causes.

    Causes that have no other frames and say nothing that the error does not say as well are not
    shown. The first stays its ``__context__``, for programs.
    """
    chain = _chain(error)
    for link in chain:
        link.with_traceback(_without_ours(link.__traceback__))
    for n, link in enumerate(chain[:-1]):
        if all(inner.__traceback__ is None and _says(link, inner) for inner in chain[n + 1 :]):
            set_on(link, "__cause__", None)
            set_on(link, "__context__", chain[n + 1])
            set_on(link, "__suppress_context__", True)
            break


def _says(error: BaseException, inner: BaseException) -> bool:
    """Whether an error has the words of another one, and the name of its class if it is foreign."""
    text = words(error)
    is_named = isinstance(inner, MainstayError) or type(inner).__name__ in text
    return is_named and words(inner) in text


def drop_frames(error: BaseException) -> None:
    """Keep the text of an error's traceback, and nothing that its frames refer to."""
    carry_traceback(error)
    for link in _chain(error):
        link.with_traceback(None)


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
        if not frames.tb_frame.f_code.co_filename.startswith(_NOT_THE_AUTHOR_S):
            kept.append(frames)
        frames = frames.tb_next
    last: TracebackType | None = None
    for each in reversed(kept):
        last = TracebackType(last, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return last
