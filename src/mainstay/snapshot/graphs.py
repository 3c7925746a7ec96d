"""The dataflow of a job in its storage: how its operators are joined, one small file an attempt.

It is for people, who look at a directory after the job. Nothing depends on it: a job is restored
from manifests, which say what each operator has stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from mainstay.errors import DamagedFileError
from mainstay.snapshot.layout import GRAPHS_PREFIX, by_number, graph_path
from mainstay.snapshot.sealed import sealed, unsealed
from mainstay.snapshot.storage import Storage

GRAPHS_FORMAT = 1
KEPT_GRAPHS = 3


@dataclass(frozen=True, slots=True)
class GraphOperator:
    """One operator. ``kind`` is source, sink, loop, keyed or rows."""

    uid: str
    kind: str
    name: str
    parallelism: int
    task: str
    states: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """Rows go from one operator to another; ``kind`` says how they are distributed.

    ``side`` is the side output that they come from; "" is the main one.
    """

    sender: str
    receiver: str
    kind: str
    side: str = ""


@dataclass(frozen=True, slots=True)
class GraphTask:
    """A chain of operators that runs as one."""

    id: str
    operators: tuple[str, ...]
    parallelism: int


@dataclass(frozen=True, slots=True)
class Graph:
    """The dataflow of an attempt."""

    operators: tuple[GraphOperator, ...]
    edges: tuple[GraphEdge, ...]
    tasks: tuple[GraphTask, ...]


def write_graph(storage: Storage, attempt: int, graph: Graph) -> None:
    """Store the graph of an attempt, and delete the oldest beyond the bound."""
    document = {"format": GRAPHS_FORMAT, "attempt": attempt, "graph": asdict(graph)}
    # As it is read again: the seal is that of lists, and not of tuples.
    plain = json.loads(json.dumps(document))
    storage.write(graph_path(attempt), json.dumps(sealed(plain), sort_keys=True).encode())
    storage.delete(*by_number(storage.list(GRAPHS_PREFIX))[:-KEPT_GRAPHS])


def read_graph(storage: Storage) -> Graph | None:
    """The graph of the newest attempt that has stored one; None where none has."""
    paths = by_number(storage.list(GRAPHS_PREFIX))
    return _read(storage, paths[-1]) if paths else None


def _read(storage: Storage, path: str) -> Graph:
    try:
        document = unsealed(json.loads(storage.read(path)), is_required=True)
        if document["format"] != GRAPHS_FORMAT:
            raise ValueError(f"its format is {document['format']}")
        parts: Mapping[str, Any] = document["graph"]
        return Graph(
            tuple(_known(GraphOperator, each) for each in parts["operators"]),
            tuple(_known(GraphEdge, each) for each in parts["edges"]),
            tuple(_known(GraphTask, each) for each in parts["tasks"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFileError(
            f"{path} does not hold the graph of a job ({error}). Nothing depends on it: "
            "delete the file."
        ) from error


Part = TypeVar("Part", GraphOperator, GraphEdge, GraphTask)


def _known(kind: type[Part], stored: Mapping[str, Any]) -> Part:
    """What this version knows of a part: a later one may say more."""
    names = {field.name for field in fields(kind)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in stored.items()
        if name in names
    }
    return kind(**values)
