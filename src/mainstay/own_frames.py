"""Errors of a program that is wrong, with the frames of the program alone.

What these classes and functions raise on purpose says what to change; the frames of this package
between the author's line and the message say nothing. ``MAINSTAY_TRACEBACKS=full`` shows them. A
keyword that does not exist is refused with the one that was probably meant, which Python does not
say. Arguments that many methods share, ``**settings: Unpack[Settings]``, are part of the signature
as if each method had written them.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from mainstay.errors import KeywordError, MainstayError, ProtocolError
from mainstay.spelling import did_you_mean
from mainstay.tracebacks import are_full, trim

Class = TypeVar("Class", bound=type)
Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")

_settings: list[type] = []
"""The classes whose arguments are looked for elsewhere, where they do not belong."""

MADE_BY = ("__init__", "__post_init__")


def with_own_frames(cls: Class) -> Class:
    """A class whose public methods raise errors without the frames of this package."""
    return _wrap(cls, [name for name in vars(cls) if name in MADE_BY or not name.startswith("_")])


def made_with_own_frames(cls: Class) -> Class:
    """The same for the making of an instance alone: its methods are called by the runtime."""
    return _wrap(cls, MADE_BY)


def with_settings(cls: Class) -> Class:
    """The same as ``with_own_frames``, for a class that holds settings of a job."""
    _settings.append(cls)
    return with_own_frames(cls)


def _wrap(cls: Class, names: Iterable[str]) -> Class:
    for name in names:
        method = vars(cls).get(name)
        if inspect.isfunction(method):
            setattr(cls, name, own_frames(method))
    return cls


def own_frames(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """A function that raises errors without the frames of this package."""
    signature = _with_shared(function)

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        __tracebackhide__ = True  # pytest leaves the frame out
        try:
            if signature is not None:
                signature.bind(*args, **kwargs)
            return function(*args, **kwargs)
        except (MainstayError, KeyboardInterrupt) as error:
            if not are_full() and not isinstance(error, ProtocolError):
                trim(error)
                if sys.version_info < (3, 11):
                    # There a bare raise brings back what was trimmed; this shows one frame of ours.
                    raise error
            raise
        except TypeError as error:
            if not _is_of_the_call(error):
                raise
            refused = _misspelt(call, args, kwargs) or _too_many(function, args) or error
        try:
            # Outside the handler above, so that what Python said is not shown as well.
            raise refused
        except TypeError:
            refused.__traceback__ = None
            raise  # which adds no frame, as a raise with a name does

    if signature is not None:
        vars(call)["__signature__"] = signature
    return call


def _with_shared(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature with the arguments that ``**settings`` stands for; None without such."""
    if not function.__code__.co_flags & inspect.CO_VARKEYWORDS:
        return None
    given = inspect.signature(function)
    *others, last = given.parameters.values()
    if not str(last.annotation).startswith("Unpack["):
        return None
    shared = function.__globals__[last.annotation[len("Unpack[") : -1]].__annotations__
    named = [inspect.Parameter(name, _BY_NAME_ALONE, default=None) for name in shared]
    return given.replace(parameters=[*others, *named])


def _is_of_the_call(error: TypeError) -> bool:
    """Whether the arguments did not fit, so that the function was never entered."""
    behind = error.__traceback__ and error.__traceback__.tb_next
    return error.__traceback__ is not None and (behind is None or _is_of_binding(behind))


def _is_of_binding(traceback: TracebackType) -> bool:
    return traceback.tb_frame.f_code is inspect.Signature.bind.__code__


def _misspelt(
    function: Callable[..., Any], args: tuple[Any, ...], given: Iterable[str]
) -> KeywordError | None:
    parameters = [*inspect.signature(function).parameters.values()]
    is_made = function.__name__ == "__init__"
    names = [each.name for each in parameters if each.kind in _BY_NAME][is_made:]
    unknown = [name for name in given if name not in names]
    if not unknown:
        return None
    called = type(args[0]).__name__ if is_made else function.__qualname__
    names = [name for name in names if name != "self"]
    takes = f"It takes {', '.join(names)}." if names else "It takes none by name."
    hint = _elsewhere(unknown[0], called, 1.0)
    hint = hint or did_you_mean(unknown[0], names) or _elsewhere(unknown[0], called, 0.8)
    return KeywordError(f"{called}() has no argument {unknown[0]!r}.{hint} {takes}")


def _too_many(function: Callable[..., Any], args: tuple[Any, ...]) -> KeywordError | None:
    """Arguments beyond the last; Python names the class that has the ``__init__``, not the made."""
    parameters = [*inspect.signature(function).parameters.values()]
    in_order = [each.name for each in parameters if each.kind in _IN_ORDER]
    if function.__name__ != "__init__" or len(args) <= len(in_order):
        return None
    by_name = [each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
    takes = ", ".join(in_order[1:]) or "nothing in order"
    named = f", and by name {', '.join(by_name)}" if by_name else ""
    return KeywordError(
        f"{type(args[0]).__name__}() was given {len(args) - 1} arguments in order. "
        f"It takes {takes}{named}."
    )


def _elsewhere(name: str, called: str, likeness: float) -> str:
    """Which of the classes that hold a job's settings takes an argument of such a name."""
    of = {
        each: cls.__name__
        for cls in _settings
        if cls.__name__ != called
        for each in inspect.signature(cls).parameters
    }
    meant = get_close_matches(name, of, n=1, cutoff=likeness)
    return f" {meant[0]!r} is an argument of {of[meant[0]]}(...)." if meant else ""


_BY_NAME_ALONE = inspect.Parameter.KEYWORD_ONLY
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, _BY_NAME_ALONE)
_IN_ORDER = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
