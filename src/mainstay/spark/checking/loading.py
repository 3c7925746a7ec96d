"""Runs a file for what it defines, without starting Spark.

A program makes a session and a query beside its classes. So the file is run statement by statement:
where one asks for a session it is passed over, and so are those that need what it would have made.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from mainstay.errors import GraphError, named


class _SessionAskedForError(Exception):
    """Raised in the place of a start of Spark."""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file that was run, its text as a tree, and the statements that were passed over."""

    module: ModuleType
    tree: ast.Module
    skipped: tuple[ast.stmt, ...]


def load(path: Path) -> LoadedFile:
    """Run a file; a ``GraphError`` where it cannot be."""
    try:
        tree = ast.parse(path.read_text(), str(path))
    except (SyntaxError, UnicodeDecodeError, OSError) as error:
        raise GraphError(f"{path} cannot be read as a Python program: {error}") from error
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    skipped: list[ast.stmt] = []
    with _importable(module, path), _without_spark():
        for statement in tree.body:
            if not _run(statement, module, path, may_lack=bool(skipped)):
                skipped.append(statement)
    return LoadedFile(module, tree, tuple(skipped))


def _run(statement: ast.stmt, module: ModuleType, path: Path, *, may_lack: bool) -> bool:
    """Run one statement; False where it was passed over."""
    code = compile(ast.Module([statement], []), str(path), "exec")
    try:
        exec(code, vars(module))
    except _SessionAskedForError:
        return False
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        raise GraphError(
            f"{path}, line {statement.lineno}, ended the program by sys.exit({error.code!r}) while "
            "the file was imported, so nothing of it was checked. Put what ends a program under "
            'if __name__ == "__main__":.'
        ) from error
    except BaseException as error:
        if may_lack and isinstance(error, NameError):
            return False
        raise GraphError(
            f"{path}, line {statement.lineno}, fails when the file is imported: "
            f"{named(error)}. Put what needs its surroundings under "
            'if __name__ == "__main__":.'
        ) from error
    return True


@contextmanager
def _importable(module: ModuleType, path: Path) -> Iterator[None]:
    """The module under its name, as pickles of its classes need, and its folder's modules."""
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.path.remove(str(path.resolve().parent))
        if before is not None:
            sys.modules[module.__name__] = before


# A program comes by a session by starting one, or by taking one that runs, as in a notebook.
# Both are refused, so that a file is judged the same wherever it is checked.
_WAYS_TO_A_SESSION = (
    (SparkSession.Builder, "getOrCreate"),
    (SparkSession.Builder, "create"),
    (SparkSession, "getActiveSession"),
    (SparkSession, "active"),
    (SparkContext, "getOrCreate"),
    (SparkContext, "_ensure_initialized"),
)


@contextmanager
def _without_spark() -> Iterator[None]:
    def refuse(*_: Any, **__: Any) -> None:
        raise _SessionAskedForError

    real = [(place, name, vars(place)[name]) for place, name in _WAYS_TO_A_SESSION]
    for place, name, _ in real:
        setattr(place, name, refuse)
    try:
        yield
    finally:
        for place, name, method in real:
            setattr(place, name, method)
