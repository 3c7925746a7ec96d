"""A kind of callback: where in a job it is, and what the job comes to without its fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import mainstay as ms
from mainstay.connectors import Memory, Sink, Source
from tests.callbacks.conducts import Fault
from tests.callbacks.rows import Given, Paced

Expected = Callable[[list[Given]], Iterable[tuple[Any, ...]]]

AGAIN = "again"
"""What it raises ends the attempt, and the restart strategy has the word."""
AT_ONCE = "at once"
"""What it raises ends a job that has completed nothing yet, as ``open`` does."""
TOLD = "told"
"""What it raises is logged, and changes nothing."""
RETRIED = "retried"
"""It is called again until it does not raise, in the same attempt; wrong code ends the attempt."""
RETRIED_BY_DRIVER = "retried by the driver"
"""The same, and wrong code ends the job."""
PLANNED = "planned"
"""What is away is tried again; what else it raises ends a job that has completed nothing yet."""
READ = "read"
"""What is away is tried again; what else it raises ends the attempt."""


DRIVER_S = ("plan", "on_complete", "commit_epoch", "recover")
"""The callbacks that are not called by a worker."""


def same(rows: list[Given]) -> Iterable[tuple[Any, ...]]:
    return ((row.k, row.n) for row in rows)


def plain(stream: Any, fault: Fault) -> Any:
    """Nothing but the two columns that all jobs come to."""
    return stream.select("k", "n")


@dataclass(frozen=True, slots=True)
class Kind:
    """One callback. ``apply`` builds the operators between source and sink."""

    name: str
    frame: str
    """The function that the traceback has to name."""
    apply: Callable[[Any, Fault], Any] = plain
    connect: Callable[[ms.Environment, Any, Fault], Any] | None = None
    """The same, where it takes the environment to build them."""
    expected: Expected = same
    uid: str = "subject"
    hook: str = ""
    """What the error says it was called for; empty for a row."""
    how: str = AGAIN
    source: Callable[[Fault], Source] = lambda _: Paced()
    sink: Callable[[Fault], Sink] = lambda _: Memory()
    is_generator: bool = False
    """Whether it raises in the body of a generator or coroutine."""
    shows_frames: bool = True
    """Whether what is told of it has the author's frames: a courtesy call is told in a line."""
    takes: frozenset[str] = frozenset()
    """Errors that mean something to who calls it, and are none: the end of an iterator."""
    needs: str = ""
    """A package that it cannot do without."""

    @property
    def is_of_driver(self) -> bool:
        """Whether the driver calls it, for no subtask."""
        return self.frame in DRIVER_S

    def build(self, env: ms.Environment, fault: Fault) -> Sink:
        source = env.source(self.source(fault), uid="in", watermark=ms.Watermark("at"))
        sink = self.sink(fault)
        between = (
            self.apply(source, fault) if self.connect is None else self.connect(env, source, fault)
        )
        between.sink(sink, uid="out")
        return sink
