"""Every type of the schema, and values of each that are hard to carry.

Values are what ``pa.array`` takes: a map is a list of pairs, a struct a dict. So rows are made by
pyarrow alone, and what they are does not depend on the code under test.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.roundtrips.sameness import exact

Values = st.SearchStrategy[Any]

_WIDE = Context(prec=80)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
LINE_ENDS = ["\n", "\r", "\r\n", "\n\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e"]
TEXTS = [
    *LINE_ENDS,
    *(
        "",
        " ",
        "a ",
        " a",
        "\t",
        "\0",
        "a\0b",
        "\x1b[31m",
        "\x7f",
        "\\",
        "\\n",
        "\\N",
        "\\.",
        "\\x61",
    ),
    *('"', '""', "'", 'a"b', ",", ";", "a,b", '"a",b', "|", "{", "}", "[", "]", "{}", "[]", ":"),
    *("null", "NULL", "None", "nan", "NaN", "Infinity", "-Infinity", "true", "0", "-0", "1e400"),
    *("=", "%", "%41", "%2F", "/", ".", "..", "#", "?", "*", "$", "$1", "{0}", "%s", "__x__"),
    *(
        "ä",
        "a\u0308",
        "ß",
        "İ",
        "ﬁ",
        "日本語",
        "👍",
        "👨‍👩‍👧‍👦",
        "\U0010ffff",
        "\ufeff",
        "\ufffd",
        "\ufffe",
    ),
    *(
        "\u202eabc",
        "\u200b",
        "\ud7ff\ue000",
        "é" * 40,
        "x" * 300,
        "2024-01-01",
        "2024-01-01T00:00:00Z",
    ),
]
NAMES = [
    *("a", "b c", "d.e", 'f"g', "h'i", "j`k", "l\\m", "n%o", "p/q", "r=s", "t,u", "v;w", "x{0}y"),
    *(
        "%s",
        "$1",
        "select",
        "table",
        "null",
        "true",
        "ä",
        "a\u0308",
        "日本",
        "👍",
        "\u2028",
        "\ufeffz",
    ),
    *("(", "[]", "{}", "#", "?", ":", "-", "1", "_1", ".", "..", " ", "\t", "\n", "\r", "n" * 60),
    *("key", "value", "values", "entries", "item", "element", "list", "order", "user", "__len__"),
]
"""Names of columns and fields. No two differ in case alone: many systems do not tell that."""

MOST_DAYS = (date.max - date(1970, 1, 1)).days
LEAST_DAYS = (date.min - date(1970, 1, 1)).days
MOST_US = (datetime.max - datetime(1970, 1, 1)) // timedelta(microseconds=1)
LEAST_US = (datetime.min - datetime(1970, 1, 1)) // timedelta(microseconds=1)
TIMES_US = [LEAST_US, MOST_US, 0, -1, 1, -(2**31) * 10**6, 2**31 * 10**6, 999_999, 1_000_000]


def _whole(bits: int) -> Values:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    edges = [least, most, least + 1, most - 1, 0, -1, 1, *((2**53 + 1,) if bits == 64 else ())]
    return st.one_of(st.sampled_from(edges), st.integers(least, most))


def _floats(width: Any) -> Values:
    edges = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.0, 1.0, 1e10, 16777216.0]
    if width == 64:
        edges += [
            5e-324,
            2.2250738585072014e-308,
            1.7976931348623157e308,
            0.1,
            1 / 3,
            1e22,
            2**53 + 2.0,
        ]
    return st.one_of(st.sampled_from(edges), st.floats(width=width))


def _texts() -> Values:
    drawn = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    mixed = st.lists(st.sampled_from(TEXTS[:40]), max_size=4).map("".join)
    return st.one_of(st.sampled_from(TEXTS), drawn, mixed)


def _bytes() -> Values:
    edges = [
        b"",
        b"\0",
        b"\xff\xfe",
        b"\n",
        b"\r\n",
        b'"',
        b",",
        b"\\x61",
        b"\xed\xa0\x80",
        bytes(range(256)),
    ]
    return st.one_of(st.sampled_from(edges), st.binary(max_size=8))


def _days() -> Values:
    edges = [
        date.min,
        date.max,
        date(1970, 1, 1),
        date(1969, 12, 31),
        date(1582, 10, 10),
        date(1900, 2, 28),
    ]
    return st.one_of(st.sampled_from(edges), st.dates())


def _times(zone: timezone | None) -> Values:
    def at(us: int) -> datetime:
        return (EPOCH + timedelta(microseconds=us)).replace(tzinfo=zone)

    return st.one_of(st.sampled_from(TIMES_US), st.integers(LEAST_US, MOST_US)).map(at)


def _decimals(data_type: pa.DataType) -> Values:
    most = 10**data_type.precision - 1
    units = st.one_of(st.sampled_from([0, 1, -1, most, -most]), st.integers(-most, most))
    return units.map(lambda n: Decimal(n).scaleb(-data_type.scale, _WIDE))


SIMPLE: dict[pa.DataType, Callable[[], Values]] = {
    pa.bool_(): st.booleans,
    pa.int8(): lambda: _whole(8),
    pa.int16(): lambda: _whole(16),
    pa.int32(): lambda: _whole(32),
    pa.int64(): lambda: _whole(64),
    pa.float32(): lambda: _floats(32),
    pa.float64(): lambda: _floats(64),
    pa.string(): _texts,
    pa.binary(): _bytes,
    pa.date32(): _days,
    pa.timestamp("us", tz="UTC"): lambda: _times(timezone.utc),
    pa.timestamp("us"): lambda: _times(None),
}
DECIMALS = [
    pa.decimal128(*size)
    for size in ((1, 0), (1, 1), (9, 4), (18, 18), (20, 2), (38, 0), (38, 38), (38, 10))
]
LEAVES = [*SIMPLE, *DECIMALS]


def values_of(data_type: pa.DataType, *, nulls: bool = True) -> Values:
    """Values of a type, with nulls in every place that may have some."""
    inner = _present(data_type)
    return st.one_of(st.none(), inner, inner, inner) if nulls else inner


def _present(data_type: pa.DataType) -> Values:
    if pa.types.is_decimal(data_type):
        return _decimals(data_type)
    if pa.types.is_struct(data_type):
        return st.fixed_dictionaries(
            {field.name: values_of(field.type, nulls=field.nullable) for field in data_type}
        )
    if pa.types.is_map(data_type):
        pair = st.tuples(_present(data_type.key_type), values_of(data_type.item_type))
        return st.lists(pair, max_size=3, unique_by=lambda pair: _key(pair[0]))
    if pa.types.is_list(data_type):
        return st.lists(values_of(data_type.value_type), max_size=3)
    return SIMPLE[data_type]()


def _key(key: Any) -> Any:
    """What may be in a map once. The two zeros are one key, in Python as in Spark."""
    return 0 if key == 0 else repr(exact(key))


def types(
    leaves: list[pa.DataType] | None = None, *, is_nested: bool = True
) -> st.SearchStrategy[Any]:
    """Types, some of them arrays, maps and structs of others."""
    leaf = st.sampled_from(LEAVES if leaves is None else leaves)
    return (
        st.recursive(leaf, lambda inner: _outer(inner, leaf), max_leaves=4) if is_nested else leaf
    )


def _outer(inner: st.SearchStrategy[Any], leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.lists(
        st.tuples(names(), inner, st.booleans()), min_size=1, max_size=3, unique_by=lambda f: f[0]
    )
    return st.one_of(
        inner.map(pa.list_),
        st.builds(pa.map_, leaf, inner),
        fields.map(lambda drawn: pa.struct([pa.field(n, t, nullable=may) for n, t, may in drawn])),
    )


def names() -> st.SearchStrategy[str]:
    return st.sampled_from(NAMES)


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of a schema. Hypothesis shows its values, not pyarrow's drawing of them."""

    schema: pa.Schema
    columns: tuple[tuple[Any, ...], ...]

    @property
    def batch(self) -> pa.RecordBatch:
        arrays = [
            pa.array(list(values), field.type)
            for values, field in zip(self.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def __repr__(self) -> str:
        return f"Table({str(self.schema)!r}, {self.columns!r})"

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return list(zip(*self.columns, strict=True))


def one_column(data_type: pa.DataType, *values: Any, name: str = "v") -> Table:
    return Table(pa.schema([(name, data_type)]), (values,))


@st.composite
def tables(
    draw: Any,
    of: st.SearchStrategy[Any] | None = None,
    *,
    named: st.SearchStrategy[str] | None = None,
    least: int = 1,
) -> Table:
    """A schema of a few columns, and a few rows of it."""
    kind = types() if of is None else of
    name = names() if named is None else named
    every = st.tuples(name, kind, st.booleans())
    fields = draw(st.lists(every, min_size=least, max_size=3, unique_by=lambda field: field[0]))
    schema = pa.schema([pa.field(name, kind, nullable=may) for name, kind, may in fields])
    count = draw(st.integers(1, 5))
    columns = tuple(
        tuple(draw(st.lists(values_of(f.type, nulls=f.nullable), min_size=count, max_size=count)))
        for f in schema
    )
    return Table(schema, columns)


def examples(count: int) -> int:
    """How many examples are drawn: half as many by the suite, many by a search."""
    return count * 50 if os.environ.get("MAINSTAY_HYPOTHESIS") == "search" else count // 2


def catalogue() -> list[Table]:
    """One table for each type with every value that is listed for it: drawn by nobody."""
    tables = [_listed(kind) for kind in LEAVES]
    return [*tables, *(nested for table in tables for nested in _nested(table))]


def wide(tables: list[Table]) -> Table:
    """The columns of tables side by side, null where they have ended: one trip for all of them."""
    most = max(len(table.columns[0]) for table in tables)
    fields = [pa.field(f"v{n}", table.schema.field(0).type) for n, table in enumerate(tables)]
    columns = (table.columns[0] for table in tables)
    return Table(
        pa.schema(fields), tuple((*values, *(None,) * (most - len(values))) for values in columns)
    )


EDGES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    **{
        pa_type: [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, -1]
        for pa_type, bits in ((pa.int8(), 8), (pa.int16(), 16), (pa.int32(), 32), (pa.int64(), 64))
    },
    pa.float32(): [
        0.0,
        -0.0,
        math.nan,
        math.inf,
        -math.inf,
        1.401298464324817e-45,
        3.4028234663852886e38,
        0.10000000149011612,
    ],
    pa.float64(): [
        0.0,
        -0.0,
        math.nan,
        math.inf,
        -math.inf,
        5e-324,
        1.7976931348623157e308,
        0.1,
        1e22,
        2.0,
    ],
    pa.string(): TEXTS,
    pa.binary(): [
        b"",
        b"\0",
        b"\xff\xfe",
        b"\n",
        b"\r",
        b'"',
        b"\\x61",
        bytes(range(256)),
        b"x" * 5000,
    ],
    pa.date32(): [date.min, date.max, date(1970, 1, 1), date(1582, 10, 10), date(1900, 2, 28)],
    pa.timestamp("us", tz="UTC"): [EPOCH + timedelta(microseconds=us) for us in TIMES_US],
    pa.timestamp("us"): [
        (EPOCH + timedelta(microseconds=us)).replace(tzinfo=None) for us in TIMES_US
    ],
}


def edges_of(data_type: pa.DataType) -> list[Any]:
    if pa.types.is_decimal(data_type):
        most = 10**data_type.precision - 1
        return [Decimal(n).scaleb(-data_type.scale, _WIDE) for n in (0, 1, -1, most, -most)]
    return EDGES[data_type]


def _listed(data_type: pa.DataType) -> Table:
    return one_column(data_type, None, *edges_of(data_type), None)


def _nested(table: Table) -> list[Table]:
    kind, values = table.schema.field(0).type, edges_of(table.schema.field(0).type)
    mixed = pa.struct([("f", kind), ("g", pa.list_(kind))])
    return [
        one_column(pa.list_(kind), None, [], [None], values, *([value] for value in values)),
        one_column(mixed, None, *({"f": value, "g": [value, None]} for value in [None, *values])),
        one_column(
            pa.map_(pa.string(), kind),
            None,
            [],
            [(repr(n), value) for n, value in enumerate([None, *values])],
        ),
        one_column(pa.map_(kind, pa.int32()), None, [], *([(value, 1)] for value in values)),
    ]
