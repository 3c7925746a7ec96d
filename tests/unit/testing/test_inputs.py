"""Tests give a job its input: what the program's sources name need not exist here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Files, Memory, ParquetSink, Source
from mainstay.errors import GraphError
from mainstay.testing import rows, run

T0 = datetime(2024, 1, 1, tzinfo=timezone.utc)
T1 = T0 + timedelta(seconds=5)
SCHEMA = "customer string, amount long, at timestamp"
MISSING = "./no-such-folder/orders/*.parquet"


class RunningTotal(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)
    last_seen = ms.ValueState("timestamp")

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.amount)
        self.last_seen.update(row.at)
        yield ctx.key, self.total.get()


def job_of(source: Callable[[], Any], **settings: Any) -> Callable[[ms.Environment], None]:
    def build(env: ms.Environment) -> None:
        (
            env.source(source(), uid="orders", **settings)
            .key_by("customer")
            .process(RunningTotal(), "customer string, total long", uid="totals")
            .sink(ParquetSink("./no-such-folder/totals"), uid="out")
        )

    return build


def orders(schema: str = SCHEMA) -> Any:
    return rows(schema, [("alice", 5, T0), ("bob", 3, T1)])


def kafka() -> Source:
    kafka = pytest.importorskip("mainstay.connectors.kafka")
    return kafka.KafkaSource("no-such-host:9", "orders", value=kafka.Json(SCHEMA))


def postgres() -> Source:
    from mainstay.connectors.postgres import PostgresSource

    return PostgresSource("postgresql://no-such-host/shop", "orders", schema=SCHEMA, column="at")


@pytest.mark.parametrize(
    "source",
    [
        lambda: Files(MISSING),
        lambda: Files(MISSING, schema=SCHEMA),
        lambda: Files("./no-such-file.csv", schema=SCHEMA),
        kafka,
        postgres,
    ],
    ids=["files", "files of a schema", "csv", "kafka", "postgres"],
)
def test_a_source_is_replaced_without_being_touched(source: Callable[[], Any]) -> None:
    given = orders()
    if "kafka" in getattr(source, "__name__", ""):
        given = rows(pa_schema_of(source()), [])
    result = run(job_of(source), inputs={"orders": given}, parallelism=3, seed=7, crashes=2)
    if len(given.batch):
        assert sorted(result.output("out")) == [("alice", 5), ("bob", 3)]
        assert result.state("totals", "total") == {"alice": 5, "bob": 3}
    assert result.snapshots[-1].status == "complete"


def pa_schema_of(source: Source) -> pa.Schema:
    return source.schema


def test_rows_of_another_schema_than_the_declared_one_are_refused() -> None:
    build = job_of(lambda: Files(MISSING, schema=SCHEMA))
    with pytest.raises(
        GraphError, match=r"'orders' have the schema 'customer int.*customer string"
    ):
        run(build, inputs={"orders": rows("customer int, amount long", [])})


def test_a_uid_that_no_source_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(GraphError, match=r"\['ordres'\].*\['orders'\].*Did you mean 'orders'"):
        run(job_of(orders), inputs={"ordres": orders()})


def test_a_source_that_was_missed_says_which_inputs_there_were() -> None:
    build = job_of(lambda: Files(MISSING))
    message = r"no file matches.*inputs= .*\['ordres'\].*'orders'.*Did you mean 'ordres'"
    with pytest.raises(GraphError, match=message):
        run(build, inputs={"ordres": orders()})


def test_what_is_no_source_is_refused_also_where_it_would_be_replaced() -> None:
    with pytest.raises(GraphError, match=r"needs a source, not the class Files"):
        run(job_of(lambda: Files), inputs={"orders": orders()})
    with pytest.raises(GraphError, match=r"'orders' is a str; give it as a list, or as rows"):
        run(job_of(orders), inputs={"orders": "orders"})  # type: ignore[dict-item]


def test_the_watermark_of_a_source_is_that_of_its_replacement() -> None:
    build = job_of(lambda: Files(MISSING), watermark=ms.Watermark("at", delay="2s"))
    result = run(build, inputs={"orders": orders()})
    assert sorted(result.output("out")) == [("alice", 5), ("bob", 3)]
    (source,) = [operator for _, operator in result.job.operators() if operator.uid == "orders"]
    assert source.factory.arguments[1].delay_us == 2_000_000  # type: ignore[attr-defined]
    misnamed = job_of(lambda: Files(MISSING), watermark=ms.Watermark("when"))
    with pytest.raises(GraphError, match=r"'when'.*'customer', 'amount', 'at'"):
        run(misnamed, inputs={"orders": orders()})


def test_a_replaced_source_has_no_malformed_records() -> None:
    def build(env: ms.Environment) -> None:
        numbers = env.source(Files("./no.csv", schema="n long", malformed="side"), uid="in")
        numbers.sink(Memory(), uid="out")
        numbers.malformed.sink(Memory(), uid="bad")  # type: ignore[attr-defined]

    result = run(build, inputs={"in": rows("n long", [(1,), (2,)])})
    assert sorted(result.output("out")) == [(1,), (2,)]
    assert result.output("bad") == []


def test_a_dataframe_is_replaced_without_spark() -> None:
    def build(env: ms.Environment) -> None:
        env.from_dataframe("a DataFrame", uid="in").sink(Memory(), uid="out")

    assert run(build, inputs={"in": rows("n long", [(1,)])}).output("out") == [(1,)]
