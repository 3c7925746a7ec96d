"""Questions about live state, which a worker answers between two slices of rows.

Each answer is what the owner of the keys has at that moment: all rows before it, none after it. It
may be taken back, because no epoch has it yet. A storm of questions must not hold up rows or
markers, so a little is answered at a time, and the rest waits its turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mainstay.errors import MainstayError
from mainstay.runtime.messages import Answered, Ask
from mainstay.runtime.ports import COORDINATOR, Ports
from mainstay.runtime.worker.member import Member
from mainstay.state.backends.contract import KeyedBackend
from mainstay.state.looking import Look
from mainstay.state.values import Keys

KEYS_AT_ONCE = 256
"""How many keys are looked up between two slices, about."""
AT_ONCE_S = 0.001


class Questions:
    """The questions to one worker that have not been answered yet."""

    def __init__(self, number: int, members: Mapping[str, Member], ports: Ports) -> None:
        self._number = number
        self._members = members
        self._ports = ports
        self._waiting: deque[Ask] = deque()

    def ask(self, question: Ask) -> None:
        self._waiting.append(question)

    @property
    def are_waiting(self) -> bool:
        return bool(self._waiting)

    def step(self) -> None:
        """Answer some, in the order in which they came."""
        until = self._ports.clock.monotonic() + AT_ONCE_S
        keys = 0
        while self._waiting and keys < KEYS_AT_ONCE:
            question = self._waiting.popleft()
            keys += question.limit if question.keys is None else len(question.keys)
            self._answer(question)
            if self._ports.clock.monotonic() >= until:
                return

    def _answer(self, question: Ask) -> None:
        member = self._members.get(question.uid)
        if member is None:
            # Operators may have fewer subtasks than there are workers.
            self._say(question, {})
            return
        if question.keys is None:
            self._look(question, lambda state: _look_around(member, state, question.limit))
            return
        assert member.keyed is not None
        backend = member.keyed.backend
        if (work := backend.read_ahead(question.keys)) is not None:
            keys = question.keys
            self._ports.background.submit(
                work.run,
                _then(work.done, lambda: self._look_at(question, backend, keys)),
                _then(work.failed, lambda: self._say(question, {}, "its database is away")),
            )
        else:
            self._look_at(question, backend, question.keys)

    def _look_at(self, question: Ask, backend: KeyedBackend, keys: Sequence[Any]) -> None:
        self._look(question, lambda state: backend.look_at(state, Keys(keys)))

    def _look(self, question: Ask, look: Callable[[str], Look]) -> None:
        try:
            self._say(question, {state: look(state) for state in question.states})
        except MainstayError as error:
            # A question is no reason for the job to fail.
            self._say(question, {}, str(error))

    def _say(self, question: Ask, looks: Mapping[str, Look], error: str = "") -> None:
        self._ports.send(
            COORDINATOR, Answered(question.attempt, question.number, self._number, looks, error)
        )


def _look_around(member: Member, state: str, limit: int) -> Look:
    """What a state holds of some keys; broadcast state has none, and is shown by its entries."""
    if state in member.broadcast:
        return member.broadcast[state].look(limit)
    assert member.keyed is not None
    return member.keyed.backend.look_around(state, limit)


def _then(first: Callable[[Any], None], next: Callable[[], None]) -> Callable[[Any], None]:
    def both(found: Any) -> None:
        first(found)
        next()

    return both
