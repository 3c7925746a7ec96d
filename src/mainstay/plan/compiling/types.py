"""Types of expressions: what is known of a value before any row has come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from mainstay.state.fixed_width import Form, form_of

Kind = Literal[
    "int",
    "float",
    "number",
    "bool",
    "str",
    "bytes",
    "date",
    "time",
    "zoned",
    "delta",
    "none",
    "tuple",
    "column",
    "row",
]
"""``number`` is a whole number or a float, whichever comes; ``column`` a value of the current row
that is known by its column alone; ``row`` the current row."""

NAMES: dict[str, str] = {
    "int": "a whole number",
    "float": "a float",
    "number": "a number",
    "bool": "a boolean",
    "str": "a text",
    "bytes": "bytes",
    "date": "a date",
    "time": "a datetime without a time zone",
    "zoned": "a datetime with a time zone",
    "delta": "a timedelta",
    "none": "None",
    "tuple": "a tuple",
    "column": "a value of a column",
    "row": "the row",
}

_PARTS: dict[str, tuple[tuple[str, str], ...]] = {
    "int": (("i", "0"),),
    "float": (("f", "0.0"),),
    "number": (("n", "0.0"), ("w", "False")),
    "bool": (("b", "False"),),
    "str": (("s", "0"),),
    "bytes": (("y", "0"),),
    "date": (("d", "0"),),
    "time": (("u", "0"),),
    "zoned": (("z", "0"),),
    "delta": (("e", "0"),),
    "none": (),
    "column": (),
    "row": (),
}


@dataclass(frozen=True, slots=True)
class Type:
    """The type of an expression. ``optional`` values may be None."""

    kind: Kind
    optional: bool = False
    column: int = -1
    """The number of the column, of one that is known by it."""
    arrow: pa.DataType | None = None
    items: tuple[Type, ...] = ()
    names: tuple[str, ...] | None = None
    """The names of the fields, of a row of several."""

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """What a value of it consists of: for each part the end of its name, and a zero.

        No end has a q, so that item 1 of item 0 is not item 10.
        """
        own: tuple[tuple[str, str], ...]
        if self.kind == "tuple":
            own = tuple(
                (f"{number}q{end}", zero)
                for number, item in enumerate(self.items)
                for end, zero in item.parts
            )
        else:
            own = _PARTS[self.kind]
        return (*own, ("ok", "False")) if self.optional and self.kind != "none" else own

    @property
    def form(self) -> Form:
        """What a kernel has of it, where that is one number."""
        form: Form = self.kind  # type: ignore[assignment]
        return form

    @property
    def plain(self) -> Type:
        """The same without None."""
        return replace(self, optional=False) if self.optional else self

    @property
    def maybe(self) -> Type:
        """The same, or None."""
        return self if self.optional or self.kind == "none" else replace(self, optional=True)

    @property
    def is_number(self) -> bool:
        return self.kind in ("int", "float", "number", "bool")

    def __str__(self) -> str:
        return NAMES[self.kind] + (" or None" if self.optional else "")


INT, FLOAT, NUMBER, BOOL = Type("int"), Type("float"), Type("number"), Type("bool")
STR, BYTES, DATE, TIME, ZONED = (
    Type("str"),
    Type("bytes"),
    Type("date"),
    Type("time"),
    Type("zoned"),
)
DELTA, NONE = Type("delta"), Type("none")
_MIXED = {"int", "float", "number"}


def joined(one: Type, other: Type) -> Type | None:
    """The type of what has one of two types; None where there is none."""
    if one == other:
        return one
    if one.kind == "none":
        return _or_none(other)
    if other.kind == "none":
        return _or_none(one)
    both = _joined_plain(one.plain, other.plain)
    if both is None:
        return None
    return both.maybe if one.optional or other.optional else both


def _or_none(type_: Type) -> Type | None:
    """A value, or None on another way: where it is from says no longer whether it is there."""
    if type_.kind != "column":
        return type_.maybe
    kind = coded(type_)
    return None if kind is None else Type(kind, optional=True)


def _joined_plain(one: Type, other: Type) -> Type | None:
    if one == other:
        return one
    if one.kind == other.kind == "tuple":
        return _joined_tuples(one, other)
    if {one.kind, other.kind} <= _MIXED:
        return NUMBER
    if "column" in (one.kind, other.kind):
        kinds = {coded(one), coded(other)}
        return Type(kinds.pop()) if len(kinds) == 1 and None not in kinds else None  # type: ignore[arg-type]
    return one if one.kind == other.kind else None


def _joined_tuples(one: Type, other: Type) -> Type | None:
    if len(one.items) != len(other.items):
        return None
    items = [joined(a, b) for a, b in zip(one.items, other.items, strict=True)]
    names = one.names if one.names == other.names else None
    if any(item is None for item in items):
        return None
    return Type("tuple", items=tuple(item for item in items if item is not None), names=names)


def coded(type_: Type) -> Kind | None:
    """Which codes stand for a value: those of texts, of bytes, or none."""
    if type_.kind in ("str", "bytes"):
        return type_.kind
    if type_.kind != "column" or type_.arrow is None:
        return None
    if pa.types.is_string(type_.arrow):
        return "str"
    return "bytes" if pa.types.is_binary(type_.arrow) else None


def of_arrow(arrow: pa.DataType) -> Type | None:
    """The type of the values of a column or a state; None where a kernel cannot hold them."""
    form = form_of(arrow)
    return None if form is None else Type(form)


def of_state(arrow: pa.DataType) -> Type | None:
    """The type of the values of a state: also a struct of plain ones, which is a row."""
    if not pa.types.is_struct(arrow):
        return of_arrow(arrow)
    items = []
    for field in arrow:
        item = of_arrow(field.type)
        if item is None:
            return None
        items.append(item.maybe if field.nullable else item)
    names = tuple(field.name for field in arrow)
    return Type("tuple", items=tuple(items), names=names) if items else None
