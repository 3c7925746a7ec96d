"""The kernel as it grows: what its arguments are, and how they are named in its text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mainstay.plan.compiling.conversions import Codes
from mainstay.plan.compiling.types import Type, of_arrow, of_state
from mainstay.plan.compiling.values import Value
from mainstay.plan.compiling.writer import Writer
from mainstay.runtime.compiled.plain import marks_of, number_of
from mainstay.runtime.compiled.program import (
    ColumnUse,
    Constant,
    Guard,
    Path,
    Program,
    StateUse,
)
from mainstay.runtime.spec import KeySpec
from mainstay.state.fixed_width import CODED, Form, fields_of
from mainstay.state.info import StateInfo

READS = {"int64": "int_", "float64": "float_", "bool": "bool_"}
"""What turns an element of an array into a value, by the type of the array."""
_DTYPES = {"float": "float64", "bool": "bool"}


def dtype(form: str) -> str:
    return _DTYPES.get(form, "int64")


class Kernel(Codes):
    """Arguments, and what each stands for."""

    def __init__(
        self,
        name: str,
        function: Any,
        key: KeySpec,
        schema: pa.Schema,
        states: tuple[StateInfo, ...],
    ) -> None:
        self.name = name
        self.function = function
        self._key = key
        self.schema = schema
        hidden = set(key.columns) if key.hidden else set()
        self.visible = {
            each.name: number for number, each in enumerate(schema) if number not in hidden
        }
        """The columns that rows show, by name."""
        self.infos = states
        self.write = Writer()
        self.columns: dict[ColumnUse, str] = {}
        self.constants: dict[Constant, str] = {}
        self.guards: dict[Path, Guard] = {}
        self.literals: dict[tuple[Form, Any], int] = {}

    # ------------------------------------------------------------ columns

    def column(self, number: int) -> Value:
        """The value of a column in the current row."""
        field = self.schema.field(number)
        type_ = of_arrow(field.type)
        if type_ is None or type_.kind in CODED:
            type_ = Type("column", column=number, arrow=field.type)
        ok = (self._valid(number),) if field.nullable else ()
        type_ = type_.maybe if ok else type_
        if type_.kind == "column":
            return Value(type_, ok)
        return Value(type_, (self._read(number, "value", type_.form), *ok))

    def _valid(self, number: int) -> str:
        return self._read(number, "valid", "bool")

    def _read(self, number: int, part: Any, form: Form) -> str:
        use = ColumnUse(number, part, form)
        name = self.columns.setdefault(use, f"c{number}_{part}_{form}")
        read = READS[dtype(form)]
        return self.write.temp(f"{read}({name}[i])")

    def of_column(self, number: int, form: Form) -> str:
        return self._read(number, "value", form)

    def key(self) -> Value:
        """The key of the current row: its column, or a tuple of several."""
        columns = [self.column(number) for number in self._key.columns]
        if len(columns) == 1:
            return columns[0]
        items = tuple(each.type for each in columns)
        names = tuple(field.name for field in self._key.type.arrow)
        parts = tuple(part for each in columns for part in each.parts)
        return Value(Type("tuple", items=items, names=names), parts)

    # ------------------------------------------------------------ constants

    def of_literal(self, form: Form, value: object) -> str:
        number = self.literals.setdefault((form, value), len(self.literals))
        return f"int_(literals[{number}])"

    def literal(self, value: Any) -> Value | None:
        """A value that its author has written down; None where a kernel cannot hold it."""
        told = number_of(value)
        if told is None:
            return None
        form, number = told
        if form in CODED:
            return Value(Type(form), (self.write.temp(self.of_literal(form, number)),))
        return Value(Type(form), (_shown(number),), value)

    def constant(self, path: Path, value: Any) -> Value | None:
        """A value that is asked for again with every batch."""
        if value is None:
            return None
        told = number_of(value)
        if told is None:
            return None
        constant = Constant(path, told[0])
        name = self.constants.setdefault(constant, f"k{len(self.constants)}")
        read = READS[dtype(told[0])]
        return Value(Type(told[0]), (self.write.temp(f"{read}({name})"),))

    def asked(self, path: Path, form: Form, *, optional: bool = False) -> Value:
        """Something that the runtime knows for each batch."""
        constant = Constant(path, form, optional)
        name = self.constants.setdefault(constant, f"k{len(self.constants)}")
        type_ = Type(form, optional)
        return Value(type_, (name, f"{name}_ok") if optional else (name,))

    def guard(self, path: Path, value: Any) -> None:
        """What is taken as it is now: when it is another one, the function itself is called."""
        self.guards[path] = Guard(path, marks_of(value))

    # ------------------------------------------------------------ states

    def state(self, number: int) -> Type:
        type_ = of_state(self.infos[number].value.arrow)
        assert type_ is not None
        return type_.maybe

    def state_uses(self) -> tuple[StateUse, ...]:
        uses = []
        for info in self.infos:
            fields = fields_of(info.value.arrow)
            assert fields is not None
            uses.append(StateUse(info.name, fields, pa.types.is_struct(info.value.arrow)))
        return tuple(uses)

    def state_parts(self, number: int) -> list[tuple[str, str]]:
        """For each part of a state the end of its name, and the type of its array."""
        return [(end, part_dtype(zero)) for end, zero in self.state(number).parts]

    def program(self, text: str, outs: Any, arguments: list[tuple[str, str]]) -> Program:
        return Program(
            name=self.name,
            text=text,
            columns=tuple(self.columns),
            constants=tuple(self.constants),
            guards=tuple(self.guards.values()),
            literals=tuple(self.literals),
            states=self.state_uses(),
            outs=outs,
            signature=tuple(told for _, told in arguments),
        )


def part_dtype(zero: str) -> str:
    return {"0": "int64", "0.0": "float64", "False": "bool"}[zero]


def _shown(number: Any) -> str:
    if isinstance(number, float) and (number != number or number in (float("inf"), -float("inf"))):
        return {"nan": "math.nan", "inf": "math.inf", "-inf": "(-math.inf)"}[repr(number)]
    return f"({number!r})" if not isinstance(number, bool) and number < 0 else repr(number)
