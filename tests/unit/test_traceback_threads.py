"""A traceback can be written whatever other threads parse meanwhile."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from mainstay.tracebacks import full_traceback, own_traceback


@pytest.mark.parametrize("write", [own_traceback, full_traceback])
def test_a_traceback_is_written_again_where_the_interpreter_failed_to_parse(
    write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    formatted, failures = traceback.TracebackException.format, [True, True]

    def failing(self: Any, **named: Any) -> Any:
        if failures:
            failures.pop()
            raise SystemError("AST constructor recursion depth mismatch")
        return formatted(self, **named)

    try:
        raise LookupError("nothing here")
    except LookupError as error:
        found = error
    monkeypatch.setattr(traceback.TracebackException, "format", failing)
    assert "LookupError: nothing here" in write(found)
    assert failures == []
