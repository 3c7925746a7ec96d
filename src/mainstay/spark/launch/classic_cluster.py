"""The cluster behind a classic session, whose JVM is a child of this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mainstay.errors import SparkSetupError
from mainstay.spark.launch.masters import is_local_master
from mainstay.spark.launch.memory import PYTHON_MEMORY, require_memory
from mainstay.spark.launch.package import packed
from mainstay.spark.launch.reservations import groups_of, promised, since_release
from mainstay.spark.launch.scouts import send_scouts
from mainstay.spark.launch.settings import require_settings
from mainstay.spark.launch.slots import (
    ASKED_S,
    GATHERING_S,
    Slots,
    require_more_slots,
    require_slots,
)
from mainstay.spark.launch.tasks import Main, run_tasks, run_together
from mainstay.spark.launch.workers_python import check_same_python
from mainstay.transport.address import LOOPBACK

LINGERING_S = 10.0
"""How long the tasks of an ended job may keep its slots."""

DRIVER = "driver"
"""The id of the driver in Spark's list of executors."""
_left: dict[str, set[str]] = {}
"""The executors that were taken for lost, by their applications."""


class ClassicCluster:
    """Asks the SparkContext, and the JVM below it."""

    def __init__(self, session: Any, coordinator_host: str | None = None) -> None:
        self.session = session
        self._context = session.sparkContext
        if self._context._jsc is None:
            raise SparkSetupError("this Spark session was stopped. Start another one.")
        self.application: str = self._context.applicationId
        self.is_local = is_local_master(self._context.master)
        self._is_told = coordinator_host is not None
        driver = self._context.getConf().get("spark.driver.host")
        self.host: str = coordinator_host or (LOOPBACK if self.is_local else driver)

    @property
    def workers_python(self) -> str | None:
        return str(self._context.pythonExec)

    def setting(self, name: str, default: str | None = None) -> str | None:
        # Those of SQL can be set after the start of the application, so the session knows.
        is_sql = name.startswith("spark.sql.")
        found = (self.session.conf if is_sql else self._context.getConf()).get(name, default)
        return None if found is None else str(found)

    def is_stopped(self) -> bool:
        if self._context._jsc is None:
            return True
        try:
            return bool(self._java().isStopped())
        except Exception:
            # Nobody answers, or the context was taken away this very moment.
            return True

    def parallelism(self) -> int | None:
        return int(self._context.defaultParallelism)

    def _java(self) -> Any:
        return self._context._jsc.sc()

    # ------------------------------------------------------------ what it must be

    def check(self, workers: int, more_slots: int = 0) -> None:
        require_settings(self.setting)
        _check_python(self._context)
        waits = (self._is_gathering, self._has_lingering_tasks)
        require_slots(self.slots, *waits, workers, more_slots, may_grow=not self.is_local)
        setting = self.setting(PYTHON_MEMORY)
        if setting is not None:
            require_memory(setting, self._slots_of_an_executor())
        if self._is_told or not self.is_local:
            self.prepare()
            send_scouts(self, 1, "coordinator_host" if self._is_told else "spark.driver.host")

    def check_rescale(self, workers: int, running: int) -> None:
        total, free = self.slots()
        require_more_slots(min(free, total - running), workers, running)

    def prepare(self) -> None:
        prepare_context(self._context)

    # ------------------------------------------------------------ slots

    def slots(self) -> Slots:
        profile = self._java().resourceProfileManager().defaultResourceProfile()
        total = int(self._java().maxNumConcurrentTasks(profile))
        # Below zero where jobs were promised what has been lost since.
        return Slots(total, max(0, total - promised(self.application) - self._tasks_of_others()))

    def _is_gathering(self) -> bool:
        if self.is_local:
            return False
        asked = self.setting("spark.executor.instances")
        is_short = asked is not None and len(self._executors()) - 1 < int(asked)
        age_s = time.time() - float(self._context.startTime) / 1000
        return age_s < (ASKED_S if is_short else GATHERING_S)

    def _has_lingering_tasks(self) -> bool:
        return since_release(self.application) < LINGERING_S and self._tasks_of_others() > 0

    def _tasks_of_others(self) -> int:
        """How many of the running tasks are those of no job of this process that still runs."""
        own = sum(self._active_tasks(group) for group in groups_of(self.application))
        running = sum(int(each.activeTasks()) for each in self._executors())
        return max(0, running - own)

    def _executors(self) -> list[Any]:
        """The executors, and the driver among them; those that were left are none any more, though
        Spark lists them, with their tasks, until their end is known."""
        found = self._java().statusStore().executorList(True)
        every = [found.apply(number) for number in range(found.length())]
        left = _left.get(self.application, set())
        return [each for each in every if each.id() not in left]

    def _active_tasks(self, group: str) -> int:
        tracker, count = self._java().statusTracker(), 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            if info.isDefined():
                for stage in info.get().stageIds():
                    found = tracker.getStageInfo(stage)
                    count += int(found.get().numActiveTasks()) if found.isDefined() else 0
        return count

    def _slots_of_an_executor(self) -> int:
        # The driver is in the list, and runs tasks only in local mode.
        executors = len(self._executors()) - (0 if self.is_local else 1)
        return max(1, -(-self.slots().total // max(1, executors)))

    # ------------------------------------------------------------ running

    def run(self, main: Main, tasks: int, columns: str, tag: str, description: str) -> list[Any]:
        with self.tagged(tag, description):
            return run_tasks(self.session, main, tasks, columns)

    def run_barrier(self, main: Main, workers: int, tag: str, description: str) -> None:
        with self.tagged(tag, description):
            run_together(self.session, main, workers)

    @contextmanager
    def tagged(self, tag: str, description: str) -> Iterator[None]:
        self._context.setJobGroup(tag, description, True)
        yield

    def leave(self, host: str) -> list[str]:
        left = [each.id() for each in self._executors() if _host_of(each.hostPort()) == host]
        left = [each for each in left if each != DRIVER]
        for executor in left:
            # Not killExecutor, which would also have Spark make do with fewer from then on.
            self._java().killAndReplaceExecutor(executor)
            _left.setdefault(self.application, set()).add(executor)
        return left

    def cancel(self, tag: str) -> None:
        """Jobs of the tag to come as well: the first may be about to be submitted."""
        self._java().cancelJobGroupAndFutureJobs(tag)


def _host_of(address: str) -> str:
    return address.rsplit(":", 1)[0].strip("[]")


def prepare_context(context: Any) -> None:
    """See that tasks of an application find this package and what it needs."""
    _check_python(context)
    if not is_local_master(context.master):
        package = packed(Path(context._temp_dir))
        if package.name not in context._python_includes:
            context.addPyFile(str(package))


def _check_python(context: Any) -> None:
    """Where workers run on this machine it can be seen beforehand what they would run in."""
    if is_local_master(context.master):
        check_same_python(context.pythonExec)
