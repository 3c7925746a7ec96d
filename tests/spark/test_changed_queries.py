"""A DataFrame under the uid of another one: noticed, whatever the change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import SourceError
from mainstay.spark.ingest.query_identity import identity_of

pytestmark = pytest.mark.spark

PATIENCE_S = 90.0


def csv(spark: Any, folder: Path, **options: str) -> Any:
    folder.mkdir(exist_ok=True)
    (folder / "a.csv").write_text("1,2\n3,4\n")
    return spark.readStream.schema("k long, n long").options(**options).csv(str(folder))


def run(df: Any, directory: Path, **options: Any) -> Any:
    env = ms.Environment(
        spark=df.sparkSession,
        parallelism=1,
        snapshots=ms.Snapshots(directory, every="100ms"),
        restore="latest-or-new",
    )
    env.from_dataframe(df, uid="numbers", **options).sink(ms.connectors.Memory(), uid="out")
    return env.start("changing")


def test_a_query_that_stays_the_same_is_known_again(spark: Any, tmp_path: Path) -> None:
    one = csv(spark, tmp_path / "in").filter("n > 1").selectExpr("k + 1 AS k", "n")
    other = csv(spark, tmp_path / "in").filter("n > 1").selectExpr("k + 1 AS k", "n")
    assert identity_of(one) == identity_of(other)


def test_a_watermark_is_known_again_and_so_is_another_one(spark: Any) -> None:
    def rate(delay: str) -> Any:
        return spark.readStream.format("rate").load().withWatermark("timestamp", delay)

    assert identity_of(rate("10 seconds")) == identity_of(rate("10 seconds"))
    assert identity_of(rate("10 seconds")) != identity_of(rate("20 seconds"))


PROGRAM = """
import sys
from mainstay.spark.ingest.query_identity import identity_of
from mainstay.spark.launch.session import local_session
spark = local_session(1)
spark.range(7)
df = spark.readStream.schema("k long, n long").csv(sys.argv[1]).filter("n > 1")
print(identity_of(df).digest)
rate = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
print(identity_of(rate).digest)
"""


def test_a_query_is_the_same_in_another_session(spark: Any, tmp_path: Path) -> None:
    here = identity_of(csv(spark, tmp_path / "in").filter("n > 1")).digest
    rate = identity_of(spark.readStream.format("rate").option("rowsPerSecond", 5).load()).digest
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "in")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == [here, rate]


def test_another_filter_path_or_option_is_another_query(spark: Any, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "one"))
    spark.range(3).write.parquet(str(tmp_path / "two"))
    queries = [
        csv(spark, tmp_path / "in"),
        csv(spark, tmp_path / "in").filter("n > 1"),
        csv(spark, tmp_path / "other"),
        csv(spark, tmp_path / "in", sep=";"),
        spark.readStream.format("rate").option("rowsPerSecond", 5).load(),
        spark.readStream.format("rate").option("rowsPerSecond", 6).load(),
        spark.read.parquet(str(tmp_path / "one")),
        spark.read.parquet(str(tmp_path / "two")),
    ]
    assert len({identity_of(query).digest for query in queries}) == len(queries)


def test_a_password_among_the_options_is_not_kept(spark: Any) -> None:
    rate = spark.readStream.format("rate").option("password", "secret").load()
    assert "secret" not in str(identity_of(rate))


def test_a_job_does_not_go_on_with_the_rows_of_another_query(spark: Any, tmp_path: Path) -> None:
    first = run(csv(spark, tmp_path / "in"), tmp_path / "snapshots")
    first.stop(timeout=PATIENCE_S)
    other = csv(spark, tmp_path / "in").filter("n > 2")
    with pytest.raises(SourceError, match=r"(?s)'numbers' is another query.*Filter.*a uid of its"):
        run(other, tmp_path / "snapshots").wait(PATIENCE_S)
    again = run(csv(spark, tmp_path / "in"), tmp_path / "snapshots")
    again.stop(timeout=PATIENCE_S)
    allowed = run(other, tmp_path / "snapshots", allow_changed_query=True)
    allowed.stop(timeout=PATIENCE_S)
    assert allowed.wait(PATIENCE_S) == "stopped"


def test_a_batch_query_is_known_again_as_well(spark: Any, tmp_path: Path) -> None:
    assert run(spark.range(5), tmp_path / "snapshots").wait(PATIENCE_S) == "finished"
    with pytest.raises(SourceError, match="is another query"):
        run(spark.range(6), tmp_path / "snapshots").wait(PATIENCE_S)
