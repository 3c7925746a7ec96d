"""Functions of the compiled language, drawn from a seed: their source text, schemas and rows.

What is drawn has the types of Python: most of it compiles, some of it is refused, and some of it
fails while it runs. All of that is to be so with and without ``compiled``.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.compiled.values import DDL, values

_HEAD = """import math
import operator
from datetime import date, datetime, timedelta, timezone

import mainstay as ms

"""
_NUMBERS = ("int", "float", "bool")
_LITERALS = {
    "int": ("0", "1", "2", "-1", "3", "7", "100", "9007199254740993", "9223372036854775807"),
    "float": ("0.0", "1.0", "-0.0", "0.5", "2.5", "1e308", "math.inf", "math.nan", "1e-300"),
    "bool": ("True", "False"),
    "str": ("''", "'a'", "'ab'", "'ä'"),
    "bytes": ("b''", "b'a'", "b'\\xff'"),
    "date": ("date(1970, 1, 1)", "date(2000, 2, 29)", "DAY"),
    "time": ("datetime(2000, 1, 1, 12)", "NOON"),
    "zoned": ("datetime(1999, 12, 31, tzinfo=timezone.utc)", "EVE"),
    "delta": ("timedelta(days=1)", "timedelta(seconds=-1, microseconds=5)", "STEP"),
}
_GLOBALS = """
WHOLE = 3
PART = 0.75
NAME = "a"
SOME = (1, 2, 7)
NAMES = {"a", "ab", "none"}
MIXED = (1, 2.5, 0)
DAY = date(2024, 3, 1)
NOON = datetime(2024, 3, 1, 12, 30)
EVE = datetime(2024, 2, 29, tzinfo=timezone.utc)
STEP = timedelta(hours=36, microseconds=7)
"""
_AGGREGATE = """

class Mean:
    start = 0

    def create(self):
        return (self.start, 0.0)

    def add(self, kept, value):
        n, total = kept
        return (n + 1, total + value)

    def result(self, kept):
        return kept.total / kept["n"] if kept.n else None
"""
_KINDS = ("int", "int", "int", "float", "float", "bool", "str", "bytes", "date", "time", "zoned")


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: str
    ddl: str
    nullable: bool

    @property
    def told(self) -> str:
        return f"{self.name} {self.ddl}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A function and what goes in. ``batches`` are rows as tuples."""

    seed: int
    source: str
    taken: str
    key: tuple[str, ...]
    given: str
    batches: list[list[tuple[Any, ...]]]


def drawn(seed: int, *, batches: int = 4, keys: int = 3) -> Drawn:
    """The function of a seed, and so many batches of rows for it."""
    return _Author(seed, batches, keys).drawn()


