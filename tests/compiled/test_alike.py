"""What differed once between a compiled function and the function itself, or failed to compile."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from mainstay.errors import GraphError
from mainstay.schema import rows_to_batch, to_schema
from tests.compiled.driving import Driven, Outcome, plain
from tests.compiled.modules import class_of, module_of

TAKEN = "k long, x long, y double, name string"
ROWS = [[(1, 5, 2.5, "a"), (1, -3, 0.0, ""), (2, 7, -0.0, None)], [(1, 1 << 62, 1e308, "a")]]
ARRAYS = "k long, x long, one array<string>, other array<string>"
ARRAY_ROWS = [[(1, 1, ["a"], ["b"]), (1, -1, [], ["b"])]]


@dataclass(frozen=True, slots=True)
class Case:
    body: str
    given: str = "a long"
    before: str = ""
    members: str = ""
    taken: str = TAKEN
    rows: Any = None
    key: tuple[str, ...] = ("k",)


SAME = {
    "a text of a column on one way and None on another": Case(
        "yield (row.name if row.x > 0 else None,)", "a string"
    ),
    "a variable that is a column's text or None": Case(
        "n = row.name\nif row.x > 0:\n    n = None\nyield (n,)", "a string"
    ),
    "items of tuples within tuples of more than ten": Case(
        "t = (1, (2, 3), 4, 5, 6, 7, 8, 9, 10, 11, 12)\nu = t\nyield (u[10] * 100 + u[1][0],)"
    ),
    "a row or None": Case("r = row if row.x > 0 else None\nyield (r.x if r else 0,)"),
    "a row that is None": Case("r = row if row.x > 0 else None\nyield (r.x,)"),
    "a constant of another time zone": Case(
        "yield (LIMIT.hour,)",
        before="LIMIT = datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=2)))\n",
    ),
    "a variable that changes its type within a loop": Case(
        "x, n = 1, 0\nwhile n < 3:\n    n += 1\n    x = x / 2 if n > 1 else x\nyield (x,)",
        "a double",
    ),
    "a variable that a loop would have set": Case(
        "n = 0\nwhile n < 4 and row.x > 0:\n    n += 1\n    z = n\nyield (z,)"
    ),
    "the else of a loop, with and without a break": Case(
        "for n in range(4):\n    if n == row.x:\n        break\nelse:\n    n = -1\n"
        "m = 0\nwhile m < 3:\n    m += 1\n    if m > row.x:\n        break\nelse:\n    m = 99\n"
        "yield (n * 1000 + m,)",
        rows=[[(1, x, 0.0, "") for x in range(-1, 6)]],
    ),
    "a private attribute": Case("yield (row.x + self.__step,)", members="    __step = 3\n"),
    "a range at the ends of its numbers": Case(
        "n = 0\nfor i in range(row.x - 2, row.x):\n    n += i\nyield (n,)",
        rows=[[(1, (1 << 63) - 1, 0.0, ""), (1, -(1 << 61), 0.0, ""), (1, (1 << 62) + 1, 0.0, "")]],
    ),
    "loops within loops": Case(
        "\n".join("    " * n + f"for i{n} in range(1):" for n in range(10))
        + "\n"
        + "    " * 10
        + "yield (1,)"
    ),
    "helpers that call helpers": Case(
        "yield (h0(row.x),)",
        before="\n\n".join(f"def h{n}(a):\n    return h{n + 1}(a) + 1" for n in range(9))
        + "\n\ndef h9(a):\n    return a\n",
    ),
    "a list that open() adds to": Case(
        "yield (row.x in self.names,)",
        "a boolean",
        members="""
        def __init__(self):
            self.names = [5]

        def open(self, ctx):
            self.names.append(7)
        """,
    ),
    "a tuple that open() replaces by its equal": Case(
        "for each in self.some:\n    yield (each,)",
        "a double",
        members="""
        def __init__(self):
            self.some = (0.0,)

        def open(self, ctx):
            self.some = (-0.0,)
        """,
    ),
    "a helper's own variable called ret": Case(
        "yield (h(row.x)[0],)",
        "a double",
        before="def h(a):\n    ret = (a, 1)\n    if a > 0:\n        ret = (ret[1], ret[0])\n"
        "        return ret\n    return (1.5, 2)\n",
    ),
    "a power that is too large": Case("yield (row.y ** 2.0,)", "a double"),
    "an assertion": Case("assert row.x > 0, 'no'\nyield (1,)"),
    "a watermark that is unknown": Case("yield (ctx.watermark is None,)", "a boolean"),
    "keys that are -0.0": Case(
        "yield (math.copysign(1.0, ctx.key), self.n.get())\nself.n.update((self.n.get() or 0) + 1)",
        "a double, n long",
        members="n = ms.ValueState('long')",
        taken="k double",
        rows=[[(0.0,), (-0.0,), (0.0,), (float("nan"),), (float("nan"),)], [(-0.0,)]],
    ),
    "times at the ends of the calendar": Case(
        "yield (row.t.hour, row.t.weekday(), row.u.microsecond, row.u - timedelta(microseconds=1))",
        "a long, b long, c long, d timestamp",
        taken="k long, t timestamp_ntz, u timestamp",
        rows=[
            [(1, datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999, timezone.utc))],
            [(1, datetime(1969, 12, 31, 23, 59, 59, 9), datetime(1, 1, 1, tzinfo=timezone.utc))],
        ],
    ),
}


@pytest.mark.parametrize("case", SAME.values(), ids=SAME)
def test_is_the_same_when_compiled(case: Case, tmp_path: Path) -> None:
    compiled, own = outcomes(case, tmp_path)
    assert compiled == own


REFUSED = {
    "one of two arrays": (
        Case("yield (row.one if row.x > 0 else row.other,)", "a array<string>", taken=ARRAYS),
        "is a value of a column",
    ),
    "arrays of two columns in one": (
        Case(
            "if row.x > 0:\n    yield (row.one,)\nelse:\n    yield (row.other,)",
            "a array<string>",
            taken=ARRAYS,
        ),
        "the column 'a' is declared as array<string>",
    ),
    "None for an array": (
        Case("yield (None,)", "a array<string>", taken=ARRAYS),
        "the column 'a' is declared as array<string>",
    ),
    "whether an array is true": (
        Case("if row.one:\n    yield (1,)", taken=ARRAYS),
        "whether a value of array<string> is true",
    ),
    "rows that a generator returns": (
        Case("yield (1,)\nreturn [(2,)]"),
        "a function that yields returns rows",
    ),
    "a property": (
        Case(
            "yield (self.rate,)",
            members="@property\ndef rate(self):\n    raise ValueError(1)",
        ),
        "self.rate is a property",
    ),
    "a property of an object": (
        Case(
            "yield (CONFIG.rate,)",
            before="class Config:\n    @property\n    def rate(self):\n        return 1\n\n\n"
            "CONFIG = Config()\n",
        ),
        "CONFIG.rate is a property",
    ),
    "a function that wraps another": (
        Case(
            "yield (h(row.x),)",
            before="""
            import functools

            def more(f):
                @functools.wraps(f)
                def wrapped(*a):
                    return f(*a) + 1
                return wrapped

            @more
            def h(a):
                return a
            """,
        ),
        "takes any arguments",
    ),
    "a process() with more arguments": (
        Case("", members="def process(self, row, ctx, more=1):\n    yield (more,)"),
        "process() takes self, row, ctx, more",
    ),
    "a static process()": (
        Case("", members="@staticmethod\ndef process(row, ctx):\n    yield (1,)"),
        "process is no method",
    ),
    "a datetime of a time zone whose name has utc in it": (
        Case(
            "yield (datetime(2020, 1, 1, tzinfo=my_utc).hour,)",
            before="my_utc = timezone(timedelta(hours=2))\n",
        ),
        "is no literal",
    ),
    "branches that lie too deep": (
        Case(
            "\n".join(f"{'el' if n else ''}if row.x == {n}:\n    yield ({n},)" for n in range(120))
        ),
        "lie too deep within each other",
    ),
    "an expression that lies too deep": (
        Case(f"yield ({'-' * 400}row.x,)"),
        "lie too deep within each other",
    ),
    "a tuple that grows": (
        Case("t = None\nwhile row.x < 0:\n    t = (t, 1)\nyield (1,)"),
        "of another type in each turn of a loop",
    ),
    "half a surrogate pair": (Case("yield (1 if row.name == '\\ud800' else 0,)"), "does not fit"),
    "a call of an array": (
        Case("yield (SOME(1),)", before="import numpy as np\n\nSOME = np.array([1, 2])\n"),
        "SOME() of a whole number has no compiled form",
    ),
    "an index that is no literal": (
        Case("yield (row[{[1]: 2}],)"),
        "is no column and no field",
    ),
}


@pytest.mark.parametrize(("case", "told"), REFUSED.values(), ids=REFUSED)
def test_is_refused_when_it_is_planned(case: Case, told: str, tmp_path: Path) -> None:
    module = module_of(class_of(case.body, before=case.before, members=case.members), tmp_path)
    with pytest.raises(GraphError, match="cannot be compiled") as refused:
        Driven(module.F(), case.taken, case.key, case.given)
    assert told in str(refused.value)


def outcomes(case: Case, folder: Path) -> tuple[Outcome, Outcome]:
    """What a function gives compiled, and what it gives itself."""
    module = module_of(class_of(case.body, before=case.before, members=case.members), folder)
    schema = to_schema(case.taken)
    batches = [rows_to_batch(rows, schema, "a case") for rows in case.rows or ROWS]
    compiled = Driven(module.F(), case.taken, case.key, case.given)
    own = Driven(plain(module.F)(), case.taken, case.key, case.given)
    return compiled.after(batches), own.after(batches)
