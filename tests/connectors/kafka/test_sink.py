"""KafkaSink against a real broker: what is delivered once, by whom, and what is refused."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("confluent_kafka")

from mainstay.connectors import SinkContext
from mainstay.connectors.kafka import ArrowIpc, Json, KafkaSink, Raw
from mainstay.connectors.kafka.channel import Channel
from mainstay.errors import FencedError, GraphError, SinkError
from tests.drive.ledger import await_until
from tests.services.kafka import KafkaBroker
from tests.sinks import prepare, write

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("kafka")]

MakeTopic = Callable[..., str]


class Worker:
    """A sink as one worker of one attempt has it."""

    def __init__(self, broker: KafkaBroker, topic: str, attempt: int, **options: Any) -> None:
        sink = KafkaSink(broker.servers, topic, **options)
        self.sink: KafkaSink = pickle.loads(pickle.dumps(sink))
        # The lineage is the topic: no two tests share a ledger.
        self.writer = self.sink.open(SinkContext("out", 0, attempt, topic))

    def handle(self, epoch: int, *ids: int) -> bytes:
        write(self.writer, pa.record_batch({"id": pa.array(ids, pa.int64())}))
        handle = prepare(self.writer, epoch)
        assert handle is not None
        return handle


def ids(broker: KafkaBroker, topic: str, partitions: int = 1) -> list[int]:
    return [json.loads(each.value())["id"] for each in broker.committed(topic, partitions)]


def test_a_handle_is_delivered_once_however_often_and_by_whomever_it_is_committed(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic()
    first, second = Worker(broker, name, 1), Worker(broker, name, 2)
    one, two = first.handle(1, 10, 11), first.handle(2, 12)
    first.sink.commit([one])
    first.sink.commit([one, two])
    second.sink.commit([one, two])
    assert ids(broker, name) == [10, 11, 12]


def test_a_transaction_that_was_left_open_is_ended_and_its_rows_are_sent_again(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    first, second = Worker(broker, name, 1), Worker(broker, name, 2)
    handle = first.handle(1, 10, 11)
    with monkeypatch.context() as patch:
        patch.setattr(Channel, "_commit", _die)
        with pytest.raises(KeyboardInterrupt):
            first.sink.commit([handle])
    assert len(broker.uncommitted(name)) == 2
    second.sink.commit([handle])
    assert ids(broker, name) == [10, 11]


def _die(*_: Any) -> None:
    raise KeyboardInterrupt


def test_a_worker_of_an_attempt_that_was_given_up_is_fenced(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic()
    zombie, successor = Worker(broker, name, 1), Worker(broker, name, 2)
    one, two, three = (zombie.handle(epoch, epoch) for epoch in (1, 2, 3))
    zombie.sink.commit([one])
    successor.sink.commit([two])
    # What its successor has delivered is done, and is found to be.
    zombie.sink.commit([one, two])
    zombie.sink.commit([three])
    successor.sink.commit([three])
    four = zombie.handle(4, 4)
    with pytest.raises(FencedError, match="another worker has taken over"):
        zombie.sink.commit([four])
    successor.sink.commit([four])
    assert ids(broker, name) == [1, 2, 3, 4]


def test_handles_that_a_rescale_has_spread_are_delivered_in_any_order(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic()
    gone = Worker(broker, name, 1)
    one, two, three, four = (gone.handle(epoch, epoch) for epoch in (1, 2, 3, 4))
    gone.sink.commit([one])
    left, right = Worker(broker, name, 2), Worker(broker, name, 2)
    right.sink.commit([four])
    left.sink.commit([two])
    right.sink.commit([three, four])
    for worker in (Worker(broker, name, 3), left, right):
        worker.sink.commit([one, two, three, four])
    assert ids(broker, name) == [1, 4, 2, 3]


def test_a_handle_goes_to_the_topic_that_it_was_prepared_for(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    old, new = topic(), topic()
    handle = Worker(broker, old, 1).handle(1, 7)
    Worker(broker, new, 2).sink.commit([handle])
    assert ids(broker, old) == [7]
    assert ids(broker, new) == []


def test_equal_keys_go_where_the_java_client_puts_them(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic(4)
    worker = Worker(broker, name, 1, key="id")
    worker.sink.commit([worker.handle(1, *range(20), *range(20))])
    found = broker.committed(name, 4)
    places = {each.key(): each.partition() for each in found}
    assert len(found) == 40
    assert all(places[each.key()] == each.partition() for each in found)
    assert len(set(places.values())) > 1
    assert {key: places[key] for key in (b"0", b"1", b"2")} == {
        key: _murmur2(key) % 4 for key in (b"0", b"1", b"2")
    }


def _murmur2(data: bytes) -> int:
    """The positive hash of Kafka's own partitioner, for keys of fewer than four bytes."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    for shift, byte in reversed(list(enumerate(data))):
        h ^= byte << (8 * shift)
    h = h * m & mask
    h ^= h >> 13
    h = h * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def test_many_rows_may_go_into_one_record(broker: KafkaBroker, topic: MakeTopic) -> None:
    name = topic()
    worker = Worker(broker, name, 1, value=ArrowIpc(rows_per_record=3))
    worker.sink.commit([worker.handle(1, 1, 2, 3, 4)])
    tables = [pa.ipc.open_stream(each.value()).read_all() for each in broker.committed(name)]
    assert [table.column("id").to_pylist() for table in tables] == [[1, 2, 3], [4]]


