"""SQL that reads the keys a statement names gives what SQL over whole states gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import mainstay as ms
from mainstay.errors import SqlError
from mainstay.inspect import sql
from mainstay.inspect.connection import Connection
from mainstay.inspect.stored_connection import StoredConnection
from tests.searching import examples

duckdb = pytest.importorskip("duckdb")


class Kept(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)
    tags = ms.MapState("string", "long")
    last = ms.ValueState("struct<name: string, k: long>")

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        self.tags.put(f"t{row.n % 3}", row.n)
        self.last.update((row.name, row.k % 3))
        yield (row.n,)


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    names = [None if n % 11 == 0 else f"c{n % 7}" for n in numbers]
    return pa.RecordBatch.from_arrays(
        [[n % 13 - 2 for n in numbers], names, list(numbers)], ["k", "name", "n"]
    )


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Connection:
    place = tmp_path_factory.mktemp("states")
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(place))
    source = env.source(
        ms.connectors.Generate("k long, name string, n long", rows, end=300), uid="in"
    )
    for uid, key in (("num", ["k"]), ("names", ["name"]), ("Pairs", ["k", "name"])):
        kept = source.key_by(*key).process(Kept(), "n long", uid=uid)
        kept.sink(ms.connectors.Memory(), uid=f"{uid} out")
    assert env.start("kept").wait(60, progress=False) == "finished"
    return Remembering(place)


class Remembering(StoredConnection):
    """Reads each state as a whole once; keys are looked up every time."""

    def _read(self, origin: Any, state: str, keys: Any) -> pa.Table:
        if keys is not None:
            return super()._read(origin, state, keys)
        known = vars(self).setdefault("known", {})
        if state not in known:
            known[state] = super()._read(origin, state, None)
        return known[state]


COLUMNS = {
    "num.total": ["k", "k", "total", "key_group"],
    "num.tags": ["k", "k", "map_key", "tags", "key_group"],
    "num.last": ["k", "k", "last", "last.k", "key_group"],
    "names.total": ["name", "name", "total", "key_group"],
    "names.tags": ["name", "name", "map_key", "tags"],
    "Pairs.total": ["k", "name", "k", "name", "total"],
    "pairs.last": ["k", "name", "k", "name", "last.k", "last.name"],
}
TABLES = sorted(COLUMNS)
OTHERS = ["null", "3.0", "'3'", "2 + 1", "9223372036854775807", "0x3", "(select 3)"]
TEXTS = ["'c0'", "'c3'", "'C3'", "''", "'nobody'", "'t1'"]
Known = list[tuple[str, str]]
"""The tables of a FROM, each with the name that it has there."""


@st.composite
def columns(draw: Any, known: Known) -> str:
    """A column of one of the tables, mostly so that it is clear of which."""
    table, name = draw(st.sampled_from(known))
    column = draw(st.sampled_from(COLUMNS[table]))
    is_plain = len(known) == 1 and draw(st.booleans())
    written = column if is_plain else f"{name}.{column}"
    return written.upper() if draw(st.integers(0, 5)) == 0 else written


@st.composite
def values(draw: Any, column: str) -> str:
    if draw(st.integers(0, 11)) == 0:
        return str(draw(st.sampled_from(OTHERS)))
    if column.lower().endswith(("name", "map_key")):
        return str(draw(st.sampled_from(TEXTS)))
    return str(draw(st.integers(-4, 14)))


@st.composite
def conditions(draw: Any, known: Known, depth: int = 2) -> str:
    kind = draw(st.integers(0, 11 if depth else 6))
    column = draw(columns(known))
    if kind <= 3:
        sides = [column, draw(values(column))]
        return " = ".join(sides if draw(st.booleans()) else sides[::-1])
    if kind == 4:
        listed = draw(st.lists(values(column), min_size=1, max_size=4))
        return f"{column} {draw(st.sampled_from(['', '', 'not ']))}in ({', '.join(listed)})"
    if kind == 5:
        how = draw(st.sampled_from([">", "<>", "is distinct from"]))
        return f"{column} {how} {draw(values(column))}"
    if kind == 6:
        return f"{column} is {draw(st.sampled_from(['', 'not ']))}null"
    parts = [draw(conditions(known, depth - 1)) for _ in range(2)]
    if kind == 11:
        return f"not ({parts[0]})"
    joint = " and " if kind < 9 else " or "
    return f"({joint.join(parts)})"


@st.composite
def tables(draw: Any) -> tuple[str, Known]:
    """A FROM, and what it has."""
    first, second = draw(st.sampled_from(TABLES)), draw(st.sampled_from(TABLES))
    both = [(first, "a"), (second, "b")]
    match draw(st.integers(0, 9)):
        case 0 | 1 | 2:
            return f"{first} as a", [(first, "a")]
        case 3 | 4:
            return first, [(first, first.partition(".")[2])]
        case 5 | 6:
            return f"{first} as a, {second} as b", both
        case 7:
            kinds = ["join", "left join", "right join", "full join", "semi join", "anti join"]
            kind = draw(st.sampled_from(kinds))
            return f"{first} as a {kind} {second} as b on a.key_group = b.key_group", both
        case 8:
            kind = draw(st.sampled_from(["join", "left join", "right join"]))
            return f"{first} as a {kind} {second} as b using (key_group)", both
    inner = draw(conditions([(first, "a")], 1))
    return f"(select * from {first} as a where {inner}) as a", [(first, "a")]


SHOWN = ["*", "*", "*", "count(*) as n", "1 as k", "1 as total, 'c3' as name", "count(*) over ()"]


@st.composite
def statements(draw: Any) -> str:
    table, known = draw(tables())
    where = f" where {draw(conditions(known))}" if draw(st.integers(0, 9)) else ""
    shown = draw(st.sampled_from(SHOWN))
    statement = f"select {shown} from {table}{where}"
    match draw(st.integers(0, 9)):
        case 0:
            other, names = draw(tables())
            inner = draw(conditions(names, 1))
            statement = f"select 1 from ({statement}) union all select 2 from {other} where {inner}"
        case 1:
            statement = f"with num as ({statement}) select * from num"
        case 2:
            statement = f"select *, (select count(*) from num.total) from ({statement})"
        case 3:
            also = draw(st.sampled_from(TABLES))
            joint = "and" if where else "where"
            statement += f" {joint} exists (select 1 from {also} as z where z.key_group >= 0)"
    return statement


def answer(state: Connection, statement: str, monkeypatch: pytest.MonkeyPatch, **how: Any) -> Any:
    with monkeypatch.context() as patched:
        if how.get("whole"):
            patched.setattr(sql, "keys_of_statement", lambda *_: {})
        try:
            table = state.sql(statement)
        except SqlError as error:
            return f"refused: {type(error.__cause__)}"
        return sorted(map(repr, table.to_pylist()))


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(statement=statements())
def test_a_statement_gives_the_same_over_the_keys_it_names(
    state: Connection, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = answer(state, statement, monkeypatch)
    event(narrow if isinstance(narrow, str) else f"{min(len(narrow), 3)} rows")
    whole = answer(state, statement, monkeypatch, whole=True)
    assert narrow == whole or whole == NOT_A_NUMBER, statement


NOT_A_NUMBER = f"refused: {duckdb.ConversionException}"
"""What DuckDB says of a text that is compared with a number, if it comes to that row at all: rows
of other keys, which are not read, may be the only ones that it could say it of."""


def test_a_text_of_another_key_that_is_no_number_may_stay_unread(state: Connection) -> None:
    found = state.sql("select * from names.tags where 3.0 = name and name in ('3')")
    assert found.num_rows == 0


NARROWED = [
    "select * from num.total where k = 3",
    "select * from num.total as t where t.K in (3, 4) and total > 0",
    "select total.total from num.total where 3 = total.k",
    "select * from names.total where name = 'c3' or name in ('c1', 'nobody')",
    "select * from Pairs.total where k = 1 and name in ('c1', 'c2')",
    "select * from num.total a join num.tags b on a.k = b.k where a.k = 3 and b.k = 3",
    "select max(total) from (select * from num.total where k = 3)",
    "with c as (select * from num.total where k = 3) select * from c union all select * from c",
]
WHOLE = [
    "select * from num.total",
    "select * from num.total where k = 3 or total = 1",
    "select * from num.total where not k = 3",
    "select * from num.total where k = 3.0",
    "select * from num.total where k = '3'",
    "select * from num.total where k > 3",
    "select total as k from num.total where k = 3",
    "select * from Pairs.total where k = 1",
    "select * from num.total tablesample 100% where k = 3",
    "select * from query_table('num.total') where k = 3",
    "select * from num.total where k = 3 union all select * from num.total",
    "select * from num.total where k = (select min(k) from num.total)",
    "select * from num.total a left join num.tags b on a.k = b.k where a.k = 3 and b.k = 3",
    "from num.total as t(x) where x = 3",
    "summarize num.total",
    "select * from num.last where last.k = 1",
]


@pytest.mark.parametrize("statement", [*NARROWED, *WHOLE])
def test_what_is_narrowed_and_what_is_not(
    state: Connection, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    read = Remembering._read

    def noted(self: Any, origin: Any, name: str, keys: Any) -> Any:
        asked.append(keys)
        return read(self, origin, name, keys)

    monkeypatch.setattr(Remembering, "_read", noted)
    table = state.sql(statement)
    if statement in NARROWED:
        assert None not in asked
        assert table.num_rows > 0
    else:
        assert None in asked


def test_many_keys_are_not_looked_up_one_by_one(state: Connection) -> None:
    many = ", ".join(map(str, range(5000)))
    found = state.sql(f"select count(*) as n from num.total where k in ({many})")
    assert found.to_pylist() == [{"n": 11}]
