"""Calls of authors' functions that wait for something outside: coroutines and threads.

Coroutines of all jobs of a process run on one event loop, in a thread that begins with the first of
them, so that what they share (sessions, pools of connections) belongs to one loop. A function that
blocks has a thread for each call; threads are used again. All of them are daemons: a call that
never returns does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache, partial
from typing import Any

from mainstay.drive.background import ThreadBackground
from mainstay.tracebacks import reportable


class ThreadCalls:
    """The calls of one worker; their ends are reported as those of its background work are."""

    def __init__(self, background: ThreadBackground) -> None:
        self._background = background

    def call(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
        *,
        is_async: bool,
    ) -> Callable[[], None]:
        call = _Call(self._background, done, failed)
        if is_async:
            call.begin(work)
        else:
            _threads(os.getpid()).submit(partial(call.run, work))
        return call.give_up


class _Call:
    """One call: on the event loop, or in a thread and then, if it gives an awaitable, there."""

    def __init__(
        self,
        background: ThreadBackground,
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._background = background
        self._done = done
        self._failed = failed
        self._future: Future[Any] | None = None
        self._is_given_up = False

    def begin(self, work: Callable[[], Any]) -> None:
        """Await what the work gives. It is called on the event loop as well."""
        self._future = asyncio.run_coroutine_threadsafe(self._awaited(work), _loop(os.getpid()))
        self._future.add_done_callback(self._report)

    async def _awaited(self, work: Callable[[], Any]) -> Any:
        try:
            return await work()
        except (SystemExit, KeyboardInterrupt, asyncio.CancelledError) as error:
            if self._is_given_up and isinstance(error, asyncio.CancelledError):
                raise  # nobody asks for what became of it, and asyncio would complain of that
            # The first two would end the event loop, and with it the calls of all jobs. The future
            # of a cancelled one knows neither the words nor the frames of what was raised.
            raise reportable(error) from error

    def run(self, work: Callable[[], Any]) -> None:
        """Do the work in this thread."""
        try:
            result = work()
        except BaseException as error:
            self._post_failure(error)
            return
        if self._is_given_up:
            return
        if inspect.isawaitable(result):
            self.begin(lambda: result)
        else:
            self._background.post(partial(self._done, result))

    def give_up(self) -> None:
        self._is_given_up = True
        if self._future is not None:
            self._future.cancel()

    def _report(self, future: Future[Any]) -> None:
        if self._is_given_up:
            return
        if future.cancelled():
            # By itself, or by what it has awaited: it must be heard of.
            self._post_failure(asyncio.CancelledError("the coroutine was cancelled"))
        elif (error := future.exception()) is not None:
            self._post_failure(error)
        else:
            self._background.post(partial(self._done, future.result()))

    def _post_failure(self, error: BaseException) -> None:
        if self._is_given_up:
            return
        self._background.post(partial(self._failed, reportable(error)))


class DaemonThreads:
    """As many threads as there are calls at a time. One that has ended its call takes another."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)

    def submit(self, run: Callable[[], None]) -> None:
        self._waiting.put(run)
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._work, name="mainstay-call", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._waiting.get()()
            self._idle.release()


@lru_cache(maxsize=1)
def _threads(pid: int) -> DaemonThreads:
    """Those of this process: a forked one has none of its parent's."""
    return DaemonThreads()


@lru_cache(maxsize=1)
def _loop(pid: int) -> asyncio.AbstractEventLoop:
    """The event loop of this process."""
    loop = asyncio.new_event_loop()
    run = partial(_run_for_ever, loop)
    threading.Thread(target=run, name="mainstay-coroutines", daemon=True).start()
    return loop


def _run_for_ever(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop, also after a task of the author's own has called for the end of all."""
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            # The call that awaits the task is told of it.
            continue
