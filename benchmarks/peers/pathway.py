"""Pathway: W1, W2, W3 and W6 on two workers.

What it calls a reducer is its function with state per key. A reducer's result leaves once for every
key and commit and not for every record, so it has less to emit than the others; in the setting
``every-record`` the function gives out a result for each record, which are then flattened. Records
come from CSV files that were written before and are put into a directory as fast as they are read;
a file is a commit. What it persists is its input, every second (``input-log``), from which state is
computed again; snapshots of its operators need a licence key, which is not assumed here.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pathway as pw

from benchmarks import workloads
from benchmarks.peers import answer
from benchmarks.peers.pathway_files import FILES, Cluster, progress, write

SETTINGS = {
    "W1": ["input-log", "no-persistence", "every-record"],
    "W2": ["input-log", "no-persistence"],
    "W3": ["input-log", "no-persistence"],
    "W6": ["input-log", "no-persistence"],
}
PROCESSES = {"W1": 2, "W2": 1, "W3": 1, "W6": 2}
"""Python functions share an interpreter in a process; where there are none, threads are better."""
COMMIT_MS = {"W3": 10}
TICK_S = 0.001


class Orders(pw.Schema):
    key: int
    amount: int


class Stamped(Orders):
    made: float


class Line(pw.Schema):
    line: str


@pw.reducers.stateful_single
def total(state: int | None, amount: int) -> int:
    return (state or 0) + amount


@pw.reducers.stateful_many
def totals(
    state: tuple[int, tuple[int, ...]] | None, rows: list[tuple[list[int], int]]
) -> tuple[int, tuple[int, ...]]:
    """The total, and one for each record of this commit."""
    now, given = state[0] if state else 0, []
    for (amount,), times in rows:
        for _ in range(times):
            now += amount
            given.append(now)
    return now, tuple(given)


@pw.udf(deterministic=True)
def split(line: str) -> list[str]:
    return line.split()


def results(records: pw.Table, asked: answer.Request) -> pw.Table:
    """The table of keys and totals that the workload is about."""
    if asked.workload == "W6":
        words = records.select(key=split(pw.this.line)).flatten(pw.this.key)
        return words.groupby(pw.this.key).reduce(pw.this.key, total=pw.reducers.count())
    grouped = records.groupby(pw.this.key)
    summed = pw.declare_type(int, total(pw.this.amount))
    if asked.workload == "W2":
        return grouped.reduce(
            pw.this.key, total=pw.reducers.sum(pw.this.amount), n=pw.reducers.count()
        )
    if asked.workload == "W3":
        made = pw.reducers.max(pw.this.made)
        return grouped.reduce(pw.this.key, total=summed, made=made)
    if asked.setting == "every-record":
        kept = grouped.reduce(pw.this.key, given=totals(pw.this.amount))
        given = kept.select(pw.this.key, total=pw.declare_type(list[int], pw.this.given[1]))
        return given.flatten(pw.this.total)
    return grouped.reduce(pw.this.key, total=summed)


class Paced(pw.io.python.ConnectorSubject):
    """What is due at a steady rate, stamped when it is made."""

    deletions_enabled = False

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def run(self) -> None:
        keys, amounts = (column.tolist() for column in workloads.columns(0, 200_000))
        began, made = time.time(), 0
        ends_at = began + answer.WARM_UP_S + self.seconds
        while (now := time.time()) < ends_at:
            due = int((now - began) * workloads.RATE_PER_S)
            for number in range(made, due):
                at = number % len(keys)
                self.next(key=keys[at], amount=amounts[at], made=time.time())
            made = due
            time.sleep(TICK_S)


def persistence(asked: answer.Request, store: Path) -> dict[str, Any]:
    if asked.setting == "no-persistence":
        return {}
    config = pw.persistence.Config(
        pw.persistence.Backend.filesystem(store),
        snapshot_interval_ms=int(workloads.SNAPSHOT_INTERVAL_S * 1000),
        persistence_mode=pw.PersistenceMode.PERSISTING,
    )
    return {"persistence_config": config}


def read(asked: answer.Request, directory: Path, mode: str) -> pw.Table:
    if asked.workload == "W6":
        schema: Any = Line
    else:
        schema = Stamped if asked.workload == "W3" else Orders
    return pw.io.csv.read(
        directory, schema=schema, mode=mode, autocommit_duration_ms=1000, name="records"
    )


def verify(asked: answer.Request, directory: Path) -> bool:
    """Whether the same tables over the first records end with the right totals."""
    is_words = asked.workload == "W6"
    count = workloads.VERIFIED_RECORDS // (workloads.WORDS_PER_LINE if is_words else 1)
    directory.mkdir()
    write(directory / "records.csv", asked.workload, 0, count)
    largest: dict[Any, int] = {}

    def keep(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        largest[row["key"]] = max(row["total"], largest.get(row["key"], 0))

    pw.io.subscribe(results(read(asked, directory, "static"), asked), on_change=keep)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    pw.internals.parse_graph.G.clear()
    return largest == (workloads.word_counts(count) if is_words else workloads.sums(count))


def _say(**event: Any) -> None:
    print(json.dumps({"at": time.time(), **event}), flush=True)


def work(asked: answer.Request, directory: Path) -> None:
    """One process: say how many records each commit had read, and when its results were out."""
    records = read(asked, directory / "in", "streaming")
    found = results(records, asked)
    pw.io.null.write(found)

    def counted(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            _say(time=time, count=row["n"])

    counts = records.reduce(n=pw.reducers.count())
    pw.io.subscribe(counts, on_change=counted, name="counts")
    # A few of the results, only to hear when all of a commit are out: where nothing has changed
    # in a commit there is no word of its end.
    probe = found.filter(pw.this.key == "w0" if asked.workload == "W6" else pw.this.key % 1000 == 0)
    pw.io.subscribe(
        probe,
        on_change=lambda **_: None,
        on_time_end=lambda time: _say(time=time),
        name="probe",
    )
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, **persistence(asked, directory / "store"))


def timed(asked: answer.Request, directory: Path) -> tuple[answer.Window, answer.Latencies]:
    """W3, in this process: how old each result is when it comes out."""
    subject = Paced(asked.seconds)
    records = pw.io.python.read(
        subject, schema=Stamped, autocommit_duration_ms=COMMIT_MS["W3"], name="records"
    )
    arrivals: list[tuple[float, float]] = []

    def arrived(key: Any, row: dict[str, Any], time_: int, is_addition: bool) -> None:
        if is_addition:
            now = time.time()
            arrivals.append((now, now - row["made"]))

    def on_change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        arrived(key, row, time, is_addition)

    pw.io.subscribe(results(records, asked), on_change=on_change, name="ages")
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, **persistence(asked, directory / "store"))
    warm_until = arrivals[0][0] + answer.WARM_UP_S
    warm = [(at, age) for at, age in arrivals if at >= warm_until]
    window = answer.Window(len(warm), warm[-1][0] - warm_until, warm_until)
    return window, answer.percentiles([age * 1e3 for _, age in warm])


def samples(asked: answer.Request, directory: Path) -> Iterator[tuple[float, int]]:
    """(time, records whose results are out), as the processes go on."""
    again = [asked.workload, "--setting", asked.setting, "--directory", str(directory)]
    command = [sys.executable, "-m", "benchmarks.peers.pathway", *again]
    processes = PROCESSES[asked.workload]
    (directory / "in").mkdir()
    with Cluster(command, processes, workloads.PARALLELISM // processes) as cluster:
        yield from progress(cluster, asked.workload, directory)


def watched(asked: answer.Request, directory: Path) -> answer.Window:
    """Let the processes run until the window is full."""
    found: list[tuple[float, int]] = []
    for sample in samples(asked, directory):
        found.append(sample)
        warm_until = found[0][0] + answer.WARM_UP_S
        warm = [at for at, _ in found if at >= warm_until]
        if len(warm) >= 2 and warm[-1] - warm[0] >= asked.seconds * 0.8:
            break
    window = answer.window(found, warm_until)
    per_record = workloads.WORDS_PER_LINE if asked.workload == "W6" else 1
    return answer.Window(window.records * per_record, window.seconds, window.began_at)


def note(asked: answer.Request, window: answer.Window) -> str:
    if asked.workload == "W3":
        late = answer.late(window, workloads.RATE_PER_S)
        return f"commits of {COMMIT_MS['W3']} ms; a result for a key and commit{late}"
    size = f"{FILES[asked.workload].records:,} rows a commit"
    return size if asked.setting == "every-record" else f"{size}, a result for a key and commit"


def main() -> None:
    parser = answer.parser(SETTINGS)
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    asked = answer.request(SETTINGS, arguments)
    if arguments.directory is not None:
        work(asked, arguments.directory)
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        directory = Path(name)
        verified = verify(asked, directory / "check")
        if asked.workload == "W3":
            window, latency_ms = timed(asked, directory)
        else:
            window, latency_ms = watched(asked, directory), None
    answer.say(
        "pathway", asked, window, latency_ms=latency_ms, verified=verified, note=note(asked, window)
    )


if __name__ == "__main__":
    main()
