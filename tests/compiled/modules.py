"""Source text as modules of files, which is where a compiled function's text is read from."""

from __future__ import annotations

import importlib.util
import sys
from itertools import count
from pathlib import Path
from textwrap import dedent, indent
from types import ModuleType

_numbers = count()
HEAD = """import math
import operator
from datetime import date, datetime, timedelta, timezone

import mainstay as ms

"""


def module_of(source: str, folder: Path) -> ModuleType:
    """A module of this text."""
    name = f"compiled_function_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def class_of(body: str, *, before: str = "", members: str = "") -> str:
    """The text of a class ``F`` whose process has this body."""
    own = indent(dedent(members).strip("\n"), "    ")
    process = "" if not body else f"    def process(self, row, ctx):\n{_within(body)}\n"
    return f"{HEAD}{dedent(before)}\n\nclass F(ms.KeyedProcess, compiled=True):\n{own}\n\n{process}"


def _within(body: str) -> str:
    return indent(dedent(body).strip("\n"), "        ")
