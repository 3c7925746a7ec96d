"""What a random graph is made of: steps, and what each kind of step builds and means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.graphs.rows import Row

MOST_ROWS = 400
"""Streams of more are not drawn."""


@dataclass(frozen=True)
class Flow:
    """A stream as the model has it: all its rows, and what is known of when they come."""

    rows: tuple[Row, ...]
    is_timed: bool = False
    """Whether no row with a time is behind the watermark by more than ``behind_s``."""
    behind_s: int = 0
    has_mark: bool = False
    """Whether event time comes to it at all."""
    is_rowwise: bool = True
    """Whether each row was made of one row alone, so that it may only be doubled."""

    def with_rows(self, rows: Sequence[Row], **changes: Any) -> Flow:
        found = {**self.__dict__, **changes, "rows": tuple(rows)}
        return Flow(**found)

    def keyed(self, rows: Sequence[Row], **changes: Any) -> Flow:
        """The rows of something that has state."""
        return self.with_rows(rows, **{"is_rowwise": False, **changes})

    def without_time(self, rows: Sequence[Row]) -> Flow:
        return self.keyed(rows, is_timed=False, has_mark=self.has_mark)


Params = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """One operator of a graph, as a literal: its kind, the streams it reads, and how it is set."""

    kind: str
    inputs: tuple[int, ...] = ()
    params: Params = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Step({self.kind!r}, {self.inputs!r}, {dict(self.params)!r})"


@dataclass(frozen=True)
class Checks:
    """What a step says of a finished run, beside the rows of its streams."""

    states: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    """By operator, state, and maybe the field of it that counts: what it holds at the end. Lists
    are in no order, and so are the subtasks of operator state."""
    greatest: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)
    """By sink of rows that grow: the greatest of each key, which are the first column and what is
    behind it."""


class Kind:
    """A kind of step. Subclasses say what they draw, what they mean and what they build."""

    arity = 1
    weight = 1
    """How often it is drawn, compared with others."""

    def fits(self, flows: Sequence[Flow]) -> bool:
        """Whether it may read streams of which this is known."""
        return True

    def draw(self, random: Random, flows: Sequence[Flow]) -> dict[str, Any]:
        return {}

    def model(self, params: Params, flows: Sequence[Flow]) -> list[Flow]:
        """The streams that it gives."""
        raise NotImplementedError

    def checks(self, uid: str, params: Params, flows: Sequence[Flow]) -> Checks:
        return Checks()

    def build(
        self,
        env: Any,
        uid: str,
        params: Params,
        streams: Sequence[Any],
        settings: dict[str, Any],
    ) -> list[Any]:
        """The same in the public API; ``settings`` are those of its main operator."""
        raise NotImplementedError


KINDS: dict[str, Kind] = {}


def kind(name: str) -> Any:
    """Registers a kind of step under its name."""

    def register(cls: type[Kind]) -> type[Kind]:
        KINDS[name] = cls()
        return cls

    return register
