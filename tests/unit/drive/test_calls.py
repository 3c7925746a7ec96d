"""Calls that wait: on one event loop, in threads, given up, and heard of on the loop alone."""

from __future__ import annotations

import asyncio
import gc
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.drive.background import ThreadBackground
from mainstay.drive.calls import ThreadCalls

PATIENCE_S = 30.0


class Caller:
    """The loop of a worker, as far as calls know it."""

    def __init__(self) -> None:
        self.reports: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.background = ThreadBackground(ThreadPoolExecutor(1), self.reports)
        self.calls = ThreadCalls(self.background)
        self.heard: list[Any] = []

    def call(self, work: Any, *, is_async: bool) -> Any:
        hear = self.heard.append
        return self.calls.call(work, hear, hear, is_async=is_async)

    def next(self) -> Any:
        self.reports.get(timeout=PATIENCE_S)()
        return self.heard[-1]


@pytest.fixture
def caller() -> Caller:
    return Caller()


async def where() -> Any:
    return threading.current_thread().name, asyncio.get_running_loop()


def test_coroutines_share_one_event_loop(caller: Caller) -> None:
    caller.call(where, is_async=True)
    first = caller.next()
    caller.call(where, is_async=True)
    assert caller.next() == first
    assert first[0] == "mainstay-coroutines"


def test_a_function_that_blocks_has_a_thread_for_each_call(caller: Caller) -> None:
    meeting = threading.Barrier(20)
    for _ in range(20):
        # None of them returns before all have been called.
        caller.call(lambda: meeting.wait(PATIENCE_S), is_async=False)
    assert sorted(caller.next() for _ in range(20)) == list(range(20))


def test_what_a_function_gives_is_awaited_where_that_is_possible(caller: Caller) -> None:
    caller.call(lambda: where(), is_async=False)
    assert caller.next()[0] == "mainstay-coroutines"


@pytest.mark.parametrize("is_async", [True, False])
def test_what_a_call_raises_is_heard_of(caller: Caller, is_async: bool) -> None:
    async def failing() -> None:
        raise ConnectionError("down")

    caller.call(failing, is_async=is_async)
    assert repr(caller.next()) == "ConnectionError('down')"


def test_a_coroutine_that_is_cancelled_by_something_else_is_heard_of(caller: Caller) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    caller.call(cancelled, is_async=True)
    assert "cancelled" in str(caller.next()).lower()


def test_a_call_that_is_given_up_is_cancelled_and_not_heard_of(caller: Caller) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    give_up = caller.call(endless, is_async=True)
    assert begun.wait(PATIENCE_S)
    give_up()
    assert ended.wait(PATIENCE_S)
    caller.call(where, is_async=True)
    caller.next()
    assert len(caller.heard) == 1


def test_a_call_that_is_given_up_leaves_no_complaint_of_the_event_loop(
    caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    begun = threading.Event()
    tasks: list[Any] = []

    async def endless() -> None:
        tasks.append(asyncio.current_task())
        begun.set()
        await asyncio.Event().wait()

    give_up = caller.call(endless, is_async=True)
    assert begun.wait(PATIENCE_S)
    give_up()
    # The task has ended when a call that came later has.
    while not tasks[0].done():
        caller.call(where, is_async=True)
        caller.next()
    tasks.clear()
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_thread_that_is_given_up_goes_on_and_is_not_heard_of(caller: Caller) -> None:
    may_end = threading.Event()
    give_up = caller.call(lambda: may_end.wait(PATIENCE_S), is_async=False)
    give_up()
    may_end.set()
    caller.call(where, is_async=True)
    assert caller.next()[0] == "mainstay-coroutines"
    assert len(caller.heard) == 1


def test_nothing_is_heard_by_a_worker_that_has_ended(caller: Caller) -> None:
    caller.background.close()
    caller.call(lambda: 7, is_async=False)
    caller.reports.get(timeout=PATIENCE_S)()
    assert caller.heard == []


# ---------------------------------------------------------------- a job


async def doubled(row: Any) -> Any:
    await asyncio.sleep(0)
    return row.n, 2 * row.n


def doubled_in_a_thread(row: Any) -> Any:
    return row.n, 2 * row.n


@pytest.mark.parametrize("function", [doubled, doubled_in_a_thread])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_job_has_every_result_once(tmp_path: Path, function: Any, ordered: bool) -> None:
    out = ms.connectors.Memory()
    snapshots = ms.Snapshots(tmp_path, every="20ms")
    env = ms.Environment(spark="embedded", parallelism=2, snapshots=snapshots)
    numbers = ms.connectors.Rows("n long", [(n,) for n in range(2000)], splits=2)
    asked = env.source(numbers, uid="in").map_async(
        function, "n long, doubled long", capacity=20, ordered=ordered, uid="ask"
    )
    asked.sink(out, uid="out")
    env.start("asking").wait(progress=False)
    assert sorted(out.rows()) == [(n, 2 * n) for n in range(2000)]


async def never(row: Any) -> Any:
    await asyncio.Event().wait()


def test_a_call_that_never_ends_is_given_up_in_time(tmp_path: Path) -> None:
    out = ms.connectors.Memory()
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(tmp_path, every="20ms"))
    asked = env.source(ms.connectors.Rows("n long", [(1,), (2,)]), uid="in").map_async(
        never, "n long", timeout="50ms", on_timeout=lambda row: (-row.n,), uid="ask"
    )
    asked.sink(out, uid="out")
    env.start("asking").wait(progress=False)
    assert sorted(out.rows()) == [(-2,), (-1,)]


async def exits() -> None:
    raise SystemExit(3)


async def exits_in_a_task_of_its_own() -> None:
    await asyncio.create_task(exits())


@pytest.mark.parametrize("work", [exits, exits_in_a_task_of_its_own])
def test_a_coroutine_that_exits_is_heard_of_and_the_others_go_on(caller: Caller, work: Any) -> None:
    caller.call(work, is_async=True)
    assert "SystemExit" in str(caller.next())
    caller.call(where, is_async=True)
    assert caller.next()[0] == "mainstay-coroutines"
