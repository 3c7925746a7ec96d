"""Whatever a callback raises is told with its operator, and the restart strategy has the word."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mainstay.runtime.operators import rows as row_operators
from mainstay.runtime.operators.rows import MapRows
from mainstay.runtime.worker.task import Task
from tests.callbacks import rules
from tests.callbacks.cases import EMBEDDED
from tests.callbacks.conducts import BY_NAME, Conduct
from tests.callbacks.kind import Kind
from tests.callbacks.rows import ROWS
from tests.callbacks.running import run
from tests.callbacks.table import BY_NAME as KIND
from tests.callbacks.table import KINDS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_job_without_a_fault_comes_to_what_a_loop_comes_to(kind: Kind, tmp_path: Path) -> None:
    seen = run(kind, tmp_path, "value", 0, max_failures=0)
    assert (seen.status, seen.attempts) == ("finished", 1)
    assert seen.rows == Counter(tuple(row) for row in kind.expected(ROWS))


@pytest.mark.parametrize(("kind", "conduct"), EMBEDDED)
def test_what_a_callback_raises_is_told_and_nothing_is_lost(
    kind: Kind, conduct: Conduct, tmp_path: Path
) -> None:
    threads = {thread.name for thread in threading.enumerate()}
    rules.check(kind, conduct, tmp_path)
    left = {thread.name for thread in threading.enumerate()} - threads
    assert not [name for name in left if "mainstay-callbacks" in name]


# ---------------------------------------------------------------- planted bugs


_close = Task.close


def _ends_the_rows(self: Any, rows: Any) -> list[Any]:
    """A ``StopIteration`` of the function is taken for the end of the rows."""
    return list(map(self._function, rows))


def _nameless(context: Any, error: BaseException, *_: Any, **__: Any) -> BaseException:
    """The error loses its operator."""
    return error


def _swallowed(self: Any, *, in_good_order: bool) -> list[Exception]:
    """What is raised when functions are closed is thrown away."""
    _close(self, in_good_order=in_good_order)
    return []


BUGS = [
    (MapRows, "results", _ends_the_rows, "map", "stop"),
    (row_operators, "user_error", _nameless, "map", "value"),
    (Task, "close", _swallowed, "process-close", "value"),
]


@pytest.mark.mutation
@pytest.mark.parametrize(("owner", "name", "bug", "kind", "error"), BUGS)
def test_a_planted_bug_is_noticed(
    owner: Any,
    name: str,
    bug: Any,
    kind: str,
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, name, bug)
    with pytest.raises(AssertionError):
        rules.check(KIND[kind], BY_NAME[error], tmp_path)
