"""Two stores of the external backend that are asked the same, and whose answers are compared.

One is the database in memory that the simulation runs, the other PostgreSQL. A difference is a bug
of either: of the real one, or of what the simulation believes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mainstay.errors import MainstayError
from mainstay.state.backends.external.store import StateColumns, TableSet

STATES = (
    StateColumns("note", "value", "string", "string", None),
    StateColumns("counts", "map", "string", "long", "string"),
    StateColumns("amounts", "list", "string", "long", None),
)


@dataclass(slots=True)
class Log:
    """What was asked, in order, for who looks into a failure."""

    calls: list[str] = field(default_factory=list)

    def note(self, call: str) -> None:
        self.calls.append(call)

    def __str__(self) -> str:
        return "\n".join(self.calls[-60:])


class Pair:
    """The connections of one subtask: to the database in memory, and to the real one."""

    def __init__(self, memory: Any, real: Any, log: Log) -> None:
        self.memory, self.real = memory, real
        self._log = log

    def __getattr__(self, name: str) -> Any:
        def ask(*given: Any, **more: Any) -> Any:
            return self._ask(name, given, more)

        return ask

    def _ask(self, name: str, given: tuple[Any, ...], more: dict[str, Any]) -> Any:
        """The answer of both; where both refuse, the error of the real one is raised."""
        self._log.note(f"{name} {given} {more}")
        expected, found = (_outcome(s, name, given, more) for s in (self.memory, self.real))
        assert _shown(expected) == _shown(found), (
            f"{name}: in memory {_shown(expected)}, in the real one {_shown(found)} after\n"
            f"{self._log}"
        )
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        for store in (self.memory, self.real):
            store.close()


def _outcome(store: Any, name: str, given: tuple[Any, ...], more: dict[str, Any]) -> Any:
    try:
        found = getattr(store, name)(*given, **more)
        return list(found) if isinstance(found, Iterator) else found
    except MainstayError as error:
        return error


def _shown(outcome: Any) -> Any:
    """An answer so that its order does not matter where nobody promises one: ``scan`` alone does,
    and its rows are bare tuples of bytes."""
    if isinstance(outcome, Exception):
        return type(outcome)
    if isinstance(outcome, list | tuple):
        is_scan = outcome and isinstance(outcome[0], tuple) and isinstance(outcome[0][0], bytes)
        return list(outcome) if is_scan else sorted(set(outcome), key=repr)
    return dict(outcome) if isinstance(outcome, dict) else outcome


def ledger_of(pair: Pair, tables: TableSet, groups: Any) -> list[Any]:
    """The rows of the ledger, in an order that both share."""
    return sorted(pair.applied(tables, groups), key=repr)
