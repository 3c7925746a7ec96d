"""Examples in docstrings are true: each is run, and gives what it says."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from tests.pages import ROOT

SOURCE = ROOT / "src"


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = [name_of(p) for p in sorted(SOURCE.rglob("*.py")) if ">>> " in p.read_text()]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_give_what_they_say(name: str) -> None:
    module = import_module(name)
    found = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert found, "there is an example that is in no docstring"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failures: list[str] = []
    for test in found:
        runner.run(test, out=failures.append)
    assert not failures, "".join(failures)


def test_the_parts_that_a_reader_comes_to_first_have_examples() -> None:
    assert {
        "mainstay.runtime.worker.alignment",
        "mainstay.state.chain",
        "mainstay.state.keygroups",
    } <= set(MODULES)
