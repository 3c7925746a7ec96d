"""Worker numbers: which process of an attempt becomes which worker.

A worker's number says which subtasks it runs, and so which state files it reads. The launcher
puts processes anywhere, another time elsewhere. So a process gets its number only when all
have come in: that of the worker of whose files its host has most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainstay.runtime.deployment import Restored
from mainstay.snapshot.manifest import FileRef

HeldBytes = Mapping[int, Sequence[int]]
"""Of each process, by the number it was started with: how many bytes of each worker's files there
are on its host. It may be empty where there are none."""

MOST_FILES = 10_000
"""Every process is sent the list of all files: beyond this it would cost more than it saves."""


def hand_out(held: HeldBytes) -> dict[int, int]:
    """The worker that each process becomes: the most bytes first, and then any.

    Of equal ones a process gets the number it was started with, so that on a single host, or
    without copies, nobody's changes.
    """
    numbers: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, worker, process in sorted(_wishes(held)):
        if process not in numbers and worker not in taken:
            numbers[process] = worker
            taken.add(worker)
    return numbers | _rest(set(held) - numbers.keys(), set(held) - taken)


def _wishes(held: HeldBytes) -> list[tuple[int, bool, int, int]]:
    """Every reason for a process to become a worker, so that the best comes first when sorted."""
    return [
        (-size_bytes, process != worker, worker, process)
        for process, sizes in held.items()
        for worker, size_bytes in enumerate(sizes)
        if size_bytes > 0 and worker in held
    ]


def _rest(processes: set[int], workers: set[int]) -> dict[int, int]:
    """Numbers for those whose hosts have nothing: their own where it is free."""
    own = processes & workers
    others = zip(sorted(processes - own), sorted(workers - own), strict=True)
    return {process: process for process in own} | dict(others)


def files_by_worker(restored: Restored, workers: int) -> tuple[tuple[FileRef, ...], ...]:
    """The state files that each worker reads from the job's storage, by its number; none at all
    where they are too many."""
    files: list[list[FileRef]] = [[] for _ in range(workers)]
    for (_, subtask), state in restored.items():
        if state.origin is None and subtask < workers:
            files[subtask].extend(file for segment in state.chain for file in segment.files())
    return tuple(map(tuple, files)) if sum(map(len, files)) <= MOST_FILES else ()
