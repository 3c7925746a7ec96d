"""The cluster behind a session of Spark Connect, with a server of few words."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from mainstay.errors import SparkSetupError
from mainstay.spark.launch import connect_cluster
from mainstay.spark.launch.cluster import cluster_of, is_of_connect
from mainstay.spark.launch.connect_cluster import ConnectCluster
from mainstay.spark.launch.package import packed

PATIENCE_S = 30


class FakeSession:
    """As much of a session as is asked. It runs what it is given until that is interrupted."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self, host: str = "127.0.0.1", **settings: str) -> None:
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.client = SimpleNamespace(host=host)
        self.session_id = "session"
        self.is_stopped = False
        self.artifacts: list[str] = []
        self.tags: set[str] = set()
        self.began = threading.Event()
        self.interrupted = threading.Event()
        self.failure: Exception | None = None
        self.looks = 0
        self.deaf = 0

    @property
    def conf(self) -> Any:
        return self.settings

    def addArtifacts(self, path: str, pyfile: bool) -> None:  # noqa: N802 - Spark's own name
        assert pyfile
        assert Path(path).exists()
        self.artifacts.append(Path(path).name)

    def addTag(self, tag: str) -> None:  # noqa: N802 - Spark's own name
        self.tags.add(tag)

    def removeTag(self, tag: str) -> None:  # noqa: N802 - Spark's own name
        self.tags.remove(tag)

    def interruptTag(self, tag: str) -> None:  # noqa: N802 - Spark's own name
        """The first ones come before the server knows what there is to interrupt."""
        self.looks += 1
        if self.looks > self.deaf:
            self.interrupted.set()

    def range(self, *bounds: int) -> Any:
        return SimpleNamespace(mapInArrow=lambda *call, **options: self)

    def collect(self) -> list[Any]:
        self.began.set()
        if self.failure is not None:
            raise self.failure
        assert self.interrupted.wait(PATIENCE_S)
        raise RuntimeError("[OPERATION_CANCELED]")


def run(cluster: ConnectCluster, tag: str = "one") -> tuple[threading.Thread, list[Exception]]:
    raised: list[Exception] = []

    def target() -> None:
        try:
            cluster.run_barrier(iter, 2, tag, "a job")
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    return thread, raised


def test_a_session_of_connect_is_known_by_its_class() -> None:
    assert is_of_connect(FakeSession())
    assert not is_of_connect(SimpleNamespace(client="remote"))
    assert isinstance(cluster_of(FakeSession()), ConnectCluster)


def test_settings_and_the_application_are_those_of_the_server() -> None:
    cluster = ConnectCluster(FakeSession(spark_app_id="app-7", spark_driver_host="server"))
    assert cluster.application == "app-7"
    assert cluster.setting("spark.driver.host") == "server"
    assert cluster.setting("spark.nothing", "default") == "default"
    assert (cluster.slots(), cluster.parallelism(), cluster.is_local) == (None, None, False)


def test_the_coordinator_is_at_the_address_that_leads_to_the_server_or_where_it_is_told() -> None:
    assert ConnectCluster(FakeSession()).host == "127.0.0.1"
    assert ConnectCluster(FakeSession("[::1]"), "driver.example.org").host == "driver.example.org"
    with pytest.raises(SparkSetupError, match=r"no way to 'nowhere.invalid'.*coordinator_host"):
        _ = ConnectCluster(FakeSession("nowhere.invalid")).host


def test_a_stopped_session_is_refused() -> None:
    session = FakeSession()
    session.is_stopped = True
    with pytest.raises(SparkSetupError, match="was stopped"):
        ConnectCluster(session)


@pytest.mark.parametrize("name", ["spark.dynamicAllocation.enabled"])
def test_settings_that_prevent_workers_are_refused_before_anything_is_sent(name: str) -> None:
    session = FakeSession()
    session.settings[name] = "true"
    with pytest.raises(SparkSetupError, match=f"{name} is true"):
        ConnectCluster(session).check(2)
    assert session.artifacts == []


def test_a_check_sends_the_package_and_as_many_scouts_as_slots_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(connect_cluster, "send_scouts", lambda _, count, way: sent.append(count))
    session = FakeSession()
    cluster = ConnectCluster(session)
    cluster.check(3, more_slots=1)
    cluster.check_rescale(5, running=3)
    cluster.check_rescale(2, running=3)
    assert sent == [4, 2]
    assert len(session.artifacts) == 1


def test_what_runs_has_its_tag_and_is_interrupted_by_it() -> None:
    session = FakeSession()
    cluster = ConnectCluster(session)
    thread, raised = run(cluster)
    assert session.began.wait(PATIENCE_S)
    assert session.tags == {"one"}
    cluster.cancel("one")
    thread.join(PATIENCE_S)
    assert [str(error) for error in raised] == ["[OPERATION_CANCELED]"]
    assert session.tags == set()


def test_what_is_on_its_way_is_interrupted_until_it_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connect_cluster, "INTERRUPT_S", 0.01)
    session = FakeSession()
    session.deaf = 3
    cluster = ConnectCluster(session)
    thread, raised = run(cluster)
    assert session.began.wait(PATIENCE_S)
    cluster.cancel("one")
    thread.join(PATIENCE_S)
    assert len(raised) == 1
    assert session.looks >= 4


def test_what_was_cancelled_before_it_began_is_not_submitted() -> None:
    session = FakeSession()
    cluster = ConnectCluster(session)
    cluster.cancel("one")
    thread, raised = run(cluster)
    thread.join(PATIENCE_S)
    assert "cancelled before it began" in str(raised[0])
    assert not session.began.is_set()


@pytest.mark.parametrize(
    ("message", "is_stopped"),
    [
        ("[INVALID_HANDLE.SESSION_CHANGED] The existing Spark server driver was restarted", True),
        ("[INVALID_HANDLE.SESSION_CLOSED] Session was closed", True),
        ("Python worker exited unexpectedly (crashed)", False),
    ],
)
def test_a_server_that_has_lost_the_session_ends_jobs_for_good(
    message: str, is_stopped: bool
) -> None:
    session = FakeSession()
    session.failure = RuntimeError(message)
    cluster = ConnectCluster(session)
    with pytest.raises(RuntimeError):
        cluster.run_barrier(iter, 2, "one", "a job")
    assert cluster.is_stopped() is is_stopped


def test_a_package_is_called_by_its_content(tmp_path: Path) -> None:
    roots = [tmp_path / name for name in ("first", "same", "other")]
    for root, content in zip(roots, ("A = 1", "A = 1", "A = 2"), strict=True):
        root.mkdir()
        (root / "__init__.py").write_text(content)
    first, same, other = (packed(tmp_path, root) for root in roots)
    assert first == same != other
    assert first.name.startswith("mainstay-")


def test_a_server_that_cannot_be_told_of_lost_hosts_is_said_to_notice_by_itself() -> None:
    with pytest.raises(SparkSetupError, match=r"notices by itself, after spark\.worker\.timeout"):
        ConnectCluster(FakeSession()).leave("10.0.0.13")
