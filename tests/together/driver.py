"""A driver of one of the jobs, as a process: ``python -m tests.together.driver SETTINGS``.

The settings are a file of JSON. The address of the job goes to a file beside it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import cloudpickle
from pyspark.sql import SparkSession

import mainstay as ms
from mainstay.api.overrides import PROCESSES
from mainstay.spark.launch.session import DAEMON, STEADY
from tests.together import program
from tests.together.defects import DEFECTS
from tests.together.local_places import LocalPlaces
from tests.together.places import Places

PLACES: dict[str, Any] = {each.__name__: each for each in (Places, LocalPlaces)}

INSTANCES = "spark.executor.instances"
SLOTS = {
    "orders": {"spark.executor.cores": "2", "spark.cores.max": "4", INSTANCES: "2"},
    "accounts": {"spark.executor.cores": "3", "spark.cores.max": "3", INSTANCES: "1"},
}
"""Each driver holds its own: two executors, or one. A start waits for as many as are told."""
MODES = {"orders": "exactly_once", "accounts": "unaligned"}
LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Many small machines of Java that start often."""


def session(settings: dict[str, Any]) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = (
        SparkSession.builder.master(settings["master"])
        .appName(settings["name"])
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.executor.memory", "512m")
        .config(map=SLOTS[settings["job"]])
        .config("spark.driver.extraJavaOptions", LIGHT)
        .config("spark.executor.extraJavaOptions", LIGHT)
        .config(map={**STEADY, **DAEMON})
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    return made


def state_of(settings: dict[str, Any]) -> Any:
    if settings["job"] == "orders":
        return ms.RocksDB(memory="64MiB", directory=settings["rocksdb"])
    if settings["kind"] == LocalPlaces.__name__:
        return "heap"
    return ms.Postgres(settings["places"]["dsn"], schema="states", cache="16MiB")


def environment(settings: dict[str, Any]) -> ms.Environment:
    return ms.Environment(
        spark=session(settings) if settings["master"] else PROCESSES,
        parallelism=settings["parallelism"],
        snapshots=ms.Snapshots(settings["snapshots"], every=settings["every"], timeout="1min"),
        restart=ms.Restart(max_failures=10_000, backoff="0.2s", max_backoff="2s"),
        restore=settings["restore"],
        ha=ms.HighAvailability(lease=settings["lease"]) if settings["is_shared"] else None,
        mode=MODES[settings["job"]],
        state=state_of(settings),
        ui=True,
    )


def main() -> None:
    place = Path(sys.argv[1])
    settings = json.loads(place.read_text())
    with DEFECTS[settings["defect"]]() if settings["defect"] else nullcontext():
        drive(place, settings)


def drive(place: Path, settings: dict[str, Any]) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # Spark's Python processes cannot import the tests.
    cloudpickle.register_pickle_by_value(program)
    env = environment(settings)
    ends = PLACES[settings["kind"]](**settings["places"]).ends(settings["job"])
    program.BUILDS[settings["job"]](env, ends, settings["version"])
    job: Any = env.start(settings["name"])
    draft = place.with_suffix(".draft")
    draft.write_text(job.url)
    draft.replace(place.with_suffix(".url"))
    try:
        job.wait(progress=False)
    except Exception:
        logging.exception("the job has failed")
    logging.info("the job is %s; ends with %s", job.status, job.exit_code)
    raise SystemExit(job.exit_code)


if __name__ == "__main__":
    main()
