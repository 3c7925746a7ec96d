"""Queries on live state: who owns the keys is asked, and the answers are put together.

A query belongs to one attempt: where that ends before all owners have answered, the query fails,
and its asker may ask again. So an answer never comes from a subtask that owns the keys no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mainstay.errors import QueryError
from mainstay.runtime.messages import Answered, Ask, Attempt
from mainstay.runtime.ports import Send
from mainstay.runtime.spec import JobSpec
from mainstay.state.keygroups import subtask_of
from mainstay.state.looking import Look


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of states of an operator: some keys, each with its key-group; or so many.

    With ``of_one`` one subtask is asked, because all hold the same.
    """

    uid: str
    states: tuple[str, ...]
    keys: Sequence[tuple[int, Any]] | None
    limit: int = 0
    of_one: bool = False


@dataclass(frozen=True, slots=True)
class Live:
    """What owners have said, and in which attempt. ``epoch`` is the last that was complete.

    Each owner has said it of all states at one moment.
    """

    attempt: int
    epoch: int | None
    looks: Sequence[Mapping[str, Look]]


Told: TypeAlias = "Callable[[Live | Exception], None]"


@dataclass(slots=True)
class _Open:
    """A query that waits for workers. ``tell`` hears of the end of it once."""

    question: Question
    tell: Told
    workers: set[int]
    looks: list[Mapping[str, Look]] = field(default_factory=list)


class Queries:
    """The queries of one attempt. ``epoch`` says which was the last complete one."""

    def __init__(
        self, attempt: Attempt, job: JobSpec, send: Send, epoch: Callable[[], int | None]
    ) -> None:
        self._attempt = attempt
        self._sizes = {
            operator.uid: (task.parallelism, job.key_groups(operator))
            for task, operator in job.operators()
        }
        self._send = send
        self._epoch = epoch
        self._asked = 0
        self._open: dict[int, _Open] = {}
        self._over: str | None = None

    def ask(self, question: Question, tell: Told) -> None:
        """Ask the owners."""
        if self._over is not None:
            tell(QueryError(self._over))
            return
        shares = self._shares(question)
        if not shares:
            tell(Live(self._attempt, self._epoch(), ()))
            return
        self._asked += 1
        self._open[self._asked] = _Open(question, tell, set(shares))
        for worker, keys in shares.items():
            whose = (question.uid, question.states)
            self._send(worker, Ask(self._attempt, self._asked, *whose, keys, question.limit))

    def _shares(self, question: Question) -> dict[int, tuple[Any, ...] | None]:
        """What each worker is asked: subtask *i* of every operator is on worker *i*."""
        parallelism, most = self._sizes[question.uid]
        if question.keys is None:
            return dict.fromkeys(range(1 if question.of_one else parallelism))
        shares: dict[int, list[Any]] = {}
        for group, key in question.keys:
            owner = subtask_of(group, parallelism, most)
            shares.setdefault(owner, []).append(key)
        return {worker: tuple(keys) for worker, keys in shares.items()}

    def answered(self, answer: Answered) -> None:
        """A worker has answered."""
        query = self._open.get(answer.number)
        if query is None:
            return
        if answer.error:
            del self._open[answer.number]
            query.tell(QueryError(f"operator {query.question.uid!r}, live state: {answer.error}"))
            return
        query.workers.discard(answer.worker)
        query.looks.append(answer.looks)
        if not query.workers:
            del self._open[answer.number]
            query.tell(Live(self._attempt, self._epoch(), query.looks))

    def end(self, why: str) -> None:
        """The attempt is over: nobody answers any more."""
        self._over = why
        waiting, self._open = list(self._open.values()), {}
        for query in waiting:
            query.tell(QueryError(why))
