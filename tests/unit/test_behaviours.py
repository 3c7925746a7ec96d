"""The list of what event time has to do names tests that exist, and all rows of the tables."""

from __future__ import annotations

import ast
import re

from tests.behaviours import BEHAVIOURS
from tests.pages import ROOT
from tests.windows.test_behaviours import BEHAVIOURS as WINDOWS

NAMED = [test for of in BEHAVIOURS.values() for tests in of.values() for test in tests]


def named_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / f"{path}.py").read_text())
    return {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}


def test_every_test_that_is_named_exists() -> None:
    for test in NAMED:
        path, name = test.split("::")
        assert re.sub(r"\[.*", "", name) in named_in(path), test


def test_every_row_that_is_named_is_in_the_table() -> None:
    rows = {row for test in NAMED for row in re.findall(r"\[(.*)\]", test)}
    assert rows <= {behaviour.name for behaviour in WINDOWS}