def test_without_transactions_rows_are_written_as_they_come(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    name = topic()
    worker = Worker(broker, name, 1, transactional=False)
    write(worker.writer, pa.record_batch({"id": [1, 2]}))
    assert ids(broker, name) == [1, 2]
    assert prepare(worker.writer, 1) is None


def test_what_a_broker_refuses_is_an_error_that_says_what_to_do(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstay.connectors.kafka.client.UNKNOWN_S", 0.5)
    small = topic(max_message_bytes="1000")
    worker = Worker(broker, small, 1, value=ArrowIpc())
    with pytest.raises(SinkError, match=r"MSG_SIZE_TOO_LARGE.*max\.message\.bytes of the topic"):
        worker.sink.commit([worker.handle(1, *range(1000))])
    absent = Worker(broker, "no-such-topic", 1)
    with pytest.raises(SinkError, match=r"'no-such-topic'.*Create the topic"):
        absent.sink.commit([absent.handle(1, 1)])
    patient = Worker(broker, topic(), 1, config={"transaction.timeout.ms": 10_000_000})
    with pytest.raises(SinkError, match=r"10000000 is more.*transaction\.max\.timeout\.ms=900000"):
        patient.sink.commit([patient.handle(1, 1)])


def test_a_delivery_that_takes_longer_than_its_transaction_may_is_an_error_that_says_so(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    worker = Worker(broker, name, 1, config={"transaction.timeout.ms": 1000})
    commit = Channel._commit

    def late(self: Channel, *args: Any) -> None:
        # A marker follows the row once the broker has given the transaction up.
        await_until(lambda: broker.end_of(name) > 1, "the broker has aborted it", 60.0)
        commit(self, *args)

    monkeypatch.setattr(Channel, "_commit", late)
    with pytest.raises(SinkError, match=r"Raise transaction\.timeout\.ms"):
        worker.sink.commit([worker.handle(1, 1)])
    assert ids(broker, name) == []


def test_a_broker_out_of_reach_is_no_error_of_the_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstay.connectors.kafka.client.ANSWER_S", 0.5)
    sink = KafkaSink("127.0.0.1:1", "t")
    writer = sink.open(SinkContext("out", 0, 1, "job"))
    write(writer, pa.record_batch({"id": [1]}))
    handle = prepare(writer, 1)
    assert handle is not None
    with pytest.raises(ConnectionError, match="'t'"):
        sink.commit([handle])


def test_arguments_are_checked_before_anything_runs() -> None:
    with pytest.raises(GraphError, match="name at least one server"):
        KafkaSink("", "t")
    with pytest.raises(GraphError, match="give the name of a topic"):
        KafkaSink("a:1", "")
    with pytest.raises(GraphError, match=r"must not set 'transactional\.id'"):
        KafkaSink("a:1", "t", config={"transactional.id": "x"})
    with pytest.raises(GraphError, match="no one key"):
        KafkaSink("a:1", "t", value=ArrowIpc(), key="id")
    with pytest.raises(GraphError, match="must be a number of at least 1000"):
        KafkaSink("a:1", "t", config={"transaction.timeout.ms": "1s"})
    with pytest.raises(GraphError, match=r"value=Json\(\)"):
        KafkaSink("a:1", "t", value="json")  # type: ignore[arg-type]
    assert KafkaSink(["a:1", "b:2"], "t", value=Raw("v")).settings.servers == "a:1,b:2"
    assert isinstance(KafkaSink("a:1", "t").value, Json)
