"""Spark sessions: the one a job starts for itself, and what a given one must be able to do.

A job is refused before it starts where Spark would otherwise wait in silence: too few slots, too
little memory, another Python, or settings that kill or move long-running tasks. The message says
what there is and what is needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

import mainstay
from mainstay.drive.notices import say_at_once
from mainstay.errors import SlotsError, SparkSetupError
from mainstay.spark.launch.reservations import free_slots, others, since_release
from mainstay.spelling import counted
from mainstay.tracebacks import are_full

LINGERING_S, LOOK_S = 10.0, 0.1
"""How long the tasks of an ended job may keep its slots, and how often that is looked at."""
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
OLDEST_JAVA = 17
LEAST_MEMORY_MIB = 256
"""Memory a worker needs before it holds any state: the interpreter, Arrow and the storage."""
_NEEDED = ("pyarrow", "numpy", "obstore", "cloudpickle", "zmq")
_ASK_S = 30.0


def own_session(workers: int, master: str | None = None) -> SparkSession:
    """A session for a job that was given none: on this machine, unless a master is named."""
    if master is None or is_local_master(master):
        return local_session(workers, master)
    _require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    say_at_once(f"starting Spark at {master}")
    builder = SparkSession.builder.master(master).appName("mainstay").config(map={**STEADY})
    return builder.getOrCreate()


def local_session(workers: int, master: str | None = None) -> SparkSession:
    """A session on this machine with enough slots, quick to notice what goes wrong."""
    _require_java()
    master = master or f"local[{workers + SPARE_SLOTS}]"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Before Spark is started, which takes longer than anybody likes to wait for a refusal.
    _check_same_python(os.environ["PYSPARK_PYTHON"])
    builder = (
        SparkSession.builder.master(master)
        .appName("mainstay")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config(map={**STEADY})
    )
    if _imports_this_package(os.environ["PYSPARK_PYTHON"]):
        builder = builder.config(map={**DAEMON})
    if is_spark_running():
        return builder.getOrCreate()
    slots = master.removeprefix("local").strip("[]") or "1"
    say_at_once(f"starting Spark on this machine, with {slots} slots")
    began = time.monotonic()
    session = builder.config(map=_quiet_start()).getOrCreate()
    _quieten(session)
    say_at_once(f"Spark has started, which took {time.monotonic() - began:.1f} s")
    return session


def is_spark_running() -> bool:
    """Whether a session can be had without starting a JVM for it."""
    return SparkContext._active_spark_context is not None


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


def _imports_this_package(python: str) -> bool:
    """Whether an interpreter finds this very package by itself, before anyone sends it."""
    program = "import importlib.util as u; found = u.find_spec('mainstay'); print(found.origin)"
    return _asked([python, "-c", program]).split("\n")[0] == mainstay.__file__


def is_local(session: Any) -> bool:
    """Whether the tasks of a session run on this machine, below the driver itself."""
    return is_local_master(session.sparkContext.master)


def is_local_master(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def is_stopped(session: Any) -> bool:
    """Whether a session can run nothing any more: it was stopped, or its JVM has ended."""
    context = session.sparkContext
    if context._jsc is None:
        return True
    try:
        return bool(context._jsc.sc().isStopped())
    except Exception:
        # Nobody answers, or the context was taken away this very moment.
        return True


# ---------------------------------------------------------------- Java


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = (home and shutil.which("java", path=f"{home}/bin")) or shutil.which("java")
    embedded = 'or run without Spark: Environment(spark="embedded").'
    if not found:
        raise SparkSetupError(
            f"Spark needs Java {OLDEST_JAVA} or newer and none was found. Install a JDK and set "
            f"JAVA_HOME, {embedded}"
        )
    version = _java_version(_asked([found, "-version"]))
    if version is not None and version < OLDEST_JAVA:
        raise SparkSetupError(
            f"Spark needs Java {OLDEST_JAVA} or newer and {found} is Java {version}. Install a "
            f"newer JDK and set JAVA_HOME to it, {embedded}"
        )


def _java_version(text: str) -> int | None:
    """The number in what ``java -version`` prints; versions before 9 are called 1.x there."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def _asked(command: list[str]) -> str:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkSetupError(f"{command[0]} cannot be run: {error}") from error
    return answer.stdout + answer.stderr


# ---------------------------------------------------------------- what a session must be


def check_session(session: Any, workers: int, more_slots: int = 0) -> None:
    """Refuse what cannot work, with both numbers and the remedy."""
    _require_classic(session)
    _require_settings(session)
    check_python(session.sparkContext)
    _require_slots(session, workers, more_slots)
    _require_memory(session)


def _require_classic(session: Any) -> None:
    if not hasattr(session, "_jsparkSession"):
        raise SparkSetupError(
            "this is a Spark Connect session, which cannot run a job's workers yet. Use a classic "
            'session: SparkSession.builder.master("local[4]"), or the master of a cluster.'
        )
    if session.sparkContext._jsc is None:
        raise SparkSetupError("this Spark session was stopped. Start another one.")


