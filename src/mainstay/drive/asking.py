"""Asking the state of a job from the process that runs it: what is live, and what is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from mainstay.errors import QueryError
from mainstay.inspect.answers import Answer, Moment, in_utc
from mainstay.inspect.connection import PATIENCE_S, is_live
from mainstay.inspect.hidden import hidden_states
from mainstay.inspect.key_values import ALL_KEYS, listed
from mainstay.inspect.live import LiveState
from mainstay.inspect.positions import After
from mainstay.inspect.reading import LATEST
from mainstay.inspect.stored_connection import StoredConnection
from mainstay.runtime.coordinator.queries import Live, Question, Told
from mainstay.runtime.spec import JobSpec

GLANCE_S = 0.25
COMMITTED = "Ask for what is committed, with at='committed'."

Ask = Callable[[Question, Told], None]
"""Asks on the loop of the job, from any thread."""


class Asking:
    """The state of one job. ``spec`` gives the plan that it has now. Any thread may ask."""

    def __init__(
        self,
        name: str,
        place: str,
        spec: Callable[[], JobSpec],
        ask: Ask,
        is_over: Callable[[], bool],
    ) -> None:
        self._name, self._place = name, place
        self._spec, self._ask, self._is_over = spec, ask, is_over

    @cached_property
    def committed(self) -> StoredConnection:
        """What is committed, from the job's snapshots."""
        if not self._place:
            raise QueryError(f"job {self._name!r} has no snapshots that could be read from here.")
        return StoredConnection(self._place, hidden=hidden_states(self._spec()))

    def query(
        self,
        states: Sequence[str],
        *,
        key: Any = ALL_KEYS,
        keys: Iterable[Any] | None = None,
        limit: int | None = None,
        at: str = "live",
        epoch: int | str = LATEST,
        after: After | None = None,
        timeout: float | None = None,
    ) -> dict[str, Answer]:
        """Answers by state. Those of one operator are of one moment, committed ones all are."""
        if not is_live(at, epoch, after):
            return self.committed.query_states(
                states, key=key, keys=keys, limit=limit, epoch=epoch, after=after, timeout=timeout
            )
        patience_s = PATIENCE_S if timeout is None else timeout
        return self._live(list(states), key, listed(keys), limit, patience_s)

    def _live(
        self,
        names: Sequence[str],
        key: Any,
        keys: Iterable[Any] | None,
        limit: int | None,
        timeout: float,
    ) -> dict[str, Answer]:
        began, until = time.monotonic(), time.monotonic() + timeout
        spec = self._spec()
        asked = [LiveState.named(spec, name) for name in names]
        questions = [live.question(key, keys, limit) for live in asked]
        # One question to an operator, so that its states are those of one moment.
        joined = {question.uid: question for question in questions}
        for uid, question in joined.items():
            of_uid = [q for q in questions if q.uid == uid]
            states, of_one = tuple(q.states[0] for q in of_uid), all(q.of_one for q in of_uid)
            joined[uid] = replace(question, states=states, of_one=of_one)
        answers = {uid: self._asked(question) for uid, question in joined.items()}
        said = {uid: self._said(uid, answers[uid], until, timeout) for uid in answers}
        at = in_utc(time.time())
        found = {}
        for name, live, question in zip(names, asked, questions, strict=True):
            told = said[question.uid]
            moment = Moment(self._name, told.epoch or 0, told.attempt, at, {}, level="live")
            took_s = time.monotonic() - began
            found[name] = Answer(live.columns, live.table(question, told), moment, 0.0, took_s)
        return found

    def _asked(self, question: Question) -> Future[Live]:
        answer: Future[Live] = Future()

        def tell(said: Live | Exception) -> None:
            if isinstance(said, Exception):
                answer.set_exception(said)
            else:
                answer.set_result(said)

        self._ask(question, tell)
        return answer

    def _said(self, uid: str, answer: Future[Live], until: float, timeout: float) -> Live:
        while wait([answer], max(0.0, min(GLANCE_S, until - time.monotonic()))).not_done:
            if self._is_over():
                raise QueryError(
                    f"job {self._name!r} is over, so there is no live state. {COMMITTED}"
                )
            if time.monotonic() >= until:
                raise QueryError(
                    f"operator {uid!r} did not answer within {timeout:g} s: it is at a "
                    f"call that takes long, or its worker is away. {COMMITTED}"
                )
        return answer.result()

    def sql(self, statement: str, *, epoch: int | str = LATEST) -> pa.Table:
        return self.committed.sql(statement, epoch=epoch)
