"""Kafka topics as a source: a split is a partition, its offset that of the next record.

::

    KafkaSource("localhost:9092", "orders", value=Json("customer string, amount long"))
    KafkaSource(servers, ["a", "b"], value=Raw(), key=Raw("key", "string"), start="latest")
    KafkaSource(servers, "orders", value=Json(schema), until="latest")      # a bounded job

Where a partition is read from and to is decided once, when it is planned, and kept with the split:
"latest" is the same place after a restart. Offsets are part of the job's snapshots; a consumer
group is not needed, and one that is named (``group=``) only shows others how far the job is.

With ``until`` a split is a range of a partition. A job that has finished, or was stopped, and is
started again reads on from the end of that range to where ``until`` is then; without ``until`` it
goes on from there for ever. A job that ran without ``until`` may be started with it, too: it then
ends where ``until`` is when the partition is opened.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from mainstay.connectors.formats.malformed import Malformed
from mainstay.connectors.formats.records import Format
from mainstay.connectors.kafka.client import (
    KafkaSettings,
    Noted,
    load_confluent,
    meaning,
    offsets_of,
    partitions_of,
)
from mainstay.connectors.kafka.reader import PartitionReader
from mainstay.connectors.kafka.records import METADATA, Records
from mainstay.errors import GraphError, RestoreError, SourceError
from mainstay.own_frames import made_with_own_frames
from mainstay.runtime.connector import Json, Source, Split, SplitReader
from mainstay.spelling import did_you_mean

Place = tuple[str, int]
_OURS = ("group.id", "enable.auto.commit", "enable.partition.eof", "auto.offset.reset")


@made_with_own_frames
class KafkaSource(Source):
    """Rows of the records of topics.

    ``value`` and ``key`` say how bytes become columns; without ``key`` keys are not looked at.
    ``start`` and ``until`` are "earliest" or "latest", a datetime (the first record of that time or
    later), or offsets as ``{"orders": {0: 42}}``; with ``until`` the source is bounded. A partition
    that ``start`` does not name, or that is added while the job runs, is read from its beginning.
    ``metadata`` names columns to add: any of "topic", "partition", "offset" and "timestamp", or a
    mapping of these to other names. ``replan_s`` is how often new partitions are looked for.
    """

    may_block = True
    new_input = "records after those it has read, up to where until= is now"

    def __init__(
        self,
        servers: str | Sequence[str],
        topics: str | Sequence[str],
        *,
        value: Format,
        key: Format | None = None,
        start: Any = "earliest",
        until: Any = None,
        metadata: Sequence[str] | Mapping[str, str] = (),
        malformed: str = "fail",
        group: str | None = None,
        replan_s: float | None = 30.0,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings = KafkaSettings.checked("KafkaSource", servers, config, _OURS)
        self.topics = [topics] if isinstance(topics, str) else list(topics)
        if not self.topics or not all(isinstance(topic, str) and topic for topic in self.topics):
            raise GraphError(f"KafkaSource(topics={topics!r}): give a topic or a list of topics.")
        Malformed.check(malformed, "KafkaSource")
        self.start = _checked("start", start)
        self.until = None if until is None else _checked("until", until)
        self.records = Records(value, key, _names_of(metadata), malformed)
        self.schema: pa.Schema = self.records.schema
        self.malformed_column = Malformed.column_of(malformed)
        self.group = group
        self.bounded = until is not None
        self.replan_s = replan_s
        self._reporter: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reporter": None}

    # ------------------------------------------------------------ planning

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        noted = Noted()
        admin = self.settings.admin(noted)
        known = {_place_of(id)[0] for id in seen}
        reached = _reached(seen)
        places = [
            (topic, partition)
            for topic in self.topics
            for partition in partitions_of(admin, topic, SourceError, noted)
            if _id_of(topic, partition) not in seen
        ]
        ends = (
            {} if self.until is None else _resolved(admin, self.until, places, noted, is_end=True)
        )
        _check_reached(reached, ends if self.until == "latest" else {})
        # What is new in a topic that is read already was added since: nothing of it is old.
        added = [place for place in places if place[0] in known and place not in reached]
        fresh = [place for place in places if place not in added and place not in reached]
        starts = _resolved(admin, self.start, fresh, noted)
        starts |= _resolved(admin, "earliest", added, noted)
        starts |= {place: reached[place] for place in places if place in reached}
        return [
            _split(place, starts[place], ends.get(place))
            for place in places
            if place not in reached or place not in ends or ends[place] > reached[place]
        ]

    def read(self, split: Split, offset: Json | None) -> SplitReader:
        topic, partition = _place_of(split.id)
        start, end = split.data["start"], split.data["end"]
        position = start if offset is None else offset
        find_end = None if self.until is None or end is not None else self._end_of
        return PartitionReader(
            self.settings, self.records, topic, partition, position, end, find_end
        )

    def _end_of(self, topic: str, partition: int) -> int:
        """Where ``until`` is now, for a partition that was to be read for ever."""
        noted, place = Noted(), (topic, partition)
        return _resolved(self.settings.admin(noted), self.until, [place], noted, is_end=True)[place]

    # ------------------------------------------------------------ telling others

    def on_complete(self, seen: frozenset[str], unfinished: Mapping[str, Json]) -> None:
        """Commit how far the job is to the group, where one is named, for people to see."""
        if self.group is None:
            return
        reached = _reached(seen.difference(unfinished))
        for id, offset in unfinished.items():
            if offset is not None:
                place = _place_of(id)
                reached[place] = max(offset, reached.get(place, 0))
        kafka = load_confluent()
        offsets = [
            kafka.TopicPartition(*place, offset) for place, offset in sorted(reached.items())
        ]
        if not offsets:
            return
        if self._reporter is None:
            self._reporter = self.settings.consumer(
                Noted(), group_id=self.group, enable_auto_commit=False
            )
        try:
            self._reporter.commit(offsets=offsets, asynchronous=False)
        except kafka.KafkaException as error:
            what = f"the offsets of the group {self.group!r} cannot be committed"
            raise meaning(error, what, SourceError) from error


def partition_split(topic: str, partition: int, start: int) -> Split:
    """A partition from an offset on, for ever or to where ``until`` is when it is opened."""
    return _split((topic, partition), start, None)


def _split(place: Place, start: int, end: int | None) -> Split:
    """A partition from an offset on, or a range of it: another range is another split."""
    id = _id_of(*place) if end is None else f"{_id_of(*place)}[{start}:{end}]"
    return Split(id, {"start": start, "end": end})


def _id_of(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def _place_of(id: str) -> Place:
    # The name of a topic has no brackets.
    topic, _, partition = id.partition("[")[0].rpartition("-")
    return topic, int(partition)


def _reached(ids: Collection[str]) -> dict[Place, int]:
    """Up to where the partitions were read by the ranges that these ids stand for."""
    reached: dict[Place, int] = {}
    for id in ids:
        _, _, end = id.rstrip("]").partition(":")
        if end:
            place = _place_of(id)
            reached[place] = max(int(end), reached.get(place, 0))
    return reached


def _check_reached(reached: Mapping[Place, int], latest: Mapping[Place, int]) -> None:
    for place, end in latest.items():
        if end < reached.get(place, 0):
            raise RestoreError(
                f"partition {_id_of(*place)} was read up to offset {reached[place]} and ends at "
                f"{end} now: the topic has been created again. Start the job afresh in another "
                "snapshot directory, or read a topic of another name."
            )


def _names_of(metadata: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """The metadata that is wanted, each with the name of its column."""
    if isinstance(metadata, str):
        metadata = [metadata]
    names = dict(metadata) if isinstance(metadata, Mapping) else {name: name for name in metadata}
    unknown = sorted(set(names) - set(METADATA))
    if unknown:
        raise GraphError(
            f"KafkaSource(metadata=...): there is no {', '.join(map(repr, unknown))}; there are "
            f"{', '.join(METADATA)}."
        )
    return names


def _checked(name: str, given: Any) -> Any:
    """Where to start or end: a word, a time, or offsets by topic and partition."""
    if given in ("earliest", "latest") or isinstance(given, datetime):
        return given
    if isinstance(given, Mapping) and all(_are_offsets(each) for each in given.values()):
        return {topic: dict(offsets) for topic, offsets in given.items()}
    raise GraphError(
        f'KafkaSource({name}={given!r}) must be "earliest", "latest", a datetime, or offsets as in '
        f'{{"orders": {{0: 42}}}}.{did_you_mean(given, ("earliest", "latest"))}'
    )


def _are_offsets(given: Any) -> bool:
    return isinstance(given, Mapping) and all(
        isinstance(partition, int) and isinstance(offset, int) and offset >= 0
        for partition, offset in given.items()
    )


def _resolved(
    admin: Any, where: Any, places: Sequence[Place], noted: Noted, *, is_end: bool = False
) -> dict[Place, int]:
    """The offsets of a place in each of the partitions."""
    if isinstance(where, dict):
        given = {place: where.get(place[0], {}).get(place[1]) for place in places}
        absent = [place for place, offset in given.items() if offset is None]
        if absent and is_end:
            raise SourceError(
                f"KafkaSource(until={where!r}) does not say where to end in {_id_of(*absent[0])}. "
                "Name an offset for every partition of every topic."
            )
        named = {place: offset for place, offset in given.items() if offset is not None}
        return named | _resolved(admin, "earliest", absent, noted)
    spec = load_confluent().admin.OffsetSpec
    if isinstance(where, datetime):
        zoned = where if where.tzinfo is not None else where.replace(tzinfo=timezone.utc)
        wanted = spec.for_timestamp(int(zoned.timestamp() * 1000))
    else:
        wanted = spec.earliest() if where == "earliest" else spec.latest()
    found = offsets_of(admin, dict.fromkeys(places, wanted), SourceError, noted)
    too_young = [place for place, offset in found.items() if offset < 0]
    return found | (_resolved(admin, "latest", too_young, noted) if too_young else {})
