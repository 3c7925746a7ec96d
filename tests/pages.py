"""The programs of the documentation, run as a reader would run them.

The python blocks of a page share a namespace, and a folder of their own that is empty at first. A
```text block is what the block before it prints, where ``…`` stands for anything. Invisible
comments say what a reader need not see::

    <!-- spark -->                         the page runs in the shared Spark session, as ``spark``
    <!-- invisible-code-block: python …    what a block needs and the page does not show
    <!-- skip: next "why" -->              the next block is compiled and not run
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any
from unittest import SkipTest

from sybil import Example, Lexeme, Sybil
from sybil.evaluators.python import pad
from sybil.parsers.markdown import CodeBlockParser, SkipParser

from tests.drive.ledger import await_until, complete_epochs

ROOT = Path(__file__).parents[1]
CONNECTORS = sorted((ROOT / "docs" / "connectors").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PRINTED = "_printed"
PATIENCE_S = 240.0
"""Spark starts a streaming query and Python workers, on a machine that may be busy."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def needs_spark(page: Path) -> bool:
    return "<!-- spark -->" in page.read_text()


def has_programs(page: Path) -> bool:
    return "```python" in page.read_text()


def run_page(page: Path, folder: Path, **given: Any) -> None:
    """Run the programs of a page, in order; what they print must be what the page shows."""
    document = _parsed(page)
    # Classes of the main program are pickled whole, as they are for a reader.
    document.namespace.update({"__name__": "__main__", PRINTED: None, **given})
    if "spark" in given:
        # A JVM that runs already has a working directory of its own.
        for _, region in document.regions:
            if region.evaluator is _run:
                region.parsed = _absolute(region.parsed, folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        for example in document.examples():
            with contextlib.suppress(SkipTest):
                example.evaluate()
    finally:
        os.chdir(before)


def compile_page(page: Path) -> None:
    """Compile the programs of a page, and import what they import."""
    for example in _parsed(page).examples():
        if example.region.evaluator is _run:
            for statement in ast.walk(ast.parse(_code(example), name_of(page))):
                if isinstance(statement, ast.Import | ast.ImportFrom):
                    exec(compile(ast.Module([statement], []), str(page), "exec"), {})


def counted(job: Any) -> Any:
    """The job, once an epoch holds rows: what pages read of it is not empty."""

    def rows() -> int:
        return sum(figures.rows for figures in job.metrics().values())

    await_until(rows, "the job has counted rows", PATIENCE_S)
    before = complete_epochs(job)
    await_until(lambda: complete_epochs(job) > before + 1, "an epoch was taken since", PATIENCE_S)
    return job


def _parsed(page: Path) -> Any:
    parsers = [CodeBlockParser("python", _run), CodeBlockParser("text", _compare), SkipParser()]
    document = Sybil(parsers).parse(page)
    for example in document.examples():
        if example.region.evaluator is _run:
            compile(_code(example), str(page), "exec")
    return document


def _absolute(code: Lexeme, folder: Path) -> Lexeme:
    return Lexeme(code.replace('"./', f'"{folder}/'), code.offset, code.line_offset)


def _code(example: Example) -> str:
    """With the line numbers of the page."""
    return pad(example.parsed, example.line + example.parsed.line_offset)


def _run(example: Example) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(_code(example), example.path, "exec"), example.namespace)
    example.namespace[PRINTED] = printed.getvalue()


def _compare(example: Example) -> str | None:
    printed = example.namespace[PRINTED]
    shown = re.escape(str(example.parsed).strip()).replace("…", ".*")
    if printed is None or re.fullmatch(shown, printed.strip(), re.DOTALL):
        return None
    return f"{example.path}:{example.line} shows\n{example.parsed}\nbut printed was\n{printed}"
