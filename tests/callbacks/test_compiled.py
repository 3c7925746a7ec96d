"""Compiled functions raise as others do: in their hooks, and for a row, in a kernel that the
interpreter runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import UserFunctionError
from mainstay.runtime.compiled.kernels import InterpretedKernels
from mainstay.runtime.compiled.program import Program
from tests.callbacks import rules
from tests.callbacks.conducts import ERRORS, WORDS, Conduct, Fault
from tests.callbacks.keyed_kinds import numbered
from tests.callbacks.kind import Kind
from tests.callbacks.plain_kinds import OUT, Hooks
from tests.callbacks.rows import MIDDLE
from tests.callbacks.running import run


class Interpreted(InterpretedKernels):
    """There is nothing that would have to be compiled before."""

    def is_cached(self, program: Program) -> bool:
        return True


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("embedded", "compiling"):
        monkeypatch.setattr(f"mainstay.drive.{module}.NumbaKernels", Interpreted)
    monkeypatch.setattr("mainstay.drive.compiling.check_numba", lambda name: None)


class Counting(Hooks, ms.KeyedProcess, compiled=True):
    count = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.count.update((self.count.get() or 0) + 1)
        return ctx.key, self.count.get()


def hooked(name: str, how: str = "again") -> Kind:
    def apply(stream: Any, fault: Fault) -> Any:
        return stream.key_by("k").process(Counting(fault, name), OUT, uid="subject")

    return Kind(f"compiled-{name}", name, apply, expected=numbered, hook=name, how=how)


HOOKS = (hooked("open", "at once"), hooked("on_snapshot"), hooked("close", "told"))
IN_SUITE = {"stop", "exit"}
CELLS = [
    pytest.param(
        kind,
        error,
        id=f"{kind.name}-{error.name}",
        marks=() if error.name in IN_SUITE else pytest.mark.soak,
    )
    for kind in HOOKS
    for error in ERRORS
]


@pytest.mark.parametrize(("kind", "conduct"), CELLS)
def test_what_a_hook_raises_is_told_and_nothing_is_lost(
    kind: Kind, conduct: Conduct, tmp_path: Path
) -> None:
    rules.check(kind, conduct, tmp_path)


class Fails(ms.KeyedProcess, compiled=True):
    def process(self, row: Any, ctx: Any) -> Any:
        if row.n >= MIDDLE:
            raise ValueError("the wheel came off")
        return ctx.key, row.n


class Stops(ms.KeyedProcess, compiled=True):
    def process(self, row: Any, ctx: Any) -> Any:
        if row.n >= MIDDLE:
            raise StopIteration("the wheel came off")
        return ctx.key, row.n


class Exits(ms.KeyedProcess, compiled=True):
    def process(self, row: Any, ctx: Any) -> Any:
        if row.n >= MIDDLE:
            raise SystemExit("the wheel came off")
        return ctx.key, row.n


RAISING: dict[str, Callable[[], Any]] = {
    "ValueError": Fails,
    "StopIteration": Stops,
    "SystemExit": Exits,
}


@pytest.mark.parametrize("error", RAISING)
def test_what_is_raised_for_a_row_is_told_as_it_is(error: str, tmp_path: Path) -> None:
    def apply(stream: Any, fault: Fault) -> Any:
        return stream.key_by("k").process(RAISING[error](), OUT, uid="subject")

    kind = Kind("compiled", "process", apply)
    seen = run(kind, tmp_path, "value", 0, max_failures=1)
    assert (seen.status, seen.attempts) == ("failed", 2)
    assert isinstance(seen.error, UserFunctionError)
    assert seen.error.uid == "subject"
    for each in (error, WORDS, "in process"):
        assert each in str(seen.error), seen.error
