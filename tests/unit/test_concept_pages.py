"""The pages on concepts are short, have a drawing, and say what is the paper's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import ROOT, name_of

PAGES = sorted((ROOT / "docs" / "concepts").glob("*.md"))
LONGEST = 120
"""Lines."""
LINES = set("─│┌┐└┘├┤┬┴┼▶◀▼▓")


def test_there_are_pages() -> None:
    assert len(PAGES) >= 6


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_concept_is_drawn(page: Path) -> None:
    drawings = re.findall(r"^```\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    assert any(LINES & set(drawing) for drawing in drawings)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_concept_is_short_and_says_what_the_paper_has(page: Path) -> None:
    text = page.read_text()
    assert len(text.splitlines()) <= LONGEST
    assert "\n## In the paper\n" in text
