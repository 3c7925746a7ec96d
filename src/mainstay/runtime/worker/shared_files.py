"""Segments that the tasks of a worker store together, so that an epoch takes few files.

The first small one is stored at once. Those that come while it is being stored wait for it, and are
stored as one file then. Nothing waits for a time to pass, and a large one waits for nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mainstay.runtime.messages import Attempt
from mainstay.runtime.ports import Ports
from mainstay.snapshot.layout import shared_path
from mainstay.snapshot.shared import NewFile, Stored, store_together

LARGE_BYTES = 1 << 20
MOST_BYTES = 8 << 20
"""Bytes in memory: those of a file that is stored alone, and of the files of a shared one."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    file: NewFile
    size_bytes: int
    done: Callable[[Stored], None]
    failed: Callable[[Exception], None]


class SharedFiles:
    """The small files of one worker in one attempt, stored one group after the other."""

    def __init__(self, ports: Ports, attempt: Attempt, worker: int) -> None:
        self._ports = ports
        self._attempt = attempt
        self._worker = worker
        self._waiting: deque[_Waiting] = deque()
        self._is_busy = False
        self._groups = 0

    def store(
        self,
        file: NewFile,
        size_bytes: int,
        done: Callable[[Stored], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Make and store a file in the background; ``size_bytes`` is about its size."""
        waiting = _Waiting(file, size_bytes, done, failed)
        if size_bytes >= LARGE_BYTES:
            self._submit([waiting], lambda: None)
            return
        self._waiting.append(waiting)
        self._begin()

    def _begin(self) -> None:
        if self._is_busy or not self._waiting:
            return
        self._is_busy = True
        self._submit(self._next_group(), self._end)

    def _end(self) -> None:
        self._is_busy = False
        self._begin()

    def _next_group(self) -> list[_Waiting]:
        group = [self._waiting.popleft()]
        total = group[0].size_bytes
        while self._waiting and total + self._waiting[0].size_bytes <= MOST_BYTES:
            group.append(self._waiting.popleft())
            total += group[-1].size_bytes
        return group

    def _submit(self, group: Sequence[_Waiting], ended: Callable[[], None]) -> None:
        self._groups += 1
        storage = self._ports.storage
        path = shared_path(self._worker, self._attempt, self._groups)

        def done(found: list[Stored | Exception]) -> None:
            ended()
            for each, stored in zip(group, found, strict=True):
                if isinstance(stored, Stored):
                    each.done(stored)
                else:
                    each.failed(stored)

        def failed(error: Exception) -> None:
            ended()
            for each in group:
                each.failed(error)

        self._ports.background.submit(
            lambda: store_together(storage, path, [each.file for each in group]), done, failed
        )
