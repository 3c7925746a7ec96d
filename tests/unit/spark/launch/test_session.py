"""What a session is refused for. Messages name what there is, what is needed, and the way out."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

pytest.importorskip("pyspark")

from mainstay.errors import SlotsError, SparkSetupError
from mainstay.spark.launch import classic_cluster
from mainstay.spark.launch.cluster import cluster_of
from mainstay.spark.launch.memory import mebibytes
from mainstay.spark.launch.reservations import reserve
from mainstay.spark.launch.session import local_session


def executor(id: str, tasks: int = 0, address: str = "10.0.0.1:7000") -> Any:
    """One as Spark lists it."""
    return SimpleNamespace(id=lambda: id, activeTasks=lambda: tasks, hostPort=lambda: address)


def listed(executors: list[Any]) -> Any:
    """A list as those of Scala are."""
    return SimpleNamespace(length=lambda: len(executors), apply=executors.__getitem__)


@dataclass
class FakeSession:
    """As much of a Spark session as is looked at."""

    master: str = "local[4]"
    settings: dict[str, str] = field(default_factory=dict)
    total: int = 4
    running: tuple[int, ...] = (0,)
    python: str = sys.executable
    is_stopped: bool = False
    started: float = 0.0
    _jsparkSession: Any = None  # noqa: N815 - Spark's own name

    @property
    def conf(self) -> Any:
        return self.settings

    @property
    def sparkContext(self) -> Any:  # noqa: N802 - Spark's own name
        executors = listed([executor(str(n), tasks) for n, tasks in enumerate(self.running)])
        profiles = SimpleNamespace(defaultResourceProfile=lambda: "default")
        java = SimpleNamespace(
            resourceProfileManager=lambda: profiles,
            maxNumConcurrentTasks=lambda profile: self.total,
            statusTracker=lambda: SimpleNamespace(getJobIdsForGroup=lambda group: []),
            statusStore=lambda: SimpleNamespace(executorList=lambda active: executors),
        )
        return SimpleNamespace(
            master=self.master,
            applicationId="application",
            pythonExec=self.python,
            startTime=self.started * 1000,
            getConf=lambda: self.settings,
            _jsc=None if self.is_stopped else SimpleNamespace(sc=lambda: java),
        )


def check_session(session: Any, workers: int, more_slots: int = 0) -> None:
    cluster_of(session).check(workers, more_slots)


def refusal(session: Any, workers: int = 2, **options: Any) -> str:
    with pytest.raises(SparkSetupError) as raised:
        check_session(session, workers, **options)
    return str(raised.value)


def test_a_session_with_enough_of_everything_is_accepted() -> None:
    check_session(FakeSession(), 4)


def test_a_stopped_session_is_refused() -> None:
    assert "was stopped" in refusal(FakeSession(is_stopped=True))


@pytest.mark.parametrize(
    "name",
    [
        "spark.dynamicAllocation.enabled",
        "spark.python.worker.killOnIdleTimeout",
        "spark.sql.execution.pyspark.udf.killOnIdleTimeout",
    ],
)
def test_settings_that_end_or_prevent_quiet_workers_are_refused_by_name(name: str) -> None:
    assert f"{name} is true" in refusal(FakeSession(settings={name: "true"}))
    check_session(FakeSession(settings={name: "false"}), 2)


# ---------------------------------------------------------------- slots


def test_too_few_slots_are_refused_with_the_number_there_is_and_the_number_needed() -> None:
    session = FakeSession(total=4, running=(1,))
    with pytest.raises(SlotsError, match=r"needs 4 free slots .* has 4, of which 3 are free"):
        check_session(session, 4)


def test_slots_for_queries_count_too() -> None:
    assert "needs 5 free slots (3 workers and 2 for queries)" in refusal(
        FakeSession(), 3, more_slots=2
    )
    check_session(FakeSession(), 3, more_slots=1)


class Lingering(FakeSession):
    """A session on which the tasks of an ended job are seen to run a few times more."""

    looks = 3

    @property
    def sparkContext(self) -> Any:  # noqa: N802 - Spark's own name
        found = super().sparkContext
        found.applicationId = "lingering"
        java = found._jsc.sc()

        def executors(active: bool) -> Any:
            self.looks -= 1
            return listed([executor("1", 3 if self.looks > 0 else 0)])

        java.statusStore = lambda: SimpleNamespace(executorList=executors)
        return found


def test_the_last_tasks_of_an_ended_job_are_waited_for() -> None:
    session = Lingering()
    assert "of which 1 is free" in refusal(session, 2)
    session.looks = 3
    reserve("lingering", 2).release()
    check_session(session, 2)


class Gathering(FakeSession):
    """A cluster whose executors come in while it is looked at."""

    looks = 3

    @property
    def sparkContext(self) -> Any:  # noqa: N802 - Spark's own name
        found = super().sparkContext
        java = found._jsc.sc()

        def slots(profile: str) -> int:
            self.looks -= 1
            return 0 if self.looks > 0 else 2

        java.maxNumConcurrentTasks = slots
        return found


@pytest.fixture
def without_scouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic_cluster, "send_scouts", lambda *settings: None)
    monkeypatch.setattr(classic_cluster, "prepare_context", lambda context: None)


@pytest.mark.usefixtures("without_scouts")
@pytest.mark.parametrize(
    ("age_s", "settings", "is_waited"),
    [
        (1, {}, True),
        (60, {}, False),
        (60, {"spark.executor.instances": "2"}, True),
        (60, {"spark.executor.instances": "1"}, False),
        (600, {"spark.executor.instances": "2"}, False),
    ],
)
def test_executors_of_a_young_application_are_waited_for(
    age_s: float, settings: dict[str, str], is_waited: bool
) -> None:
    known = {"spark.driver.host": "driver", **settings}
    session = Gathering("yarn", known, running=(0, 0), started=time.time() - age_s)
    if is_waited:
        check_session(session, 2)
    else:
        assert "has 0, of which 0 are free" in refusal(session)


def test_a_lack_of_slots_on_a_cluster_says_that_executors_may_still_come_and_what_is_waited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(classic_cluster, "GATHERING_S", 1.0)
    known = {"spark.driver.host": "driver"}
    late = FakeSession("yarn", known, total=1, running=(0, 0), started=time.time())
    message = refusal(late)
    assert "has 1, of which 1 is free" in message
    assert "Executors may still be starting; 30 s from the start of the application they" in message
    assert "set spark.executor.instances to their number: then it is 120 s" in message
    busy = FakeSession("yarn", known, total=4, running=(0, 3), started=time.time())
    assert "may still be starting" not in refusal(busy)
    assert "may still be starting" not in refusal(FakeSession(total=1))


def test_slots_that_another_job_was_promised_are_not_free() -> None:
    session = FakeSession(total=4)
    reservation = reserve("application", 3)
    try:
        assert "has 4, of which 1 is free" in refusal(session, 2)
        check_session(session, 1)
        reservation.change(1)
        check_session(session, 3)
    finally:
        reservation.release()
    check_session(session, 4)


# ---------------------------------------------------------------- memory

MEMORY = "spark.executor.pyspark.memory"


@pytest.mark.parametrize(
    ("session", "share", "needed"),
    [
        (FakeSession(settings={MEMORY: "1000m"}), "250 MiB", "1024m"),
        (
            FakeSession(
                master="spark://host:7077", settings={MEMORY: "1g"}, total=16, running=(0, 0, 0)
            ),
            "128 MiB",
            "2048m",
        ),
    ],
    ids=["local: all slots share it", "a cluster: the slots of one executor share it"],
)
def test_too_little_memory_is_refused_with_the_share_of_a_worker(
    session: FakeSession, share: str, needed: str
) -> None:
    message = refusal(session)
    assert f"{share} for each worker, which needs at least 256 MiB" in message
    assert f"Raise it to {needed}" in message


@pytest.mark.parametrize("setting", ["1g", "1024m", "1024", "2G"])
def test_enough_memory_is_accepted(setting: str) -> None:
    check_session(FakeSession(settings={MEMORY: setting}), 4)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("512m", 512), ("2g", 2048), ("1t", 1 << 20), ("2048k", 2), ("300", 300), ("300MB", 300)],
)
def test_sizes_are_read_as_spark_reads_them(setting: str, expected: int) -> None:
    assert mebibytes(setting) == expected


def test_a_size_that_is_none_is_refused() -> None:
    assert "'plenty' is not a size" in refusal(FakeSession(settings={MEMORY: "plenty"}))


# ---------------------------------------------------------------- Python and Java


def program(folder: Path, name: str, output: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
    return str(path)


def test_another_python_for_the_workers_is_refused_with_both_versions(tmp_path: Path) -> None:
    python = program(tmp_path, "python", "3 5")
    message = refusal(FakeSession(python=python))
    own = ".".join(map(str, sys.version_info[:2]))
    assert f"this is Python {own} and the workers' {python} is 3.5" in message
    assert f"PYSPARK_PYTHON={sys.executable}" in message


def test_a_python_without_what_workers_need_is_refused_by_what_it_lacks(tmp_path: Path) -> None:
    version = "{} {}".format(*sys.version_info[:2])
    python = program(tmp_path, "python", f"{version} pyarrow zmq")
    assert f"the workers' {python} lacks pyarrow, zmq" in refusal(FakeSession(python=python))


def test_a_python_that_is_not_there_is_refused(tmp_path: Path) -> None:
    python = str(tmp_path / "python")
    assert f"{python} cannot be run" in refusal(FakeSession(python=python))


def test_a_python_that_does_not_work_is_refused(tmp_path: Path) -> None:
    python = program(tmp_path, "python", "Segmentation fault")
    assert f"{python} is unusable" in refusal(FakeSession(python=python))


def test_this_python_by_another_name_is_accepted(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    check_session(FakeSession(python=str(python)), 2)


def test_the_python_of_a_cluster_is_looked_at_by_a_scout(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, int, str]] = []
    monkeypatch.setattr(
        classic_cluster,
        "send_scouts",
        lambda cluster, count, way: sent.append((cluster.host, count, way)),
    )
    monkeypatch.setattr(classic_cluster, "prepare_context", lambda context: None)
    settings = {"spark.driver.host": "driver"}
    session = FakeSession("yarn", settings, python="/opt/elsewhere/python", running=(0, 0))
    check_session(session, 2)
    cluster_of(session, "told").check(2)
    cluster_of(FakeSession(), "told").check(2)
    check_session(FakeSession(), 2)
    assert sent == [
        ("driver", 1, "spark.driver.host"),
        ("told", 1, "coordinator_host"),
        ("told", 1, "coordinator_host"),
    ]


@pytest.mark.parametrize(
    ("output", "version"),
    [('openjdk version "11.0.2" 2019-01-15', 11), ('java version "1.8.0_391"', 8)],
)
def test_an_old_java_is_refused_with_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, version: int
) -> None:
    (tmp_path / "bin").mkdir()
    java = program(tmp_path / "bin", "java", output)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkSetupError, match=f"Java 17 or newer and {java} is Java {version}"):
        local_session(2)


def test_no_java_at_all_is_refused_before_spark_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SparkSetupError, match="Java 17 or newer and none was found"):
        local_session(2)


# ---------------------------------------------------------------- hosts that are lost


class Losing(FakeSession):
    """A cluster of two hosts, with a driver; it notes what is killed."""

    killed: ClassVar[list[str]] = []

    @property
    def sparkContext(self) -> Any:  # noqa: N802 - Spark's own name
        found = super().sparkContext
        found.applicationId = "losing"
        java = found._jsc.sc()
        executors = listed(
            [
                executor("driver", 0, "10.0.0.2:6000"),
                executor("1", 1, "10.0.0.1:7000"),
                executor("2", 2, "10.0.0.2:7000"),
                executor("3", 0, "[fd77::2]:7000"),
            ]
        )
        java.statusStore = lambda: SimpleNamespace(executorList=lambda active: executors)
        java.killAndReplaceExecutor = self.killed.append
        return found


def test_the_executors_of_a_host_that_is_left_are_replaced_and_their_tasks_count_no_more() -> None:
    cluster = cluster_of(Losing(total=4, master="spark://m:7077"))
    assert cluster.slots() == (4, 1)
    assert cluster.leave("10.0.0.2") == ["2"]
    assert cluster.leave("fd77::2") == ["3"]
    assert Losing.killed == ["2", "3"]
    assert cluster.leave("10.0.0.2") == [], "it was left before"
    assert cluster.slots() == (4, 3)


def test_slots_that_were_promised_and_are_lost_do_not_count_below_none() -> None:
    cluster = cluster_of(FakeSession(total=2))
    promise = reserve("application", 4)
    try:
        assert cluster.slots() == (2, 0)
        with pytest.raises(SlotsError, match="needs 3 slots; 4 are its own and 0 are free"):
            cluster.check_rescale(3, 4)
    finally:
        promise.release()
