"""What a callback may do that no author means to: the errors that it raises, and when.

A ``Fault`` is called by a callback and does one of them, so many times in all: each time leaves a
file, so that workers of later attempts, in whatever process they are, know of it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

WORDS = "the wheel came off"
"""What every error says that can say something."""
ALWAYS = 1_000_000


class LockedError(Exception):
    """Holds what cannot be pickled."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class SpeechlessError(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class PairError(Exception):
    """Is pickled, and cannot be unpickled: what it was made of is not what it keeps."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} ({code})")


@dataclass(frozen=True)
class FrozenError(Exception):
    """Nothing can be set on it: a frozen dataclass is an exception as good as any."""

    text: str

    def __str__(self) -> str:
        return self.text


class BareError(Exception):
    """Has neither words nor a place for more attributes."""

    __slots__ = ()


class HaltError(BaseException):
    """Is no ``Exception``."""


def _recurse(depth: int) -> int:
    return _recurse(depth + 1) + 1


def _in_a_cause() -> NoReturn:
    try:
        raise KeyError("the axle")
    except KeyError as error:
        raise ValueError(WORDS) from error


def _raiser(make: Callable[[], BaseException]) -> Callable[[], NoReturn]:
    def act() -> NoReturn:
        raise make()

    return act


@dataclass(frozen=True, slots=True)
class Conduct:
    """Something that a callback does, and the name and words of the error that it ends in."""

    name: str
    act: Callable[[], Any]
    error: str
    words: str = WORDS
    is_mistake: bool = False
    """Whether the error is one of code that is wrong: it is met three times at most."""
    in_generator: str = ""
    """What Python makes of it in the body of a generator or coroutine, where it is not the same."""
    is_away: bool = False
    """Whether it says that something outside is away, which connectors try again."""


ERRORS = (
    Conduct("value", _raiser(lambda: ValueError(WORDS)), "ValueError"),
    Conduct("cause", _in_a_cause, "ValueError"),
    Conduct("type", _raiser(lambda: TypeError(WORDS)), "TypeError", is_mistake=True),
    Conduct("away", _raiser(lambda: ConnectionError(WORDS)), "ConnectionError", is_away=True),
    Conduct("unpicklable", _raiser(lambda: LockedError(WORDS)), "LockedError"),
    Conduct("speechless", _raiser(SpeechlessError), "SpeechlessError", ""),
    Conduct("pair", _raiser(lambda: PairError(7, WORDS)), "PairError"),
    Conduct("frozen", _raiser(lambda: FrozenError(WORDS)), "FrozenError"),
    Conduct("bare", _raiser(BareError), "BareError", ""),
    Conduct(
        "stop",
        _raiser(lambda: StopIteration(WORDS)),
        "StopIteration",
        in_generator="raised StopIteration",
    ),
    Conduct("stop-async", _raiser(lambda: StopAsyncIteration(WORDS)), "StopAsyncIteration"),
    Conduct("generator-exit", _raiser(lambda: GeneratorExit(WORDS)), "GeneratorExit"),
    Conduct("exit", _raiser(lambda: SystemExit(WORDS)), "SystemExit"),
    Conduct("interrupt", _raiser(lambda: KeyboardInterrupt(WORDS)), "KeyboardInterrupt"),
    Conduct("cancelled", _raiser(lambda: asyncio.CancelledError(WORDS)), "CancelledError"),
    Conduct("memory", _raiser(lambda: MemoryError(WORDS)), "MemoryError"),
    Conduct("recursion", lambda: _recurse(0), "RecursionError", "maximum recursion depth"),
    Conduct("halt", _raiser(lambda: HaltError(WORDS)), "HaltError"),
)
BY_NAME = {conduct.name: conduct for conduct in ERRORS}


class Fault:
    """Does its conduct when it is called, ``times`` times in all; ``at`` is the row that is first.

    Where it is called without a row, the first call is as good as any.
    """

    def __init__(self, folder: str, conduct: str, times: int, at: int = 0) -> None:
        self.folder, self.conduct, self.times, self.at = folder, conduct, times, at

    def __call__(self, n: int | None = None) -> None:
        if self.times and (n is None or n >= self.at) and self._is_due():
            BY_NAME[self.conduct].act()

    def _is_due(self) -> bool:
        if self.times == ALWAYS:
            return True
        for number in range(self.times):
            try:
                os.close(os.open(os.path.join(self.folder, str(number)), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        self.times = 0
        return False
