"""No connector, setting or error shows a password, whichever way it was given."""

from __future__ import annotations

import logging
import pickle
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mainstay as ms
from mainstay.cli import main as cli
from mainstay.connectors import Memory
from mainstay.connectors.bases.write_ahead import Delivery
from mainstay.connectors.formats.records import Json
from mainstay.connectors.webhook import Webhook
from mainstay.errors import GraphError, SavepointError, SnapshotStorageError
from mainstay.schema import rows_to_batch, to_schema
from mainstay.snapshot.object_storage import ObjectStorage, open_existing, open_storage
from tests.drive.ledger import PATIENCE_S, Ids, await_until
from tests.sinks import recovery

SECRET = "hunter2-S3CRET"


def shown(error: BaseException) -> str:
    """All that a log or a terminal shows of an error."""
    return f"{error} {error!r} {''.join(traceback.format_exception(error))}"


def raised_by(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        # The tests' own lines are in the traceback too, and name no secret.
        return shown(error)
    raise AssertionError("nothing was raised")


# ---------------------------------------------------------------- PostgreSQL

URI = f"postgresql://app:{SECRET}@127.0.0.1:1/shop"
PAIRS = f"host=127.0.0.1 port=1 user=app password='{SECRET}' dbname=shop"
MALFORMED = [
    f"postgresql://app:{SECRET}@127.0.0.1/shop?nonsense=1",
    f"postgresql://app:{SECRET}@[::1/shop",
    f"postgresql://app:{SECRET}%zz@h/shop",
    f"postgresql://app:a@{SECRET}@h/shop",
    f"postgresql://app:a/{SECRET}@h/shop",
    f"postgresql://app:{SECRET}/b@h/shop",
    f"postgresql://app:a b{SECRET}@h/shop",
    f"host=h password=a {SECRET}",
    f"host=h password='{SECRET}",
    f"host=h passwort={SECRET}",
    f"host=h port={SECRET}",
    f"host=h {SECRET}=x",
    SECRET,
]


def connectors_of(dsn: str) -> list[Callable[[], Any]]:
    postgres = pytest.importorskip("mainstay.connectors.postgres")
    pytest.importorskip("psycopg")
    return [
        lambda: postgres.PostgresSink(dsn, "t"),
        lambda: postgres.PostgresUpsertSink(dsn, "t", key="k"),
        lambda: postgres.PostgresSource(dsn, "t", schema="k long", column="k"),
    ]


@pytest.mark.parametrize("dsn", MALFORMED)
def test_a_connection_string_that_is_refused_is_not_shown(dsn: str) -> None:
    for make in connectors_of(dsn):
        told = raised_by(make)
        assert SECRET not in told
        assert "connection string cannot be understood" in told


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=4),
    st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=4),
    st.sampled_from(["postgresql://app:{}@h/d", "host=h password={}", "host=h password='{}'"]),
)
def test_no_part_of_a_password_is_shown_whatever_is_in_it(a: str, b: str, form: str) -> None:
    make = connectors_of(form.format(f"{a}{SECRET}{b}"))[0]
    try:
        told = f"{make().server!r} {make().server}"
    except GraphError as error:
        told = shown(error)
    assert SECRET not in told


def test_something_else_in_the_place_of_a_connection_string_is_not_shown() -> None:
    for make in connectors_of({"password": SECRET}):  # type: ignore[arg-type]
        assert SECRET not in raised_by(make)


@pytest.mark.parametrize("dsn", [URI, PAIRS])
def test_postgres_connectors_show_no_password(dsn: str) -> None:
    for make in connectors_of(dsn):
        connector = make()
        copy = pickle.loads(pickle.dumps(connector))
        for each in (connector, copy, connector.server, copy.server):
            assert SECRET not in f"{each!r} {each}"


@pytest.mark.parametrize("dsn", [URI, PAIRS])
def test_a_postgres_server_that_is_away_is_named_without_the_password(dsn: str) -> None:
    append, upsert, source = (make() for make in connectors_of(dsn))
    calls: list[Callable[[], Any]] = [
        lambda: append.recover(recovery(1)),
        lambda: upsert.recover(recovery(1)),
        lambda: source.plan(frozenset()),
    ]
    for call in calls:
        told = raised_by(call)
        assert SECRET not in told
        assert "database 'shop' at 127.0.0.1:1" in told


def test_a_job_says_what_it_waits_for_without_the_password(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(tmp_path, every="100ms"))
    sink = connectors_of(URI)[1]()
    env.source(Ids(10, 1_000.0), uid="ids").sink(sink, uid="out")
    assert SECRET not in env.explain()
    with caplog.at_level(logging.DEBUG):
        job = env.start("secrets")
        problems = await_until(job.problems, "the job says what it waits for")
        job.cancel()
    assert "127.0.0.1" in str(problems)
    assert SECRET not in f"{problems} {problems!r} {caplog.text} {job!r}"
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert stored
    assert all(SECRET.encode() not in data for data in stored)


# ---------------------------------------------------------------- Kafka

KAFKA = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "app",
    "sasl.password": SECRET,
}


def kafka_connectors(**more: Any) -> list[Any]:
    pytest.importorskip("confluent_kafka")
    from mainstay.connectors.kafka import KafkaSink, KafkaSource

    config = {**KAFKA, **more}
    value = Json("id long")
    return [
        KafkaSource("127.0.0.1:1", "t", value=value, config=config),
        KafkaSink("127.0.0.1:1", "t", value=value, config=config),
    ]


