"""Stores how the operators of a job are joined, so that its directory can be shown without it."""

from __future__ import annotations

from concurrent.futures import Executor

from mainstay.runtime.deployment import Deployment
from mainstay.runtime.shape import shape_of
from mainstay.snapshot.graphs import write_graph
from mainstay.snapshot.storage import Storage


class GraphLog:
    """Writes the graph of each attempt in the background. What cannot be stored is not waited for:
    nothing depends on it, and storage that is away is told of by the epochs that need it."""

    def __init__(self, storage: Storage, pool: Executor) -> None:
        self._storage = storage
        self._pool = pool

    def launched(self, deployment: Deployment) -> None:
        """An attempt is about to start."""
        graph = shape_of(deployment.job)
        self._pool.submit(write_graph, self._storage, deployment.attempt, graph)
