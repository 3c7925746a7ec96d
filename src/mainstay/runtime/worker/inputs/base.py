"""The input of a task: what it takes next, and when a cut may be taken there.

A task asks its input for one thing at a time: a slice of rows, a marker, a watermark, an end. The
input hands it to the operators, and asks the task for a cut when that is due.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Protocol

from mainstay.runtime.connector import Split
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.worker.operator_chain import OperatorChain


class Snapshots(Protocol):
    """The part of a task that an input calls when an epoch is to be cut, or cannot be."""

    def cut(
        self, epoch: Epoch, alignment_s: float = 0.0, arrived: AbstractSet[int] | None = None
    ) -> None:
        """Cut now; ``arrived`` are the channels that the marker has come on, if not all."""

    def decline(self, epoch: Epoch, reason: str) -> None:
        """The epoch will not be cut here."""


class TaskInput:
    """The base of all inputs. ``snapshots`` is set before the first step.

    What does not concern a kind of input it ignores.
    """

    snapshots: Snapshots

    def __init__(self, head: Operator, chain: OperatorChain) -> None:
        self._first = head
        self._chain = chain

    def step(self) -> bool:
        """Take one thing, if there is one, of rows no more than the chain takes at a time. Called
        while that has nothing under way."""
        raise NotImplementedError

    def take_marker(self) -> bool:
        """Take a marker, if one is next, while the chain has something under way that may be
        cut."""
        return False

    @property
    def is_pressed(self) -> bool:
        """Whether more can be taken at once, as far as is known."""
        raise NotImplementedError

    @property
    def rows(self) -> int:
        """How many rows wait in line."""
        return 0

    @property
    def skipped(self) -> int:
        """How many malformed records were left out so far."""
        return 0

    @property
    def queued(self) -> int:
        """How many rows of a loop wait to go around again."""
        return 0

    def deadline(self, *, has_room: bool) -> float | None:
        """When there will be something to take, or to do, without a message arriving."""
        return self._first.deadline()

    # ------------------------------------------------------------ epochs

    def on_trigger(self, epoch: Epoch, *, is_last: bool = False) -> None:
        """An epoch has begun: sources cut for it. After the last one they read nothing."""

    def on_overtake(self, epoch: Epoch) -> None:
        """Wait for no more markers of the epoch."""

    def on_cut(self, epoch: Epoch) -> None:
        """The task has cut for the epoch."""

    def on_abort(self, epoch: Epoch) -> None:
        """The epoch was given up: nothing waits for it any longer."""

    # ------------------------------------------------------------ orders of the coordinator

    def assign(self, splits: tuple[Split, ...], *, last: bool) -> None:
        """Splits for a source."""
        raise KeyError(f"operator {self._first.context.uid!r} is no source: it has no splits")

    def hold(self) -> None:
        """Take no rows at all: the attempt starts from the epoch that the job halts with."""

    def drain(self) -> None:
        """A source is taken for ended where it stands; its splits keep their offsets."""

    def end_loop(self) -> None:
        """No row is left in any loop: the head of one ends with its input."""

    def check_invariants(self) -> None:
        """For tests."""
