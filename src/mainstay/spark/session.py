"""Spark sessions: the one a job starts for itself, and what a given one must be able to do.

A job is refused before it starts where Spark would otherwise wait in silence: too few slots, or
settings that kill or move long-running tasks. The message says what there is and what is needed.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

from pyspark.sql import SparkSession

from mainstay.errors import SlotsError, SparkSetupError

SPARE_SLOTS = 2
"""Slots a local session has beyond the workers, for attempts that overlap and for queries."""


def local_session(workers: int) -> SparkSession:
    """A session on this machine with enough slots, quick to notice what goes wrong."""
    _require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    return (
        SparkSession.builder.master(f"local[{workers + SPARE_SLOTS}]")
        .appName("mainstay")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.dynamicAllocation.enabled", "false")
        .config("spark.speculation", "false")
        .config("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "1s")
        .config("spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures", "5")
        .config("spark.python.task.killTimeout", "200ms")
        .config("spark.python.worker.killOnIdleTimeout", "false")
        .config("spark.python.worker.faulthandler.enabled", "true")
        .getOrCreate()
    )


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java") or (home and shutil.which("java", path=f"{home}/bin"))
    if not found:
        raise SparkSetupError(
            "Spark needs Java 17 or newer and none was found. Install a JDK and set JAVA_HOME, or "
            'run without Spark: Environment(spark="embedded").'
        )


def check_session(session: Any, workers: int, more_slots: int = 0) -> None:
    """Refuse what cannot work, with both numbers and the remedy."""
    if not hasattr(session, "_jsparkSession"):
        raise SparkSetupError(
            "this is a Spark Connect session, which cannot run a job's workers yet. Use a classic "
            'session: SparkSession.builder.master("local[4]"), or the master of a cluster.'
        )
    conf = session.sparkContext.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise SparkSetupError(
            "spark.dynamicAllocation.enabled is true: Spark runs no barrier stage with it. Set it "
            "to false for this application."
        )
    for name in ("spark.python.worker.killOnIdleTimeout", _SQL_IDLE_KILL):
        if conf.get(name, "false") == "true":
            raise SparkSetupError(f"{name} is true: Spark would kill quiet workers. Unset it.")
    total, free = slots(session)
    needed = workers + more_slots
    if needed > free:
        raise SlotsError(
            f"the job needs {needed} free slots ({workers} workers and {more_slots} for queries); "
            f"the Spark application has {total}, of which {free} are free. Lower the parallelism, "
            "end other jobs, add executors or cores, or set spark.task.cpus below 1 "
            "(Spark 4.3 and newer)."
        )


_SQL_IDLE_KILL = "spark.sql.execution.pyspark.udf.killOnIdleTimeout"


def slots(session: Any) -> tuple[int, int]:
    """How many tasks can run at once, and how many could start now."""
    context = session.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    total = int(context.maxNumConcurrentTasks(profile))
    infos = session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    running = sum(int(info.numRunningTasks()) for info in infos)
    return total, total - running
