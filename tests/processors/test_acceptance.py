"""The list of Spark's own tests is complete, and what it names is there, in both variants."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.processors.acceptance import FILES, Counterpart, Ours

ROOT = Path(__file__).parents[2]
COUNTS = {
    "test_pandas_transform_with_state.py": 20,
    "test_pandas_transform_with_state_state_variable.py": 18,
    "test_tws_tester.py": 58,
    "test_pandas_grouped_map_with_state.py": 8,
}
"""How many tests each of Spark's files has. The installed package has none of them to count."""
ALL = [
    pytest.param(counterpart, id=f"{file}::{name}")
    for file, tests in FILES.items()
    for name, counterpart in tests.items()
]


@cache
def arguments_of(file: str) -> dict[str, set[str]]:
    """The tests of a file, with the names of the arguments of each."""
    parsed = ast.parse((ROOT / file).read_text())
    is_each_in_both = any(
        isinstance(node, ast.Assign) and "VARIANTS" in ast.unparse(node) for node in parsed.body
    )
    found = {}
    for node in parsed.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            is_in_both = is_each_in_both or "VARIANTS" in "".join(
                map(ast.unparse, node.decorator_list)
            )
            names = {argument.arg for argument in node.args.args}
            found[node.name] = names if is_in_both else names - {"how"}
    return found


def problem(counterpart: Counterpart) -> str | None:
    """What is wrong with an entry of the list."""
    if not isinstance(counterpart, Ours):
        return None if counterpart.reason else "no reason"
    for test in counterpart.tests:
        file, _, name = test.partition("::")
        arguments = arguments_of(file).get(name)
        if arguments is None:
            return f"{test} is not there"
        if "how" not in arguments and not counterpart.in_one_variant:
            return f"{test} is in one variant"
    return None if counterpart.tests else "no test"


@pytest.mark.parametrize("counterpart", ALL)
def test_each_of_sparks_tests_has_its_own_or_a_reason(counterpart: Counterpart) -> None:
    assert problem(counterpart) is None


def test_the_list_has_all_of_sparks_tests() -> None:
    assert {file: len(tests) for file, tests in FILES.items()} == COUNTS


def test_a_wrong_entry_is_noticed() -> None:
    here = "tests/processors/test_acceptance.py"
    assert problem(Ours((f"{here}::test_nothing",))) == f"{here}::test_nothing is not there"
    name = f"{here}::test_a_wrong_entry_is_noticed"
    assert problem(Ours((name,))) == f"{name} is in one variant"
    assert problem(Ours((name,), in_one_variant="it has none")) is None
    assert problem(Ours(())) == "no test"
