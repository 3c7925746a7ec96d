"""Callbacks of functions with several inputs, and of the body of a loop."""

from __future__ import annotations

from typing import Any

import mainstay as ms
from tests.callbacks.conducts import Fault
from tests.callbacks.keyed_kinds import numbered
from tests.callbacks.kind import Kind
from tests.callbacks.plain_kinds import OUT, Hooks

ROUNDS = 3


class Both(Hooks, ms.CoProcess):
    def process_left(self, row: Any, ctx: Any) -> Any:
        self.meet("process_left", row.n)
        return row.k, row.n

    def process_right(self, row: Any, ctx: Any) -> Any:
        self.meet("process_right", row.n)
        return row.k, row.n


class BothKeyed(Hooks, ms.CoKeyedProcess):
    count = ms.ValueState("long")

    def one_more(self, ctx: Any) -> Any:
        self.count.update((self.count.get() or 0) + 1)
        return ctx.key, self.count.get()

    def process_left(self, row: Any, ctx: Any) -> Any:
        result = self.one_more(ctx)
        self.meet("process_left", row.n)
        return result

    def process_right(self, row: Any, ctx: Any) -> Any:
        result = self.one_more(ctx)
        self.meet("process_right", row.n)
        return result


class Told(Hooks, ms.CoKeyedProcess):
    """The right rows are known to every subtask; the left ones come out."""

    known = ms.BroadcastMapState("long", "string")

    def process_left(self, row: Any, ctx: Any) -> Any:
        self.meet("process_left", row.n)
        return ctx.key, row.n

    def process_right(self, row: Any, ctx: Any) -> Any:
        self.known.put(row.n, row.k)
        self.meet("process_right", row.n)


class Several(Hooks, ms.MultiProcess):
    count = ms.ValueState("long")

    def process_even(self, row: Any, ctx: Any) -> Any:
        return self.one_more("process_even", row, ctx)

    def process_odd(self, row: Any, ctx: Any) -> Any:
        return self.one_more("process_odd", row, ctx)

    def one_more(self, method: str, row: Any, ctx: Any) -> Any:
        self.count.update((self.count.get() or 0) + 1)
        self.meet(method, row.n)
        return ctx.key, self.count.get()


def halves(stream: Any) -> tuple[Any, Any]:
    return (
        stream.filter(ms.col("n") % 2 == 0, uid="even"),
        stream.filter(ms.col("n") % 2 == 1, uid="odd"),
    )


def both(stream: Any, fault: Fault, at: str) -> Any:
    even, odd = halves(stream)
    return even.connect(odd).process(Both(fault, at), OUT, uid="subject")


def both_keyed(stream: Any, fault: Fault, at: str) -> Any:
    even, odd = halves(stream)
    connected = even.key_by("k").connect(odd.key_by("k"))
    return connected.process(BothKeyed(fault, at), OUT, uid="subject")


def told(stream: Any, fault: Fault, at: str) -> Any:
    connected = stream.key_by("k").connect(stream.broadcast())
    return connected.process(Told(fault, at), OUT, uid="subject")


def several(at: str) -> Kind:
    def connect(env: ms.Environment, stream: Any, fault: Fault) -> Any:
        even, odd = halves(stream)
        inputs = env.connect(even=even.key_by("k"), odd=odd.key_by("k"))
        return inputs.process(Several(fault, at), OUT, uid="subject")

    return Kind(f"several-{at}", at, connect=connect, expected=numbered)


def looped(stream: Any, fault: Fault) -> Any:
    def own_step(row: Any) -> Any:
        fault(row.n)
        return row.k, row.n, row.rounds

    def body(head: Any) -> Any:
        stepped = head.map(own_step, "k string, n long, rounds long", uid="subject")
        back = stepped.filter(ms.col("rounds") < ROUNDS, uid="back")
        return back, stepped.filter(ms.col("rounds") >= ROUNDS, uid="on")

    entering = stream.select("k", "n", rounds=ms.lit(0).cast("long"))
    return entering.iterate(body, uid="loop", round_column="rounds").select("k", "n")


def way(name: str, build: Any, at: str, **more: Any) -> Kind:
    return Kind(f"{name}-{at.removeprefix('process_')}", at, lambda s, f: build(s, f, at), **more)


KINDS = (
    way("connected", both, "process_left"),
    way("connected", both, "process_right"),
    way("connected-keyed", both_keyed, "process_left", expected=numbered),
    way("connected-keyed", both_keyed, "process_right", expected=numbered),
    way("broadcast", told, "process_left"),
    way("broadcast", told, "process_right"),
    several("process_even"),
    several("process_odd"),
    Kind("loop-body", "own_step", looped),
)
