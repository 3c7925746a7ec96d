"""Jobs that fail, and what is seen of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mainstay as ms
from mainstay.connectors import Memory, Rows

PATIENCE_S = 30.0

RETRY = ms.Restart(max_failures=2, backoff="1ms")


def await_true(job: Any, is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, f"the job is {job.wait(0)}"
        threading.Event().wait(0.005)


class Plain(ms.KeyedProcess):
    def process(self, row: Any, ctx: Any) -> Any:
        return ctx.key, row.n


def start(directory: Path, function: Any, sink: Any = None, **settings: Any) -> Any:
    settings.setdefault("snapshots", ms.Snapshots(directory, every="20ms"))
    env = ms.Environment(spark="embedded", **settings)
    rows = env.source(Rows("k long, n long", [(n % 3, n) for n in range(30)]), uid="in")
    keyed = rows.key_by("k").process(function, "k long, n long", uid="function")
    keyed.sink(sink or Memory(), uid="out")
    return env.start("errors")


class Raising(Plain):
    def process(self, row: Any, ctx: Any) -> Any:
        self.look_up(row)

    def look_up(self, row: Any) -> None:
        try:
            {}[row.n]
        except KeyError as error:
            raise LookupError("no such order") from error
