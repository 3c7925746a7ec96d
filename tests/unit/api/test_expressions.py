"""Column expressions in PySpark's spelling: what they give, null included, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import GraphError, UserFunctionError
from mainstay.runtime.operators.expressions import evaluated
from mainstay.schema import rows_to_batch, to_schema
from mainstay.testing import rows, run

SCHEMA = (
    "n long, m long, x double, s string, b boolean, at timestamp, local timestamp_ntz, day date, "
    "price decimal(10,2), inner struct<a:int,deep:struct<z:string>>, `a.b` long"
)
T0 = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)
FULL = (7, 2, 1.5, "apple", True, T0, T0.replace(tzinfo=None), date(2024, 1, 1), Decimal("2.50"))
ROW = (*FULL, (1, ("deep",)), 9)
NULLS = (None,) * 11
col, lit = ms.col, ms.lit


def of(expression: ms.Column, row: tuple[Any, ...] = ROW) -> Any:
    """What an expression gives for a row."""
    schema = to_schema(SCHEMA)
    arrow, declared = expression.bound(schema, "here")
    batch = rows_to_batch([row], schema, "here")
    found = evaluated(arrow, pa.Table.from_batches([batch]))
    assert found.type == declared
    return found[0].as_py()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (col("n") > 5, True),
        (lit(5) < col("n"), True),
        (col("n") <= 6, False),
        (col("n") == 7, True),
        (col("n") != col("m"), True),
        (col("n") + 1, 8),
        (1 - col("n"), -6),
        (2 * col("n") - col("m"), 12),
        (col("n") / 2, 3.5),
        (14 / col("n"), 2.0),
        (col("n") % 4, 3),
        (-col("n") % 4, -3),
        (-col("n"), -7),
        (col("price") > 2, True),
        (col("price") == Decimal("2.5"), True),
        ((col("n") > 5) & (col("m") < 3), True),
        ((col("n") > 9) | col("b"), True),
        (True & col("b"), True),
        (~col("b"), False),
        (col("n").isin(1, 7), True),
        (col("n").isin([1, 2]), False),
        (col("s").isin({"apple"}), True),
        (col("n").between(7, 8), True),
        (col("s").startswith("ap"), True),
        (col("s").endswith("le"), True),
        (col("s").contains("ppl"), True),
        (col("s").like("a%e"), True),
        (col("s").rlike("^a.*e$"), True),
        (col("s") == "apple", True),
        (col("n").cast("string"), "7"),
        (col("n").isNull(), False),
        (col("n").is_not_null(), True),
        (col("x").isNaN(), False),
        (col("at") == T0, True),
        (col("at") == T0.replace(tzinfo=None), True),
        (col("local") == datetime(2024, 1, 1, 12), True),
        (col("day") >= date(2024, 1, 1), True),
        (col("inner.a") == 1, True),
        (col("inner.deep.z") == "deep", True),
        (col("a.b") == 9, True),
        (lit(5), 5),
        (lit(lit(5)) + 1, 6),
    ],
    ids=repr,
)
def test_an_expression_gives(expression: ms.Column, expected: Any) -> None:
    assert of(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (col("n") == 5, None),
        (col("n") == None, None),  # noqa: E711 - it is an expression
        (col("n") + 1, None),
        (col("n") / 2, None),
        (col("b") & False, False),
        (col("b") & True, None),
        (col("b") | True, True),
        (col("b") | False, None),
        (~col("b"), None),
        (col("n").isin(1, 2), None),
        (~col("n").isin(1, 2), None),
        (col("n").isNull(), True),
        (col("n").isNotNull(), False),
        (col("x").isNaN(), False),
        (col("n").eqNullSafe(None), True),
        (col("n").eqNullSafe(col("m")), True),
        (col("n").eqNullSafe(1), False),
        (col("s").startswith("a"), None),
        (col("inner.a") > 0, None),
    ],
    ids=repr,
)
def test_null_is_handled_as_in_spark(expression: ms.Column, expected: Any) -> None:
    assert of(expression, NULLS) is expected


def test_a_value_that_is_not_found_beside_a_null_is_unknown() -> None:
    assert of(col("n").isin(7, None)) is True
    assert of(col("n").isin(1, None)) is None
    assert of(~col("n").isin(1, None)) is None


# ---------------------------------------------------------------- on streams

VALUES = [("a", 1), ("b", 6), (None, 7), ("c", None), ("a", 9)]


def kept(condition: Any) -> list[Any]:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows("name string, amount long", VALUES), uid="in")
        stream.filter(condition).sink(Memory(), uid="out")

    return sorted(run(build).output("out"), key=repr)


def test_a_filter_keeps_the_rows_for_which_an_expression_is_true() -> None:
    condition = (ms.col("amount") > 5) & ms.col("name").isNotNull()
    assert kept(condition) == [("a", 9), ("b", 6)]
    assert kept(~condition) == [("a", 1), (None, 7)]


class Count(ms.KeyedProcess):
    n = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> None:
        self.n.update((self.n.get() or 0) + 1)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ((ms.col("name"),), {"a": 2, "b": 1, "c": 1, None: 1}),
        ((ms.col("amount") % 3,), {1: 2, 0: 2, None: 1}),
        ((ms.col("amount").isNull(),), {True: 1, False: 4}),
    ],
)
def test_a_key_is_a_column_or_an_expression(key: Any, expected: Any) -> None:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows("name string, amount long", VALUES, splits=2), uid="in")
        counted = stream.key_by(*key).process(Count(), "n long", uid="counts")
        counted.sink(Memory(), uid="out")

    assert run(build, crashes=1, seed=3).state("counts", "n") == expected


def test_a_column_as_an_expression_is_the_column_itself() -> None:
    stream = ms.Environment().source(rows("name string, amount long", []), uid="in")
    for one, other in (
        (("name",), (ms.col("name"),)),
        (("name", "amount"), ("name", col("amount"))),
    ):
        assert stream.key_by(*one).key.columns == stream.key_by(*other).key.columns


def test_an_error_while_rows_are_filtered_names_the_operator() -> None:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows("n long", [(0,)]), uid="in")
        stream.filter(1 / ms.col("n") > 0, uid="bad").sink(Memory(), uid="out")

    with pytest.raises(UserFunctionError, match=r"operator 'bad'.*divide by zero"):
        run(build)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda: (col("n") > 5) and (col("m") < 3), r"\(n > 5\).*Write & for 'and'"),
        (lambda: (col("n") > 5) or (col("m") < 3), r"\| for 'or'"),
        (lambda: not (col("n") > 5), "~ for 'not'"),
        (lambda: 1 < col("n") < 5, "between"),
        (lambda: "x" in col("s"), "isin.*contains"),
        (lambda: col(5), "needs the name of a column"),
        (lambda: lit(object()), None),
    ],
)
def test_python_that_would_be_misread_is_refused_with_the_remedy(
    write: Callable[[], Any], said: str | None
) -> None:
    if said is None:
        with pytest.raises(GraphError, match="no value that a column can have"):
            of(write())
        return
    with pytest.raises(GraphError, match=said):
        write()


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda s: s.filter(col("amuont") > 5), r"'amuont'; .*'name', 'amount'.*mean 'amount'"),
        (lambda s: s.key_by(col("nam")), r"'nam'; .*'name', 'amount'.*mean 'name'"),
        (lambda s: s.filter(col("name.x") == 1), r"column 'name'.*there is no column 'x'"),
        (lambda s: s.filter(col("amount") + 1), r"cannot filter|boolean"),
        (lambda s: s.filter(col("name") > 5), r"name > 5.*cannot be evaluated.*cast"),
        (lambda s: s.filter(col("name") % 2 == 0), "% is for whole numbers"),
        (lambda s: s.filter("amount > 5"), r"'amount > 5'.*ms.col"),
        (lambda s: s.filter(col("amount").isin("x")), r"isin\(\).*'x'"),
        (lambda s: s.key_by("name", col("amount") % 2), r"there is no column|expression"),
        (lambda s: s.key_by(col("amount") % 2, "name"), r"one expression or some columns"),
    ],
)
def test_what_does_not_fit_the_stream_is_refused_when_the_job_is_built(use: Any, said: str) -> None:
    stream = ms.Environment().source(rows("name string, amount long", []), uid="in")
    with pytest.raises(GraphError, match=said):
        use(stream)


def test_an_expression_of_pyspark_is_refused_with_ours() -> None:
    column = type("Column", (), {"__module__": "pyspark.sql.classic.column"})
    stream = ms.Environment().source(rows("name string, amount long", []), uid="in")
    for use in (stream.filter, stream.key_by, lambda c: stream.filter(ms.col("amount") > c)):
        with pytest.raises(GraphError, match=r"PySpark.*ms\.col"):
            use(column())


def test_a_text_is_cast_to_a_whole_number_by_its_decimal_digits() -> None:
    as_long = col("s").cast("long")
    assert of(as_long, (*FULL[:3], "12", *ROW[4:])) == 12
    assert of(as_long, NULLS) is None
    with pytest.raises(pa.ArrowInvalid, match="hexadecimal 0x10"):
        of(as_long, (*FULL[:3], "0x10", *ROW[4:]))
