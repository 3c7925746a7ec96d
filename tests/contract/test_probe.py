"""A store whose conditional creates let two writers win is refused when a job starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.drive.probe import ROUNDS, WRITERS, check_creates
from mainstay.errors import SnapshotStorageError
from mainstay.snapshot.object_storage import open_storage
from tests.services.s3 import S3Server
from tests.services.s3_proxy import CONFLICT, CREATE, DELETE, DROPPED, LOST, S3Proxy

PLACE = "s3://bucket/job"


def reach(server: S3Server | S3Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    server = S3Server(locks=False)
    reach(server, monkeypatch)
    yield server
    server.close()


@pytest.fixture
def right() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def proxy(right: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Proxy]:
    proxy = S3Proxy(right.port)
    reach(proxy, monkeypatch)
    yield proxy
    proxy.close()


def started(place: str) -> ms.Job:
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(place))
    env.source(Rows("n long", [(1,)]), uid="rows").sink(Memory(), uid="out")
    return env.start("probed")


def test_on_the_wrong_server_two_writers_do_win(wrong: S3Server) -> None:
    storage, ready = open_storage(PLACE), threading.Barrier(2)

    def create(data: bytes) -> bool:
        ready.wait()
        return storage.create("log/0", data)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(create, [b"one", b"other"])) == [True, True]


def test_a_job_is_refused_on_the_wrong_server(wrong: S3Server) -> None:
    with pytest.raises(SnapshotStorageError, match=r"s3://bucket/job let \d of 8 writers") as found:
        started(PLACE)
    assert "If-None-Match" in str(found.value)
    assert wrong.objects == {}


def test_a_job_starts_on_the_right_server_and_leaves_no_probe(
    right: S3Server, proxy: S3Proxy
) -> None:
    assert started(PLACE).wait() == "finished"
    assert proxy.count(kind=CREATE, key="/probe/") == WRITERS * ROUNDS
    assert proxy.count(kind=DELETE) >= ROUNDS
    assert not [key for key in right.objects if "probe" in key]


@pytest.mark.parametrize("fault", [CONFLICT, LOST])
def test_the_right_server_behind_a_bad_network_is_not_refused(
    right: S3Server, proxy: S3Proxy, fault: str
) -> None:
    proxy.inject(fault, kind=CREATE, key="/probe/", times=6)
    check_creates(PLACE)
    assert right.objects == {}


def test_a_store_that_is_away_is_left_to_the_job(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.inject(DROPPED, times=None)
    with caplog.at_level("INFO", "mainstay"):
        check_creates(PLACE)
    assert "was not found out" in caplog.text


def test_a_folder_is_not_probed(tmp_path: Path) -> None:
    check_creates(str(tmp_path / "snapshots"))
    assert list(tmp_path.iterdir()) == []
