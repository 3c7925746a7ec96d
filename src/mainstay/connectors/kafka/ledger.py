"""The ledger: which deliveries of a Kafka sink are done, kept by the brokers themselves.

A *page* of the ledger is for the deliveries that one subtask of one attempt has prepared. It is the
offset of a consumer group of the page's name, committed in the same transaction as the rows: either
both are there or neither. The page's name is also the ``transactional.id``, so a subtask that
opens a page ends the transaction of the one that had it open before, and what it then reads stays
true until it is fenced itself. Reading, deciding and writing are thus one act.

A page says: every epoch up to ``upto`` is done, and those in ``also``. The subtask that prepared
the deliveries has all of them and makes them in order, so it moves ``upto``. After a recovery they
may be spread over several subtasks, which may be done in any order, so those add to ``also``.
There are only as many as were not confirmed then: nothing is added to the page of an ended attempt.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from mainstay.connectors.bases.write_ahead import Delivery
from mainstay.connectors.kafka.client import ANSWER_S, load_confluent, meaning
from mainstay.errors import SinkError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Page:
    """What the ledger says of the deliveries of one subtask and attempt."""

    upto: int = 0
    also: frozenset[int] = frozenset()

    def has(self, epoch: int) -> bool:
        return epoch <= self.upto or epoch in self.also

    def with_own(self, epoch: int) -> Page:
        """After a delivery by the subtask that prepared it and has made all before it."""
        return Page(max(epoch, self.upto), frozenset(e for e in self.also if e > epoch))

    def with_other(self, epoch: int) -> Page:
        """After a delivery by somebody who cannot know of all before it."""
        return Page(self.upto, self.also | {epoch})

    def to_metadata(self) -> str:
        """What is stored beside the offset, which is ``upto``."""
        return json.dumps({"format": FORMAT, "also": sorted(self.also)}, separators=(",", ":"))

    @staticmethod
    def parse(offset: int, metadata: str | None, name: str) -> Page:
        """A page as it was stored. A group that has no offset yet is an empty page."""
        if offset < 0:
            return Page()
        try:
            stored = json.loads(metadata or "")
            if stored["format"] != FORMAT:
                raise SinkError(
                    f"the ledger {name!r} is in format {stored['format']}, which a newer Mainstay "
                    "has written. Run the job with that version."
                )
            return Page(offset, frozenset(stored["also"]))
        except (ValueError, KeyError, TypeError) as error:
            raise SinkError(
                f"the consumer group {name!r} is the ledger of a sink, but somebody else has "
                f"committed to it ({metadata!r}). Nobody but the sink may: what is delivered is no "
                "longer known."
            ) from error


def page_name(delivery: Delivery) -> str:
    """The name of the page that a delivery is on: its group and its ``transactional.id``."""
    return f"{delivery.owner}_a{delivery.attempt}_s{delivery.subtask}"


def read_page(consumer: Any, name: str, topic: str) -> Page:
    """The page that the group of a consumer stands for; it waits for open transactions."""
    kafka = load_confluent()
    try:
        (found,) = consumer.committed([kafka.TopicPartition(topic, 0)], timeout=ANSWER_S)
        if found.error is not None:
            raise kafka.KafkaException(found.error)
    except kafka.KafkaException as error:
        raise meaning(error, f"the ledger {name!r} cannot be read", SinkError) from error
    return Page.parse(found.offset, found.metadata, name)


def entry(page: Page, topic: str) -> Any:
    """A page as the offset that is to be committed."""
    return load_confluent().TopicPartition(topic, 0, page.upto, metadata=page.to_metadata())
