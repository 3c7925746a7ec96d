"""A job in a process of its own: ``python program.py SETTINGS``, a JSON file that says which job.

It reads files of JSON lines, counts the rows of each key, and writes a row for each. How it ended
is in a file, because a hostile neighbour may have taken the streams away.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import mainstay as ms
from mainstay.api.overrides import WITHOUT_SPARK
from mainstay.connectors import Files, FileSink, ParquetSink

SCHEMA = "k string, n long, x double, at timestamp, day date, price decimal(12,3)"
OUT = f"{SCHEMA}, count long, longest string"


class Count(ms.KeyedProcess):
    """Counts the rows of each key, and keeps what came last."""

    count = ms.ValueState("long")
    last = ms.ValueState("struct<at:timestamp,day:date,price:decimal(12,3),x:double>")
    seen = ms.MapState("date", "long")

    def process(self, row: Any, ctx: Any) -> Any:
        count = (self.count.get() or 0) + 1
        self.count.update(count)
        self.last.update((row.at, row.day, row.price, row.x))
        self.seen.put(row.day, row.n)
        return (*row, count, f"{row.at.isoformat()} {row.day.isoformat()} {row.price} {row.x}")


def state_of(settings: dict[str, Any]) -> Any:
    if settings["state"] == "heap":
        return "heap"
    directory = settings.get("database")
    return ms.RocksDB(memory="16MiB") if directory is None else ms.RocksDB("16MiB", directory)


def run(settings: dict[str, Any]) -> str:
    env = ms.Environment(
        spark=WITHOUT_SPARK[settings["drive"]],
        parallelism=2,
        snapshots=ms.Snapshots(settings["snapshots"], **{"every": "50ms", **settings["options"]}),
        restart=ms.Restart(**{"max_failures": 3, "backoff": "20ms", **settings["restart"]}),
        restore=settings["restore"],
        state=state_of(settings),
        ui=settings["ui"],
    )
    sink = ParquetSink if settings["format"] == "log" else FileSink
    further = {} if settings["format"] == "log" else {"format": settings["format"]}
    rows = env.source(Files(settings["rows"], schema=SCHEMA, batch_rows=16), uid="rows")
    counted = rows.key_by("k").process(Count(), OUT, uid="count")
    counted.sink(sink(settings["out"], **further), uid="out")
    job = env.start(settings["name"])
    Path(settings["outcome"]).with_suffix(".began").touch()
    return job.wait(settings["patience_s"])


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_bytes())
    outcome: dict[str, Any] = {"pid": os.getpid()}
    try:
        outcome["status"] = run(settings)
    except ms.errors.MainstayError as error:
        outcome |= {"error": type(error).__name__, "message": str(error)}
    except BaseException as error:
        outcome |= {"unexpected": type(error).__name__, "message": traceback.format_exc()}
    draft = Path(settings["outcome"]).with_suffix(".draft")
    draft.write_bytes(json.dumps(outcome).encode())
    draft.replace(settings["outcome"])


if __name__ == "__main__":
    main()
