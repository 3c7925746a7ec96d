"""The report of ``mainstay bench``: rates against the bare loop, latencies, and the verdicts."""

from __future__ import annotations

import io

import pytest

pytest.importorskip("rich", reason="the command is an extra")

from rich.console import Console

from mainstay.bench.show import show
from mainstay.bench.suite import BARE, Outcome


def shown(*outcomes: Outcome) -> str:
    out = io.StringIO()
    show(Console(file=out, width=110), outcomes, "Mainstay on Spark")
    return out.getvalue()


def test_rates_are_shown_with_their_share_of_the_bare_loop() -> None:
    ours = Outcome("process", 500_000.0, is_right=True, beside=2_000_000.0)
    text = shown(ours, Outcome(BARE, 1_000_000.0))
    row = next(line for line in text.splitlines() if "process" in line)
    assert "500,000" in row
    assert "25%" in row
    assert "exact" in row
    assert text.index(BARE) < text.index("process")


def test_a_wrong_result_is_called_wrong() -> None:
    text = shown(Outcome(BARE, 1.0), Outcome("process", 1.0, is_right=False))
    assert "wrong" in text
    assert "exact" not in text


def test_latencies_have_a_table_of_their_own() -> None:
    latency = {"p50": 1.25, "p99": 5.0, "p99.9": 9.9}
    text = shown(Outcome(BARE, 1.0), Outcome("latency", 5000.0, True, latency))
    assert all(name in text for name in latency)
    assert "1.2 ms" in text
    assert "9.9 ms" in text