class _Author:
    """Writes one function. ``self._has`` are the variables that are set, with their kinds."""

    def __init__(self, seed: int, batches: int, keys: int) -> None:
        self._seed, self._random = seed, Random(seed)
        self._batches, self._keys = batches, keys
        self._tame = self._random.random() < 0.6
        self._lines: list[str] = []
        self._depth = 0
        self._has: dict[str, str] = {}
        self._maybe: set[str] = set()
        self._columns: list[Column] = []
        self._states: list[tuple[str, str, str, str]] = []
        self._loops = 0
        self._is_helper = False
        self._helpers: list[tuple[str, str]] = []
        self._counter = 0

    # ------------------------------------------------------------ the whole

    def drawn(self) -> Drawn:
        random = self._random
        kinds = [random.choice(_KINDS) for _ in range(random.randint(2, 5))]
        self._columns = [self._column(f"c{n}", kind) for n, kind in enumerate(kinds)]
        self._columns.insert(0, Column("k", "int", "long", False))
        self._out = [
            self._column(f"o{n}", random.choice(_KINDS)) for n in range(random.randint(1, 4))
        ]
        if random.random() < 0.1:
            self._out = list(reversed(self._columns))
        self._is_generator = random.random() < 0.7
        self._states = [self._state(n) for n in range(random.randint(0, 3))]
        helpers = self._written_helpers()
        body = self._body()
        states = "".join(f"    {name} = {text}\n" for name, _, _, text in self._states)
        source = (
            f"{_HEAD}{_GLOBALS}{_AGGREGATE}{helpers}\n\nclass F(ms.KeyedProcess, compiled=True):\n"
            f"    limit = 5\n    rate = 0.5\n{states}\n    def process(self, row, ctx):\n{body}"
        )
        told = [", ".join(c.told for c in columns) for columns in (self._columns, self._out)]
        key = ("k",) if random.random() < 0.9 else ("k", self._columns[1].name)
        if len(key) > 1:
            source = source.replace("ctx.key", "ctx.key[0]")
        return Drawn(self._seed, source, told[0], key, told[1], self._rows())

    def _column(self, name: str, kind: str) -> Column:
        random = self._random
        return Column(name, kind, random.choice(DDL[kind]), random.random() < 0.4)

    def _state(self, number: int) -> tuple[str, str, str, str]:
        random, name = self._random, f"s{number}"
        which = random.random()
        if which < 0.2:
            folds = ("operator.add", "max", "min", "lambda a, b: a if a > b else b")
            kind = random.choice(("int", "float"))
            told = f"ms.ReducingState({random.choice(folds)}, {random.choice(DDL[kind])!r})"
            return name, "reducing", kind, self._reducing(told)
        if which < 0.3:
            return (
                name,
                "mean",
                "float",
                "ms.AggregatingState(Mean(), 'struct<n: long, total: double>')",
            )
        if which < 0.45:
            return name, "pair", "tuple", "ms.ValueState('struct<a: long, b: string>')"
        kind = random.choice(_KINDS)
        return name, "value", kind, f"ms.ValueState({random.choice(DDL[kind])!r})"

    def _reducing(self, told: str) -> str:
        function, ddl = told[len("ms.ReducingState(") : -1].rsplit(", ", 1)
        return f"ms.ReducingState({ddl}, {function})"

    def _rows(self) -> list[list[tuple[Any, ...]]]:
        random = self._random
        return [[self._row() for _ in range(random.randint(1, 7))] for _ in range(self._batches)]

    def _row(self) -> tuple[Any, ...]:
        row: list[Any] = [self._random.randint(1, self._keys)]
        for each in self._columns[1:]:
            is_null = each.nullable and self._random.random() < 0.2
            row.append(
                None if is_null else values(each.kind, each.ddl, self._random, tame=self._tame)
            )
        return tuple(row)

    # ------------------------------------------------------------ functions

    def _body(self) -> str:
        self._lines, self._depth, self._has, self._maybe = [], 2, {}, set()
        for _ in range(self._random.randint(2, 5)):
            self._statement(3)
        self._emit()
        return "\n".join(self._lines) + "\n"

    def _written_helpers(self) -> str:
        random, told = self._random, []
        self._is_helper = True
        for number in range(random.randint(0, 2)):
            kind = random.choice(("int", "float", "bool", "str"))
            self._lines, self._depth = [], 1
            self._has, self._maybe = {"a": kind, "b": "int"}, set()
            for _ in range(random.randint(0, 2)):
                self._statement(2)
            self._write(f"return {self._of(kind, 2)}")
            name = f"h{number}"
            told.append(f"\n\ndef {name}(a, b=2):\n" + "\n".join(self._lines) + "\n")
            self._helpers.append((name, kind))
        self._is_helper = False
        return "".join(told)

    def _write(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    # ------------------------------------------------------------ statements

    def _statement(self, depth: int) -> None:
        random = self._random
        ways = [self._assign] * 5 + [self._augment]
        if not self._is_helper:
            ways += [self._emit, self._keep, self._keep, self._keep]
        if depth > 0:
            ways += [self._if] * 3 + [self._for, self._for_each, self._while]
        if self._loops:
            ways += [self._leave]
        if random.random() < 0.03:
            ways = [self._fail]
        random.choice(ways)(depth)

    def _name(self) -> str:
        return self._random.choice(("x", "y", "z", "x_i", "ret", "done", "v_x", "größe"))

    def _assign(self, depth: int) -> None:
        random, name = self._random, self._name()
        kind = random.choice((*_KINDS, "int", "tuple", "delta"))
        if name in self._has and random.random() < 0.7:
            kind = self._has[name].rstrip("?")
        if kind == "number":
            kind = "float"
        if kind == "tuple" and random.random() < 0.3:
            self._write(f"x, y = {self._of('int', 2)}, {self._of('float', 2)}")
            self._set("x", "int")
            self._set("y", "float")
            return
        value = self._of(kind, 3)
        if random.random() < 0.08:
            value, kind = f"{value} if {self._of('bool', 1)} else None", f"{kind}?"
        self._write(f"{name} = {value}")
        self._set(name, kind)

    def _set(self, name: str, kind: str) -> None:
        self._has[name] = kind
        self._maybe.discard(name)

    def _augment(self, depth: int) -> None:
        names = [name for name, kind in self._has.items() if kind in ("int", "float")]
        if not names:
            return self._assign(depth)
        name = self._random.choice(names)
        op = self._random.choice(("+", "-", "*", "//", "%"))
        self._write(f"{name} {op}= {self._of(self._has[name], 2)}")

    def _block(self, depth: int, count: int = 2) -> dict[str, str]:
        """Statements of a branch; gives what is set behind it."""
        before = dict(self._has)
        self._depth += 1
        for _ in range(self._random.randint(1, count)):
            self._statement(depth - 1)
        self._depth -= 1
        after, self._has = self._has, before
        return after

    def _meet(self, ways: list[dict[str, str]]) -> None:
        """What is set on one way only may be read later, and then may be unset."""
        known = {}
        for way in ways:
            for name, kind in way.items():
                if all(other.get(name, kind) == kind for other in ways):
                    if all(name in other for other in ways) or self._random.random() < 0.3:
                        known[name] = kind
                elif {other.get(name) for other in ways} == {"int", "float"}:
                    known[name] = "number"
        self._has = known

    def _if(self, depth: int) -> None:
        self._write(f"if {self._of('bool', 3)}:")
        ways = [self._block(depth)]
        if self._random.random() < 0.3:
            self._write(f"elif {self._of('bool', 2)}:")
            ways.append(self._block(depth))
        if self._random.random() < 0.6:
            self._write("else:")
            ways.append(self._block(depth))
        else:
            ways.append(dict(self._has))
        self._meet(ways)

    def _for(self, depth: int) -> None:
        random = self._random
        bounds = random.choice(("3", "0", "1, 4", "5, 0, -2", "(row.k)", "2, 9, 3"))
        if self._is_helper:
            bounds = bounds.replace("(row.k)", "4")
        self._loop(f"for i in range({bounds}):", depth, {"i": "int"})

    def _for_each(self, depth: int) -> None:
        which = self._random.choice(("SOME", "(1, 5, 2)", "MIXED", "(0.5, -0.0)"))
        kind = {"MIXED": "number", "(0.5, -0.0)": "float"}.get(which, "int")
        self._loop(f"for e in {which}:", depth, {"e": kind})

    def _while(self, depth: int) -> None:
        self._counter += 1
        counter = f"n{self._counter}"
        self._write(f"{counter} = 0")
        self._set(counter, "turns")
        self._loop(f"while {counter} < 4 and {self._of('bool', 2)}:", depth, {}, counter)

    def _loop(self, opening: str, depth: int, sets: dict[str, str], counter: str = "") -> None:
        before = dict(self._has)
        self._write(opening)
        self._depth += 1
        if counter:
            self._write(f"{counter} += 1")
        self._has |= sets
        self._depth -= 1
        self._loops += 1
        within = self._block(depth)
        self._loops -= 1
        ways = [before, within]
        self._has = before
        if self._random.random() < 0.3:
            self._write("else:")
            self._meet(ways)
            ways.append(self._block(depth))
        self._meet(ways)

    def _leave(self, depth: int) -> None:
        self._write(f"if {self._of('bool', 2)}:")
        self._depth += 1
        self._write(self._random.choice(("break", "continue")))
        self._depth -= 1

    def _fail(self, depth: int) -> None:
        self._write(f"if {self._of('bool', 2)}:")
        self._depth += 1
        self._write(self._random.choice(("raise ValueError('no')", "assert not True, 'no'")))
        self._depth -= 1

    def _keep(self, depth: int) -> None:
        if not self._states:
            return self._assign(depth)
        name, form, kind, _ = self._random.choice(self._states)
        if self._random.random() < 0.15:
            self._write(f"self.{name}.clear()")
        elif form in ("reducing", "mean"):
            self._write(f"self.{name}.add({self._of(kind, 3)})")
        elif form == "pair":
            a, b = self._of("int", 2), self._of("str", 2)
            dict_ = f"{{'b': {b}, 'a': {a}}}"
            self._write(f"self.{name}.update({self._random.choice((f'({a}, {b})', dict_))})")
        else:
            value = self._of(kind, 3)
            if self._random.random() < 0.1:
                value = f"None if {self._of('bool', 1)} else {value}"
            self._write(f"self.{name}.update({value})")

    def _emit(self, depth: int = 0) -> None:
        random = self._random
        if random.random() < 0.05:
            return self._write("return")
        how = "yield" if self._is_generator else "return"
        if [c.told for c in self._columns] == [c.told for c in reversed(self._out)]:
            return self._write(f"{how} row")
        given = [self._out_value(column) for column in self._out]
        form = random.random()
        if form < 0.15:
            pairs = [f"{c.name!r}: {value}" for c, value in zip(self._out, given, strict=True)]
            random.shuffle(pairs)
            self._write(f"{how} {{{', '.join(pairs)}}}")
        elif len(given) == 1 and form < 0.3:
            self._write(f"{how} {given[0]}")
        elif not self._is_generator and form < 0.5:
            self._write(f"return [({', '.join(given)},), ({', '.join(given)},)]")
        elif self._is_generator and form < 0.25:
            self._write(f"yield [{', '.join(given)}]")
        else:
            self._write(f"{how} ({', '.join(given)},)")

    def _out_value(self, column: Column) -> str:
        value = self._of(column.kind, 3)
        if column.kind == "int" and column.ddl != "long" and self._random.random() < 0.8:
            value = f"({value}) % 100"
        if column.nullable and self._random.random() < 0.3:
            value = f"({value} if {self._of('bool', 1)} else None)"
        return value

    # ------------------------------------------------------------ expressions

    def _of(self, kind: str, depth: int) -> str:
        """An expression of a kind."""
        random = self._random
        if depth <= 0 or random.random() < 0.25:
            return self._leaf(kind)
        if random.random() < 0.1:
            one, other = self._of(kind, depth - 1), self._of(kind, depth - 1)
            return f"({one} if {self._of('bool', depth - 1)} else {other})"
        if random.random() < 0.04:
            self._counter += 1
            name, value = f"w{self._counter}", self._of(kind, depth - 1)
            return f"({name} := {value})"
        made = getattr(self, f"_{kind}", None)
        return self._leaf(kind) if made is None else made(depth - 1)

    def _leaf(self, kind: str) -> str:
        random = self._random
        found = [name for name, own in self._has.items() if own == kind]
        if kind in ("float", "int"):
            found += [name for name, own in self._has.items() if own == "number"][:1]
        found += [
            f"({n} or {self._literal(kind)})" for n, own in self._has.items() if own == f"{kind}?"
        ]
        if not self._is_helper:
            found += [self._read(column) for column in self._columns if column.kind == kind]
            found += self._kept(kind)
        found += {"int": ["WHOLE"], "float": ["PART"], "str": ["NAME"]}.get(kind, [])
        if found and random.random() < 0.8:
            return random.choice(found)
        return self._literal(kind)

    def _literal(self, kind: str) -> str:
        if kind == "tuple":
            return "(1, (2.5, 3))"
        pool = _LITERALS[kind]
        if self._tame:
            pool = pool[: max(2, len(pool) // 2)]
        return self._random.choice(pool)

    def _read(self, column: Column) -> str:
        number = self._columns.index(column)
        told = self._random.choice(
            (f"row.{column.name}",) * 3 + (f"row[{column.name!r}]", f"row[{number}]")
        )
        if column.name == "k" and self._random.random() < 0.2:
            return "ctx.key"
        if not column.nullable or self._random.random() < 0.1:
            return told
        other = self._literal(column.kind)
        forms = (f"({told} or {other})", f"({told} if {told} is not None else {other})")
        return self._random.choice(forms)

    def _kept(self, kind: str) -> list[str]:
        found = []
        for name, form, own, _ in self._states:
            get = f"self.{name}.get()"
            if form == "pair" and kind in ("int", "str"):
                field = {"int": "a", "str": "b"}[kind]
                found.append(f"({get}.{field} if {get} else {self._literal(kind)})")
            elif own == kind:
                found.append(f"({get} or {self._literal(kind)})")
        return found

    def _int(self, depth: int) -> str:
        a, b = self._of("int", depth), self._of("int", depth)
        forms = [
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} // ({b} or 1))",
            f"({a} % ({b} or 3))", f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})",
            f"({a} << ({b} & 7))", f"({a} >> ({b} & 7))", f"(-{a})", f"(~{a})", f"abs({a})",
            f"max({a}, {b})", f"min({a}, {b})", f"({a}) ** 2", f"int({self._of('bool', depth)})",
            f"({a} and {b})", f"({a} or {b})", f"({a} + {self._of('bool', depth)})",
            f"math.floor({self._of('float', depth)} % 50.0)", f"round({self._of('float', 0)})",
            f"(1, {a}, {b})[{self._random.randint(-3, 2)}]", f"operator.add({a}, {b})",
            f"{self._of('date', 0)}.{self._random.choice(('year', 'month', 'day', 'weekday()'))}",
            f"{self._of('time', 0)}.{self._random.choice(('hour', 'minute', 'year'))}",
            f"{self._of('zoned', 0)}.{self._random.choice(('second', 'day', 'isoweekday()'))}",
            f"{self._of('delta', 1)}.{self._random.choice(('days', 'seconds', 'microseconds'))}",
        ]  # fmt: skip
        forms += [f"{name}({a}, b={b})" for name, kind in self._helpers if kind == "int"] * 4
        return self._random.choice(forms)

    def _float(self, depth: int) -> str:
        a, b = self._of("float", depth), self._of("float", depth)
        whole = self._of("int", depth)
        forms = [
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / ({b} or 1.0))",
            f"({a} // ({b} or 2.0))", f"({a} % ({b} or 0.7))", f"(-{a})", f"abs({a})",
            f"({a} + {whole})", f"({whole} * {a})", f"({whole} / ({self._of('int', 0)} or 3))",
            f"float({whole})", f"max({a}, {b})", f"min({a}, {b})", f"math.sqrt(abs({a}))",
            f"math.copysign({a}, {b})", f"math.atan({a})", f"math.fabs({a})",
            f"({a} and {b})", f"({a} or {b})", f"math.log1p(0.0) + {a}" if False else a,
            f"(abs({a}) % 9.0) ** (abs({b}) % 3.0)", f"math.exp({a} % 3.0)",
            f"{self._of('delta', 0)}.total_seconds()", f"({a} - {self._of('bool', 0)})",
        ]  # fmt: skip
        forms += [f"{name}({a})" for name, kind in self._helpers if kind == "float"] * 4
        return self._random.choice(forms)

    def _bool(self, depth: int) -> str:
        random = self._random
        kind = random.choice(
            ("int", "float", "int", "str", "date", "time", "zoned", "delta", "bytes")
        )
        a, b, c = (self._of(kind, depth) for _ in range(3))
        one, other = self._of("bool", depth), self._of("bool", depth)
        signs = ("==", "!=") if kind in ("str", "bytes") else ("<", "<=", ">", ">=", "==", "!=")
        first, second = random.choice(signs), random.choice(signs)
        forms = [
            f"({a} {first} {b})", f"({a} {first} {b})", f"({a} {first} {b} {second} {c})",
            f"({one} and {other})", f"({one} or {other})", f"(not {one})", f"bool({a})",
            f"({one} ^ {other})", f"({a} in ({b}, {c}))", f"({a} not in ({b}, {c}))",
            f"({self._of('int', 0)} in SOME)", f"({self._of('str', 0)} in NAMES)",
            f"(({a}, {b}) == ({b}, {a}))", f"math.isnan({self._of('float', depth)})",
            f"({self._of('int', depth)} {random.choice(('<', '=='))} {self._of('float', depth)})",
            f"({one} == {other})", f"({one} is True)", f"math.isfinite({self._of('float', depth)})",
        ]  # fmt: skip
        nullable = [c for c in self._columns if c.nullable]
        if nullable and not self._is_helper:
            forms += [
                f"(row.{random.choice(nullable).name} is {random.choice(('', 'not '))}None)"
            ] * 3
        if self._states and not self._is_helper:
            forms += [f"(self.{random.choice(self._states)[0]}.get() is not None)"]
        forms += [f"{name}({one})" for name, own in self._helpers if own == "bool"] * 4
        return random.choice(forms)

    def _str(self, depth: int) -> str:
        a, b = self._of("str", depth), self._of("str", depth)
        forms = [f"({a} or {b})", f"({a} and {b})", a]
        forms += [f"{name}({a})" for name, kind in self._helpers if kind == "str"] * 2
        return self._random.choice(forms)

    def _date(self, depth: int) -> str:
        sign = self._random.choice("+-")
        return f"({self._of('date', depth)} {sign} {self._of('delta', 0)})"

    def _time(self, depth: int) -> str:
        sign = self._random.choice("+-")
        return f"({self._of('time', depth)} {sign} {self._of('delta', 0)})"

    def _zoned(self, depth: int) -> str:
        sign = self._random.choice("+-")
        return f"({self._of('zoned', depth)} {sign} {self._of('delta', 0)})"

    def _delta(self, depth: int) -> str:
        kind = self._random.choice(("date", "time", "zoned"))
        forms = (
            f"({self._of(kind, depth)} - {self._of(kind, depth)})",
            f"(-{self._of('delta', depth)})",
            f"({self._of('delta', depth)} * {self._of('int', 0)})",
            f"({self._of('delta', depth)} + {self._of('delta', depth)})",
        )
        return self._random.choice(forms)

    def _tuple(self, depth: int) -> str:
        return f"({self._of('int', depth)}, ({self._of('float', depth)}, 3))"
