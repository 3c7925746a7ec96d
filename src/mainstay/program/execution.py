"""Runs a file as Python would run it: as ``__main__``, with its own arguments."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import print_exception
from types import ModuleType

from mainstay.errors import GraphError


def execute(file: Path, arguments: Sequence[str]) -> None:
    """Run it; raises what it raises."""
    # Without what this file imports from the future: annotations of the program are its own.
    code = compile(_source(file), str(file), "exec", dont_inherit=True)
    with _as_main(file, arguments) as module:
        exec(code, vars(module))


def _source(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise GraphError(
            f"the program {str(file)!r} cannot be read: {error.strerror}. Name a Python file."
        ) from error


@contextmanager
def _as_main(file: Path, arguments: Sequence[str]) -> Iterator[ModuleType]:
    """The file is the main module: what is defined in it is sent to workers by its value."""
    module = ModuleType("__main__")
    module.__file__ = str(file)
    vars(module)["__builtins__"] = __builtins__
    before = (sys.modules["__main__"], sys.argv, list(sys.path))
    sys.modules["__main__"], sys.argv = module, [str(file), *arguments]
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        yield module
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = before


def show_error(file: Path, error: BaseException) -> None:
    """As Python shows it, from the first line of the program on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(file):
        trace = trace.tb_next
    print_exception(type(error), error, trace, file=sys.stderr)
