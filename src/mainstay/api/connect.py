"""Connected streams: two inputs for one function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainstay.api.checks import check_process
from mainstay.api.connecting import (
    added_operator,
    in_names_of,
    is_broadcast,
    not_keyed_alike,
)
from mainstay.api.functions import CoKeyedProcess, CoProcess
from mainstay.api.graph import named
from mainstay.api.settings import Settings
from mainstay.errors import GraphError
from mainstay.own_frames import with_own_frames
from mainstay.runtime.own_states import HELD, HELD_BY_KEY
from mainstay.runtime.spec import KeySpec

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mainstay.api.stream import Stream


@with_own_frames
class ConnectedStreams:
    """Two streams that feed one function: both keyed alike, neither keyed, or the right one
    broadcast."""

    def __init__(self, left: Stream, right: Stream, *, wait_for_right: bool = False) -> None:
        self._left = left
        self._right = right
        self._right_key = self._checked_right_key()
        self._waits = wait_for_right
        if wait_for_right:
            self._check_right_ends()

    def _check_right_ends(self) -> None:
        """Refuse to wait for what never ends."""
        endless = endless_source(self._right)
        if endless is not None:
            raise GraphError(
                f"connect(..., wait_for_right=True): the source {endless!r} of the right side has "
                "no end, so left rows would wait for ever. Give it one, or leave wait_for_right "
                "out."
            )

    def _checked_right_key(self) -> KeySpec | None:
        """The right key in the names of the left: what shares state must look the same."""
        left, right = self._left, self._right
        if left.key is not None and right.key is not None:
            return in_names_of(left, right)
        if right.key is not None:
            raise GraphError(
                f"connect(): only the right side ({right._where()}) is keyed. Key both sides, or "
                "let the keyed one be the left and broadcast the other."
            )
        if left.key is not None and not is_broadcast(right):
            raise not_keyed_alike(f"the right side ({right._where()})", "the left one")
        return None

    def process(
        self,
        function: CoKeyedProcess | CoProcess,
        schema: Any = None,
        *,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> Stream:
        """A :class:`CoKeyedProcess` function, or where neither input is keyed a
        :class:`CoProcess`."""
        left, right = self._left, self._right
        where = named(settings.get("uid"), "connect", after=f"{left._where()} and {right._where()}")
        self._check_function(function, where)
        streams = {"left": left, "right": right}
        keys = {"left": left.key, "right": self._right_key}
        waiting = HELD if left.key is None else HELD_BY_KEY
        return added_operator(
            streams,
            keys,
            function,
            schema,
            where,
            settings,
            queryable=queryable,
            waiting=waiting if self._waits else None,
        )

    def _check_function(self, function: Any, where: str) -> None:
        """Without a key a ``CoProcess``; a ``CoKeyedProcess`` beside a broadcast input, too."""
        cls: type[CoKeyedProcess | CoProcess] = CoKeyedProcess
        if self._left.key is None:
            may_be_keyed = is_broadcast(self._right) and isinstance(function, CoKeyedProcess)
            cls = CoKeyedProcess if may_be_keyed else CoProcess
        hint = f"Subclass {cls.__name__}" + ("." if cls is CoKeyedProcess else ": it has no key.")
        check_process(function, cls, ("process_left", "process_right"), where, hint)


def endless_source(stream: Stream) -> str | None:
    """The uid of a source before a stream that has no end; None if all have one."""
    operators = stream._builder.operators
    left, seen = [each.upstream for each in stream._origins], set[int]()
    while left:
        operator = operators[left.pop()]
        if operator.id in seen:
            continue
        seen.add(operator.id)
        left += [each.upstream for each in operator.inputs]
        if operator.source is not None and not operator.source.bounded:
            return operator.uid
    return None
