"""What cannot be compiled: where it is, what it is, and what to write instead."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from mainstay.errors import GraphError


class NotCompiledError(GraphError):
    """A function that is to be compiled has something in it that cannot be."""


@dataclass(frozen=True, slots=True)
class Written:
    """A function as its author wrote it: its syntax, and the file and line where it begins."""

    node: ast.FunctionDef | ast.Lambda
    lines: tuple[str, ...]
    file: str
    first_line: int
    """The number in the file of line 1 of ``lines``."""
    name: str

    def refuse(self, node: ast.AST, construct: str, remedy: str) -> NoReturn:
        """Say what cannot be compiled, with its line."""
        line = getattr(node, "lineno", getattr(self.node, "lineno", 1))
        text = self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
        number = line + self.first_line - 1
        raise NotCompiledError(
            f"{self.name} cannot be compiled: {construct}.\n"
            f"  {Path(self.file).name}:{number}: {text}\n"
            f"{remedy}"
        )


WITHOUT = "Leave out compiled=True, and it runs as ordinary Python."
