"""Nothing is taken from the standard library that the oldest supported Python does not have."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.pages import ROOT, name_of

SINCE_3_11 = {
    "asyncio": {"Runner", "TaskGroup", "timeout"},
    "builtins": {"BaseExceptionGroup", "ExceptionGroup"},
    "contextlib": {"chdir"},
    "datetime": {"UTC"},
    "enum": {"ReprEnum", "StrEnum", "member", "nonmember", "verify"},
    "hashlib": {"file_digest"},
    "inspect": {"getmembers_static"},
    "itertools": {"batched"},
    "typing": {
        *("LiteralString", "Never", "NotRequired", "Required", "Self", "TypeVarTuple", "Unpack"),
        *("assert_never", "assert_type", "dataclass_transform", "override", "reveal_type"),
    },
    "warnings": {"deprecated"},
}
"""What Python 3.11 and later ones have added to modules, as far as it is likely to be used."""
MODULES = {"tomllib", "wsgiref.types"}
FOLDERS = ("src", "tests", "benchmarks", "examples")


def too_new(source: str) -> list[str]:
    """The names in a program that Python 3.10 does not have."""
    found = []
    for node in ast.walk(ast.parse(source, feature_version=(3, 10))):
        if isinstance(node, ast.ImportFrom):
            newer = SINCE_3_11.get(node.module or "", set())
            found += [f"{node.module}.{each.name}" for each in node.names if each.name in newer]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in SINCE_3_11.get(node.value.id, set()):
                found.append(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Name) and node.id in SINCE_3_11["builtins"]:
            found.append(node.id)
        elif isinstance(node, ast.Import):
            found += [each.name for each in node.names if each.name in MODULES]
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_code_uses_what_the_oldest_python_has(folder: str) -> None:
    files: list[Path] = sorted((ROOT / folder).rglob("*.py"))
    assert files
    newer = {name_of(file): found for file in files if (found := too_new(file.read_text()))}
    assert newer == {}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from typing import Any, assert_never", "typing.assert_never"),
        ("import datetime\nnow = datetime.UTC", "datetime.UTC"),
        ("import tomllib", "tomllib"),
        ("raise ExceptionGroup('two', [])", "ExceptionGroup"),
    ],
)
def test_a_name_that_is_too_new_is_found(source: str, name: str) -> None:
    assert too_new(source) == [name]
