"""The programs of the documentation, run as a reader would paste them.

The python blocks of a page, and nothing else, are one program: they run from the top to the bottom
in a process of their own, in a folder that is empty. So a page shows everything its blocks need. A
```text block is what the block before it prints, where ``…`` stands for anything. Two invisible
comments are left::

    <!-- spark -->               the page starts a Spark session
    <!-- skip: next "why" -->    the next block is compiled and not run
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sybil import Sybil
from sybil.parsers.markdown import SkipParser
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXEMPT = {
    "docs/connectors/kafka.md": "needs a Kafka broker",
    "docs/connectors/postgres.md": "needs a PostgreSQL server",
    "docs/connectors/webhook.md": "needs a server that takes the rows",
}
"""Pages whose programs are compiled, and what they import imported, and no more than that."""
PATIENCE_S = 600.0
"""Spark starts a streaming query and Python workers, on a machine that may be busy."""
_END = "\x1e"
"""Ends what a block prints."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page that a reader sees."""

    line: int
    language: str
    text: str
    is_skipped: bool


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def needs_spark(page: Path) -> bool:
    return "<!-- spark -->" in page.read_text()


def has_programs(page: Path) -> bool:
    return any(block.language == "python" for block in blocks_of(page))


def is_exempt(page: Path) -> bool:
    return name_of(page) in EXEMPT


def blocks_of(page: Path) -> list[Block]:
    """What a page shows of python and of output, in order."""
    text = page.read_text()
    found, is_skipped = [], False
    for _, region in Sybil([FencedCodeBlockLexer("python|text"), SkipParser()]).parse(page).regions:
        if "source" in region.lexemes:
            line = text.count("\n", 0, region.start) + 1
            language, source = region.lexemes["language"], region.lexemes["source"]
            found.append(Block(line, str(language), str(source), is_skipped))
        is_skipped = "source" not in region.lexemes
    return found


def run_page(page: Path, folder: Path) -> None:
    """Run the programs of a page; what they print must be what the page shows."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    program = folder / f"{page.stem}.py"
    blocks = blocks_of(page)
    program.write_text(_program(blocks))
    ran = subprocess.run(
        [sys.executable, str(program)],
        cwd=work,
        env=_as_activated(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, f"{page}\n{ran.stdout}\n{ran.stderr}"
    for line, shown, printed in _compared(blocks, ran.stdout.split(_END + "\n")):
        pattern = re.escape(shown.strip()).replace("…", ".*")
        assert re.fullmatch(pattern, printed.strip(), re.DOTALL), (
            f"{page}:{line} shows\n{shown}\nbut printed was\n{printed}"
        )


def compile_page(page: Path) -> None:
    """Compile the programs of a page, and import what they import."""
    for block in blocks_of(page):
        if block.language == "python":
            for statement in ast.walk(ast.parse(block.text, str(page))):
                if isinstance(statement, ast.Import | ast.ImportFrom):
                    exec(compile(ast.Module([statement], []), str(page), "exec"), {})


def _program(blocks: list[Block]) -> str:
    """The blocks with the line numbers of the page, each followed by the end of its output."""
    lines: list[str] = []
    for block in blocks:
        if block.language != "python":
            continue
        if block.is_skipped:
            compile(block.text, "a block that is skipped", "exec")
            continue
        lines += [""] * (block.line - len(lines))
        lines += [*block.text.splitlines(), f"print({_END!r}, flush=True)"]
    return "\n".join(lines) + "\n"


def _compared(blocks: list[Block], outputs: list[str]) -> Iterator[tuple[int, str, str]]:
    """What is shown as output, and what the block before it has printed."""
    remaining, printed = iter(outputs), None
    for block in blocks:
        if block.language == "python":
            printed = None if block.is_skipped else next(remaining)
        elif printed is not None:
            yield block.line, block.text, printed


def _as_activated() -> dict[str, Any]:
    """The environment of a reader who has activated that of this Python, and set nothing else."""
    ours = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
