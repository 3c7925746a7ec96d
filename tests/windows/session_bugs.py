"""Bugs of sessions that are planted, each of which the model must find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np

from mainstay.runtime import sessions
from mainstay.runtime.operators import session
from mainstay.runtime.operators.due_times import DueTimes
from mainstay.state.backends.heap.spans import HeapSpans
from mainstay.state.span_places import SpanPlaces
from tests.simulation.planting import planting

BUGS, mutation = planting()


@mutation
def rows_that_are_the_gap_apart_are_two_sessions() -> Iterator[None]:
    right = sessions.merged
    with patch.object(
        session, "merged", lambda codes, starts, ends: right(codes, starts, ends - 1)
    ):
        yield


@mutation
def an_absorbed_session_stays() -> Iterator[None]:
    right = session.SessionByKey._replace

    def wrong(self: Any, *given: Any) -> None:
        with (
            patch.object(self._state, "remove", lambda places: None),
            patch.object(DueTimes, "forget", lambda *_: None),
        ):
            right(self, *given)

    with patch.object(session.SessionByKey, "_replace", wrong):
        yield


@mutation
def an_absorbed_session_is_back_after_a_restore() -> Iterator[None]:
    right = HeapSpans.remove

    def wrong(self: Any, places: Any) -> None:
        self._stored[places] = False
        right(self, places)

    with patch.object(HeapSpans, "remove", wrong):
        yield


@mutation
def the_end_of_a_restored_session_is_its_start() -> Iterator[None]:
    right = HeapSpans.apply

    def wrong(self: Any, rows: Any) -> None:
        right(self, rows)
        places = self.all()
        self._lanes[-1].put(places, (self.starts(places), None))

    with patch.object(HeapSpans, "apply", wrong):
        yield


@mutation
def only_one_session_of_a_key_is_found() -> Iterator[None]:
    right = SpanPlaces.of

    def wrong(self: Any, keys: Any) -> Any:
        codes, places = right(self, keys)
        _, first = np.unique(codes, return_index=True)
        return codes[first], places[first]

    with patch.object(SpanPlaces, "of", wrong):
        yield


@mutation
def a_row_is_late_before_it_has_met_sessions() -> Iterator[None]:
    with patch.object(
        session, "too_late", lambda codes, starts, ends, is_suspect, stored: is_suspect
    ):
        yield


@mutation
def sessions_are_not_due_after_a_restore() -> Iterator[None]:
    right = session.SessionByKey.open

    def wrong(self: Any, context: Any) -> None:
        with patch.object(DueTimes, "set", lambda *_: None):
            right(self, context)

    with patch.object(session.SessionByKey, "open", wrong):
        yield
