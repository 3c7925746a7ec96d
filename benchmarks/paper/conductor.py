"""The conductor: takes the snapshots of a running job in the way of a mode, on a thread of its own.

What it can do is shut and open the sources, hand out micro-batches, see how far rows have come, and
ask the job's coordinator for an epoch. A mode is a cycle of these. A cycle that an attempt does not
survive is begun again with the next attempt.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.paper.board import Bell, Board, Place
from mainstay.drive.remote_job import RemoteJob
from mainstay.errors import JobOverError

LOOK_S = 0.1
"""How long the conductor sleeps at most before it looks whether the attempt is still the same."""
PATIENCE_S = 300.0


class AttemptOver(Exception):  # noqa: N818 - it is no error: the cycle is begun again
    """The attempt in which a cycle began is not the current one any more."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """One snapshot, with all that its mode does around it.

    ``stopped_s``: how long the sources gave nothing for its sake.
    """

    began_ns: int
    took_s: float
    stopped_s: float
    epoch: int | None


Act = Callable[["Conductor"], "int | None"]
"""What a mode does for one snapshot; gives the number of its epoch, if there is one."""


class Conductor:
    """Has an act done at an interval, for as long as the job runs or until it is told to end.

    ``least_pause_s`` lies at least between the end of one and the beginning of the next.
    """

    def __init__(
        self,
        job: RemoteJob,
        place: Place,
        board: Board,
        act: Act,
        every_s: float,
        least_pause_s: float,
    ) -> None:
        self.every_s = every_s
        self._least_pause_s = least_pause_s
        self.board = board
        self.cycles: list[Cycle] = []
        self.begun: list[int] = []
        """When each cycle began, those that were begun again included."""
        self._job = job
        self._act = act
        self._bell = Bell(place)
        self._attempt = 0
        self._shut_at: int | None = None
        self._stopped_s = 0.0
        self._is_in_batch = False
        self._ending = threading.Event()
        self._has_begun = threading.Condition()
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="conductor")
        self._course: Future[None] | None = None

    # ------------------------------------------------------------ the cycles

    def start(self) -> None:
        self._course = self._pool.submit(self._conduct)

    def end(self) -> None:
        """Let the cycle that is under way come to its end, and begin no other."""
        self._ending.set()
        assert self._course is not None
        self._course.result()

    def close(self) -> None:
        self._ending.set()
        self._pool.shutdown()
        self._bell.close()

    def _conduct(self) -> None:
        try:
            self._await("the start of the workers", lambda: self._job.status == "running")
            while not self._ending.is_set():
                self._one_cycle()
        except JobOverError:
            return
        finally:
            with self._has_begun:
                self._has_begun.notify_all()

    def _one_cycle(self) -> None:
        began = time.monotonic_ns()
        with self._has_begun:
            self.begun.append(began)
            self._has_begun.notify_all()
        self._attempt, self._stopped_s = self._current_attempt(), 0.0
        try:
            epoch = self._act(self)
        except AttemptOver:
            return
        took_s = (time.monotonic_ns() - began) / 1e9
        self.cycles.append(Cycle(began, took_s, self._stopped_s, epoch))
        self._ending.wait(max(self._least_pause_s, self.every_s - took_s))

    def next_beginning(self) -> int:
        """Wait for the beginning of another cycle; when that was."""
        known = len(self.begun)
        with self._has_begun:
            self._has_begun.wait_for(
                lambda: len(self.begun) > known or self._is_over(), timeout=PATIENCE_S
            )
        self.check()
        if len(self.begun) <= known:
            raise TimeoutError(f"no cycle began within {PATIENCE_S:g} s")
        return self.begun[-1]

    def _is_over(self) -> bool:
        return self._course is not None and self._course.done()

    def check(self) -> None:
        """Raise what ended the cycles too early."""
        if self._is_over() and self._course is not None:
            self._course.result()
            self._job.wait(0.0, progress=False)
            raise RuntimeError(f"job {self._job.name!r} is {self._job.status}")

    # ------------------------------------------------------------ what an act may do

    def shut(self) -> None:
        """Have the sources give nothing; returns when each has seen it, and given its last row."""
        orders = self.board.orders
        self._shut_at = self._shut_at or time.monotonic_ns()
        orders["turn"] += 1 if not self.board.is_shut else 2
        turn = int(orders["turn"])
        self._in_attempt("the sources to stop", lambda: self._all_splits("seen_turn", turn))

    def open(self) -> None:
        """Have the sources go on."""
        if self.board.is_shut:
            self.board.orders["turn"] += 1
        if self._shut_at is not None:
            self._stopped_s += (time.monotonic_ns() - self._shut_at) / 1e9
        self._shut_at, self._is_in_batch = None, False

    def drain(self) -> None:
        """Wait until every row that was given has arrived at the sinks."""
        self._in_attempt("the rows under way", self._is_drained)

    def read_batch(self, rows: int) -> None:
        """Have each split give so many rows, or what is due where there is a pace, and no more;
        returns when all have. A batch that was not ended with ``open`` is read again as it was."""
        orders = self.board.orders
        if not self._is_in_batch:
            self._is_in_batch = True
            orders["batch_rows"] = rows
            orders["batch"] += 1
        batch = int(orders["batch"])
        self._in_attempt("the batch to be read", lambda: self._all_splits("done_batch", batch))
        # From here on the sources give nothing.
        self._shut_at = time.monotonic_ns()

    def pace(self, rows_per_s: float) -> None:
        """Have rows come by the clock, from where the sources stand now."""
        self.board.orders["interval_ns"] = int(1e9 * len(self.board.splits) / rows_per_s)
        self.board.orders["pace"] += 1

    def snapshot(self) -> int:
        """Have the job take an epoch; returns when it is in the commit log."""
        epoch = self._job.snapshot()
        if self._current_attempt() != self._attempt:
            raise AttemptOver
        return epoch

    def begin_snapshot(self) -> Future[int]:
        """The same without waiting."""
        return self._pool.submit(self.snapshot)

    def await_cut(self, last: int) -> None:
        """Wait until the sinks, and so all before them, have taken their state for an epoch that is
        later than ``last``."""
        self._in_attempt("the states to be taken", lambda: bool((self._sinks() > last).all()))

    @property
    def newest_cut(self) -> int:
        """The newest epoch that a sink has prepared."""
        return int(self.board.sinks["epoch"].max())

    @property
    def rows_given(self) -> int:
        """How many rows the sources of the current attempt have given."""
        return int(self.board.splits["given"].sum())

    @property
    def rows_arrived(self) -> int:
        """How many rows the sinks of the current attempt have taken."""
        return int(self.board.sinks["rows"].sum())

    # ------------------------------------------------------------ how far things are

    def _pids(self) -> list[int]:
        return [pid for _, pid in self._job.workers().values()]

    def _all_splits(self, what: str, number: int) -> bool:
        splits, pids = self.board.splits, self._pids()
        return bool(np.isin(splits["pid"], pids).all() and (splits[what] == number).all())

    def _sinks(self) -> Any:
        """The epochs that the sinks have prepared; 0 for one of an attempt that is over."""
        sinks = self.board.sinks
        return np.where(np.isin(sinks["pid"], self._pids()), sinks["epoch"], 0)

    def _is_drained(self) -> bool:
        splits, sinks, pids = self.board.splits, self.board.sinks, self._pids()
        are_current = np.isin(splits["pid"], pids).all() and np.isin(sinks["pid"], pids).all()
        return bool(are_current and splits["given"].sum() == sinks["rows"].sum())

    def _current_attempt(self) -> int:
        attempts = self._job.attempts()
        return attempts[-1].attempt if attempts else 0

    def _in_attempt(self, what: str, is_true: Callable[[], bool]) -> None:
        def is_true_or_over() -> bool:
            if self._current_attempt() != self._attempt:
                raise AttemptOver
            return is_true()

        self._await(what, is_true_or_over)

    def _await(self, what: str, is_true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_true():
            if self._job.is_over:
                raise JobOverError(f"job {self._job.name!r} is over ({self._job.status})")
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {PATIENCE_S:g} s for {what}")
            self._bell.wait(LOOK_S)


@contextmanager
def conducting(conductor: Conductor, job: RemoteJob) -> Iterator[None]:
    """Have a job conducted for as long as the block lasts; it is cancelled at its end."""
    try:
        conductor.start()
        yield
    finally:
        job.cancel()
        conductor.close()
