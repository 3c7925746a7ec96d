"""Errors of a program that is wrong, with the frames of the program alone.

What the methods of these classes raise on purpose says what to change; the frames of this package
between the author's line and the message say nothing. ``MAINSTAY_TRACEBACKS=full`` shows them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from mainstay.errors import MainstayError, ProtocolError
from mainstay.runtime.tracebacks import are_full, trim

Class = TypeVar("Class", bound=type)

MADE_BY = ("__init__", "__post_init__")


def with_own_frames(cls: Class) -> Class:
    """A class whose public methods raise errors without the frames of this package."""
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and (name in MADE_BY or not name.startswith("_")):
            setattr(cls, name, _trimmed(method))
    return cls


def _trimmed(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except (MainstayError, KeyboardInterrupt) as error:
            if not are_full() and not isinstance(error, ProtocolError):
                trim(error)
            raise

    return call
