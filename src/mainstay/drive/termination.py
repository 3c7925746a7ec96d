"""SIGTERM: how a supervisor tells a program to end, heard while the program waits for a job.

Elsewhere a library must leave signals alone, and the default ends the process at once. Inside
``job.wait()`` of the main thread the program has nothing else to do, so the signal is taken there,
unless the program has a handler of its own.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

EXIT_CODE = 128 + signal.SIGTERM
"""What a shell shows of a program that SIGTERM has ended."""


class Terminated(SystemExit):
    """The program was told to end by SIGTERM."""

    def __init__(self) -> None:
        super().__init__(EXIT_CODE)


@contextmanager
def taking_sigterm() -> Iterator[None]:
    """Inside, SIGTERM raises ``Terminated``, once: the next one ends the process as usual."""
    if not _is_free():
        yield
        return
    signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_free() -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def _raise(number: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise Terminated
