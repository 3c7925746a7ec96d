"""Docstrings, comments and messages use the words of the trade."""

from __future__ import annotations

import re
import tokenize
from pathlib import Path

import pytest

from tests.pages import ROOT, name_of

PACKAGE = ROOT / "src" / "mainstay"
INSTEAD = {
    r"whoever": "name who it is",
    r"beside (the|its) loop": "in the background",
    r"at hand": "cached, or current",
    r"on (its|their) way": "in flight",
    r"dealt out": "distributed; redistributed; round-robin",
    r"let(s)? go of": "freed, dropped, closed",
    r"none of them": "a plain sentence",
    r"put off": "deferred",
}
WORDS = re.compile("|".join(rf"\b{pattern}\b" for pattern in INSTEAD), re.IGNORECASE)
TEXTS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}


def strange_words(file: Path) -> list[str]:
    with file.open("rb") as source:
        tokens = [token for token in tokenize.tokenize(source.readline) if token.type in TEXTS]
    return [
        f"{name_of(file)}:{token.start[0]}: {found[0]!r}"
        for token in tokens
        for found in WORDS.finditer(token.string)
    ]


@pytest.mark.parametrize(
    "folder", sorted({file.parent for file in PACKAGE.rglob("*.py")}), ids=name_of
)
def test_what_people_read_avoids_words_that_have_to_be_guessed(folder: Path) -> None:
    found = [each for file in sorted(folder.glob("*.py")) for each in strange_words(file)]
    assert found == [], f"say instead: {INSTEAD}"


def test_a_strange_word_is_found_in_a_comment_and_a_text_but_not_in_a_name() -> None:
    file = ROOT / "tests" / "unit" / "test_words.py"
    assert any("whoever" in each for each in strange_words(file))
    assert WORDS.search("_put_off") is None
