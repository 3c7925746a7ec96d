"""A channel: a producer with a page of the ledger, through which deliveries are made once each.

A channel that has failed in any way is not used again. The next one of its name
waits until the brokers have ended what it began, and then reads what has become of it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from mainstay.connectors.kafka.client import (
    ANSWER_S,
    KafkaSettings,
    Noted,
    broker_setting,
    is_fenced,
    load_confluent,
    meaning,
    partitions_of,
)
from mainstay.connectors.kafka.ledger import Page, entry, read_page
from mainstay.errors import FencedError, SinkError
from mainstay.runtime.connector import UnavailableError

TIMEOUT_SETTING = "transaction.timeout.ms"
TIMEOUT_MS = 60_000
_ANY_PARTITION = -1
Record = tuple[bytes | None, bytes | None]


class Channel:
    """One transactional producer, for what one subtask of one attempt has prepared.

    ``is_own`` says that it is this very subtask and attempt. ``lock`` is for the threads of a
    process that share the channel.
    """

    def __init__(self, settings: KafkaSettings, topic: str, name: str, is_own: bool) -> None:
        self.name = name
        self.topic = topic
        self.is_own = is_own
        self.lock = threading.Lock()
        self.is_broken = False
        self._settings = settings
        self._noted = Noted()
        self._timeout_ms = int(settings.config.get(TIMEOUT_SETTING, TIMEOUT_MS))
        self._producer: Any = None
        self._reader: Any = None
        self._page = Page()

    def deliver(self, records: Sequence[Record], epoch: int) -> None:
        """Send records in one transaction, unless the ledger says that it was done."""
        kafka = load_confluent()
        began_at = monotonic()
        try:
            if self._producer is None or self._has_lost_connection():
                self._open()
                began_at = monotonic()
            if self._page.has(epoch):
                return
            page = self._page.with_own(epoch) if self.is_own else self._page.with_other(epoch)
            self._send(records)
            self._commit(page)
        except kafka.KafkaException as error:
            self.is_broken = True
            self._explain(error, epoch, monotonic() - began_at)
        except BaseException:
            self.is_broken = True
            raise

    # ------------------------------------------------------------ opening

    def _has_lost_connection(self) -> bool:
        """Whether a new producer is needed: one that has seen its broker go and come back may wait
        for ever in ``send_offsets_to_transaction``, whatever its timeout is."""
        self._producer.poll(0)
        return self._noted.is_cut

    def _open(self) -> None:
        """End what others have begun under this name, then read what they have finished."""
        self._noted = Noted()
        self._producer = self._settings.producer(
            self._noted,
            transactional_id=self.name,
            transaction_timeout_ms=TIMEOUT_MS,
            # The partitioner of the Java client: equal keys go where other programs put them.
            partitioner="murmur2_random",
            linger_ms=5,
            compression_type="lz4",
            socket_timeout_ms=min(self._timeout_ms, int(ANSWER_S * 1000)),
        )
        partitions_of(self._producer, self.topic, SinkError, self._noted)
        self._producer.init_transactions(self._timeout_ms / 1000)
        self._reader = self._open_reader()
        self._page = read_page(self._reader, self.name, self.topic)

    def _open_reader(self) -> Any:
        return self._settings.consumer(
            self._noted,
            group_id=self.name,
            enable_auto_commit=False,
            isolation_level="read_committed",
        )

    # ------------------------------------------------------------ one transaction

    def _send(self, records: Sequence[Record]) -> None:
        self._producer.begin_transaction()
        # The commit says what becomes of single records.
        queue_all(self._producer, self.topic, records)
        flush(self._producer, self.topic, self._timeout_ms / 1000)

    def _commit(self, page: Page) -> None:
        group = self._reader.consumer_group_metadata()
        self._producer.send_offsets_to_transaction([entry(page, self.topic)], group, ANSWER_S)
        self._producer.commit_transaction(self._timeout_ms / 1000)
        self._page = page

    # ------------------------------------------------------------ what goes wrong

    def _explain(self, error: Any, epoch: int, took_s: float) -> None:
        """Raise what the error means, unless it turns out that the delivery is done."""
        what = f"epoch {epoch} cannot be delivered to topic {self.topic!r} as {self.name!r}"
        if is_fenced(error):
            self._explain_fenced(error, epoch, what, took_s)
            return
        if error.args[0].name() == "INVALID_TRANSACTION_TIMEOUT":
            most = broker_setting(self._settings.admin(Noted()), "transaction.max.timeout.ms")
            raise SinkError(
                f"{what}: {TIMEOUT_SETTING}={self._timeout_ms} is more than the brokers allow "
                f"(transaction.max.timeout.ms={most or 'unknown'}). Lower the former in config=, "
                "or raise the latter on the brokers."
            ) from error
        # An open transaction would keep others from reading on until it times out.
        if self._producer is not None:
            with suppress(load_confluent().KafkaException):
                self._producer.abort_transaction(ANSWER_S)
        raise meaning(error, what, SinkError, self._noted) from error

    def _explain_fenced(self, error: Any, epoch: int, what: str, took_s: float) -> None:
        if self._reader is not None and read_page(self._reader, self.name, self.topic).has(epoch):
            return
        if took_s * 1000 >= self._timeout_ms:
            late = SinkError(
                f"{what}: it took {took_s:.0f} s, and the brokers gave it up after "
                f"{self._timeout_ms / 1000:.0f} s. Raise {TIMEOUT_SETTING} in config=, or take "
                "snapshots more often."
            )
            # The next attempt delivers the same again, and may find the brokers less busy.
            late.is_final = False
            raise late from error
        if self.is_own:
            raise FencedError(
                f"{what}: another worker has taken over, because this attempt was given up."
            ) from error
        # What an earlier attempt prepared may lie with several workers of this one.
        raise UnavailableError(f"{what}: another worker was at it at the same time") from error


def queue_all(
    producer: Any, topic: str, records: Sequence[Record], on_delivery: Any = None
) -> None:
    """Give records to a producer, at the pace at which the brokers take them."""
    produce = producer.produce  # by position: names cost as much as the call
    for key, value in records:
        while True:
            try:
                if on_delivery is None:
                    produce(topic, value, key)
                else:
                    produce(topic, value, key, _ANY_PARTITION, on_delivery)
                break
            except BufferError:
                producer.poll(0.1)


def flush(producer: Any, topic: str, patience_s: float) -> None:
    """Wait until the brokers have everything, or have refused it."""
    left = producer.flush(patience_s)
    if left:
        raise UnavailableError(
            f"topic {topic!r}: {left} records were not taken within {patience_s:.0f} s"
        )
