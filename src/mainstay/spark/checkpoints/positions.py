"""Where the sources of a job go on, from the offsets of a query.

A position is what the coordinator is to know of a source (which splits it has given out), and the
splits that are not at their end, as the source keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mainstay.connectors.files.source import Files
from mainstay.connectors.files.spark_log import local_path
from mainstay.connectors.kafka.source import KafkaSource, partition_split
from mainstay.errors import GraphError, RestoreError
from mainstay.plan.logical import LogicalGraph
from mainstay.runtime.connector import Source
from mainstay.runtime.operators.source import ReadingSplit
from mainstay.spark.checkpoints.logs import CheckpointLogs, CommittedBatch
from mainstay.spelling import counted, did_you_mean

BEGINNING = "starts from its beginning"


@dataclass(frozen=True, slots=True)
class Position:
    """Where one source goes on: ``where`` says it to people."""

    where: str
    seen: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    goes_on: bool = True
    """Whether it goes on from the query, and not from its own beginning."""

    @property
    def notes(self) -> dict[str, Any]:
        return {"seen": list(self.seen), "complete": False}


def positions_of(
    graph: LogicalGraph,
    batch: CommittedBatch,
    logs: CheckpointLogs,
    given: Mapping[str, int | None] | None,
) -> dict[str, Position]:
    """The positions of all sources of a program."""
    sources = {each.uid: each.source for each in graph.operators if each.source is not None}
    numbers = _numbers(sources, batch, given)
    return {
        uid: _position(uid, source, numbers[uid], batch, logs) for uid, source in sources.items()
    }


def _numbers(
    sources: Mapping[str, Source], batch: CommittedBatch, given: Mapping[str, int | None] | None
) -> dict[str, int | None]:
    """Which source of the query each source of the program goes on from; None for no one."""
    count = len(batch.offsets)
    example = f"sources={{{next(iter(sources))!r}: 0}}"
    if given is None:
        if len(sources) != 1 or count != 1:
            raise GraphError(
                f"the program has the sources {sorted(sources)}, and the query had {count}. Say "
                f"which of the query's each goes on from, counted from 0, as in {example}, or None "
                "for one that starts from its beginning."
            )
        return {next(iter(sources)): 0}
    for uid, number in given.items():
        if uid not in sources:
            raise GraphError(
                f"sources={dict(given)!r}: the program has no source {uid!r}; there are "
                f"{sorted(sources)}.{did_you_mean(uid, sources)}"
            )
        if number is not None and number not in range(count):
            raise GraphError(
                f"sources={dict(given)!r}: the query had {count} sources, counted from 0."
            )
    taken = [number for number in given.values() if number is not None]
    if len(set(taken)) < len(taken):
        raise GraphError(
            f"sources={dict(given)!r}: two sources cannot go on from the same one of the query."
        )
    missing = sorted(set(sources) - set(given))
    if missing:
        raise GraphError(
            f"sources={dict(given)!r} does not say where {missing[0]!r} goes on. Name the query's "
            "source, counted from 0, or None for its beginning."
        )
    return dict(given)


def _position(
    uid: str, source: Source, number: int | None, batch: CommittedBatch, logs: CheckpointLogs
) -> Position:
    if number is None:
        return Position(BEGINNING, goes_on=False)
    offset = batch.offsets[number]
    if offset is None:
        return Position(f"{BEGINNING}: the query had read nothing of it", goes_on=False)
    if isinstance(source, Files) and _is_of_files(offset):
        return _files(uid, source, logs.listed_files(number, int(offset["logOffset"])))
    if isinstance(source, KafkaSource) and _is_of_kafka(offset):
        return _kafka(uid, source, offset)
    raise RestoreError(
        f"source {uid!r} is {type(source).__name__}, and cannot go on from the offset of the "
        f"query's source {number}: {json.dumps(offset)[:200]}. Files(...) goes on from files, "
        "KafkaSource(...) from Kafka. To read it from its beginning, or from where the source "
        f"itself says, say sources={{{uid!r}: None}}."
    )


# ---------------------------------------------------------------- files


def _is_of_files(offset: Any) -> bool:
    return isinstance(offset, dict) and isinstance(offset.get("logOffset"), int)


def _files(uid: str, source: Files, uris: list[str]) -> Position:
    """A file is known by its path, however that is spelled."""
    paths = [local_path(uri) for uri in uris]
    known = tuple(sorted(path for path in paths if path is not None))
    if len(known) < len(paths):
        other = next(uri for uri, path in zip(uris, paths, strict=True) if path is None)
        raise RestoreError(
            f"the query has read {other!r}, and source {uid!r} reads local files. Say "
            f"sources={{{uid!r}: None}} and have it read the new files only."
        )
    if known and not any(map(source.covers, known)):
        raise RestoreError(
            f"the query has read {known[0]!r}, and source {uid!r} reads {source.paths}: it would "
            "not know which of its files were read. Give it the paths that the query had."
        )
    return Position(f"reads all but {counted(len(known), 'file')} that the query has read", known)


# ---------------------------------------------------------------- Kafka


def _is_of_kafka(offset: Any) -> bool:
    return isinstance(offset, dict) and all(
        isinstance(partitions, dict) and all(isinstance(at, int) for at in partitions.values())
        for partitions in offset.values()
    )


def _kafka(uid: str, source: KafkaSource, offset: dict[str, dict[str, int]]) -> Position:
    for topic in offset:
        if topic not in source.topics:
            raise RestoreError(
                f"the query has read the topic {topic!r}, and source {uid!r} reads "
                f"{source.topics}. Give it the topics that the query had."
            )
    places = [
        (topic, int(partition), at)
        for topic, partitions in sorted(offset.items())
        for partition, at in sorted(partitions.items(), key=lambda each: int(each[0]))
    ]
    splits = [ReadingSplit(partition_split(topic, n, at), at) for topic, n, at in places]
    where = ", ".join(f"{topic}-{partition} at {at:,}" for topic, partition, at in places)
    return Position(
        f"goes on with {where}",
        tuple(each.split.id for each in splits),
        tuple(each.to_unit() for each in splits),
    )
