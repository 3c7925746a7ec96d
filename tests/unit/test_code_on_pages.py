"""The pages on the architecture and the protocol speak of code that exists, in short paragraphs."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.pages import ROOT, name_of

DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "mainstay"
PAGES = [
    DOCS / "architecture.md",
    DOCS / "protocol.md",
    *sorted((DOCS / "architecture").glob("*.md")),
]
LONGEST = 80
"""Words of a paragraph."""


def mentioned(page: Path) -> list[tuple[str, str]]:
    """The modules a page mentions, each with the function or class that it names, if it does."""
    return sorted(set(re.findall(r"([\w./]+\.py)(?::([A-Za-z_][\w.]*\w))?", page.read_text())))


@cache
def names_in(file: Path) -> frozenset[str]:
    """Every function, class and constant of a module, those of a class as ``Class.name``."""

    def walk(body: list[ast.stmt], prefix: str) -> set[str]:
        found: set[str] = set()
        for node in body:
            if isinstance(node, ast.ClassDef):
                found |= {prefix + node.name} | walk(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                found.add(prefix + node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {prefix + each.id for each in targets if isinstance(each, ast.Name)}
        return found

    return frozenset(walk(ast.parse(file.read_text()).body, ""))


def files_of(path: str) -> list[Path]:
    """The files that a path means: below the package or the project, or, by its name alone, all."""
    found = [base / path for base in (PACKAGE, ROOT) if (base / path).is_file()]
    if found or "/" in path:
        return found
    return [file for base in (PACKAGE, ROOT / "tests") for file in base.rglob(path)]


def paragraphs(page: Path) -> list[str]:
    """The text of a page in paragraphs and points, without tables and drawings."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text)
    return [part for part in parts if part.strip() and not part.lstrip().startswith("|")]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_module_that_a_page_mentions_exists(page: Path) -> None:
    assert [path for path, _ in mentioned(page) if not files_of(path)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_function_that_a_page_mentions_exists(page: Path) -> None:
    missing = [
        f"{path}:{name}"
        for path, name in mentioned(page)
        if name and not any(name in names_in(file) for file in files_of(path))
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_paragraph_of_a_page_is_short(page: Path) -> None:
    lengths = {part[:60]: len(part.split()) for part in paragraphs(page)}
    assert {start: words for start, words in lengths.items() if words > LONGEST} == {}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+\.md)[^)]*\)", page.read_text())
    assert [link for link in links if not (page.parent / link).is_file()] == []


def test_the_map_of_folders_is_that_of_the_package() -> None:
    text = (DOCS / "architecture.md").read_text()
    listed = set(re.findall(r"^\| `([\w/]+)/` \|", text, re.MULTILINE))
    folders = {
        str(file.parent.relative_to(PACKAGE))
        for file in PACKAGE.rglob("__init__.py")
        if file.parent != PACKAGE
    }
    assert listed == folders
