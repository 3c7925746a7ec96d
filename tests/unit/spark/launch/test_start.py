"""Which session a job is started on, and what is asked of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import mainstay as ms
from mainstay.spark.launch import start


class StartedError(Exception):
    """Raised in the place of a start, with what was asked for."""


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that has nothing to do, on a machine without Spark."""

    def own_session(workers: int, master: str | None) -> Any:
        raise StartedError(workers, master)

    monkeypatch.setattr(start, "own_session", own_session)
    monkeypatch.setattr(start, "has_work", lambda *job: False)
    monkeypatch.setattr(start, "is_spark_running", lambda: False)
    monkeypatch.setattr(start, "RemoteJob", lambda *settings, **more: settings[4])


def launcher_of(folder: Path, **settings: Any) -> Any:
    env = ms.Environment(parallelism=2, snapshots=ms.Snapshots(folder))
    env.source(ms.connectors.Sequence(end=3), uid="ids").sink(ms.connectors.Memory(), uid="out")
    assert env.snapshots is not None
    given = {
        "session": None,
        "directory": str(folder),
        "snapshots": env.snapshots.parsed(),
        "restart": env.restart.parsed(),
        "restore": env.restore,
    }
    return start.start_on_spark("job", env.plan(), **{**given, **settings})


@pytest.mark.usefixtures("sessions")
@pytest.mark.parametrize("master", [None, "local[4]"])
def test_a_job_that_has_nothing_to_do_starts_no_session_on_this_machine(
    tmp_path: Path, master: str | None
) -> None:
    assert isinstance(launcher_of(tmp_path, master=master), start.DeferredLauncher)


@pytest.mark.usefixtures("sessions")
@pytest.mark.parametrize(
    ("settings", "master"),
    [
        ({"master": "spark://host:7077"}, "spark://host:7077"),
        ({"session": "sc://host:15002"}, "sc://host:15002"),
        ({"session": "sc://host:15002", "master": "sc://other"}, "sc://other"),
        ({"coordinator_host": "driver"}, None),
    ],
    ids=["a cluster", "a Connect server", "a master set from outside", "an address that is told"],
)
def test_where_executors_are_elsewhere_the_session_says_how_they_reach_this_process(
    tmp_path: Path, settings: dict[str, Any], master: str | None
) -> None:
    with pytest.raises(StartedError) as raised:
        launcher_of(tmp_path, **settings)
    assert raised.value.args == (2, master)
