"""``explain()`` says of each operator whether it is compiled."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError
from tests.compiled.accounts import GIVEN, ROWS, TAKEN, Account, OwnAccount


class FurtherAccount(Account):
    """A class below a compiled one, which says nothing itself."""


class ListedAccount(Account):
    """One that cannot be compiled."""

    seen = ms.ListState("long")


def explained(**functions: Any) -> dict[str, str]:
    """The line of each operator."""
    env = ms.Environment()
    keyed = env.source(ms.connectors.Rows(TAKEN, ROWS), uid="in").key_by("account")
    for uid, function in functions.items():
        made = keyed.process(function, GIVEN, uid=uid)
        made.sink(ms.connectors.Memory(), uid=f"{uid}-out")
    lines = (line.strip() for line in env.explain().splitlines())
    return {uid: line for line in lines for uid in functions if line.startswith(f"{uid}: ")}


def test_explain_says_which_operators_are_compiled() -> None:
    lines = explained(compiled=Account(), further=FurtherAccount(), own=OwnAccount())
    given = "account string, n long, total long"
    assert lines == {
        "compiled": f"compiled: process -> {given}, compiled",
        "further": f"further: process -> {given}, compiled",
        "own": f"own: process -> {given}",
    }


def test_explain_refuses_what_cannot_be_compiled() -> None:
    with pytest.raises(GraphError, match="operator 'listed': ListedAccount cannot be compiled"):
        explained(listed=ListedAccount())
