"""Coroutines in the test kit: one that never answers times out, as it does in a job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.errors import UserFunctionError
from mainstay.testing import processes, run

pytestmark = pytest.mark.usefixtures("short_patience")


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "ANSWER_S", 0.05)


async def never(row: Any) -> Any:
    if row.n == 2:
        await asyncio.Event().wait()
    return (row.n,)


def called(env: ms.Environment, **settings: Any) -> None:
    rows = env.source(Rows("n long", [(1,), (2,), (3,)]), uid="rows")
    answered = rows.map_async(never, "n long", timeout="2s", uid="ask", **settings)
    answered.sink(Memory(), uid="out")


def test_a_coroutine_that_never_answers_fails_the_job_at_its_time_out() -> None:
    with pytest.raises(UserFunctionError, match="has not answered within 2 s"):
        run(called)


def test_what_stands_in_for_its_answer_is_emitted() -> None:
    result = run(lambda env: called(env, on_timeout=lambda row: (-row.n,)))
    assert sorted(result.output("out")) == [(-2,), (1,), (3,)]
