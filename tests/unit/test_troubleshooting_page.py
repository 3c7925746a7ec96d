"""Every message that the page on troubleshooting quotes occurs in the code."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.pages import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
QUOTED = re.findall(r"\*\*`(.+?)`\*\*", PAGE.read_text())


@cache
def texts() -> tuple[str, ...]:
    """Every text in the code; of one with values in it, the parts between them."""
    return tuple(
        node.value
        for file in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def pieces(message: str) -> list[str]:
    return [piece.strip() for piece in message.split("…") if piece.strip(" .,:;'")]


def missing(message: str) -> list[str]:
    return [piece for piece in pieces(message) if not any(piece in text for text in texts())]


def test_the_page_has_messages() -> None:
    assert len(QUOTED) > 35


@pytest.mark.parametrize("message", QUOTED)
def test_a_message_of_the_page_is_in_the_code(message: str) -> None:
    assert missing(message) == []


def test_a_message_that_is_nowhere_is_noticed() -> None:
    assert missing("the snapshot directory holds … of nobody at all") == ["of nobody at all"]
