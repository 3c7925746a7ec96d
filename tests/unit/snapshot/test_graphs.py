from __future__ import annotations

import json

import pytest

from mainstay.errors import DamagedFileError
from mainstay.snapshot.graphs import (
    KEPT_GRAPHS,
    Graph,
    GraphEdge,
    GraphOperator,
    GraphTask,
    read_graph,
    write_graph,
)
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.sealed import sealed


def graph(parallelism: int = 2) -> Graph:
    return Graph(
        (
            GraphOperator("in", "source", "Rows", parallelism, "in"),
            GraphOperator("sums", "keyed", "Sum", parallelism, "sums", ("total",)),
        ),
        (GraphEdge("in", "sums", "key"),),
        (GraphTask("in", ("in",), parallelism), GraphTask("sums", ("sums",), parallelism)),
    )


def test_the_graph_of_the_newest_attempt_is_read_back() -> None:
    storage = MemoryStorage()
    for attempt in range(1, 12):
        write_graph(storage, attempt, graph(attempt))
    assert read_graph(storage) == graph(11)
    assert len(storage.list("graphs/")) == KEPT_GRAPHS


def test_a_directory_of_an_older_version_has_none() -> None:
    assert read_graph(MemoryStorage()) is None


def test_what_a_later_version_adds_is_passed_over() -> None:
    storage = MemoryStorage()
    write_graph(storage, 1, graph())
    document = json.loads(storage.read("graphs/0000000001.json"))
    del document["checksum"]
    document["graph"]["edges"][0]["colour"] = "red"
    storage.write("graphs/0000000001.json", json.dumps(sealed(document)).encode())
    assert read_graph(storage) == graph()


def test_a_graph_that_was_stored_in_format_1_is_read() -> None:
    storage = MemoryStorage()
    storage.write(
        "graphs/0000000001.json",
        b'{"attempt": 1, "checksum": "crc32:a0943001", "format": 1, "graph": '
        b'{"edges": [{"kind": "key", "receiver": "sums", "sender": "in"}], '
        b'"operators": [{"kind": "source", "name": "Rows", '
        b'"parallelism": 2, "states": [], "task": "in", "uid": "in"}, {"kind": "keyed", '
        b'"name": "Sum", "parallelism": 2, "states": ["total"], "task": "sums", "uid": "sums"}], '
        b'"tasks": [{"id": "in", "operators": ["in"], "parallelism": 2}, {"id": "sums", '
        b'"operators": ["sums"], "parallelism": 2}]}}',
    )
    assert read_graph(storage) == graph()


@pytest.mark.parametrize(
    "data", [b"[]", b"{", json.dumps(sealed({"format": 99, "graph": {}})).encode()]
)
def test_a_file_that_is_no_graph_is_named(data: bytes) -> None:
    storage = MemoryStorage()
    storage.write("graphs/0000000001.json", data)
    with pytest.raises(DamagedFileError, match=r"graphs/0000000001\.json.*delete"):
        read_graph(storage)
