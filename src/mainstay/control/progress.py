"""Waiting for a job to do something: told on stderr, and only where it takes more than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

from rich.console import Console

from mainstay.drive.streams import is_terminal, tell

FIRST_S = 1.0
LOOK_S = 1.0
LINE_S = 10.0
"""How often a line is written where there is no terminal to rewrite one."""

Result = TypeVar("Result")


def watched(what: str, act: Callable[[], Result], news: Callable[[], str]) -> Result:
    """Do something in the background; ``news`` says how the job is doing meanwhile."""
    with ThreadPoolExecutor(1, "mainstay-asking") as pool:
        done: Future[Result] = pool.submit(act)
        if wait([done], FIRST_S).not_done:
            (_in_terminal if is_terminal(sys.stderr) else _in_lines)(what, done, news)
        return done.result()


def _in_terminal(what: str, done: Future[Result], news: Callable[[], str]) -> None:
    began = time.monotonic()
    with Console(stderr=True).status(f"{what} ...") as status:
        while wait([done], LOOK_S).not_done:
            elapsed = FIRST_S + time.monotonic() - began
            status.update(f"{what} ... {elapsed:.0f} s  {news()}")


def _in_lines(what: str, done: Future[Result], news: Callable[[], str]) -> None:
    _line(f"{what} ...")
    while wait([done], LINE_S).not_done:
        _line(f"{what} ... {news()}")


def _line(text: str) -> None:
    tell(f"mainstay: {text.rstrip()}")
