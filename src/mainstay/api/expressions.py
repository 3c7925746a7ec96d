"""Expressions of columns, in PySpark's spelling, evaluated on whole batches by Arrow.

::

    orders.filter((ms.col("amount") > 5) & ms.col("customer").isNotNull())
    orders.key_by(ms.col("customer"))

Null is handled as Spark does: a comparison with null is null, ``&``, ``|`` and ``~`` know three
values, and ``filter`` keeps the rows for which the condition is true. NaN is that of IEEE 754 and
not Spark's: it equals nothing, itself included.

An expression knows no schema. It becomes Arrow's when it meets a stream (``bound``), which is when
names and types are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.api.graph import column_number
from mainstay.errors import GraphError, MainstayError
from mainstay.schema import array_of, format_schema, to_type
from mainstay.schema.evaluation import evaluated

Arrow: TypeAlias = Any
"""An expression of Arrow, which has no types of its own that could be checked."""


class Bound:
    """What an expression is bound to: the columns of a stream."""

    def __init__(self, schema: pa.Schema, where: str) -> None:
        self.schema = schema
        self.where = where

    def type_of(self, expression: Arrow) -> pa.DataType:
        return evaluated(expression, self.schema.empty_table()).type


class Column:
    """An expression of columns. Made by ``ms.col`` and ``ms.lit`` and what is done to these."""

    __slots__ = ("_bind", "_text", "name", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        text: str,
        bind: Callable[[Bound], Arrow],
        *,
        name: str | None = None,
        value: tuple[Any, ...] = (),
    ) -> None:
        self._text = text
        self._bind = bind
        self.name = name
        """The name, where it is just a column."""
        self.value = value
        """What a literal is, alone in a tuple."""

    def __repr__(self) -> str:
        return f"Column<{self._text}>"

    # ------------------------------------------------------------ comparisons

    def __eq__(self, other: Any) -> Column:  # type: ignore[override]
        return _binary(self, "=", other, pc.equal)

    def __ne__(self, other: Any) -> Column:  # type: ignore[override]
        return _binary(self, "!=", other, pc.not_equal)

    def __lt__(self, other: Any) -> Column:
        return _binary(self, "<", other, pc.less)

    def __le__(self, other: Any) -> Column:
        return _binary(self, "<=", other, pc.less_equal)

    def __gt__(self, other: Any) -> Column:
        return _binary(self, ">", other, pc.greater)

    def __ge__(self, other: Any) -> Column:
        return _binary(self, ">=", other, pc.greater_equal)

    def eqNullSafe(self, other: Any) -> Column:  # noqa: N802 (as in pyspark)
        """Equal, where null equals null and nothing else."""
        return _binary(self, "<=>", other, _equal_null_safe)

    def between(self, low: Any, high: Any) -> Column:
        """Between two values, both included."""
        return _binary(self >= low, "AND", self <= high, pc.and_kleene)

    # ------------------------------------------------------------ null and membership

    def isNull(self) -> Column:  # noqa: N802 (as in pyspark)
        return self._unary("({} IS NULL)", pc.is_null)

    def isNotNull(self) -> Column:  # noqa: N802 (as in pyspark)
        return self._unary("({} IS NOT NULL)", pc.is_valid)

    is_null, is_not_null = isNull, isNotNull

    def isNaN(self) -> Column:  # noqa: N802 (as in pyspark)
        return self._unary("isnan({})", lambda own: pc.coalesce(pc.is_nan(own), _boolean(False)))

    def isin(self, *values: Any) -> Column:
        """Whether it is one of some values; null where it is null."""
        is_listed = len(values) == 1 and isinstance(values[0], list | tuple | set | frozenset)
        given = list(values[0] if is_listed else values)
        text = f"({self._text} IN ({', '.join(map(repr, given))}))"
        return Column(text, lambda bound: _is_in(self._bind(bound), given, bound))

    # ------------------------------------------------------------ logic

    def __and__(self, other: Any) -> Column:
        return _binary(self, "AND", other, pc.and_kleene)

    def __or__(self, other: Any) -> Column:
        return _binary(self, "OR", other, pc.or_kleene)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Column:
        return self._unary("(NOT {})", pc.invert)

    def __bool__(self) -> bool:
        raise GraphError(
            f"{self!r} has no truth of its own: it is evaluated for each row, later. Write & for "
            "'and', | for 'or' and ~ for 'not', with each comparison in parentheses: "
            '(ms.col("a") > 5) & (ms.col("b") < 3); between(low, high) for low <= x <= high.'
        )

    def __contains__(self, value: Any) -> bool:
        raise GraphError(
            f"'in' cannot ask {self!r}, which is evaluated for each row, later. Write isin(...) "
            "for membership, contains(...) for a part of a text."
        )

    def __iter__(self) -> Any:
        raise TypeError(f"{self!r} cannot be iterated over: it is an expression of a row")

    # ------------------------------------------------------------ arithmetic

    def __add__(self, other: Any) -> Column:
        return _binary(self, "+", other, pc.add_checked)

    def __radd__(self, other: Any) -> Column:
        return _binary(other, "+", self, pc.add_checked)

    def __sub__(self, other: Any) -> Column:
        return _binary(self, "-", other, pc.subtract_checked)

    def __rsub__(self, other: Any) -> Column:
        return _binary(other, "-", self, pc.subtract_checked)

    def __mul__(self, other: Any) -> Column:
        return _binary(self, "*", other, pc.multiply_checked)

    def __rmul__(self, other: Any) -> Column:
        return _binary(other, "*", self, pc.multiply_checked)

    def __truediv__(self, other: Any) -> Column:
        return _binary(self, "/", other, _divided)

    def __rtruediv__(self, other: Any) -> Column:
        return _binary(other, "/", self, _divided)

    def __mod__(self, other: Any) -> Column:
        return _binary(self, "%", other, _remainder)

    def __rmod__(self, other: Any) -> Column:
        return _binary(other, "%", self, _remainder)

    def __neg__(self) -> Column:
        return self._unary("(- {})", pc.negate_checked)

    # ------------------------------------------------------------ texts and types

    def startswith(self, text: str) -> Column:
        return self._unary(f"startswith({{}}, {text!r})", lambda own: pc.starts_with(own, text))

    def endswith(self, text: str) -> Column:
        return self._unary(f"endswith({{}}, {text!r})", lambda own: pc.ends_with(own, text))

    def contains(self, text: str) -> Column:
        return self._unary(f"contains({{}}, {text!r})", lambda own: pc.match_substring(own, text))

    def like(self, pattern: str) -> Column:
        """SQL's LIKE: % is any text, _ any character."""
        return self._unary(f"({{}} LIKE {pattern!r})", lambda own: pc.match_like(own, pattern))

    def rlike(self, pattern: str) -> Column:
        """Whether a regular expression is found in it (of RE2, where Spark has Java's)."""
        return self._unary(
            f"({{}} RLIKE {pattern!r})", lambda own: pc.match_substring_regex(own, pattern)
        )

    def cast(self, to: Any) -> Column:
        """Of another type, as Arrow converts; what does not fit is an error."""
        arrow = to_type(to)
        text = f"CAST({self._text} AS {to})"
        return Column(text, lambda bound: _converted(self._bind(bound), arrow, bound))

    # ------------------------------------------------------------ order

    def asc(self) -> Order:
        """As what rows are put in order by: the least value first."""
        return Order(self, True)

    def desc(self) -> Order:
        """As what rows are put in order by: the greatest value first."""
        return Order(self, False)

    # ------------------------------------------------------------ meeting a stream

    def _unary(self, text: str, function: Callable[[Arrow], Arrow]) -> Column:
        return Column(text.replace("{}", self._text, 1), lambda bound: function(self._bind(bound)))

    def bound(self, schema: pa.Schema, where: str) -> tuple[Arrow, pa.DataType]:
        """Arrow's expression for rows of a schema, and the type of what it gives."""
        columns = Bound(schema, where)
        try:
            expression = self._bind(columns)
            return expression, columns.type_of(expression)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise GraphError(
                f"{where}: {self!r} cannot be evaluated on rows of {format_schema(schema)!r}: "
                f"{error}. Convert a column with cast(...) where the types differ."
            ) from error


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """A column that rows are put in order by, with its direction."""

    column: Column
    is_ascending: bool

    def __repr__(self) -> str:
        return f"{self.column!r}.{'asc' if self.is_ascending else 'desc'}()"