def test_kafka_connectors_show_no_password() -> None:
    for connector in kafka_connectors():
        told = f"{connector!r} {connector} {connector.settings!r} {connector.settings}"
        assert SECRET not in told
        assert "'sasl.username': 'app'" in told


@pytest.mark.parametrize(
    "wrong",
    [
        {"nonsense": SECRET},
        {"ssl.key.pem": SECRET, "security.protocol": "SSL"},
        {"security.protocol": f"nonsense-password={SECRET}"},
    ],
)
def test_settings_that_kafka_refuses_are_an_error_at_once_without_the_password(
    wrong: dict[str, Any],
) -> None:
    source, _ = kafka_connectors(**wrong)
    with pytest.raises(GraphError, match="Correct config=") as raised:
        source.plan(frozenset())
    assert SECRET not in shown(raised.value)


# ---------------------------------------------------------------- webhooks


def delivery() -> Delivery:
    rows = rows_to_batch([(1,)], to_schema("id long"), "a test")
    return Delivery("job", "out", 1, 0, 1, pa.Table.from_batches([rows]))


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("http://127.0.0.1:1/orders", {"Authorization": f"Bearer {SECRET}"}),
        (f"http://127.0.0.1:1/orders?token={SECRET}", {}),
        (f"http://127.0.0.1:1/orders?{SECRET}", {}),
        ("http://127.0.0.1:1/hooks/hunter2S3CRETabcdefgh1234", {}),
    ],
)
def test_a_webhook_shows_no_token(url: str, headers: dict[str, str]) -> None:
    sink = Webhook(url, headers=headers)
    told = raised_by(lambda: sink.deliver(delivery()))
    for secret in (SECRET, "hunter2S3CRET"):
        assert secret not in f"{sink!r} {told}"


def test_a_webhook_with_a_password_in_its_url_is_refused_without_showing_it() -> None:
    assert SECRET not in raised_by(lambda: Webhook(f"https://u:{SECRET}@h/x"))
    assert SECRET not in raised_by(lambda: Webhook(f"ftp://u:{SECRET}@h/x"))
    assert SECRET not in raised_by(lambda: Webhook(f"u:{SECRET}@h/x?token={SECRET}"))
    assert SECRET not in raised_by(lambda: Webhook("https://h/x", headers={"a": SECRET, "b": 1}))  # type: ignore[dict-item]


# ---------------------------------------------------------------- storage

PLACE = f"s3://key:{SECRET}@bucket/snapshots"


@pytest.mark.parametrize("place", [PLACE, f"az://key:{SECRET}@c/x", f"file://u:{SECRET}@h/x"])
def test_a_storage_url_with_a_password_is_refused_without_showing_it(place: str) -> None:
    for opened in (open_storage, open_existing):
        with pytest.raises(SnapshotStorageError, match="environment") as raised:
            opened(place)
        assert SECRET not in shown(raised.value)


def test_options_with_such_a_url_are_refused_when_they_are_made(tmp_path: Path) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: ms.Snapshots(PLACE),
        lambda: ms.Environment(
            spark="embedded", snapshots=ms.Snapshots(tmp_path), restore=f"{PLACE}#3"
        ),
    ]
    for call in calls:
        with pytest.raises(GraphError, match="environment") as raised:
            call()
        assert SECRET not in shown(raised.value)


def test_the_command_line_refuses_such_a_url(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["mainstay", "snapshots", PLACE])
    with pytest.raises(SystemExit) as raised:
        cli()
    captured = capsys.readouterr()
    told = f"{raised.value} {captured.out} {captured.err}"
    assert SECRET not in told
    assert "s3://key:***@bucket/snapshots" in told


def test_a_savepoint_at_such_a_url_is_refused(tmp_path: Path) -> None:
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(tmp_path, every="100ms"))
    env.source(Ids(10_000, 1_000.0), uid="ids").sink(Memory(), uid="out")
    job = env.start("secrets")
    try:
        for call in (job.savepoint, job.stop):
            with pytest.raises(SavepointError, match="environment") as raised:
                call(PLACE, timeout=PATIENCE_S)
            assert SECRET not in shown(raised.value)
    finally:
        job.cancel()


def test_a_delta_table_is_refused_with_a_password_and_shows_no_options() -> None:
    pytest.importorskip("deltalake")
    from mainstay.connectors.delta.sink import DeltaSink

    assert SECRET not in raised_by(lambda: DeltaSink(PLACE))
    sink = DeltaSink("s3://bucket/t", storage_options={"AWS_SECRET_ACCESS_KEY": SECRET})
    assert SECRET not in f"{sink!r} {sink}"


def test_what_a_store_says_is_shown_without_passwords() -> None:
    storage = ObjectStorage(None, "memory://")  # type: ignore[arg-type]
    message = storage._message("read", "x", OSError(f"GET https://u:{SECRET}@h/x failed"))
    assert SECRET not in message


# ---------------------------------------------------------------- specs


def test_the_spec_of_a_job_shows_no_secret(tmp_path: Path) -> None:
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(tmp_path))
    ids = env.source(Ids(10, 1_000.0), uid="ids")
    sinks = [make() for make in connectors_of(URI)[:2]]
    sinks.append(Webhook("http://h/x", headers={"Authorization": SECRET}))
    sinks += kafka_connectors()[1:]
    for number, sink in enumerate(sinks):
        ids.sink(sink, uid=f"out-{number}")
    assert SECRET not in f"{env!r} {env.explain()} {env.plan()!r}"
