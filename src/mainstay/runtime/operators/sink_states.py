"""States of a sink's own: what its author declares in the class of the sink.

A writer changes them in ``write`` and ``prepare``, on the worker's loop, and the cut takes them
right after ``prepare``. What a writer defers runs at any time after that, so it may not touch them:
the epoch would have its rows and not what they have changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mainstay.errors import MainstayError
from mainstay.runtime.connector import Sink
from mainstay.runtime.operators.base import OperatorContext
from mainstay.state.declared_states import declarations_of
from mainstay.state.operator import OperatorList


class SinkStates:
    """The states of one sink in one subtask; they are used while the loop calls the sink."""

    def __init__(self) -> None:
        self._uid = ""
        self._is_called = False

    def bind(self, sink: Sink, context: OperatorContext) -> None:
        """Put handles in the place of the declarations, on this instance of the sink."""
        self._uid = context.uid
        names = [info.name for info in declarations_of(sink)]
        # Not by assignment, which a declaration refuses.
        vars(sink).update({name: SinkList(context.lists[name], self) for name in names})

    def in_call(self) -> SinkStates:
        """Within this, the loop calls the sink or its writer."""
        return self

    # No generator, which sets an attribute on the error that it lets through: some refuse that.
    def __enter__(self) -> None:
        self._is_called = True

    def __exit__(self, *_: object) -> None:
        self._is_called = False

    def check(self, state: str) -> None:
        """Refuse a use outside such calls."""
        if not self._is_called:
            raise MainstayError(
                f"state {state!r} of sink {self._uid!r} was used in a call that runs in the "
                "background, where a snapshot may be cut before it or after it. Use it in "
                "write(batch) and prepare(epoch) of the sink's writer before they return, or in "
                "open(context) of the sink."
            )


class SinkList:
    """The handle that takes the place of an ``OperatorListState`` declaration of a sink."""

    __slots__ = ("_list", "_states")

    def __init__(self, kept: OperatorList, states: SinkStates) -> None:
        self._list = kept
        self._states = states

    def _checked(self) -> OperatorList:
        self._states.check(self._list.info.name)
        return self._list

    def get(self) -> list[Any]:
        return self._checked().get()

    def add(self, value: Any) -> None:
        self._checked().add(value)

    def extend(self, values: Iterable[Any]) -> None:
        self._checked().extend(values)

    def update(self, values: Iterable[Any] | None) -> None:
        self._checked().update(values)

    def clear(self) -> None:
        self._checked().clear()
