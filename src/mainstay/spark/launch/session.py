"""Spark sessions that a job starts for itself."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from mainstay.drive.notices import say_at_once
from mainstay.errors import SparkSetupError
from mainstay.masking import masked
from mainstay.spark.launch.connect_session import connect_session, refuse_beside_connect
from mainstay.spark.launch.java import require_java
from mainstay.spark.launch.masters import is_connect_address, is_local_master
from mainstay.spark.launch.spark_errors import SPARK_ERRORS, summary
from mainstay.spark.launch.submitted import is_submitted
from mainstay.spark.launch.workers_python import check_same_python, imports_this_package
from mainstay.spelling import unended
from mainstay.tracebacks import are_full

SPARE_SLOTS = 2
"""Slots a local session has beyond the workers, for attempts that overlap and for queries."""
DAEMON = {
    "spark.python.daemon.module": "mainstay.spark.launch.daemon",
    "spark.executorEnv.JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Has Spark fork Python workers from a process that can start them quickly (``daemon.py``)."""
STEADY = {
    "spark.dynamicAllocation.enabled": "false",
    "spark.speculation": "false",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "5",
    "spark.python.task.killTimeout": "200ms",
    "spark.python.worker.killOnIdleTimeout": "false",
    "spark.python.worker.faulthandler.enabled": "true",
}
"""For tasks that run for long: they are left alone, and what goes wrong is noticed soon."""
NOISY = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.scheduler.TaskSchedulerImpl",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.api.python",
    "org.apache.spark.sql.execution.python",
    "org.apache.spark.BarrierTaskContext",
    "org.apache.spark.BarrierCoordinator",
)
"""Loggers of Spark that tell, with stack traces, of every worker that has failed or was killed."""


def own_session(workers: int, master: str | None = None) -> SparkSession:
    """A session for a job that was given none: on this machine, unless a master is named."""
    if master is not None and is_connect_address(master):
        return connect_session(master)
    refuse_beside_connect()
    if master is None or is_local_master(master):
        return local_session(workers, master)
    _require_java_unless_it_runs()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    say_at_once(f"starting Spark at {master}")
    return _made(_builder(master).config(map={**STEADY}))


def _builder(master: str) -> SparkSession.Builder:
    """With a name, unless spark-submit has given the application one."""
    builder = SparkSession.builder.master(master)
    return builder if is_submitted() else builder.appName("mainstay")


def _made(builder: SparkSession.Builder) -> SparkSession:
    """The session, or what Spark says against it: its sentence, without the stack of Java."""
    try:
        return builder.getOrCreate()
    except SPARK_ERRORS as error:
        said = masked(unended(summary(str(error)) or type(error).__name__))
        raise SparkSetupError(
            f"Spark gives no session: {said}. If it names a setting, change that where Spark is "
            "started: the options of spark-submit, spark-defaults.conf, or the environment."
        ) from (error if are_full() else None)


def _require_java_unless_it_runs() -> None:
    if not is_submitted():
        require_java()


def local_session(workers: int, master: str | None = None) -> SparkSession:
    """A session on this machine with enough slots, quick to notice what goes wrong."""
    _require_java_unless_it_runs()
    master = master or f"local[{workers + SPARE_SLOTS}]"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Before Spark is started, which takes longer than anybody likes to wait for a refusal.
    check_same_python(os.environ["PYSPARK_PYTHON"])
    builder = (
        _builder(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config(map={**STEADY})
    )
    if imports_this_package(os.environ["PYSPARK_PYTHON"]):
        builder = builder.config(map={**DAEMON})
    if is_spark_running():
        return _made(builder)
    slots = master.removeprefix("local").strip("[]") or "1"
    say_at_once(f"starting Spark on this machine, with {slots} slots")
    began = time.monotonic()
    session = _made(builder.config(map=_quiet_start()))
    _quieten(session)
    say_at_once(f"Spark has started, which took {time.monotonic() - began:.1f} s")
    return session


def is_spark_running() -> bool:
    """Whether a session can be had without starting a JVM for it."""
    context = getattr(pyspark, "SparkContext", None)  # a client of Connect alone has none
    return context is not None and context._active_spark_context is not None


def _quiet_start() -> dict[str, Any]:
    """Spare a terminal what Spark says of the machine while it starts; warnings of anything else
    and errors are shown. A logging setup of the user's own stays as it is."""
    asked = (os.environ.get("PYSPARK_SUBMIT_ARGS", ""), os.environ.get("JDK_JAVA_OPTIONS", ""))
    if are_full() or any("log4j" in text for text in asked) or _has_logging_of_its_own():
        return {}
    file = Path(__file__).with_name("log4j2.properties")
    if not file.is_file() or " " in str(file):
        return {}
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={file}"}


def _has_logging_of_its_own() -> bool:
    homes = (os.environ.get("SPARK_HOME"), str(Path(pyspark.__file__).parent))
    folders = [os.environ.get("SPARK_CONF_DIR"), *(f"{home}/conf" for home in homes if home)]
    names = ("log4j2.properties", "log4j2.xml", "spark-defaults.conf")
    return any(Path(folder, name).exists() for folder in folders if folder for name in names)


def _quieten(session: Any) -> None:
    """Keep the Java stack traces of workers that failed out of the terminal: the job's own log
    has said why. A session that is somebody else's is left alone."""
    if are_full():
        return
    log4j = session._jvm.org.apache.logging.log4j
    for name in NOISY:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
