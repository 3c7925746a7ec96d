"""The Delta sink on an S3 server, also behind a shaky network; read back by deltalake alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mainstay.connectors import DeltaSink, SinkContext
from mainstay.schema import rows_to_batch, to_schema
from tests.drive.ledger import PATIENCE_S, Ids
from tests.edges import CRASH_POINTS, Crashing, kill_workers, start, when_more_is
from tests.services.s3 import S3Server
from tests.services.s3_proxy import (
    BUSY,
    CONFLICT,
    CREATE,
    DROPPED,
    LOST,
    PUT,
    SLOW,
    THROTTLED,
    S3Proxy,
)
from tests.sinks import prepare, write

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed (mainstay[delta])")

pytestmark = pytest.mark.xdist_group("delta")

TABLE = "s3://bucket/table"
COMMITS = "/_delta_log/"
COUNT = 1_500


@pytest.fixture
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def proxy(server: S3Server) -> Iterator[S3Proxy]:
    proxy = S3Proxy(server.port)
    yield proxy
    proxy.close()


@pytest.fixture(params=["directly", "through a shaky network"])
def sink(
    request: pytest.FixtureRequest,
    server: S3Server,
    proxy: S3Proxy,
    monkeypatch: pytest.MonkeyPatch,
) -> DeltaSink:
    """By options where all is well, and by the environment where it is not."""
    if request.param == "directly":
        return DeltaSink(TABLE, storage_options=server.environment)
    for fault in (BUSY, THROTTLED, DROPPED, LOST):
        proxy.inject(fault, times=None, chance=0.015)
    proxy.inject(LOST, kind=CREATE, key=COMMITS, times=None, chance=0.1)
    proxy.inject(CONFLICT, kind=CREATE, key=COMMITS, times=None, chance=0.1)
    proxy.inject(SLOW, times=None, chance=0.05, delay_s=0.05)
    for name, value in proxy.environment.items():
        monkeypatch.setenv(name, value)
    return DeltaSink(TABLE)


def column(options: dict[str, str], name: str = "id") -> list[Any]:
    """What a client that knows nothing of the sink reads, past the network."""
    try:
        table = deltalake.DeltaTable(TABLE, storage_options=options)
    except deltalake.exceptions.TableNotFoundError:
        return []
    return sorted(table.to_pyarrow_table().column(name).to_pylist())


@pytest.mark.parametrize("point", CRASH_POINTS[2:])
def test_a_crash_between_the_edges_of_a_commit_loses_and_doubles_nothing(
    sink: DeltaSink, server: S3Server, proxy: S3Proxy, tmp_path: Path, point: str
) -> None:
    step = "mainstay.connectors.delta.sink:_check_is_there" if point == "during_commit" else None
    crashing = Crashing(
        sink, point, tmp_path / "crashed", within=step, observe=partial(column, server.environment)
    )
    source = Ids(COUNT, 1_200.0)
    job = start(
        lambda env: env.source(source, uid="ids").sink(crashing, uid="out"), tmp_path, every_s=0.2
    )
    assert job.wait(3 * PATIENCE_S) == "finished"
    assert crashing.has_crashed
    assert len(job.attempts()) >= 2
    assert column(server.environment) == list(range(COUNT))
    early = crashing.observed
    assert len(early) == len(set(early))
    if not sink.storage_options:
        assert any(request.fault is not None for request in proxy.seen())


def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    sink: DeltaSink, server: S3Server, tmp_path: Path
) -> None:
    source = Ids(2 * COUNT, 1_000.0)
    job = start(
        lambda env: env.source(source, uid="ids").sink(sink, uid="out"),
        tmp_path,
        drive="processes",
        max_failures=10,
    )
    kill_workers(job, 1, moment=when_more_is(lambda: len(column(server.environment)), "committed"))
    assert job.wait(3 * PATIENCE_S) == "finished"
    assert column(server.environment) == list(range(2 * COUNT))


def prepared(sink: DeltaSink, epoch: int, n: int) -> list[bytes]:
    writer = sink.open(SinkContext("out", 0, 1, "job"))
    write(writer, rows_to_batch([(n,)], to_schema("n long"), "a test"))
    handle = prepare(writer, epoch)
    assert handle is not None
    return [handle]


def test_of_two_drivers_that_commit_an_epoch_the_store_refuses_one(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = DeltaSink(TABLE, storage_options=server.environment)
    sink.commit_epoch(1, prepared(sink, 1, 1))
    handles = prepared(sink, 2, 2)
    stale = deltalake.DeltaTable(TABLE, storage_options=server.environment)
    sink.commit_epoch(2, handles)
    with monkeypatch.context() as patched:
        patched.setattr("mainstay.connectors.delta.sink.open_table", lambda *_: stale)
        with pytest.raises(deltalake.exceptions.CommitFailedError):
            sink.commit_epoch(2, handles)
    sink.commit_epoch(2, handles)
    assert column(server.environment, "n") == [1, 2]


def test_a_commit_whose_answer_was_lost_is_found_in_the_table(
    server: S3Server, proxy: S3Proxy
) -> None:
    sink = DeltaSink(TABLE, storage_options=proxy.environment)
    for epoch in (1, 2):
        handles = prepared(sink, epoch, epoch)
        proxy.inject(LOST, kind=CREATE, key=COMMITS)
        for _ in range(2):
            commit_or_fail(sink, epoch, handles)
        sink.commit_epoch(epoch, handles)
    assert [request.fault for request in proxy.seen(kind=CREATE)].count(LOST) == 2
    assert column(server.environment, "n") == [1, 2]


def commit_or_fail(sink: DeltaSink, epoch: int, handles: list[bytes]) -> None:
    """As the coordinator does, which makes a commit of unknown outcome again."""
    try:
        sink.commit_epoch(epoch, handles)
    except (OSError, deltalake.exceptions.DeltaError):
        return


@pytest.mark.parametrize("option", ["aws_s3_allow_unsafe_rename", "AWS_S3_ALLOW_UNSAFE_RENAME"])
def test_a_version_is_created_only_where_there_is_none_whatever_the_options_say(
    server: S3Server, proxy: S3Proxy, option: str
) -> None:
    sink = DeltaSink(TABLE, storage_options={**proxy.environment, option: "true"})
    sink.commit_epoch(1, prepared(sink, 1, 1))
    sink.commit_epoch(2, prepared(sink, 2, 2))
    assert proxy.count(kind=CREATE, key=COMMITS) == 2
    assert proxy.count(kind=PUT, key=COMMITS) == 0
    assert column(server.environment, "n") == [1, 2]
