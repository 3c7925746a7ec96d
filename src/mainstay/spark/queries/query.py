"""A whole query as a job that is not started yet."""

from __future__ import annotations

import os
from typing import Any

from mainstay.api.environment import Environment
from mainstay.api.job import Job
from mainstay.api.options import Snapshots
from mainstay.api.stream import Stream
from mainstay.errors import GraphError
from mainstay.own_frames import with_own_frames


@with_own_frames
class StatefulQuery:
    """What a stateful function makes of a DataFrame: a stream, and the job that it is part of.

    ``stream`` is what the function yields, for further operators and sinks; ``env`` is the job's
    environment, for further sources. ``start`` starts all of it.
    """

    def __init__(self, env: Environment, stream: Stream, uid: str) -> None:
        self.env = env
        self.stream = stream
        self._uid = uid
        self._sinks = 0

    def sink(self, sink: Any, *, uid: str | None = None) -> StatefulQuery:
        """Give the rows to a sink as well; the same query, so that ``start`` may follow."""
        self._sinks += 1
        number = "" if self._sinks == 1 else f"-{self._sinks}"
        self.stream.sink(sink, uid=uid or f"{self._uid}-sink{number}")
        return self

    def explain(self) -> str:
        """The logical, the chained and the physical graph as text."""
        return self.env.explain()

    def start(self, name: str) -> Job:
        """Start the job. It goes on from its snapshots where it has been started before."""
        return self.env.start(name)


def environment_of(
    df: Any,
    env: Environment | None,
    snapshots: Snapshots | str | os.PathLike[str] | None,
    parallelism: int | None,
    where: str,
) -> Environment:
    """The environment that was given, or one on the session of a DataFrame.

    As a query with a checkpoint does, that one goes on from its snapshots if there are any.
    """
    if env is not None:
        if snapshots is not None or parallelism is not None:
            raise GraphError(
                f"{where}: snapshots= and parallelism= are settings of the environment, which is "
                "given. Say them there: ms.Environment(snapshots=..., parallelism=...)."
            )
        return env
    if snapshots is None:
        raise GraphError(
            f'{where} needs a place for snapshots: snapshots="./snapshots", instead of the '
            "checkpointLocation of a query; or env=ms.Environment(...)."
        )
    if not isinstance(snapshots, Snapshots):
        snapshots = Snapshots(snapshots)
    return Environment(
        spark=df.sparkSession,
        parallelism=2 if parallelism is None else parallelism,
        snapshots=snapshots,
        restore="latest-or-new",
    )
