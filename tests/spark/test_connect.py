"""Jobs on sessions of Spark Connect: a server of its own, which all tests here share."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.drive.remote_job import RemoteJob
from mainstay.drive.remote_worker import Bootstrap
from mainstay.errors import (
    GraphError,
    MainstayError,
    SlotsError,
    SnapshotStorageError,
    SparkSetupError,
)
from mainstay.transport.keys import AttemptKeys, KeyPair
from tests.drive.ledger import PATIENCE_S, LedgerJob, await_attempt, await_until
from tests.services.s3 import S3Server

pytest.importorskip("pyspark")
pytest.importorskip("grpc", reason="mainstay[connect] is not installed")

from tests.spark.connect_server import SLOTS, connect_server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("connect"),
    pytest.mark.usefixtures("a_process_of_connect"),
]

ORDERS = [("alice", 5), ("bob", 3), ("alice", 2)]
COLUMNS = "customer string, amount long"


class RunningTotal(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.amount)
        yield ctx.key, self.total.get()


def environment(session: Any, folder: Path, **settings: Any) -> ms.Environment:
    given = {"parallelism": 2, "snapshots": ms.Snapshots(folder / "snapshots", every="300ms")}
    return ms.Environment(spark=session, **{**given, **settings})


def totals(env: ms.Environment, orders: Any) -> Any:
    out = ms.connectors.Memory()
    keyed = orders.key_by("customer")
    keyed.process(RunningTotal(), "customer string, total long", uid="totals").sink(out, uid="out")
    return out


def rows(env: ms.Environment) -> Any:
    return env.source(ms.connectors.Rows(COLUMNS, ORDERS), uid="orders")


def start(session: Any, ledger: LedgerJob, **options: Any) -> RemoteJob:
    from mainstay.spark.launch.cluster import cluster_of
    from mainstay.spark.launch.launcher import SparkLauncher

    return ledger.start(SparkLauncher(cluster_of(session), "ledger"), **options)


def test_the_first_job_of_the_readme_and_its_state(connected: Any, tmp_path: Path) -> None:
    env = environment(connected, tmp_path)
    out = totals(env, rows(env))
    assert env.start("order-totals").wait(PATIENCE_S) == "finished"
    assert sorted(out.rows()) == [("alice", 5), ("alice", 7), ("bob", 3)]

    def state(**options: Any) -> list[Any]:
        place = tmp_path / "snapshots"
        frame = ms.spark.read_state(connected, place, operator="totals", state="total", **options)
        return sorted(tuple(row) for row in frame.drop("key_group").collect())

    assert state() == [("alice", 7), ("bob", 3)]
    assert state(key="bob") == [("bob", 3)]


def test_a_state_that_the_server_cannot_open_is_refused_with_what_the_server_needs(
    connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(tmp_path / "snapshots"))
    totals(env, rows(env))
    assert env.start("order-totals").wait(PATIENCE_S) == "finished"
    monkeypatch.chdir(tmp_path)
    here = "/proc/self/cwd/snapshots"  # in each process another folder
    if not os.path.isdir(here):
        pytest.skip("this system has no /proc")
    with pytest.raises(SnapshotStorageError) as raised:
        ms.spark.read_state(connected, here, operator="totals", state="total")
    assert f"the Spark Connect server cannot open '{here}#1', which this" in str(raised.value)
    assert "there is no folder" in str(raised.value), "what the server has met"
    assert "each needs this folder on a disk that it sees" in str(raised.value)
    assert "where the server is started" in str(raised.value)


@pytest.mark.soak
def test_a_state_in_a_store_of_which_the_server_has_no_credentials_is_refused_with_that(
    connected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = S3Server()
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    try:
        place = "s3://bucket/job"
        env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(place))
        totals(env, rows(env))
        assert env.start("order-totals").wait(PATIENCE_S) == "finished"
        with pytest.raises(SnapshotStorageError, match="each needs the credentials") as raised:
            ms.spark.read_state(connected, place, operator="totals", state="total")
        assert "The server's process and its executors read the state" in str(raised.value)
    finally:
        store.close()


def test_a_job_that_names_its_server_runs_there_beside_a_session_of_another(
    connected: Any, address: str, tmp_path: Path
) -> None:
    from mainstay.spark.launch.connect_session import connect_session

    own = address.replace("127.0.0.1", "localhost")
    session = connect_session(own)
    assert session.client.host == "localhost"
    assert session.session_id != connected.session_id
    session.stop()
    env = environment(own, tmp_path)
    out = totals(env, rows(env))
    assert env.start("elsewhere").wait(PATIENCE_S) == "finished"
    assert len(out.rows()) == 3
    assert type(connected).getActiveSession() is connected


def test_a_module_of_the_program_reaches_the_workers_as_an_artifact(
    connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "prices_of_orders.py"
    module.write_text("def dearer(row):\n    return row.customer, row.amount + 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import prices_of_orders  # type: ignore[import-not-found]

    session = connected.newSession()

    def started(folder: Path) -> tuple[Any, Any]:
        env = environment(session, folder, restart=ms.Restart(max_failures=0))
        out = ms.connectors.Memory()
        rows(env).map(prices_of_orders.dearer, COLUMNS, uid="dearer").sink(out, uid="out")
        return env.start("dearer"), out

    job, _ = started(tmp_path / "lacking")
    with pytest.raises(MainstayError, match=r"session\.addArtifacts\(path, pyfile=True\)"):
        job.wait(PATIENCE_S)
    session.addArtifacts(str(module), pyfile=True)
    job, out = started(tmp_path / "sent")
    assert job.wait(PATIENCE_S) == "finished"
    assert sorted(out.rows()) == [("alice", 3), ("alice", 6), ("bob", 4)]
    session.stop()


def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost(
    connected: Any, tmp_path: Path
) -> None:
    ledger = LedgerJob(tmp_path, count=12_000, per_second=4_000.0)
    job = start(connected, ledger)
    os.kill(await_attempt(job, 1, 3)[1], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 2
    ledger.check()


def test_rescaled_stopped_and_restored_from_the_savepoint(connected: Any, tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=9_000, per_second=2_000.0, workers=2)
    job = start(connected, ledger)
    await_attempt(job, 1, 2)
    job.rescale(3, PATIENCE_S)
    await_attempt(job, 2, 3)
    saved = job.stop(tmp_path / "saved", timeout=PATIENCE_S)
    assert job.wait(PATIENCE_S) == "stopped"
    (tmp_path / "other").mkdir()
    other = LedgerJob(tmp_path / "other", count=9_000, per_second=2_000.0, workers=4)
    other.shelf.folder.rmdir()
    ledger.shelf.folder.rename(other.shelf.folder)
    other.hurry.touch()
    assert start(connected, other, origin=saved).wait(PATIENCE_S) == "finished"
    other.check()


def test_a_dataframe_enters_a_job_that_starts_from_a_savepoint_of_dataframes(
    connected: Any, tmp_path: Path
) -> None:
    columns = "customer string, total long"
    before = connected.createDataFrame([("alice", 100), ("carol", 7)], columns)
    saved = ms.spark.write_savepoint(
        tmp_path / "made",
        states={("totals", "total"): before},
        declarations={("totals", "total"): RunningTotal.total},
        keys={"totals": "customer string"},
    )
    env = environment(connected, tmp_path, restore=saved)
    out = totals(env, rows(env))
    assert env.start("restored").wait(PATIENCE_S) == "finished"
    assert sorted(out.rows()) == [("alice", 105), ("alice", 107), ("bob", 3)]

    env = environment(connected, tmp_path / "frames")
    orders = connected.createDataFrame(ORDERS, COLUMNS)
    out = totals(env, env.from_dataframe(orders, uid="orders"))
    assert env.start("frames").wait(PATIENCE_S) == "finished"
    assert sorted(total for customer, total in out.rows() if customer == "alice")[-1] == 7


def test_two_jobs_run_on_one_session(connected: Any, tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=1_000_000_000, per_second=1_000.0, workers=2)
    first = start(connected, ledger)
    await_attempt(first, 1, 2)
    (tmp_path / "second").mkdir()
    env = environment(connected, tmp_path / "second")
    out = totals(env, rows(env))
    assert env.start("second").wait(PATIENCE_S) == "finished"
    assert len(out.rows()) == 3
    assert len(first.attempts()) == 1
    first.cancel()


def test_too_few_slots_are_refused_with_the_number_that_is_missing(
    connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mainstay.spark.launch import scouts

    monkeypatch.setattr(scouts, "NEXT_S", 3.0)
    env = environment(connected, tmp_path, parallelism=SLOTS + 1)
    totals(env, rows(env))
    with pytest.raises(SlotsError, match=rf"needs {SLOTS + 1} free slots, and {SLOTS} of its"):
        env.start("many")


def test_a_coordinator_that_executors_cannot_reach_is_refused_with_both_addresses(
    connected: Any, tmp_path: Path
) -> None:
    env = environment(connected, tmp_path, coordinator_host="nowhere.invalid")
    totals(env, rows(env))
    with pytest.raises(SparkSetupError, match=r"from .* to nowhere.invalid:\d+: ") as raised:
        env.start("unreachable")
    assert "The address is coordinator_host='nowhere.invalid'" in str(raised.value)


def test_a_least_parallelism_is_refused_because_slots_cannot_be_counted(
    connected: Any, tmp_path: Path
) -> None:
    env = environment(connected, tmp_path, parallelism=2, min_parallelism=1)
    totals(env, rows(env))
    with pytest.raises(SparkSetupError, match=r"^min_parallelism=1 needs .*Connect.*Leave"):
        env.start("least")


@pytest.mark.parametrize("moment", ["before it is submitted", "while it waits"])
def test_an_attempt_that_waits_for_slots_is_stopped(connected: Any, moment: str) -> None:
    from mainstay.spark.launch.connect_cluster import ConnectCluster
    from mainstay.spark.launch.launcher import SparkLauncher

    cluster = ConnectCluster(connected)
    launcher = SparkLauncher(cluster, "waiting")
    ended: list[str] = []
    has_ended = threading.Event()

    def note(reason: str) -> None:
        ended.append(reason)
        has_ended.set()

    keys = AttemptKeys.new(KeyPair.new().public)
    launcher.start(Bootstrap(1, "tcp://127.0.0.1:9", keys, "memory"), SLOTS + 1, note)
    if moment == "while it waits":
        await_until(lambda: cluster._tags._running, "it is submitted")
        assert not has_ended.wait(1.0), "there are too few slots for it"
    launcher.stop(1)
    launcher.close()
    assert has_ended.is_set(), "the thread of the attempt has ended"
    assert "cancel" in ended[0].lower() or "stopped before" in ended[0]


def test_a_package_of_other_content_is_taken_by_the_same_session(
    connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mainstay.spark.launch import connect_cluster
    from mainstay.spark.launch.cluster import cluster_of
    from mainstay.spark.launch.package import packed

    session = connected.newSession()
    sent: list[str] = []
    for content in ("CONTENT = 1", "CONTENT = 2"):
        root = tmp_path / content
        root.mkdir()
        (root / "__init__.py").write_text(content)

        def changed(folder: Path, root: Path = root) -> Path:
            sent.append((found := packed(folder, root)).name)
            return found

        monkeypatch.setattr(connect_cluster, "packed", changed)
        cluster_of(session).prepare()
        cluster_of(session).prepare()

    def look(batches: Any) -> Any:
        import sys

        import pyarrow as pa

        for _ in batches:
            continue
        yield pa.record_batch({"path": [path.rpartition("/")[2] for path in sys.path]})

    found = session.range(0, 1, 1, 1).mapInArrow(look, "path string").collect()
    assert len(set(sent)) == 2
    assert set(sent) <= {row.path for row in found}
    session.stop()


@pytest.mark.parametrize("kind", ["rollup", "cube"])
def test_groups_that_have_no_key_are_refused(connected: Any, kind: str) -> None:
    from mainstay.spark.queries.grouped import grouped_of

    orders = connected.createDataFrame(ORDERS, COLUMNS)
    with pytest.raises(GraphError, match=f"a {kind} has no key"):
        grouped_of(getattr(orders, kind)("customer"), "here")


def test_groups_are_columns_or_expressions_with_names_of_their_own(connected: Any) -> None:
    from pyspark.sql import functions

    from mainstay.spark.queries.grouped import grouped_of

    orders = connected.createDataFrame(ORDERS, COLUMNS)
    assert grouped_of(orders.groupBy("CUSTOMER", functions.col("amount")), "here").key == (
        "customer",
        "amount",
    )
    grouped = grouped_of(orders.groupBy((functions.col("amount") % 2).alias("odd")), "here")
    assert grouped.key == ("odd",)
    assert sorted(row.odd for row in grouped.df.collect()) == [0, 1, 1]
    nested = orders.select(functions.struct("customer").alias("who"), "customer")
    with pytest.raises(GraphError, match="has another column of that name"):
        grouped_of(nested.groupBy("who.customer"), "here")


def test_a_checkpoint_is_refused_with_the_alternative(connected: Any, tmp_path: Path) -> None:
    env = environment(connected, tmp_path)
    with pytest.raises(GraphError, match="Import it once in a classic session"):
        ms.spark.import_checkpoint(tmp_path, tmp_path / "saved", program=env, spark=connected)


@pytest.mark.soak
def test_a_streaming_query_enters_a_job_and_goes_on(connected: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "in")
    connected.createDataFrame(ORDERS, COLUMNS).write.json(place)

    def run(expected: int, restore: str) -> list[Any]:
        env = environment(connected, tmp_path, restore=restore)
        stream = connected.readStream.schema(COLUMNS).json(place)
        out = totals(env, env.from_dataframe(stream, uid="orders"))
        job = env.start("stream")
        await_until(lambda: len(out.rows()) >= expected, "its rows are there", 150.0)
        job.stop(timeout=PATIENCE_S)
        return sorted(out.rows())

    assert [row[0] for row in run(3, "new")] == ["alice", "alice", "bob"]
    connected.createDataFrame([("bob", 4)], COLUMNS).write.mode("append").json(place)
    assert ("bob", 7) in run(1, "latest")


@pytest.mark.soak
def test_a_server_that_dies_ends_the_job_and_says_so(tmp_path: Path) -> None:
    from pyspark.sql.connect.session import SparkSession

    with connect_server(tmp_path) as address:
        session = SparkSession.builder.remote(address).create()
        (tmp_path / "job").mkdir()
        env = ms.Environment(
            spark=session,
            snapshots=ms.Snapshots(tmp_path / "job" / "snapshots", every="300ms"),
            restart=ms.Restart(max_failures=0),
        )
        source = ms.connectors.Sequence(end=1_000_000_000)
        env.source(source, uid="ids").sink(ms.connectors.Memory(), uid="out")
        job = env.start("orphan")
        await_until(lambda: job.status == "running", "the job runs")
    with pytest.raises(MainstayError):
        job.wait(PATIENCE_S)


@pytest.mark.soak
def test_a_processor_of_pyspark_runs_on_a_session_of_connect(
    connected: Any, tmp_path: Path
) -> None:
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("n", "n long")

        def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:  # noqa: N802
            n = (self.count.get()[0] if self.count.exists() else 0) + len(list(rows))
            self.count.update((n,))
            yield Row(customer=key[0], n=n)

        def close(self) -> None:
            return None

    orders = connected.createDataFrame(ORDERS, COLUMNS)
    out = ms.connectors.Memory()
    query = ms.spark.transform_with_state(
        orders.groupBy("customer"),
        Count(),
        outputStructType="customer string, n long",
        outputMode="Update",
        timeMode="None",
        snapshots=str(tmp_path / "snapshots"),
    )
    assert query.sink(out).start("count").wait(PATIENCE_S) == "finished"
    assert ("alice", 2) in out.rows()
