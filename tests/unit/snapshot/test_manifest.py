from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mainstay.errors import RestoreError
from mainstay.snapshot.manifest import (
    FileRef,
    Manifest,
    OperatorState,
    OperatorUnits,
    SegmentRef,
    StateSchema,
    SubtaskState,
)


def segment(name: str, first_group: int = 0, last_group: int = 63) -> SegmentRef:
    file = FileRef(f"state/count/{name}.msty", 120, "crc32:0000abcd")
    return SegmentRef(name, file, first_group, last_group, rows=10, is_base=name == "base")


def manifest() -> Manifest:
    subtasks = (
        SubtaskState(
            0, (segment("base"), segment("s1")), {"offsets": OperatorUnits("split", 2, b"\x00\xff")}
        ),
        SubtaskState(1),
    )
    states = (
        StateSchema("total", "value", "bigint"),
        StateSchema("seen", "map", "pickle", "string"),
    )
    return Manifest(
        job="words",
        lineage="l1",
        epoch=7,
        attempt=3,
        mode="exactly_once",
        max_parallelism=128,
        hash_id="xx64-1",
        created_at=12.5,
        operators={"count": OperatorState("count", 2, "string", states, subtasks)},
        sources={"files": {"seen": ["a", "b"]}},
    )


def test_a_manifest_comes_back_as_it_was() -> None:
    assert Manifest.from_bytes(manifest().to_bytes()) == manifest()


def test_a_manifest_is_spelled_the_same_way_every_time() -> None:
    assert manifest().to_bytes() == Manifest.from_bytes(manifest().to_bytes()).to_bytes()


def test_a_manifest_names_every_file_it_reaches() -> None:
    assert [file.path for file in manifest().files()] == [
        "state/count/base.msty",
        "state/count/s1.msty",
    ]


def test_another_format_is_refused_by_name() -> None:
    document = {**json.loads(manifest().to_bytes()), "format": 99}
    with pytest.raises(RestoreError, match=r"epochs/7\.json has manifest format 99"):
        Manifest.from_bytes(json.dumps(document).encode(), "epochs/7.json")


@pytest.mark.parametrize("data", [b"", b"not json", b"{}", b"7"])
def test_what_is_no_manifest_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(RestoreError, match=r"epochs/7\.json is not a Mainstay manifest"):
        Manifest.from_bytes(data, "epochs/7.json")


def test_clipping_a_segment_keeps_its_overlap() -> None:
    assert segment("s1", 10, 20).clipped(15, 30) == segment("s1", 15, 20)
    assert segment("s1", 10, 20).clipped(0, 127) == segment("s1", 10, 20)


def test_clipping_a_segment_to_strange_groups_leaves_nothing() -> None:
    assert segment("s1", 10, 20).clipped(21, 30) is None


def test_a_time_to_live_needs_a_newer_format_and_nothing_else_does() -> None:
    plain = manifest()
    assert json.loads(plain.to_bytes())["format"] == 1
    assert b"ttl" not in plain.to_bytes()
    ((uid, held),) = list(plain.operators.items())[:1]
    states = tuple(replace(state, ttl_us=60_000_000) for state in held.states)
    expiring = replace(plain, operators={**plain.operators, uid: replace(held, states=states)})
    assert json.loads(expiring.to_bytes())["format"] == 3
    assert Manifest.from_bytes(expiring.to_bytes()) == expiring


def test_a_namespace_needs_a_newer_format_and_nothing_else_does() -> None:
    plain = manifest()
    assert b"namespace" not in plain.to_bytes()
    ((uid, held),) = list(plain.operators.items())[:1]
    states = tuple(replace(state, namespace="timestamp") for state in held.states)
    by_pane = replace(plain, operators={**plain.operators, uid: replace(held, states=states)})
    assert json.loads(by_pane.to_bytes())["format"] == 6
    assert Manifest.from_bytes(by_pane.to_bytes()) == by_pane


def test_the_columns_of_a_key_are_noted_and_an_older_manifest_has_none() -> None:
    plain = manifest()
    assert b"key_names" not in plain.to_bytes()
    named = replace(plain.operators["count"], key_names=("customer", "region"))
    noted = replace(plain, operators={"count": named})
    assert Manifest.from_bytes(noted.to_bytes()) == noted
    assert json.loads(noted.to_bytes())["format"] == 1, "older versions pass over it"
