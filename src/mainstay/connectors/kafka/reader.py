"""Reading one partition from an offset on.

The partition is assigned, not subscribed: nobody else decides who reads it. Transaction markers
take up offsets without being records, so the end of a bounded read is a position and not a record.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from mainstay.connectors.kafka.client import (
    ANSWER_S,
    KafkaSettings,
    Noted,
    load_confluent,
    meaning,
)
from mainstay.connectors.kafka.records import Records
from mainstay.errors import SourceError
from mainstay.runtime.connector import Polled, SplitReader, UnavailableError

QUIET_S = 0.01
LONGEST_QUIET_S = 0.05
"""How long a partition without records is left alone: longer and longer, but never long."""
PROBE_S = 5.0
"""After so long without a word the broker is asked whether it is there."""
FILLING_S = 0.02
"""How long to wait for a full poll where so many records are known to be there: many small polls
cost much more than a large one."""
MOST_RECORDS = 8192
"""How many records are taken at a time: of many more the first have left the processor's cache
before they are looked at."""
PACKED_RECORDS = 32
"""How many records that hold many rows are taken at a time."""

_OUT_OF_RANGE = ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")


class PartitionReader(SplitReader):
    """Nothing is opened before the first poll, which runs where waiting is allowed."""

    def __init__(
        self,
        settings: KafkaSettings,
        records: Records,
        topic: str,
        partition: int,
        position: int,
        end: int | None,
        find_end: Callable[[str, int], int] | None = None,
    ) -> None:
        self._settings = settings
        self._records = records
        self._topic = topic
        self._partition = partition
        self._position = position
        self._end = end
        self._find_end = find_end
        """Tells where a partition without an end has one for this start."""
        self._noted = Noted()
        self._consumer: Any = None
        self._place: Any = None
        self._quiet_s = QUIET_S
        self._heard_at = monotonic()

    def poll(self, max_rows: int) -> Polled:
        if self._find_end is not None and self._end is None:
            self._end = self._find_end(self._topic, self._partition)
            if self._end < self._position:
                self._open()  # which refuses a topic that was made anew
        goes_on = self._find_end is not None
        if self._is_at_end:
            return Polled(None, self._position, finished=True, goes_on=goes_on)
        if self._consumer is None:
            self._open()
        most = PACKED_RECORDS if self._records.value.packs_rows else MOST_RECORDS
        messages = self._take(min(max_rows, most))
        batch = None
        if messages:
            batch, skipped = self._records.rows_of(messages)
            self.skipped += skipped
        wait_s = self._wait_after(messages)
        return Polled(batch, self._position, self._is_at_end, wait_s, goes_on=goes_on)

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    # ------------------------------------------------------------ the consumer

    @property
    def _name(self) -> str:
        return f"{self._topic}-{self._partition}"

    @property
    def _is_at_end(self) -> bool:
        return self._end is not None and self._position >= self._end

    def _open(self) -> None:
        consumer = self._settings.consumer(
            self._noted,
            # The client insists on a group; nothing is ever stored under it.
            group_id="mainstay-unused",
            enable_auto_commit=False,
            enable_partition_eof=True,
            auto_offset_reset="error",
            isolation_level="read_committed",
            # The end of a bounded read is told by an answer that had nothing to wait for.
            fetch_wait_max_ms=500 if self._end is None else 50,
            queued_max_messages_kbytes=16_384,
        )
        self._check_range(consumer)
        self._place = load_confluent().TopicPartition(self._topic, self._partition, self._position)
        consumer.assign([self._place])
        self._consumer = consumer

    def _take(self, most: int) -> list[Any]:
        """The records that are there, up to the end; moves the position behind them."""
        kafka = load_confluent()
        try:
            messages: list[Any] = self._consumer.consume(most, self._patience_s(most))
        except kafka.KafkaException as error:
            raise self._broken(error) from error
        self._listen(bool(messages))
        # Errors compare with nothing but errors, so that their types are what is looked at.
        has_told = kafka.KafkaError in set(map(type, map(kafka.Message.error, messages)))
        if not messages or has_told or self._is_beyond(messages[-1]):
            return self._sorted_out(messages)
        self._position = messages[-1].offset() + 1
        return messages

    def _patience_s(self, most: int) -> float:
        """How long to wait for so many: not at all, unless they are known to be there."""
        low_and_high = self._consumer.get_watermark_offsets(self._place, cached=True)
        high = -1 if low_and_high is None else low_and_high[1]
        end = high if self._end is None else min(self._end, high)
        return FILLING_S if end - self._position >= most else 0.0

    def _is_beyond(self, message: Any) -> bool:
        return self._end is not None and message.offset() >= self._end

    def _sorted_out(self, messages: list[Any]) -> list[Any]:
        """The records among what the client gave: one at a time, for there is something else."""
        kafka = load_confluent()
        found: list[Any] = []
        for message in messages:
            told = message.error()
            if told is not None and told.code() != kafka.KafkaError._PARTITION_EOF:
                self._fail(told)
            if self._is_beyond(message):
                self._position = self._end or 0
                break
            if told is None:
                found.append(message)
                self._position = message.offset() + 1
            else:
                # The end so far, behind any markers.
                self._position = max(self._position, message.offset())
        return found

    def _listen(self, is_heard: bool) -> None:
        """Nothing comes where there is nothing, and where there is no broker: ask which it is."""
        now = monotonic()
        if not is_heard and now - self._heard_at > PROBE_S:
            self._watermarks(self._consumer)
        elif not is_heard:
            return
        self._heard_at = now

    def _wait_after(self, messages: list[Any]) -> float | None:
        if messages or self._is_at_end:
            self._quiet_s = QUIET_S
            return None
        wait_s, self._quiet_s = self._quiet_s, min(self._quiet_s * 1.5, LONGEST_QUIET_S)
        return wait_s

    # ------------------------------------------------------------ what goes wrong

    def _watermarks(self, consumer: Any) -> tuple[int, int]:
        kafka = load_confluent()
        place = kafka.TopicPartition(self._topic, self._partition)
        try:
            found = consumer.get_watermark_offsets(place, timeout=ANSWER_S / 2)
        except kafka.KafkaException as error:
            raise self._broken(error) from error
        if found is None:
            raise UnavailableError(f"no broker has answered for {self._name}")
        low, high = found
        return low, high

    def _check_range(self, consumer: Any) -> None:
        low, high = self._watermarks(consumer)
        if not low <= self._position <= high:
            raise SourceError(
                f"{self._name} (topic {self._topic!r}, partition {self._partition}) is to be read "
                f"from offset {self._position}, but the broker has only offsets {low} to {high}: "
                "records have expired, or the topic was created again. Have them kept for longer "
                "than the job may be down (retention.ms, retention.bytes); to go on without them, "
                "start the job afresh or with another uid for this source."
            )

    def _fail(self, error: Any) -> None:
        if error.name() in _OUT_OF_RANGE:
            self._check_range(self._consumer)
        raise self._broken(error)

    def _broken(self, error: Any) -> Exception:
        return meaning(error, f"{self._name} cannot be read", SourceError, self._noted)
