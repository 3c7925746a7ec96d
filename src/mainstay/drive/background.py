"""Background work on a pool of threads, its end reported on the submitter's loop."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from mainstay.drive.wakeup import Wakeup
from mainstay.tracebacks import reportable

Report = Callable[[], None]


def end_threads(pool: ThreadPoolExecutor, within_s: float, *, drop_waiting: bool = True) -> bool:
    """Wait for the work under way, but not for ever; whether all has ended.

    Work cannot be ended from outside, and a target may never answer. ``drop_waiting`` says that
    what has not begun is not wanted any more.
    """
    options = {"cancel_futures": drop_waiting}
    ending = threading.Thread(target=pool.shutdown, kwargs=options, daemon=True)
    ending.start()
    ending.join(within_s)
    return not ending.is_alive()


class ThreadBackground:
    """Runs work on threads; reports go into a queue that the loop empties."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        reports: queue.SimpleQueue[Report] | queue.Queue[Report],
        wakeup: Wakeup | None = None,
    ) -> None:
        self._pool = pool
        self._reports = reports
        self._wakeup = wakeup
        self._is_open = True

    def submit(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        def report(future: Future[Any]) -> None:
            if future.cancelled():
                return  # it was dropped: the submitter has ended
            error = future.exception()
            if error is None:
                self.post(lambda: done(future.result()))
            else:
                # What is no Exception must be heard of as well, or it is waited for without end.
                reported = reportable(error)
                self.post(lambda: failed(reported))

        if self._is_open:
            self._pool.submit(work).add_done_callback(report)

    def post(self, report: Report) -> None:
        """Have something called on the loop, unless its owner has ended by then."""

        def if_open() -> None:
            if self._is_open:
                report()

        self._reports.put(if_open)
        if self._wakeup is not None:
            self._wakeup.ring()

    def close(self) -> None:
        """The process this belongs to has ended: nothing is reported to it any more."""
        self._is_open = False
