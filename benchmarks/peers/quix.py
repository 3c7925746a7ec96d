"""Quix Streams: W1, W2, W3 and W6 in two processes of one consumer group.

It reads from Kafka and from nothing else: its other sources write to a topic first. So a broker
runs beside it, and the broker's memory and CPU time count, because nothing runs without it. The
topic is filled before the clock starts, keys and values are four bytes each, and what comes out is
counted and dropped, which is all in its favour. State is in RocksDB, its only store for users.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from quixstreams import Application
from quixstreams.dataframe.windows import Count, Sum

from benchmarks import workloads
from benchmarks.peers import answer
from benchmarks.peers.quix_topics import STAMPED, fill, free_of_noise, pace

SETTINGS = {
    "W1": ["changelog", "exactly-once", "no-changelog"],
    "W2": ["changelog", "no-changelog"],
    "W3": ["changelog"],
    "W6": ["changelog", "no-changelog"],
}
FILLED_PER_S = 150_000
"""Records that the topic holds for each second of the run; who is quicker runs it dry."""
SAMPLE_EVERY_S = 0.2
FOREVER = timedelta(days=100 * 365)
"""A window that no run leaves: the engine has no aggregation without one."""


class Seen:
    """Counts what arrives at the end, and in W3 how old it is. A thread looks at the count."""

    def __init__(self, seconds: float, is_timed: bool) -> None:
        self.seconds, self.is_timed, self.count = seconds, is_timed, 0
        self.samples: list[tuple[float, int]] = []
        self.ages: list[tuple[float, float]] = []
        self.app: Any = None

    def __call__(self, value: Any) -> None:
        if not self.count:
            self._first()
        self.count += 1
        if self.is_timed:
            now = time.time()
            self.ages.append((now, now - value[1]))

    def _first(self) -> None:
        """The clock starts with the first record, not while partitions are given out."""
        self.warm_until = time.time() + answer.WARM_UP_S
        threading.Thread(target=self._look, daemon=True).start()
        print(json.dumps({"first": time.time()}), flush=True)

    def _look(self) -> None:
        pause, now = threading.Event(), time.time()
        while now < self.warm_until + self.seconds:
            pause.wait(SAMPLE_EVERY_S)
            now = time.time()
            self.samples.append((now, self.count))
        self.app.stop()

    def found(self) -> dict[str, Any]:
        window = answer.window(self.samples, self.warm_until)
        return {
            "records": window.records,
            "seconds": window.seconds,
            "began_at": window.began_at,
            "records_per_s": window.records_per_s,
            "in_all": self.count,
            "ages_s": [age for at, age in self.ages if at >= self.warm_until],
        }


def total(amount: int, state: Any) -> int:
    now = state.get("total", 0) + amount
    state.set("total", now)
    return int(now)


def stamped_total(value: bytes, state: Any) -> tuple[int, float]:
    amount, made = STAMPED.unpack(value)
    return total(amount, state), made


def counted(word: str, state: Any) -> int:
    return total(1, state)


def application(setting: str, servers: str, group: str, directory: Path) -> Application:
    return Application(
        servers,
        consumer_group=group,
        auto_offset_reset="earliest",
        commit_interval=workloads.SNAPSHOT_INTERVAL_S,
        use_changelog_topics=setting != "no-changelog",
        processing_guarantee="exactly-once" if setting == "exactly-once" else "at-least-once",
        state_dir=directory,
        consumer_poll_timeout=0.1,
        loglevel="WARNING",
    )


def results(app: Application, workload: str, topic: str) -> Any:
    """The stream of results that the workload is about, with the key of each record."""
    value = {"W3": "bytes", "W6": "str"}.get(workload, "integer")
    stream: Any = app.dataframe(
        app.topic(topic, key_deserializer="bytes", value_deserializer=value)
    )
    if workload == "W2":
        window = stream.tumbling_window(FOREVER, name="totals")
        return window.agg(total=Sum(), n=Count()).current()
    if workload == "W6":
        words = stream.apply(lambda line: line.split(), expand=True)
        grouped = words.group_by(
            lambda word: word, name="word", value_serializer="str", value_deserializer="str"
        )
        return grouped.apply(counted, stateful=True)
    return stream.apply(stamped_total if workload == "W3" else total, stateful=True)


def work(asked: answer.Request, servers: str, topic: str, directory: Path) -> None:
    """One process of the group: run for the time that is asked, and print what was seen."""
    seen = Seen(asked.seconds, asked.workload == "W3")
    seen.app = application(asked.setting, servers, topic, directory)
    results(seen.app, asked.workload, topic).update(seen)
    seen.app.run()
    print(json.dumps(seen.found()), flush=True)


def verify(asked: answer.Request, broker: Any, directory: Path) -> bool:
    """Whether the same program over the first records ends with the right totals."""
    is_words = asked.workload == "W6"
    lines = workloads.VERIFIED_RECORDS // workloads.WORDS_PER_LINE
    count = lines if is_words else workloads.VERIFIED_RECORDS
    topic = broker.create("check", workloads.PARALLELISM)
    fill(broker.servers, topic, asked.workload, 0, count)
    app = application(asked.setting, broker.servers, topic, directory)
    largest: dict[bytes, int] = {}
    arrived = 0

    def keep(value: Any, key: Any, timestamp: int, headers: Any) -> None:
        nonlocal arrived
        number = value["total"] if asked.workload == "W2" else value
        number = number[0] if asked.workload == "W3" else number
        largest[key] = max(number, largest.get(key, 0))
        arrived += 1
        if arrived == workloads.VERIFIED_RECORDS:
            app.stop()

    results(app, asked.workload, topic).update(keep, metadata=True)
    app.run()
    if is_words:
        found: dict[Any, int] = {_text(key): n for key, n in largest.items()}
        return found == workloads.word_counts(count)
    expected = workloads.sums(count)
    return {int.from_bytes(key, "big"): n for key, n in largest.items()} == expected


def _text(key: Any) -> str:
    """The key of a group is a word, as JSON if it still is as it lay in the topic."""
    return key.decode().strip('"') if isinstance(key, bytes) else str(key)


def run(asked: answer.Request, broker: Any, directory: Path) -> list[dict[str, Any]]:
    """Both processes, from their start to what they have seen."""
    topic = broker.create("orders", workloads.PARALLELISM)
    filled = 0
    if asked.workload == "W3":
        # A record for each process, to hear from it that it is at work.
        for partition in range(workloads.PARALLELISM):
            broker.send(topic, [STAMPED.pack(0, time.time())], key=b"\0\0\0\0", partition=partition)
    else:
        lasts_s = answer.WARM_UP_S + asked.seconds
        per_record = workloads.WORDS_PER_LINE if asked.workload == "W6" else 1
        filled = int(lasts_s * FILLED_PER_S / per_record) * per_record
        fill(broker.servers, topic, asked.workload, 0, filled // per_record)
    workers = [_start(asked, broker.servers, topic, directory / str(n)) for n in range(2)]
    firsts = [_line(worker) for worker in workers]
    if asked.workload == "W3":
        ends_at = max(first["first"] for first in firsts) + answer.WARM_UP_S + asked.seconds
        pace(broker.servers, topic, workloads.RATE_PER_S, ends_at)
    found = [_line(worker) for worker in workers]
    for worker in workers:
        worker.wait()
    if filled and sum(part["in_all"] for part in found) >= filled:
        raise SystemExit(
            f"the topic ran dry: {filled:,} records are too few for so quick a machine"
        )
    return found


def _start(asked: answer.Request, servers: str, topic: str, directory: Path) -> Any:
    place = ["--servers", servers, "--topic", topic, "--directory", str(directory)]
    again = [asked.workload, "--setting", asked.setting, "--seconds", f"{asked.seconds:g}"]
    command = [sys.executable, "-m", "benchmarks.peers.quix", *again, *place]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _line(worker: Any) -> dict[str, Any]:
    line = worker.stdout.readline()
    if not line:
        raise SystemExit(f"a process of Quix Streams ended with {worker.wait()} and said nothing")
    return dict(json.loads(line))


def measure(asked: answer.Request) -> None:
    from tests.services.kafka import KafkaBroker

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        directory = Path(name)
        broker = KafkaBroker(directory / "kafka", java=("-Xmx1g", "-XX:+UseG1GC"))
        broker.start()
        try:
            verified = verify(asked, broker, directory / "check")
            found = run(asked, broker, directory)
        finally:
            broker.stop()
    ages_ms = [age * 1e3 for part in found for age in part["ages_s"]]
    window = answer.Window(
        sum(part["records"] for part in found),
        max(part["seconds"] for part in found),
        min(part["began_at"] for part in found),
    )
    late = answer.late(window, workloads.RATE_PER_S) if asked.workload == "W3" else ""
    answer.say(
        "quix",
        asked,
        window,
        records_per_s=sum(part["records_per_s"] for part in found),
        latency_ms=answer.percentiles(ages_ms) if ages_ms else None,
        verified=verified,
        note=f"from Kafka, whose broker counts; a commit every 1 s{late}",
    )


def main() -> None:
    parser = answer.parser(SETTINGS)
    parser.add_argument("--servers")
    parser.add_argument("--topic")
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    asked = answer.request(SETTINGS, arguments)
    free_of_noise()
    if arguments.servers:
        work(asked, arguments.servers, arguments.topic, arguments.directory)
    else:
        measure(asked)


if __name__ == "__main__":
    main()
