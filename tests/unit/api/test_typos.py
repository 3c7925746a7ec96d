"""Every option of the public API that is a word, misspelt: what the message says was meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Files, FileSink, ParquetSink, Webhook
from mainstay.errors import MainstayError
from mainstay.snapshot.object_storage import open_existing, open_storage
from mainstay.spelling import did_you_mean
from mainstay.testing import rows


def stream() -> ms.Stream:
    return ms.Environment().source(rows("customer string, amount long", []), uid="in")


def kafka(**options: Any) -> Any:
    module = pytest.importorskip("mainstay.connectors.kafka")
    return module.KafkaSource("host:9092", "orders", value=module.Json("n long"), **options)


def postgres(**options: Any) -> Any:
    from mainstay.connectors.postgres import PostgresSource

    return PostgresSource("postgresql://host/shop", "t", schema="id long", column="id", **options)


TYPOS: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: ms.Environment(mode="exactly-once"), "mode='exactly-once'", "'exactly_once'"),
    (lambda: ms.Environment(mode="Unaligned "), "mode='Unaligned '", "'unaligned'"),
    (lambda: ms.Environment(mode="atleast_once"), "mode=", "'at_least_once'"),
    (lambda: ms.Environment(restore="lates"), "restore='lates'", "'latest'"),
    (lambda: ms.Environment(restore="latest_or_new"), "restore=", "'latest-or-new'"),
    (lambda: ms.Environment(state="rocks"), "state='rocks'", "'ms.RocksDB()'"),
    (lambda: ms.Environment(state="rocksdb"), "state='rocksdb'", "'ms.RocksDB()'"),
    (lambda: ms.Environment(state="Heap"), "state='Heap'", "'heap'"),
    (lambda: ms.RocksDB(memory="512mb"), "memory='512mb'", "'512MB'"),
    (lambda: ms.RocksDB(memory="512M"), "memory='512M'", "'512MiB'"),
    (lambda: ms.Snapshots("./s", every="10 secnds"), "every='10 secnds'", "'10 second'"),
    (lambda: ms.Snapshots("./s", timeout="10 minuts"), "timeout='10 minuts'", "'10 minute'"),
    (lambda: ms.Snapshots("./s", min_pause="1 hors"), "min_pause=", "'1 hour'"),
    (lambda: ms.Snapshots("./s", alignment_timeout="1 secnd"), "alignment_timeout=", "'1 second'"),
    (lambda: ms.Restart(window="10 mn"), "window='10 mn'", "'10 m"),
    (lambda: ms.Restart(backoff="1 milisecond"), "backoff=", "'1 millisecond'"),
    (lambda: ms.Restart(max_backoff="1 mintue"), "max_backoff=", "'1 minute'"),
    (lambda: ms.Watermark("at", delay="5 scs"), "delay=", "'5 s"),
    (lambda: ms.Watermark("at", idle="5 minuets"), "idle=", "'5 minute'"),
    (lambda: ms.ValueState("long", ttl="7 dys"), "ttl=", "'7 day'"),
    (lambda: ms.Ttl("1 day", update="raed"), "update='raed'", "'read'"),
    (lambda: ms.OperatorListState("long", redistribute="brodcast"), "'brodcast'", "'broadcast'"),
    (lambda: stream().key_by("custmer"), "'custmer'", "'customer'"),
    (lambda: stream().key_by("customer").aggregate(n=ms.sum("amuont")), "'amuont'", "'amount'"),
    (lambda: stream().filter(ms.col("Amount") > 5), "'Amount'", "'amount'"),
    (lambda: Files("a.csv", schema="n long", format="cvs"), "format='cvs'", "'csv'"),
    (lambda: Files("a.csv", schema="n long", malformed="sikp"), "malformed='sikp'", "'skip'"),
    (lambda: FileSink("./out", format="parqet"), "format='parqet'", "'parquet'"),
    (lambda: FileSink("./out", compression="zst"), "compression='zst'", "'zstd'"),
    (lambda: FileSink("./out", roll_bytes="128 Mib"), "roll_bytes=", "'128MiB'"),
    (lambda: ParquetSink("./out", compression="snapy"), "compression='snapy'", "'snappy'"),
    (lambda: Webhook("https://example.com", format="jsn"), "format='jsn'", "'json'"),
    (lambda: Webhook("https://example.com", timeout="30 secnds"), "timeout=", "'30 second'"),
    (lambda: kafka(start="earlist"), "start='earlist'", "'earliest'"),
    (lambda: kafka(until="last"), "until='last'", "'latest'"),
    (lambda: kafka(malformed="fial"), "malformed='fial'", "'fail'"),
    (lambda: postgres(poll="1 secnd"), "poll=", "'1 second'"),
    (lambda: postgres(malformed="asside"), "malformed='asside'", "'side'"),
    (lambda: open_storage("s3a://bucket/snapshots"), "s3a://", "'s3://'"),
    (lambda: open_storage("abfss://box@account/x"), "abfss://", "'az://'"),
    (lambda: open_storage("gcs://bucket/x"), "gcs://", "'gs://'"),
    (lambda: open_storage("s3:/bucket/x"), "'s3:/bucket/x'", "'s3://bucket/x'"),
    (lambda: open_existing("gs:bucket/x"), "'gs:bucket/x'", "'gs://bucket/x'"),
    (lambda: ms.Snapshots("s3:/bucket/x"), "'s3:/bucket/x'", "'s3://bucket/x'"),
    (lambda: ms.Snapshots(Path("s3://bucket/x")), "pathlib.Path drops", "'s3://bucket/x'"),
    (lambda: ms.Snapshots("az:/box/job"), "'az:/box/job'", "'az://box/job'"),
    (lambda: ms.Snapshots("s3:://box/x"), "'s3:://box/x'", "'s3://box/x'"),
    (lambda: ms.Snapshots("dbfs:/x"), "'dbfs:/x'", "'dbfs://x'"),
    (lambda: ms.Snapshots("file:/srv/x"), "'file:/srv/x'", "'file:///srv/x'"),
    (
        lambda: ms.Environment(restore="s3:/bucket/saved"),
        "'s3:/bucket/saved'",
        "'s3://bucket/saved'",
    ),
    (lambda: ms.HighAvailability("s3:/bucket/ha"), "'s3:/bucket/ha'", "'s3://bucket/ha'"),
    (lambda: Files("s3:/bucket/in", schema="n long"), "'s3:/bucket/in'", "'s3://bucket/in'"),
    (lambda: FileSink("s3:/bucket/out"), "'s3:/bucket/out'", "'s3://bucket/out'"),
    (lambda: ParquetSink("s3:/bucket/out"), "'s3:/bucket/out'", "'s3://bucket/out'"),
]


@pytest.mark.parametrize(
    ("write", "named", "meant"), TYPOS, ids=[f"{named} {meant}" for _, named, meant in TYPOS]
)
def test_a_misspelt_option_is_refused_with_what_was_meant(
    write: Callable[[], Any], named: str, meant: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MainstayError) as caught:
        write()
    message = str(caught.value)
    assert named in message
    assert f"Did you mean {meant}" in message


def test_the_url_of_a_store_that_is_not_known_is_refused_without_a_guess() -> None:
    with pytest.raises(MainstayError) as caught:
        open_storage("hdfs://host/x")
    message = str(caught.value)
    assert "hdfs:// is not supported" in message
    assert "Give a local path or a file://, s3://, gs:// or az:// URL" in message
    assert "Did you mean" not in message


def test_a_folder_whose_name_looks_like_a_url_can_be_named(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    open_storage("./s3:/bucket").write("a", b"1")
    assert (tmp_path / "s3:" / "bucket" / "a").read_bytes() == b"1"


@pytest.mark.parametrize("given", ["something else", None, 7, ""])
def test_nothing_is_suggested_for_what_is_close_to_nothing(given: Any) -> None:
    assert did_you_mean(given, ("latest", "new")) == ""
