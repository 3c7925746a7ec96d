"""The demonstration ends by itself, shows what it promises, and notices wrong books."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mainstay.demo.__main__ import Scale, main
from mainstay.demo.killing import sentence
from mainstay.demo.orders import Orders, orders
from mainstay.demo.show import Screen
from mainstay.demo.verdict import judge
from mainstay.errors import SparkSetupError

SMALL = Scale(orders=4000, seconds=1.0, epoch_every_s=0.1, seeds=2, simulated_orders=40)


def test_it_survives_the_crash_and_finds_every_order_once() -> None:
    out = io.StringIO()
    assert main(SMALL, out, embedded=True) == 0
    text = out.getvalue()
    assert "worker 1 is killed" in text
    assert "attempt 2: from" in text
    assert "4,000 orders of" in text
    assert "2 of 2 simulated runs" in text
    assert "\r" not in text


def test_orders_read_again_from_an_offset_are_the_same() -> None:
    source = Orders(100, per_second=1e9)
    (split, _) = source.plan(frozenset())
    whole = source.read(split, [0, time.time() - 1.0]).poll(50).batch
    again = source.read(split, [20, time.time() - 1.0]).poll(50)
    assert whole is not None
    assert again.batch == whole.slice(20)
    assert again.finished


def test_orders_that_are_not_due_are_not_given() -> None:
    source = Orders(100, per_second=1e-9)
    (split, _) = source.plan(frozenset())
    now = time.time()
    polled = source.read(split, [7, now]).poll(50)
    assert (polled.batch, polled.offset, polled.finished) == (None, [7, now], False)


def test_orders_come_into_being_from_the_first_read_on_whoever_reads() -> None:
    source = Orders(100, per_second=10.0)
    (split, _) = source.plan(frozenset())
    polled = source.read(split, None).poll(50)
    assert polled.batch is None
    position, opened = polled.offset
    assert position == 0
    later = source.read(split, [position, opened - 1.0]).poll(50)
    assert later.batch is not None
    assert later.batch.num_rows in (5, 6)


def test_a_worker_that_is_told_to_dies_as_by_kill_9(tmp_path: Path) -> None:
    """Told by another process, as by another machine that sees the same folder."""
    program = (
        "import sys\n"
        "from mainstay.demo.orders import Orders\n"
        "source = Orders(100, per_second=1e-9, folder=sys.argv[1])\n"
        "reader = source.read(source.plan(frozenset())[0], None)\n"
        "print('reads', flush=True)\n"
        "while True: reader.poll(1)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "reads\n"
        sentence(tmp_path, worker.pid)
        assert worker.wait(30) == -signal.SIGKILL
    assert not list(tmp_path.iterdir()), "a worker that gets this process id later is spared"


def test_a_cluster_needs_a_folder_that_all_machines_see(tmp_path: Path) -> None:
    with pytest.raises(SparkSetupError, match=r"sc://far needs a folder .* --directory PATH\.$"):
        main(SMALL, io.StringIO(), master="sc://far")
    with pytest.raises(SparkSetupError, match="nowhere' is none"):
        main(SMALL, io.StringIO(), master="sc://far", directory=str(tmp_path / "nowhere"))


def test_a_job_that_is_over_before_a_worker_is_killed_shows_nothing() -> None:
    scale = replace(SMALL, orders=0, seconds=1000.0)
    out = io.StringIO()
    assert main(scale, out, embedded=True) == 1
    assert "before a worker could be killed" in out.getvalue()


BATCH = orders(0, 2)
CUSTOMERS = BATCH.column("customer").to_pylist()
AMOUNTS = BATCH.column("amount").to_pylist()
TOTALS = dict(zip(CUSTOMERS, AMOUNTS, strict=True))
COUNTS = dict.fromkeys(CUSTOMERS, 1)
OUTPUT = list(zip((0, 1), CUSTOMERS, AMOUNTS, strict=True))


class TestVerdict:
    def test_equal_books_are_good(self) -> None:
        verdict = judge([BATCH], TOTALS, COUNTS, OUTPUT)
        assert verdict.is_good
        assert (verdict.orders, verdict.revenue) == (2, sum(AMOUNTS))

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda output: output[:1], "1 orders are lost"),
            (lambda output: [*output, output[0]], "1 orders are repeated"),
            (lambda output: [*output, (7, "nobody", 1)], "1 orders are invented"),
            (lambda output: [(0, output[0][1], 99), output[1]], "is not the one before it"),
        ],
    )
    def test_a_wrong_output_is_named(self, change, said) -> None:
        verdict = judge([BATCH], TOTALS, COUNTS, change(OUTPUT))
        assert [said in difference for difference in verdict.differences] == [True]

    def test_a_wrong_state_is_named_with_an_example(self) -> None:
        wrong = {**TOTALS, CUSTOMERS[0]: 12345}
        verdict = judge([BATCH], wrong, COUNTS, OUTPUT)
        (difference,) = verdict.differences
        assert "12345 instead of" in difference


def test_a_terminal_gets_progress_on_one_line() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    screen = Screen(out)
    screen.progress("half way")
    screen.line("done")
    assert out.getvalue() == "half way\r        \rdone\n"