def col(name: str) -> Column:
    """A column of the stream, by name; ``a.b`` is the field ``b`` of the struct ``a``."""
    if not isinstance(name, str) or not name:
        raise GraphError(f'col({name!r}) needs the name of a column, as in col("amount").')
    return Column(name, lambda bound: _field(name, bound), name=name)


def lit(value: Any) -> Column:
    """A value that is the same for every row."""
    if isinstance(value, Column):
        return value
    return Column(repr(value), lambda bound: pc.scalar(_scalar(value)), value=(value,))


def refuse_pyspark(value: Any, where: str) -> None:
    """Say what to write where an expression of PySpark was given."""
    for cls in type(value).__mro__:
        if cls.__name__ == "Column" and cls.__module__.startswith("pyspark."):
            raise GraphError(
                f"{where} was given an expression of PySpark, which only Spark can evaluate. "
                'Write it with ms.col and ms.lit, which are spelled the same: ms.col("amount") > 5.'
            )


# ---------------------------------------------------------------- what becomes of them


def _binary(left: Any, sign: str, right: Any, function: Callable[..., Arrow]) -> Column:
    one, other = lit(left), lit(right)
    text = f"({one._text} {sign} {other._text})"
    return Column(text, lambda bound: function(*_sides(one, other, bound, function)))


