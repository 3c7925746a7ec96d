"""What goes in and out of jobs on Spark Connect: states by name, pandas, and streams into sinks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors.files.committed import read_committed
from mainstay.errors import SourceError
from tests.drive.ledger import PATIENCE_S, await_until

pytest.importorskip("pyspark")
pytest.importorskip("grpc", reason="mainstay[connect] is not installed")

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.xdist_group("connect"),
    pytest.mark.usefixtures("a_process_of_connect"),
]

ORDERS = [("alice", 5), ("bob", 3), ("alice", 2)]
COLUMNS = "customer string, amount long"
LAST = {"alice": 7, "bob": 3}


def environment(session: Any, folder: Path) -> ms.Environment:
    snapshots = ms.Snapshots(folder / "snapshots", every="300ms")
    return ms.Environment(spark=session, parallelism=2, snapshots=snapshots)


def totals(orders: Any) -> Any:
    total = {"total": ms.sum("amount")}
    return orders.key_by("customer").aggregate(**total, uid="totals")


def _committed(folder: Path) -> list[tuple[Any, ...]]:
    try:
        return list(zip(*read_committed(str(folder)).to_pydict().values(), strict=True))
    except SourceError:
        return []  # nothing was written there yet


class Spool(WriterCommitMessage):
    def __init__(self, rows: list[list[Any]]) -> None:
        self.rows = rows


class Book(DataSource):
    """A data source of PySpark's that notes each batch in a file of its own."""

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        return BookWriter(self.options["folder"])


class BookWriter(DataSourceStreamWriter):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def write(self, iterator: Iterator[Any]) -> Any:
        return Spool([list(row) for row in iterator])

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        rows = [row for message in messages if message is not None for row in message.rows]
        Path(self.folder, str(batchId)).write_text(json.dumps(rows))

    def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803
        """Nothing is there before a commit."""


def test_a_state_is_read_by_the_name_of_the_data_source(connected: Any, tmp_path: Path) -> None:
    env = environment(connected, tmp_path)
    totals(env.source(ms.connectors.Rows(COLUMNS, ORDERS), uid="orders")).sink(
        ms.connectors.Memory(), uid="out"
    )
    assert env.start("order-totals").wait(PATIENCE_S) == "finished"
    connected.dataSource.register(ms.spark.StateDataSource)
    options = {"path": str(tmp_path / "snapshots"), "operator": "totals", "state": "aggregates"}
    frame = connected.read.format("mainstay").options(**options).load()
    assert {row.customer: row.aggregates.total for row in frame.collect()} == LAST
    with pytest.raises(Exception, match=r"no option 'epock'.*Did you mean 'epoch'"):
        connected.read.format("mainstay").options(**options, epock="3").load().collect()


def test_a_processor_in_pandas_runs(connected: Any, tmp_path: Path) -> None:
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("n", "n long")

        def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:  # noqa: N802
            n = (self.count.get()[0] if self.count.exists() else 0) + sum(map(len, rows))
            self.count.update((n,))
            yield pd.DataFrame({"customer": [key[0]], "n": [n]})

        def close(self) -> None:
            return None

    out = ms.connectors.Memory()
    query = ms.spark.transform_with_state_in_pandas(
        connected.createDataFrame(ORDERS, COLUMNS).groupBy("customer"),
        Count(),
        outputStructType="customer string, n long",
        outputMode="Update",
        timeMode="None",
        snapshots=str(tmp_path / "snapshots"),
    )
    assert query.sink(out).start("count").wait(PATIENCE_S) == "finished"
    assert dict(sorted(out.rows())) == {"alice": 2, "bob": 1}


@pytest.mark.parametrize("kind", ["a sink of Mainstay", "a data source of PySpark"])
def test_a_streaming_query_is_written_into_a_sink(
    connected: Any, tmp_path: Path, kind: str
) -> None:
    arriving, written = tmp_path / "in", tmp_path / "out"
    written.mkdir()
    connected.createDataFrame(ORDERS, COLUMNS).write.json(str(arriving))
    stream = connected.readStream.schema(COLUMNS).json(str(arriving))
    env = environment(connected, tmp_path)
    is_own = kind == "a sink of Mainstay"
    sink = ms.connectors.ParquetSink(str(written)) if is_own else Book({"folder": str(written)})
    env.from_dataframe(stream, uid="orders").sink(sink, uid="out")

    def found() -> list[tuple[Any, ...]]:
        if is_own:
            return _committed(written)
        return [tuple(row) for file in written.iterdir() for row in json.loads(file.read_text())]

    job = env.start("written")
    await_until(lambda: len(found()) >= len(ORDERS), "its rows are there", 150.0)
    connected.createDataFrame([("carol", 4)], COLUMNS).write.mode("append").json(str(arriving))
    await_until(lambda: len(found()) > len(ORDERS), "the others, too", 150.0)
    job.stop(timeout=PATIENCE_S)
    assert sorted(found()) == sorted([*ORDERS, ("carol", 4)])
