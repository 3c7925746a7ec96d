"""Where sources go on, from the offsets of a query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import mainstay as ms
from mainstay.connectors.kafka import Json, KafkaSource
from mainstay.errors import GraphError, RestoreError
from mainstay.runtime.operators.source import ReadingSplit
from mainstay.spark.checkpoints.logs import CommittedBatch
from mainstay.spark.checkpoints.positions import Position, positions_of


class Listed:
    """The log of a file source."""

    def __init__(self, *uris: str) -> None:
        self._uris = list(uris)

    def listed_files(self, source: int, last: int) -> list[str]:
        return self._uris


def batch(*offsets: Any) -> CommittedBatch:
    return CommittedBatch("q", 1, offsets, 0, 0, None, {})


def positions(
    sources: dict[str, Any], offsets: list[Any], given: Any = None, logs: Any = None
) -> dict[str, Position]:
    env = ms.Environment(spark="embedded")
    for uid, source in sources.items():
        env.source(source, uid=uid).sink(ms.connectors.Memory(), uid=f"{uid}-out")
    return positions_of(env.graph(), batch(*offsets), logs or Listed(), given)


def files(folder: Path) -> Any:
    return ms.connectors.Files(folder, schema="n long", format="json")


def kafka(*topics: str, **options: Any) -> KafkaSource:
    return KafkaSource("localhost:9", list(topics), value=Json("n long"), **options)


OFFSET = {"logOffset": 3}


def test_a_source_of_files_knows_those_that_were_read(tmp_path: Path) -> None:
    (tmp_path / "new one.json").write_text("")
    (tmp_path / "old one.json").write_text("")
    listed = Listed(f"file://{tmp_path}/old%20one.json")
    found = positions({"in": files(tmp_path)}, [OFFSET], logs=listed)["in"]
    assert found.seen == (f"{tmp_path}/old one.json",)
    new = files(tmp_path).plan(frozenset(found.seen))
    assert [each.id for each in new if each.id not in found.seen] == [f"{tmp_path}/new one.json"]


def test_a_pattern_covers_the_files_below_its_folder(tmp_path: Path) -> None:
    listed = Listed(f"file://{tmp_path}/a/old.json")
    source = files(tmp_path / "*" / "*.json")
    assert positions({"in": source}, [OFFSET], logs=listed)["in"].seen


def test_files_of_another_folder_are_refused(tmp_path: Path) -> None:
    listed = Listed("file:///elsewhere/old.json")
    with pytest.raises(RestoreError, match="Give it the paths that the query had"):
        positions({"in": files(tmp_path)}, [OFFSET], logs=listed)


def test_files_that_are_not_local_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RestoreError, match="and source 'in' reads local"):
        positions({"in": files(tmp_path)}, [OFFSET], logs=Listed("s3a://bucket/old.json"))


@pytest.mark.parametrize("options", [{}, {"until": "latest"}])
def test_partitions_go_on_at_their_offsets(options: dict[str, Any]) -> None:
    offset = {"orders": {"1": 7, "0": 42}}
    found = positions({"in": kafka("orders", "more", **options)}, [offset])["in"]
    assert found.seen == ("orders-0", "orders-1")
    assert found.where == "goes on with orders-0 at 42, orders-1 at 7"
    splits = [ReadingSplit.from_unit(unit) for unit in found.splits]
    assert [(each.split.id, each.offset, each.to_skip) for each in splits] == [
        ("orders-0", 42, 0),
        ("orders-1", 7, 0),
    ]
    assert [json.loads(unit)["data"]["end"] for unit in found.splits] == [None, None]


def test_a_topic_that_is_read_no_more_is_refused() -> None:
    with pytest.raises(RestoreError, match="has read the topic 'orders', and source 'in' reads"):
        positions({"in": kafka("other")}, [{"orders": {"0": 1}}])


def test_a_source_that_had_read_nothing_begins(tmp_path: Path) -> None:
    found = positions({"in": files(tmp_path)}, [None])["in"]
    assert found.seen == ()
    assert "had read nothing" in found.where


def test_another_kind_of_source_is_refused_unless_it_is_to_begin() -> None:
    source = kafka("orders")
    with pytest.raises(RestoreError, match=r"sources=\{'in': None\}"):
        positions({"in": source}, [OFFSET])
    found = positions({"in": source}, [OFFSET], {"in": None})["in"]
    assert (found.seen, found.goes_on) == ((), False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "the program has the sources .* and the query had 2"),
        ({"in": 0}, "does not say where 'more' goes on"),
        ({"in": 0, "mor": 1}, "no source 'mor'.*Did you mean 'more'"),
        ({"in": 0, "more": 2}, "the query had 2 sources"),
        ({"in": 1, "more": 1}, "two sources cannot go on from the same one"),
    ],
)
def test_several_sources_are_named(given: Any, said: str) -> None:
    sources = {"in": kafka("orders"), "more": kafka("more")}
    with pytest.raises(GraphError, match=said):
        positions(sources, [{"orders": {"0": 1}}, {"more": {"0": 1}}], given)
