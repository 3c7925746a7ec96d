"""Misspelt words: the one that was probably meant, for the end of an error message."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


def did_you_mean(given: Any, known: Iterable[str]) -> str:
    """A question where a known word is close to what was given, or nothing.

    >>> did_you_mean("lastest", ["latest", "earliest"])
    " Did you mean 'latest'?"
    """
    if not isinstance(given, str):
        return ""
    words = {_plain(word): word for word in known}
    close = get_close_matches(_plain(given), words, n=1, cutoff=0.6)
    return f" Did you mean {words[close[0]]!r}?" if close else ""


def _plain(word: str) -> str:
    """What of a word matters: neither case nor the kind of dash."""
    return word.strip().lower().replace("-", "_").replace(" ", "_")


def one_of(known: Iterable[str]) -> str:
    """Words as a message lists them."""
    return ", ".join(map(repr, known))


def unended(problem: object) -> str:
    """What an error of another package says, without its full stop: a sentence goes on after it."""
    return str(problem).strip().removesuffix(".")


def counted(number: int, thing: str) -> str:
    """``1 epoch``, ``2 epochs``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