_SQL_IDLE_KILL = "spark.sql.execution.pyspark.udf.killOnIdleTimeout"


def _require_settings(session: Any) -> None:
    conf = session.sparkContext.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise SparkSetupError(
            "spark.dynamicAllocation.enabled is true: Spark runs no barrier stage with it. Set it "
            "to false for this application."
        )
    kills = {
        "spark.python.worker.killOnIdleTimeout": conf,
        # Can be set after the start of the application, so the session knows.
        _SQL_IDLE_KILL: session.conf,
    }
    for name, settings in kills.items():
        if settings.get(name, "false") == "true":
            raise SparkSetupError(f"{name} is true: Spark would kill quiet workers. Unset it.")


_DESCRIBE = """
import sys, importlib.util as u
print(*sys.version_info[:2], *[m for m in {needed!r} if u.find_spec(m) is None])
"""


def check_python(context: Any) -> None:
    """Refuse another Python for Spark's workers than the driver's, or one that lacks something.

    Where workers run on this machine it can be seen beforehand what they would run in.
    """
    if is_local_master(context.master):
        _check_same_python(context.pythonExec)


def _check_same_python(python: str) -> None:
    if python == sys.executable:
        return
    remedy = f"Set PYSPARK_PYTHON={sys.executable} before the session is started."
    program = _DESCRIBE.format(needed=_NEEDED)
    answer = _asked([python, "-c", program]).split()
    own = [str(number) for number in sys.version_info[:2]]
    if answer[:2] != own:
        found = ".".join(answer[:2]) if len(answer) > 1 and answer[0].isdigit() else "unusable"
        raise SparkSetupError(
            f"this is Python {'.'.join(own)} and the workers' {python} is {found}. {remedy}"
        )
    if answer[2:]:
        raise SparkSetupError(f"the workers' {python} lacks {', '.join(answer[2:])}. {remedy}")


def _require_slots(session: Any, workers: int, more_slots: int) -> None:
    needed = workers + more_slots
    total, free = slots(session)
    # Spark ends the tasks of a job that was killed or cancelled seconds after the job has ended.
    while free < needed <= total and _has_lingering_tasks(session):
        time.sleep(LOOK_S)
        total, free = slots(session)
    if needed > free:
        raise SlotsError(
            f"the job needs {counted(needed, 'free slot')} ({counted(workers, 'worker')} and "
            f"{more_slots} for queries); the Spark application has {total}, of which {free} "
            f"{'is' if free == 1 else 'are'} free. Lower the parallelism, "
            "end other jobs, add executors or cores, or set spark.task.cpus below 1 "
            "(Spark 4.3 and newer)."
        )


def _has_lingering_tasks(session: Any) -> bool:
    """Whether tasks run that may be those of a job that has just ended."""
    return since_release(session) < LINGERING_S and others(session, _running(session)) > 0


def check_more_slots(session: Any, workers: int, running: int) -> None:
    """Refuse a rescale that has too few slots, counting those that its own workers give back."""
    _, free = slots(session)
    if workers > free + running:
        raise SlotsError(
            f"the rescaled job needs {counted(workers, 'slot')}; {running} "
            f"{'is' if running == 1 else 'are'} its own and {free} {'is' if free == 1 else 'are'} "
            "free. "
            "Rescale to fewer, end other jobs, or add executors or cores."
        )


def slots(session: Any) -> tuple[int, int]:
    """How many tasks can run at once, and how many slots no task or job of ours has."""
    context = session.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    total = int(context.maxNumConcurrentTasks(profile))
    return total, free_slots(session, total, _running(session))


def _running(session: Any) -> int:
    infos = session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return sum(int(info.numRunningTasks()) for info in infos)


def _require_memory(session: Any) -> None:
    """Spark divides this memory among the slots of an executor, and enforces each share."""
    name = "spark.executor.pyspark.memory"
    setting = session.sparkContext.getConf().get(name, None)
    if setting is None:
        return
    of_executor, slots_each = mebibytes(setting), _slots_of_an_executor(session)
    share = of_executor // slots_each
    if share < LEAST_MEMORY_MIB:
        raise SparkSetupError(
            f"{name} is {setting}, which Spark divides among the {slots_each} slots of an "
            f"executor: {share} MiB for each worker, which needs at least {LEAST_MEMORY_MIB} MiB. "
            f"Raise it to {slots_each * LEAST_MEMORY_MIB}m, or lower the cores of an executor."
        )


def _slots_of_an_executor(session: Any) -> int:
    total, _ = slots(session)
    infos = session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    # The driver is in the list, and runs tasks only in local mode.
    executors = len(list(infos)) - (0 if is_local(session) else 1)
    return max(1, -(-total // max(1, executors)))


_UNITS = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024, "p": 1024**3}


def mebibytes(setting: str) -> int:
    """A size as Spark writes it, such as 2g or 512m; a bare number is in mebibytes."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)b?", setting.strip().lower())
    if match is None:
        raise SparkSetupError(f"{setting!r} is not a size. Write it as 512m or 2g.")
    number, unit = match.groups()
    return int(int(number) * _UNITS[unit or "m"])
