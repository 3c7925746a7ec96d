"""Lines of a kernel as they are written, with blocks, names of their own and drafts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

Lines = list[tuple[int, str]]


class Writer:
    """Gathers lines. A draft is written aside, and put in its place when all of it is known."""

    def __init__(self) -> None:
        self._lines: Lines = []
        self._depth = 0
        self._names = 0
        self.zeros: dict[str, str] = {}
        """What variables are before anything is assigned to them."""

    def __call__(self, line: str) -> None:
        self._lines.append((self._depth, line))

    def name(self, end: str = "") -> str:
        """A name that nothing else has."""
        self._names += 1
        return f"t{self._names}{end}"

    def temp(self, code: str) -> str:
        """A name for what some code gives."""
        name = self.name()
        self(f"{name} = {code}")
        return name

    def trap_unless(self, condition: str) -> None:
        self(f"if not {condition}:")
        with self.block():
            self("raise Trap")

    @contextmanager
    def block(self) -> Iterator[None]:
        """What is written meanwhile stands within the line before."""
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self("pass")
        self._depth -= 1

    @contextmanager
    def draft(self) -> Iterator[Lines]:
        """What is written meanwhile goes into the lines that are given, as they stand alone."""
        lines, self._lines = self._lines, []
        depth, self._depth = self._depth, 0
        written = self._lines
        yield written
        self._lines, self._depth = lines, depth

    def put(self, lines: Lines) -> None:
        """Put a draft here."""
        self._lines.extend((self._depth + depth, line) for depth, line in lines)

    def text(self, depth: int) -> str:
        """All that was written, at a depth."""
        return "\n".join("    " * (depth + own) + line for own, line in self._lines)
