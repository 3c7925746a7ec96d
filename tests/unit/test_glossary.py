"""The glossary defines what there is."""

from __future__ import annotations

import re

import pytest

from tests.pages import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
WORDS = sorted(set(re.findall(r"\*\*(.+?)\*\*", GLOSSARY.read_text())))


@pytest.fixture(scope="module")
def everything() -> str:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    return "\n".join(file.read_text() for file in files if file != GLOSSARY).replace("_", " ")


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_the_glossary_occurs_in_the_code_or_the_pages(word: str, everything: str) -> None:
    pattern = re.sub(r"[\s-]+", r"[\\s-]+", word)
    assert re.search(rf"\b{pattern}", everything, re.IGNORECASE)
