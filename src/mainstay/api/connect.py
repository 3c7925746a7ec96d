"""Connected streams: two inputs for one function."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mainstay.api.checks import check_process, checked_schema, checked_states
from mainstay.api.functions import CoKeyedProcess
from mainstay.api.graph import named
from mainstay.errors import GraphError
from mainstay.own_frames import with_own_frames
from mainstay.plan import nodes
from mainstay.plan.logical import Input
from mainstay.runtime.spec import Broadcast, HashByKey, KeySpec

if TYPE_CHECKING:
    from mainstay.api.stream import Stream


@with_own_frames
class ConnectedStreams:
    """Two streams that feed one function: both keyed alike, or the right one broadcast."""

    def __init__(self, left: Stream, right: Stream) -> None:
        self._left = left
        self._right = right
        self._right_key = self._checked_right_key()

    def _checked_right_key(self) -> KeySpec | None:
        """The right key in the names of the left: what shares state must look the same."""
        left, right = self._left, self._right
        if left.key is not None and right.key is not None:
            if _types(left.key) != _types(right.key):
                raise GraphError(
                    f"connect() of streams with different key types: {left._where()} is keyed by "
                    f"{left.key.type.ddl}, {right._where()} by {right.key.type.ddl}. Key both by "
                    "the same types."
                )
            return replace(right.key, type=left.key.type)
        if right.key is not None:
            raise GraphError(
                f"connect(): only the right side ({right._where()}) is keyed. Key both sides, or "
                "let the keyed one be the left and broadcast the other."
            )
        if any(not isinstance(how, Broadcast) for _, how in right._origins):
            raise GraphError(
                f"connect(): the right side ({right._where()}) must be keyed like the left one, "
                "or broadcast: connect(rules.broadcast())."
            )
        return None

    def process(
        self,
        function: CoKeyedProcess,
        schema: Any = None,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """A :class:`CoKeyedProcess` function."""
        left, right = self._left, self._right
        where = named(uid, "connect", after=f"{left._where()} and {right._where()}")
        methods = ("process_left", "process_right")
        check_process(function, CoKeyedProcess, methods, where, "Subclass CoKeyedProcess.")
        out = checked_schema(schema, where)
        states = checked_states(function, where, keyed_allowed=left.key is not None)
        keys, schemas = (left.key, self._right_key), (left._carried, right._carried)
        operator = left._builder.add(
            "connect",
            nodes.CoKeyed(function, keys, schemas),
            out,
            uid=uid,
            inputs=left._inputs(0) + self._right_inputs(),
            parallelism=parallelism,
            states=states,
            key=left.key,
        )
        return left._emitted_by(operator)

    def _right_inputs(self) -> tuple[Input, ...]:
        inputs = self._right._inputs(1)
        if self._right_key is None:
            return inputs
        return tuple(replace(given, partitioning=HashByKey(self._right_key)) for given in inputs)


def _types(key: KeySpec) -> list[pa.DataType]:
    """The types of a key's columns, whatever the columns are called."""
    arrow = key.type.arrow
    return [arrow] if len(key.columns) == 1 else [field.type for field in arrow]