def _sides(one: Column, other: Column, bound: Bound, function: Any) -> tuple[Any, ...]:
    """Both sides, a literal in the type of the other side where Arrow would not find it."""
    for side in (one, other):
        refuse_pyspark(side.value[0] if side.value else None, bound.where)
    left = _fitted(one, other, bound)
    right = _fitted(other, one, bound)
    typed = function in (_divided, _remainder)
    return (left, right, bound) if typed else (left, right)


def _fitted(side: Column, other: Column, bound: Bound) -> Arrow:
    if not side.value or other.value:
        return side._bind(bound)
    (value,) = side.value
    arrow = bound.type_of(other._bind(bound))
    if value is None:
        return pc.scalar(pa.scalar(None, arrow))
    if pa.types.is_temporal(arrow) or pa.types.is_decimal(arrow):
        return pc.scalar(_in_type(value, arrow, bound))
    return side._bind(bound)


def _in_type(value: Any, arrow: pa.DataType, bound: Bound) -> pa.Scalar:
    """A literal beside a column of time or decimals: a datetime without a zone is UTC."""
    try:
        return array_of([value], arrow, bound.where)[0]
    except MainstayError:
        return _scalar(value)


def _scalar(value: Any) -> pa.Scalar:
    try:
        return pa.scalar(value)
    except (pa.ArrowException, TypeError) as error:
        raise GraphError(f"lit({value!r}) is no value that a column can have: {error}.") from error


def _boolean(value: bool | None) -> Arrow:
    return pc.scalar(pa.scalar(value, pa.bool_()))


def _field(name: str, bound: Bound) -> Arrow:
    if name in bound.schema.names or "." not in name:
        column_number(bound.schema, name, bound.where)
        return pc.field(name)
    first, *rest = name.split(".")
    number = column_number(bound.schema, first, bound.where)
    found = bound.schema.field(number).type
    for part in rest:
        fields = pa.schema(list(found)) if pa.types.is_struct(found) else pa.schema([])
        found = fields.field(column_number(fields, part, f"{bound.where}, column {first!r}")).type
    return pc.field(first, *rest)


def _is_in(own: Arrow, given: Iterable[Any], bound: Bound) -> Arrow:
    arrow = bound.type_of(own)
    values = [value for value in given if value is not None]
    found = own.isin(array_of(values, arrow, f"{bound.where}, isin()"))
    if len(values) < len(list(given)):
        found = pc.or_kleene(found, _boolean(None))
    return pc.if_else(pc.is_null(own), _boolean(None), found)


def _equal_null_safe(left: Arrow, right: Arrow) -> Arrow:
    one, other = pc.is_null(left), pc.is_null(right)
    return pc.if_else(pc.or_kleene(one, other), pc.and_kleene(one, other), pc.equal(left, right))


def _converted(own: Arrow, to: pa.DataType, bound: Bound) -> Arrow:
    """Arrow takes the text 0x10 for 16, where Spark and Python have no number."""
    if pa.types.is_integer(to) and pa.types.is_string(bound.type_of(own)):
        is_hexadecimal = pc.match_substring(own, "x", ignore_case=True)
        refused = pc.binary_join_element_wise(pc.scalar("hexadecimal "), own, pc.scalar(""))
        own = pc.if_else(is_hexadecimal, refused, own)
    return own.cast(to)


def _divided(left: Arrow, right: Arrow, bound: Bound) -> Arrow:
    """As Spark divides: to a fraction, also of whole numbers. By zero it is an error."""
    if any(pa.types.is_decimal(bound.type_of(side)) for side in (left, right)):
        return pc.divide_checked(left, right)
    return pc.divide_checked(left.cast(pa.float64()), right.cast(pa.float64()))


def _remainder(left: Arrow, right: Arrow, bound: Bound) -> Arrow:
    """With the sign of the dividend, as in Spark."""
    types = [bound.type_of(side) for side in (left, right)]
    if not all(pa.types.is_integer(each) for each in types):
        raise TypeError(f"% is for whole numbers, not for {types[0]} and {types[1]}")
    whole = pc.divide_checked(left, right)
    return pc.subtract_checked(left, pc.multiply_checked(whole, right))
