"""What a job reads off ``df.groupBy(...)`` and ``withWatermark``, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError
from mainstay.spark.queries.event_time import watermark_of
from mainstay.spark.queries.grouped import grouped_of
from tests.processors import processors as p
from tests.processors.slices import InRows, variant

pytestmark = pytest.mark.spark


@pytest.fixture
def events(spark: Any) -> Any:
    """A streaming DataFrame with a watermark."""
    rate = spark.readStream.format("rate").load()
    return rate.selectExpr("timestamp as at", "value", "cast(value % 3 as string) as id")


def grouped(given: Any) -> tuple[list[str], tuple[str, ...]]:
    found = grouped_of(given, "query")
    return found.df.columns, found.key


# ---------------------------------------------------------------- the key


def test_columns_are_the_key_however_they_are_named(events: Any) -> None:
    from pyspark.sql import functions as f

    own = ["at", "value", "id"]
    assert grouped(events.groupBy("id")) == (own, ("id",))
    assert grouped(events.groupBy(f.col("value"), events.id)) == (own, ("value", "id"))
    assert grouped(events.groupBy("ID")) == (own, ("id",))
    assert grouped(events.groupBy(3)) == (own, ("id",))
    assert grouped(events.alias("e").groupBy("e.id")) == (own, ("id",))


def test_an_expression_becomes_a_column(events: Any) -> None:
    from pyspark.sql import functions as f

    columns, key = grouped(events.groupBy("id", (f.col("value") % 2).alias("odd")))
    assert (columns, key) == (["at", "value", "id", "odd"], ("id", "odd"))
    columns, key = grouped(events.groupBy(f.col("value") % 2))
    assert (columns[-1:], key) == (["(value % 2)"], ("(value % 2)",))
    assert grouped(events.groupBy(f.col("id").alias("name")))[1] == ("name",)


def test_what_is_no_key_is_refused(events: Any) -> None:
    from pyspark.sql import functions as f

    for given, message in [
        (events, "not the DataFrame itself"),
        ("id", "not str"),
        (events.groupBy(), "names no column"),
        (events.rollup("id"), "a rollup has no key"),
        (events.cube("id"), "a cube has no key"),
        (events.groupBy("id").pivot("value", [1]), "a pivot has no key"),
        (events.groupBy(f.upper("id").alias("value")), "has another column of that name"),
    ]:
        with pytest.raises(GraphError, match=message):
            grouped_of(given, "query")


# ---------------------------------------------------------------- the time


def test_a_watermark_follows_its_column(events: Any) -> None:
    timed = events.withWatermark("at", "1 minute").withColumnRenamed("at", "seen").filter("id > 0")
    assert watermark_of(timed, None, "query", needed=True) == ms.Watermark("seen", delay="60000ms")
    assert watermark_of(timed, None, "query", needed=False) == ms.Watermark("seen", delay="60000ms")
    other = ms.Watermark("seen", delay="5s")
    assert watermark_of(timed, other, "query", needed=True) is other


def test_without_a_watermark_there_is_no_event_time(spark: Any, events: Any) -> None:
    assert watermark_of(events, None, "query", needed=False) is None
    with pytest.raises(GraphError, match=r"Say df.withWatermark\('at', \"10 seconds\"\) before"):
        watermark_of(events, None, "query", needed=True)
    with pytest.raises(GraphError, match="has no timestamp"):
        watermark_of(events.drop("at"), None, "query", needed=True)
    timed = events.withWatermark("at", "1 minute")
    with pytest.raises(GraphError, match="several watermarks"):
        watermark_of(timed.selectExpr("at", "at as also"), None, "query", needed=True)
    from pyspark.sql import functions as f

    windows = timed.groupBy("id", f.window("at", "1 minute"))
    with pytest.raises(GraphError, match="is on a window"):
        watermark_of(windows.count(), None, "query", needed=True)


def test_nothing_of_a_table_is_late_so_any_timestamp_does(spark: Any) -> None:
    table = spark.range(3).selectExpr("id", "timestamp_seconds(id) as at")
    found = watermark_of(table.withWatermark("at", "1 hour"), None, "query", needed=True)
    assert found == ms.Watermark("at")
    assert watermark_of(table, None, "query", needed=False) is None


# ---------------------------------------------------------------- whole queries


def refused(grouped: Any, folder: Path, **changes: Any) -> str:
    given: dict[str, Any] = {
        "outputMode": "append",
        "timeMode": "none",
        "snapshots": folder,
        **changes,
    }
    processor = variant(p.SumWithInitial, InRows)()
    with pytest.raises(GraphError) as error:
        ms.spark.transform_with_state(grouped, processor, p.SumWithInitial.output, **given)
    return str(error.value)


def test_a_query_that_is_wrong_is_refused_before_it_starts(
    spark: Any, events: Any, tmp_path: Path
) -> None:
    groups = events.groupBy("id")
    mode = refused(groups, tmp_path, timeMode="sometimes")
    assert "[STATEFUL_PROCESSOR_UNKNOWN_TIME_MODE] Unknown time mode sometimes" in mode
    mode = refused(groups, tmp_path, outputMode="all")
    assert "[STREAMING_OUTPUT_MODE.INVALID] Invalid streaming output mode: all" in mode
    mode = refused(groups, tmp_path, outputMode="Complete")
    assert "Invalid streaming output mode: Complete" in mode
    assert 'Choose "Append" or "Update"' in mode
    assert "is of a streaming DataFrame" in refused(groups, tmp_path, initialState=groups)
    table = spark.range(3)
    assert "not the DataFrame itself" in refused(groups, tmp_path, initialState=table)
    assert "Key both by the same types" in refused(
        groups, tmp_path, initialState=table.groupBy("id")
    )
    assert "has no watermark" in refused(groups, tmp_path, timeMode="EventTime")
    assert "has no watermark" in refused(groups, tmp_path, eventTimeColumnName="value")
    assert "instead of the checkpointLocation" in refused(groups, tmp_path, snapshots=None)
    assert "the uid is a text" in refused(groups, tmp_path, uid="")
    env = ms.Environment(spark=spark, snapshots=ms.Snapshots(tmp_path))
    assert "Say them there" in refused(groups, tmp_path, env=env)
    output = refused(
        events.withWatermark("at", "1 second").groupBy("id"), tmp_path, eventTimeColumnName="value"
    )
    assert "the time of an event is a timestamp" in output


def test_a_query_says_what_it_is_made_of(spark: Any, events: Any, tmp_path: Path) -> None:
    env = ms.Environment(spark=spark, snapshots=ms.Snapshots(tmp_path))
    query = ms.spark.transform_with_state(
        events.withWatermark("at", "1 second").groupBy("id"),
        variant(p.EventTime, InRows)(),
        p.EventTime.output,
        "Append",
        "EventTime",
        env=env,
        uid="times",
        sink=ms.connectors.Memory(),
    )
    query.sink(ms.connectors.Memory()).sink(ms.connectors.Memory(), uid="other")
    assert query.env is env
    uids = {operator.uid for operator in env.graph().operators}
    assert uids == {"times-rows", "times", "times-sink", "times-sink-2", "other"}
    assert "times-rows" in query.explain()
