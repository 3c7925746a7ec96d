"""The page: its weight, how soon it is seen, what it costs a large job's driver and a browser.

A browser without a window opens the real page. The large job is a real plan of twenty tasks with
made-up figures behind the real application; the job of the last table is real and runs on one
thread with the server, which is the worst case: on Spark its workers are other processes.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

import mainstay as ms
from benchmarks.large_view import LargeView
from benchmarks.report import Size, Table, count, millis
from mainstay.connectors import Generate, Memory
from mainstay.serve.server import Server
from tests.services.browser import browser

SUBTASKS, OPERATORS = 64, 20
TABS = 10
LOADS = 9
WATCH_S = 20
WINDOW_S = 2
PAIRS = 16
KEYS = 1000
HIDE = """isHidden => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def measure(size: Size) -> Iterator[Table]:
    with browser() as opened:
        yield _load(opened, max(1, size.of(LOADS)))
        yield _large(opened, max(1, size.of(WATCH_S)))
        yield _throughput(opened, max(2, size.of(PAIRS)), WINDOW_S)


@contextmanager
def served(view: Any) -> Iterator[str]:
    server = Server(ms.Ui())
    server.show(view)
    yield server.url
    server.close()


def wait(seconds: float) -> None:
    threading.Event().wait(seconds)


# ---------------------------------------------------------------- how soon it is seen


def _load(opened: Any, loads: int) -> Table:
    table = Table(
        "Loading the page",
        ["what", "figure"],
        "Over loopback, without a cache, of a job with "
        f"{OPERATORS} operators and {SUBTASKS} subtasks each. Verdict: from the request to the "
        "sentence that says whether the job is well.",
    )
    sizes = [
        len(each.read_bytes())
        for each in files("mainstay.serve.page").iterdir()
        if each.name.endswith((".html", ".css", ".js", ".svg"))
    ]
    with served(LargeView(OPERATORS, SUBTASKS)) as url:
        found = [_loaded(opened, url) for _ in range(loads + 1)][1:]
    table.add("files", count(len(sizes)))
    table.add("weight kB", f"{sum(sizes) / 1000:.0f}")
    table.add("first paint ms", millis(statistics.median(each[0] for each in found)))
    table.add("verdict ms", millis(statistics.median(each[1] for each in found)))
    return table


def _loaded(opened: Any, url: str) -> tuple[float, float]:
    """When something was painted, and when the verdict stood there."""
    context = opened.new_context(viewport={"width": 1280, "height": 900})
    page, begun = context.new_page(), time.perf_counter()
    page.goto(url, wait_until="commit")
    page.locator("#headline").wait_for()
    verdict_s = time.perf_counter() - begun
    paint_ms = page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"
    )
    context.close()
    return paint_ms / 1000, verdict_s


# ---------------------------------------------------------------- a large job


def _large(opened: Any, seconds: float) -> Table:
    table = Table(
        f"{OPERATORS} operators with {SUBTASKS} subtasks each, once a second",
        ["tabs", "server % of a core", "browser % of a core"],
        f"One is busy, all have other figures each second; {seconds:g} s each.",
    )
    with served(LargeView(OPERATORS, SUBTASKS)) as url:
        for tabs in (0, 1, TABS):
            pages = [_opened(opened, url) for _ in range(tabs)]
            wait(2)
            table.add(tabs, *(f"{each:.1f}" for each in _used(seconds)))
            for page in pages:
                page.context.close()
    return table


def _opened(opened: Any, url: str) -> Any:
    page = opened.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(url)
    page.locator("#headline").wait_for()
    return page


def _used(seconds: float) -> tuple[float, float]:
    """What this process and the browser used, in percent of one core."""
    own = psutil.Process()
    others = [each for each in own.children(recursive=True) if "chrom" in each.name()]
    before = _spent(own), sum(map(_spent, others))
    begun = time.perf_counter()
    wait(seconds)
    lasted = time.perf_counter() - begun
    after = _spent(own), sum(map(_spent, others))
    return tuple(100 * (b - a) / lasted for a, b in zip(before, after, strict=True))  # type: ignore[return-value]


def _spent(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


# ---------------------------------------------------------------- a job at full speed


class Total(ms.KeyedProcess):
    """A sum for each key."""

    total = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.amount)
        return ctx.key, self.total.get()


def _rows(first: int, rows: int) -> pa.RecordBatch:
    numbers = range(first, first + rows)
    columns = [[n % KEYS for n in numbers], list(numbers)]
    return pa.RecordBatch.from_arrays([pa.array(each) for each in columns], ["key", "amount"])


