"""Functions with timers in the compiled language, drawn from a seed, and what happens to them.

Keys never wait for the same time in a function that is strict: then all it gives has one order, and
not only what it gives for each key.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from random import Random
from textwrap import indent
from typing import Any

from tests.compiled.modules import HEAD

TAKEN = "k long, x long, d long, at timestamp, u timestamp, name string"
GIVEN = "k long, what string, at timestamp, n long, name string, w timestamp"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
CLOCKS = ("event_time", "processing_time")
_LARGE = (1 << 62, (1 << 63) - 1, -(1 << 63))
"""What is multiplied by them is beyond 64 bits: the row traps, and Python goes on."""
_CLASS = """

def later(at, d):
    return at + timedelta(seconds=1) * d


class F(ms.KeyedProcess, compiled=True):
    n = ms.ValueState("long")
    fired = ms.ReducingState("long", operator.add)
    pair = ms.ValueState("struct<n:long,at:timestamp>")
    name = ms.ValueState("string")
{timers}

    def soon(self, row, ctx):
        if row.d > 0:
            yield (ctx.key, "soon", row.at, row.d, row.name, ctx.watermark)
        self.name.update(row.name)

    def process(self, row, ctx):
{process}

    def on_timer(self, at, ctx):
        self.fired.add(1)
        yield (ctx.key, ctx.timer, at, self.n.get(), self.name.get(), ctx.watermark)
{on_timer}
"""

Event = tuple[str, Any]
"""``rows`` that come in one batch, a ``watermark``, or by how many seconds the ``clock`` moves."""


@dataclass(frozen=True, slots=True)
class TimedProgram:
    seed: int
    source: str
    is_strict: bool
    events: tuple[Event, ...]


def timed(seed: int) -> TimedProgram:
    random = Random(f"timed-{seed}")
    is_strict = random.random() < 0.5
    timers = [f"t{n}" for n in range(random.randint(1, 3))]
    source = HEAD + _CLASS.format(
        timers="\n".join(_declared(name, random, is_strict) for name in timers),
        process=_body(_in_process, timers, random, random.randint(2, 6)),
        on_timer=_body(_in_on_timer, timers, random, random.randint(0, 3)),
    )
    return TimedProgram(seed, source, is_strict, tuple(_events(random)))


def _declared(name: str, random: Random, is_strict: bool) -> str:
    every = "" if is_strict else random.choice(("", ', every="7s"', ', every="250ms"'))
    return f'    {name} = ms.Timer("{random.choice(CLOCKS)}"{every})'


def _body(draw: Any, timers: list[str], random: Random, count: int) -> str:
    lines = [_conditional(draw(random.choice(timers), timers, random), random, draw)]
    lines += [_conditional(draw(random.choice(timers), timers, random), random, draw)
              for _ in range(count)]  # fmt: skip
    return indent("\n".join(lines), "        ")


def _conditional(line: str, random: Random, draw: Any) -> str:
    if random.random() < 0.5:
        return line
    of_row = ("row.d % 2 == 0", "row.d > 3", "row.name == 'a'", "row.name is None")
    of_both = ("(self.n.get() or 0) % 2 == 0", "self.pair.get() is None", "ctx.timer is None")
    told = random.choice((*of_row, *of_both) if draw is _in_process else of_both)
    return f"if {told}:\n{indent(line, '    ')}"


def _in_process(timer: str, timers: list[str], random: Random) -> str:
    other = random.choice(timers)
    return random.choice((
        f"self.{timer}.set(later(row.at, row.d))",
        f"self.{timer}.set(later(row.at, row.d))",
        f"self.{timer}.set(row.at)",
        f"self.{timer}.clear()",
        f"self.{timer}.set(later(ctx.now(), row.d) + timedelta(microseconds=1) * ctx.key)",
        f"if self.{timer}.get() is None:\n    self.{timer}.set(row.at)",
        f"self.{timer}.set(self.{other}.get() or row.at)",
        f"yield (ctx.key, 'row', self.{timer}.get(), row.d, row.name, ctx.watermark)",
        "self.n.update(row.x * 8 % 1000)",
        "self.n.update((self.n.get() or 0) + 1)",
        f"self.pair.update((row.d, self.{timer}.get()))",
        "self.name.update(row.name)",
        f"at = self.{timer}.get()\nif at is not None and at <= row.at:\n"
        f"    yield from self.on_timer(at, ctx)\n    self.{timer}.clear()",
        "yield from self.soon(row, ctx)",
        "yield from ((ctx.key, 'one', row.at, 1, '', None), (ctx.key, 'two', None, 2, 'b', None))",
        "assert row.d < 9, row.d" if random.random() < 0.2 else "pass",
        f"self.{timer}.set(row.u)" if random.random() < 0.2 else f"self.{timer}.clear()",
    ))  # fmt: skip


def _in_on_timer(timer: str, timers: list[str], random: Random) -> str:
    """What sets a timer does so a few times, and then it ends."""
    other = random.choice(timers)
    set_again = random.choice((
        f"self.{timer}.set(later(at, 2))",
        f"self.{timer}.set(at)",
        f"self.{timer}.set(later(at, -3))",
        f"self.{timer}.set(self.{other}.get() or at)",
    ))  # fmt: skip
    return random.choice((
        f"if self.fired.get() % 4 != 0:\n    {set_again}",
        f"if self.fired.get() % 4 != 0:\n    {set_again}",
        f"self.{timer}.clear()",
        "self.n.update((self.n.get() or 0) + 3)",
        "self.n.clear()",
        "self.name.update('fired')",
        f"yield (ctx.key, 'pair', self.{timer}.get(), self.fired.get(), None, None)",
        f"self.pair.update((self.n.get() or 0, self.{timer}.get()))",
    ))  # fmt: skip


# ---------------------------------------------------------------- what happens


def _events(random: Random) -> list[Event]:
    found: list[Event] = []
    keys, second = random.randint(1, 6), 0
    for _ in range(random.randint(2, 7)):
        second += random.randint(0, 6)
        count = random.choice((1, 3, 20))
        found.append(("rows", [_row(random, keys, second) for _ in range(count)]))
        if random.random() < 0.6:
            found.append(("watermark", START + timedelta(seconds=second - random.randint(0, 3))))
        if random.random() < 0.4:
            found.append(("clock", random.choice((0.5, 2.0, 10.0))))
    found.append(("watermark", None))
    if random.random() < 0.3:
        # Event time has come to its end: what is set for it is ignored.
        found.append(("rows", [_row(random, keys, second) for _ in range(3)]))
        found.append(("clock", 3.0))
    return found


def _row(random: Random, keys: int, second: int) -> tuple[Any, ...]:
    key = random.randrange(keys)
    at = START + timedelta(seconds=second + random.randint(-3, 3), microseconds=key)
    x = random.choice(_LARGE) if random.random() < 0.15 else random.randint(-9, 9)
    u = None if random.random() < 0.1 else at
    return key, x, random.randint(-2, 9), at, u, random.choice((None, "a", "b"))
