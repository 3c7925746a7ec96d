"""A candidate's ear: what an election says, from any thread, is heard on the loop of the drive."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum


class Word(Enum):
    """What an election can say."""

    ELECTED = "elected"
    DOUBTED = "doubted"
    ASSURED = "assured"
    LOST = "lost"


class Ear:
    """The candidate of one campaign. ``wake`` is called after every word."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._words: deque[Word] = deque()
        self.stands = False
        """Whether the process leads without a doubt, as far as the election has said."""

    def elected(self) -> None:
        self._hear(Word.ELECTED)

    def doubted(self) -> None:
        self._hear(Word.DOUBTED)

    def assured(self) -> None:
        self._hear(Word.ASSURED)

    def lost(self) -> None:
        self._hear(Word.LOST)

    def _hear(self, word: Word) -> None:
        self.stands = word in (Word.ELECTED, Word.ASSURED)
        self._words.append(word)
        self._wake()

    @property
    def is_elected(self) -> bool:
        """Whether it was elected, and that has not been taken yet."""
        return Word.ELECTED in tuple(self._words)

    def take(self) -> Word | None:
        """The next word, oldest first; None where there is none."""
        try:
            return self._words.popleft()
        except IndexError:
            return None
