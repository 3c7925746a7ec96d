"""KafkaSource against a real broker: where reading starts and ends, and what a record becomes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

import mainstay as ms
from mainstay.connectors import Memory, Split
from mainstay.connectors.kafka import ArrowIpc, Json, KafkaSource, Raw
from mainstay.errors import GraphError, RestoreError, SourceError
from tests.drive.ledger import await_until
from tests.services.kafka import KafkaBroker

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("kafka")]

MakeTopic = Callable[..., str]
NUMBERS = Json("n long")
PATIENCE_S = 60.0


def numbers(*values: int) -> list[bytes]:
    return [b'{"n": %d}' % value for value in values]


def read(
    source: KafkaSource, split: Split, offset: Any = None, *, rows: int | None = None, most: int = 3
) -> tuple[list[dict[str, Any]], int, int]:
    """What a split gives to its end, or until there are so many rows; then where it is, and what
    was skipped."""
    reader = pickle.loads(pickle.dumps(source)).read(split, offset)
    found: list[dict[str, Any]] = []

    def has_all() -> bool:
        nonlocal offset
        polled = reader.poll(most)
        offset = polled.offset
        if polled.batch is not None:
            assert polled.batch.schema.equals(source.schema)
            found.extend(polled.batch.to_pylist())
        return polled.finished or (rows is not None and len(found) >= rows)

    await_until(has_all, "the partition is read", PATIENCE_S)
    reader.close()
    return found, offset, reader.skipped


def all_of(source: KafkaSource) -> list[dict[str, Any]]:
    return [row for split in source.plan(frozenset()) for row in read(source, split)[0]]


def in_transaction(broker: KafkaBroker, topic: str, values: list[bytes], *, commit: bool) -> None:
    settings = {"bootstrap.servers": broker.servers, "transactional.id": f"{topic}-{commit}"}
    producer = Producer(settings)
    producer.init_transactions(30.0)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.flush(30.0)
    producer.commit_transaction(30.0) if commit else producer.abort_transaction(30.0)


def test_a_bounded_read_ends_at_a_position_and_not_at_a_record(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic()
    broker.send(name, numbers(1, 2))
    in_transaction(broker, name, numbers(8, 9), commit=False)
    in_transaction(broker, name, numbers(3), commit=True)
    source = KafkaSource(broker.servers, name, value=NUMBERS, until="latest")
    (split,) = source.plan(frozenset())
    broker.send(name, numbers(100))
    assert source.bounded
    # Two records, two that are aborted with their marker, one with its marker.
    assert split == Split(f"{name}-0[0:7]", {"start": 0, "end": 7})
    rows, position, _ = read(source, split)
    assert [row["n"] for row in rows] == [1, 2, 3]
    assert position == 7
    assert read(source, split, position) == ([], 7, 0)
    assert [row["n"] for row in read(source, split, 1)[0]] == [2, 3]


def test_a_bounded_read_that_is_started_again_goes_on_from_its_end(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic(2)
    source = KafkaSource(broker.servers, name, value=NUMBERS, until="latest")
    broker.send(name, numbers(1, 2), partition=0)
    seen = frozenset(split.id for split in source.plan(frozenset()))
    assert source.plan(seen) == []
    broker.send(name, numbers(3), partition=0)
    broker.send(name, numbers(10), partition=1)
    second = source.plan(seen)
    assert [split.id for split in second] == [f"{name}-0[2:3]", f"{name}-1[0:1]"]
    assert [[row["n"] for row in read(source, split)[0]] for split in second] == [[3], [10]]
    seen |= {split.id for split in second}
    assert source.plan(seen) == []
    broker.send(name, numbers(4), partition=0)
    (third,) = source.plan(seen)
    assert [row["n"] for row in read(source, third)[0]] == [4]


def test_a_bounded_read_may_become_one_without_end(broker: KafkaBroker, topic: MakeTopic) -> None:
    name = topic()
    broker.send(name, numbers(1, 2))
    bounded = KafkaSource(broker.servers, name, value=NUMBERS, until="latest")
    seen = frozenset(split.id for split in bounded.plan(frozenset()))
    broker.send(name, numbers(3))
    endless = KafkaSource(broker.servers, name, value=NUMBERS, start="latest")
    (split,) = endless.plan(seen)
    assert split == Split(f"{name}-0", {"start": 2, "end": None})
    assert endless.plan(seen | {split.id}) == []
    assert bounded.plan(seen | {split.id}) == []


def test_a_read_without_end_may_become_a_bounded_one(broker: KafkaBroker, topic: MakeTopic) -> None:
    name = topic()
    broker.send(name, numbers(1, 2))
    endless = KafkaSource(broker.servers, name, value=NUMBERS)
    (split,) = endless.plan(frozenset())
    _, offset, _ = read(endless, split, rows=2)
    bounded = KafkaSource(broker.servers, name, value=NUMBERS, until="latest")
    assert bounded.plan(frozenset({split.id})) == []
    for new in ([3, 4], [], [5]):
        broker.send(name, numbers(*new))
        rows, offset, _ = read(bounded, split, offset)
        assert [row["n"] for row in rows] == new
        assert bounded.read(split, offset).poll(1).goes_on
    early = KafkaSource(broker.servers, name, value=NUMBERS, until={name: {0: 1}})
    assert read(early, split, offset) == ([], offset, 0)
    with pytest.raises(SourceError, match="the broker has only offsets 0 to 5"):
        read(bounded, split, 9)


def test_a_job_that_ran_without_until_is_started_again_with_it(
    broker: KafkaBroker, topic: MakeTopic, tmp_path: Path
) -> None:
    name, memory = topic(2), Memory()

    def started(until: str | None) -> Any:
        env = ms.Environment(
            spark="embedded",
            snapshots=ms.Snapshots(tmp_path, every="200ms"),
            restore="latest-or-new",
        )
        source = KafkaSource(broker.servers, name, value=NUMBERS, until=until)
        env.source(source, uid="numbers").sink(memory, uid="out")
        return env.start("turns")

    def runs_on_to(rows: int) -> None:
        job = started(None)
        await_until(lambda: len(memory.rows()) >= rows, "all rows have arrived", PATIENCE_S)
        job.stop(timeout=PATIENCE_S)

    broker.send(name, numbers(1, 2))
    runs_on_to(2)
    for number in (3, 4):
        broker.send(name, numbers(number), partition=1)
        assert started("latest").wait(PATIENCE_S) == "finished"
        assert sorted(memory.rows()) == [(n,) for n in range(1, number + 1)]
    broker.send(name, numbers(5))
    runs_on_to(5)
    assert sorted(memory.rows()) == [(n,) for n in range(1, 6)]


def test_a_topic_that_was_made_anew_is_refused(broker: KafkaBroker, topic: MakeTopic) -> None:
    name = topic()
    broker.send(name, numbers(1))
    source = KafkaSource(broker.servers, name, value=NUMBERS, until="latest")
    with pytest.raises(RestoreError, match=f"{name}-0 was read up to offset 9 and ends at 1 now"):
        source.plan(frozenset({f"{name}-0[0:9]"}))


def test_what_lies_in_an_open_transaction_is_not_read(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic()
    broker.send(name, numbers(1))
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": name})
    producer.init_transactions(30.0)
    producer.begin_transaction()
    producer.produce(name, numbers(2)[0])
    assert producer.flush(30.0) == 0
    source = KafkaSource(broker.servers, name, value=NUMBERS)
    (split,) = source.plan(frozenset())
    rows, position, _ = read(source, split, rows=1)
    assert [row["n"] for row in rows] == [1]
    producer.commit_transaction(30.0)
    assert [row["n"] for row in read(source, split, position, rows=1)[0]] == [2]


def test_where_to_start_is_decided_once_and_kept_with_the_split(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic(2, retention_ms="-1")
    broker.send(name, numbers(1, 2, 3), partition=0, timestamp=1_000_000)
    broker.send(name, numbers(4), partition=0, timestamp=2_000_000)

    def starts(start: Any) -> list[int]:
        source = KafkaSource(broker.servers, name, value=NUMBERS, start=start)
        return [split.data["start"] for split in source.plan(frozenset())]

    assert starts("earliest") == [0, 0]
    assert starts("latest") == [4, 0]
    assert starts({name: {0: 2}}) == [2, 0]
    assert starts(datetime.fromtimestamp(1_500, timezone.utc)) == [3, 0]
    assert starts(datetime.fromtimestamp(9_999_999, timezone.utc)) == [4, 0]


def test_a_partition_that_is_added_is_read_from_its_beginning(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic(1)
    broker.send(name, numbers(1, 2))
    source = KafkaSource(broker.servers, name, value=NUMBERS, start="latest")
    (first,) = source.plan(frozenset())
    assert first.data["start"] == 2
    broker.admin().create_partitions([NewPartitions(name, 2)])[name].result(30.0)
    seen = frozenset({first.id})
    added = await_until(lambda: source.plan(seen), "the partition is found", PATIENCE_S)
    broker.send(name, numbers(7), partition=1)
    assert [split.id for split in added] == [f"{name}-1"]
    assert [row["n"] for row in read(source, added[0], rows=1)[0]] == [7]
    assert source.plan(seen | {added[0].id}) == []


def test_offsets_that_have_expired_are_an_error_that_says_what_is_left(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic()
    broker.send(name, numbers(1, 2, 3))
    source = KafkaSource(broker.servers, name, value=NUMBERS, until="latest")
    (split,) = source.plan(frozenset())
    broker.admin().delete_records([TopicPartition(name, 0, 2)])
    await_until(lambda: source.plan(frozenset())[0].data["start"] == 2, "they are gone", PATIENCE_S)
    with pytest.raises(SourceError, match=rf"'{name}', partition 0.*offset 1,.*offsets 2 to 3"):
        source.read(split, 1).poll(10)


def test_keys_values_and_metadata_become_columns(broker: KafkaBroker, topic: MakeTopic) -> None:
    name = topic(retention_ms="-1")
    broker.send(name, [b"a", None], key=b"k", timestamp=1_700_000_000_123)
    broker.send(name, [b"b"])
    source = KafkaSource(
        broker.servers,
        name,
        value=Raw("body"),
        key=Raw("key", "string"),
        metadata={"offset": "at", "partition": "partition", "topic": "t", "timestamp": "sent"},
        until="latest",
    )
    sent = datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=timezone.utc)
    rows = all_of(source)
    assert [(row["key"], row["body"], row["at"]) for row in rows] == [
        ("k", b"a", 0),
        ("k", None, 1),
        (None, b"b", 2),
    ]
    assert rows[0]["sent"] == sent
    assert {(row["t"], row["partition"]) for row in rows} == {(name, 0)}


def test_a_record_may_hold_many_rows(broker: KafkaBroker, topic: MakeTopic) -> None:
    name = topic()
    packed = ArrowIpc(rows_per_record=3).encode(pa.record_batch({"n": range(5)}))
    broker.send(name, packed, key=b'{"k": 1}')
    source = KafkaSource(
        broker.servers, name, value=ArrowIpc("n long"), key=Json("k long"), until="latest"
    )
    assert [(row["k"], row["n"]) for row in all_of(source)] == [(1, n) for n in range(5)]


MIXED = [*numbers(0), b"{", *numbers(2), b'{"n": "x"}', *numbers(4)]


def test_a_record_that_does_not_fit_is_an_error_with_its_position(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic()
    broker.send(name, MIXED)
    source = KafkaSource(broker.servers, name, value=NUMBERS, until="latest")
    with pytest.raises(SourceError, match=rf"the record at {name}-0@1 does not fit"):
        all_of(source)


def test_a_record_that_does_not_fit_can_be_skipped_and_is_counted(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic()
    broker.send(name, MIXED)
    source = KafkaSource(broker.servers, name, value=NUMBERS, until="latest", malformed="skip")
    (split,) = source.plan(frozenset())
    rows, position, skipped = read(source, split)
    assert ([row["n"] for row in rows], position, skipped) == ([0, 2, 4], 5, 2)


@pytest.mark.parametrize("most", [1, 2, 100])
def test_a_record_that_does_not_fit_can_stay_in_its_place_however_polls_cut(
    broker: KafkaBroker, topic: MakeTopic, most: int
) -> None:
    name = topic()
    broker.send(name, MIXED)
    source = KafkaSource(broker.servers, name, value=NUMBERS, until="latest", malformed="side")
    assert source.malformed_column == "_malformed"
    (split,) = source.plan(frozenset())
    rows = read(source, split, most=most)[0]
    assert [row["n"] for row in rows] == [0, None, 2, None, 4]
    told = [row["_malformed"] for row in rows]
    assert [each and (each["position"], each["raw"]) for each in told] == [
        None,
        (f"{name}-0@1", b"{"),
        None,
        (f"{name}-0@3", b'{"n": "x"}'),
        None,
    ]


def test_a_topic_that_there_is_not_is_an_error(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstay.connectors.kafka.client.UNKNOWN_S", 0.5)
    source = KafkaSource(broker.servers, "no-such-topic", value=NUMBERS)
    with pytest.raises(SourceError, match=r"'no-such-topic'.*Create the topic"):
        source.plan(frozenset())


def test_a_broker_out_of_reach_is_no_error_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstay.connectors.kafka.client.ANSWER_S", 0.5)
    monkeypatch.setattr("mainstay.connectors.kafka.reader.ANSWER_S", 0.5)
    source = KafkaSource("127.0.0.1:1", "t", value=NUMBERS)
    with pytest.raises(ConnectionError, match="'t'"):
        source.plan(frozenset())
    with pytest.raises(ConnectionError, match="t-0"):
        source.read(Split("t-0", {"start": 0, "end": None}), None).poll(10)


def test_completed_offsets_are_shown_to_others_under_a_group(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic(2)
    broker.send(name, numbers(1, 2, 3), partition=0)
    source = KafkaSource(broker.servers, name, value=NUMBERS, until="latest", group=f"g-{name}")
    splits = source.plan(frozenset())
    seen = frozenset(split.id for split in splits)
    source.on_complete(seen, {f"{name}-0[0:3]": 2})
    assert broker.offsets_of_group(f"g-{name}") == {(name, 0): 2, (name, 1): 0}
    broker.send(name, numbers(4, 5), partition=0)
    seen |= {split.id for split in source.plan(seen)}
    source.on_complete(seen, {f"{name}-0[3:5]": None})
    assert broker.offsets_of_group(f"g-{name}") == {(name, 0): 3, (name, 1): 0}
    source.on_complete(seen, {})
    assert broker.offsets_of_group(f"g-{name}") == {(name, 0): 5, (name, 1): 0}


def test_arguments_are_checked_before_anything_runs() -> None:
    def refused(match: str, **options: Any) -> None:
        arguments = {"servers": "a:1", "topics": "t", "value": NUMBERS, **options}
        with pytest.raises(GraphError, match=match):
            KafkaSource(**arguments)

    refused("give a topic", topics=[])
    refused("say how bytes become columns", value="json")
    refused("does not say what columns", value=Json())
    refused("a key is one row", key=ArrowIpc("k long"))
    refused("'n' occur more than once", key=Json("n long"))
    refused("there is no 'time'", metadata=["time"])
    refused("must be one of 'fail'", malformed="ignore")
    refused('must be "earliest"', start="now")
    refused('must be "earliest"', until={"t": {0: -1}})
    refused("must not set 'group.id'", config={"group.id": "x"})
