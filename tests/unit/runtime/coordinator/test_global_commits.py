"""Sinks that the coordinator commits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import mainstay as ms
from mainstay.connectors import Memory, SinkRecovery
from mainstay.testing import rows, run

CALLS: list[tuple[str, Any]] = []


class Recorded(Memory):
    """Notes what it is asked to do, and fails as often as it is told to."""

    failures = 0

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        CALLS.append(("commit", epoch))
        if Recorded.failures:
            Recorded.failures -= 1
            raise OSError("the target is away")
        super().commit_epoch(epoch, handles)

    def recover(self, recovery: SinkRecovery) -> None:
        CALLS.append(("recover", recovery.attempt))


def play(monkeypatch: Any, *, crashes: int = 0, failures: int = 0) -> Any:
    Recorded.failures = failures
    module = sys.modules["mainstay.testing.run"]

    def recorded() -> Recorded:
        """What counts is the last run: those before it find out how long it takes."""
        CALLS.clear()
        return Recorded()

    monkeypatch.setattr(module.replaced, "__defaults__", (recorded,))

    def build(env: ms.Environment) -> None:
        source = rows("n long", [(n,) for n in range(300)], splits=2)
        env.source(source, uid="in").sink(Recorded(), uid="out")

    return run(build, crashes=crashes, seed=5)


def test_epochs_are_committed_in_their_order_after_the_recovery(monkeypatch: Any) -> None:
    result = play(monkeypatch)
    assert CALLS[0] == ("recover", 1)
    committed = [epoch for what, epoch in CALLS if what == "commit"]
    assert committed == sorted(set(committed))
    assert sorted(result.output("out")) == [(n,) for n in range(300)]


def test_a_failed_commit_is_tried_again(monkeypatch: Any) -> None:
    result = play(monkeypatch, failures=3)
    assert sorted(result.output("out")) == [(n,) for n in range(300)]


def test_every_attempt_recovers_what_is_left_of_the_ones_before_it(monkeypatch: Any) -> None:
    result = play(monkeypatch, crashes=4)
    cleaned = [attempt for what, attempt in CALLS if what == "recover"]
    assert len(cleaned) > 1
    assert cleaned == sorted(set(cleaned))
    assert sorted(result.output("out")) == [(n,) for n in range(300)]
