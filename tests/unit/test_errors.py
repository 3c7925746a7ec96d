"""The tree of errors is drawn completely."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from mainstay import errors
from tests.pages import ROOT

PACKAGE = ROOT / "src" / "mainstay"
DRAWN = str(errors.__doc__)


def classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                yield file, node


def error_classes() -> dict[str, tuple[Path, list[str]]]:
    """Every class of the package that is an exception, where it is, and what it is based on."""
    bases = {
        node.name: (file, [ast.unparse(base) for base in node.bases]) for file, node in classes()
    }

    def is_error(name: str) -> bool:
        if name not in bases:
            return name.endswith(("Error", "Exception"))
        return any(is_error(base) for base in bases[name][1])

    return {name: found for name, found in bases.items() if is_error(name)}


def drawn() -> dict[str, str | None]:
    """The classes of the tree, each with the one above it."""
    found: dict[str, str | None] = {}
    above: list[str] = []
    for depth, name in re.findall(
        r"^    ((?:[│ ]   )*(?:[├└]── )?)([A-Z]\w+)", DRAWN, re.MULTILINE
    ):
        del above[len(depth) // 4 :]
        found[name] = above[-1] if above else None
        above.append(name)
    return found


def test_every_error_of_the_package_is_in_the_tree_or_named_with_a_reason() -> None:
    named = set(re.findall(r"``(\w+)`` \(", DRAWN))
    public = {name for name in error_classes() if not name.startswith("_")}
    assert public == set(drawn()) | named
    assert not set(drawn()) & named


def test_the_tree_is_that_of_the_classes() -> None:
    found = error_classes()
    for name, above in drawn().items():
        assert above is None or above in found[name][1], name


def test_an_error_that_stands_elsewhere_is_where_the_tree_says() -> None:
    for name, (file, _) in error_classes().items():
        if file != PACKAGE / "errors.py" and not name.startswith("_"):
            assert str(file.relative_to(PACKAGE)) in DRAWN, name