class Nowhere(Memory):
    """Keeps nothing of what is committed."""

    def commit(self, handles: Any) -> None:
        pass


def _throughput(opened: Any, pairs: int, seconds: float) -> Table:
    table = Table(
        f"A job at full speed under {TABS} open tabs",
        ["watched by", "rows/s alone", "rows/s watched", "ratio", "server % of its process"],
        f"One embedded job, {pairs} pairs of windows of {seconds:g} s, without and with them. The "
        "ratio is the median of the pairs' ratios: the machine does other work, and its speed "
        "changes from minute to minute. The last column is the CPU time of the server's threads "
        "in that of the whole process while it is watched. Streams: programs that listen as the "
        "page does. Tabs: pages that are seen; the browser shares the cores with the job.",
    )
    directory = Path(tempfile.mkdtemp())
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(directory), ui=True)
    source = Generate("key long, amount long", _rows, end=10**12)
    keyed = env.source(source, uid="numbers").key_by("key")
    keyed.process(Total(), "key long, total long", uid="totals").sink(Nowhere(), uid="out")
    job = env.start("throughput")
    try:
        _beside(table, f"{TABS} streams", job, Streams(job.url), pairs, seconds)
        _beside(table, f"{TABS} tabs", job, Tabs(opened, job.url), pairs, seconds)
    finally:
        job.cancel()
        job.server.close()
        shutil.rmtree(directory, ignore_errors=True)
    return table


def _beside(table: Table, name: str, job: Any, watchers: Any, pairs: int, seconds: float) -> None:
    """A row: the rates of both, and what the server used while it was watched."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    served, spent = 0.0, 0.0
    wait(2)
    for number in range(2 * pairs):
        # Alone, watched, watched, alone: what drifts is on both sides.
        is_watched = number % 4 in (1, 2)
        watchers.watch(is_watched)
        wait(0.7)
        before = _server_s(), _spent(psutil.Process())
        rates[is_watched].append(_rate(job, seconds))
        if is_watched:
            served += _server_s() - before[0]
            spent += _spent(psutil.Process()) - before[1]
    watchers.close()
    ratios = [b / a for a, b in zip(rates[False], rates[True], strict=True)]
    alone, watched = (statistics.median(rates[each]) for each in (False, True))
    ratio = f"{statistics.median(ratios):.2f}"
    table.add(name, count(alone), count(watched), ratio, f"{100 * served / spent:.1f}")


def _server_s() -> float:
    """The CPU seconds of the threads that answer."""
    names = ("mainstay-ui", "AnyIO")
    own = {each.native_id for each in threading.enumerate() if each.name.startswith(names)}
    found = psutil.Process().threads()
    return float(sum(each.user_time + each.system_time for each in found if each.id in own))


def _rate(job: Any, seconds: float) -> float:
    """Rows a second. Both ends are reports of the source that have just come."""

    def now() -> tuple[int, float]:
        before = _reported(job)
        while (found := _reported(job)) == before:
            wait(0.002)
        return found

    rows, begun = now()
    wait(seconds)
    more, ended = now()
    return (more - rows) / (ended - begun)


def _reported(job: Any) -> tuple[int, float]:
    found = [each for each in job.metrics().values() if each.is_source]
    return sum(each.rows for each in found), max(each.lasted_s for each in found)


class Tabs:
    """Pages that are seen, or hidden as a tab behind another is."""

    def __init__(self, opened: Any, url: str) -> None:
        self._pages = [_opened(opened, url) for _ in range(TABS)]

    def watch(self, is_watched: bool) -> None:
        for page in self._pages:
            page.evaluate(HIDE, not is_watched)

    def close(self) -> None:
        for page in self._pages:
            page.context.close()


class Streams:
    """Programs that listen, in a process of their own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._processes: list[Any] = []

    def watch(self, is_watched: bool) -> None:
        if not is_watched:
            self.close()
            return
        address, _, token = self._url.partition("/#token=")
        program = LISTEN.format(address=address, token=token, streams=TABS)
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        self._processes.append(process)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()


LISTEN = """
import httpx, threading
told = {{"Authorization": "Bearer {token}"}}
client = httpx.Client(base_url="{address}", headers=told, timeout=60)
def listen():
    with client.stream("GET", "/api/v1/events") as stream:
        for _ in stream.iter_raw():
            heard.release()
heard = threading.Semaphore(0)
for _ in range({streams}):
    threading.Thread(target=listen, daemon=True).start()
for _ in range({streams}):
    heard.acquire()
print("listening", flush=True)
threading.Event().wait()
"""
