"""The demonstration ends by itself, shows what it promises, and notices wrong books."""

from __future__ import annotations

import io

import pytest

from mainstay.demo.__main__ import Scale, main
from mainstay.demo.orders import Orders, orders
from mainstay.demo.show import Screen
from mainstay.demo.verdict import judge

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
    whole = source.read(split, None).poll(50).batch
    again = source.read(split, 20).poll(50)
    assert whole is not None
    assert again.batch == whole.slice(20)
    assert again.finished


def test_orders_that_are_not_due_are_not_given() -> None:
    source = Orders(100, per_second=1e-9)
    (split, _) = source.plan(frozenset())
    polled = source.read(split, 7).poll(50)
    assert (polled.batch, polled.offset, polled.finished) == (None, 7, False)


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
