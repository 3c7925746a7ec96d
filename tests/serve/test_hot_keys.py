"""A key with most of the rows of a busy subtask is named: over REST, in words, never in metrics."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa

import mainstay as ms
from tests.serve.jobs import API, await_true, client_of

HOT = "very-hot-key"


class Slow(ms.KeyedProcess):
    """Takes its time for each row."""

    seen = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        threading.Event().wait(0.001)
        self.seen.update((self.seen.get() or 0) + 1)
        yield ctx.key, self.seen.get()


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    keys = [HOT if n % 2 else f"k{n % 1000}" for n in numbers]
    return pa.RecordBatch.from_arrays([keys, list(numbers)], ["k", "n"])


def hot_keys(tasks: dict[str, Any]) -> dict[tuple[str, int], list[Any]]:
    return {
        (counts["uid"], subtask["subtask"]): counts["hot_keys"]
        for task in tasks["tasks"]
        for subtask in task["subtasks"]
        for counts in subtask["operators"]
        if counts["hot_keys"]
    }


def test_a_hot_key_is_told_by_the_tasks_and_by_the_verdict_and_by_no_metric(tmp_path: Path) -> None:
    snapshots = ms.Snapshots(tmp_path, every="200ms")
    env = ms.Environment(spark="embedded", parallelism=2, snapshots=snapshots, ui=True)
    source = ms.connectors.Generate("k string, n long", rows)
    keyed = env.source(source, uid="in").key_by("k").process(Slow(), "k string, n long", uid="slow")
    keyed.sink(ms.connectors.Memory(), uid="out")
    job: Any = env.start("hot")
    try:
        with client_of(job.url) as client:
            await_true(
                lambda: (
                    f"key {HOT!r} has" in client.get(f"{API}/job").json()["verdict"]["headline"]
                ),
                "the verdict names the key",
            )
            found = hot_keys(client.get(f"{API}/tasks").json())
            assert [each[0]["key"] for each in found.values()] == [HOT]
            assert {uid for uid, _ in found} == {"slow"}
            assert 0.3 < next(iter(found.values()))[0]["share"] <= 1.0
            verdict = client.get(f"{API}/job").json()["verdict"]
            assert verdict["headline"].startswith("Running, limited by 'slow'")
            assert HOT not in client.get("/metrics").text
    finally:
        job.cancel()
        job.server.close()
