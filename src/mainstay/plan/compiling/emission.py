"""Rows that go out: what a function yields or returns, in the columns of the declared schema."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

import pyarrow as pa

from mainstay.plan.compiling import expressions, states
from mainstay.plan.compiling.conversions import snapshot
from mainstay.plan.compiling.fitting import WrongFormError, fitted
from mainstay.plan.compiling.frame import Frame
from mainstay.plan.compiling.kernel import dtype
from mainstay.plan.compiling.refusal import WITHOUT
from mainstay.plan.compiling.types import of_arrow
from mainstay.plan.compiling.values import Value
from mainstay.runtime.compiled.program import OutUse
from mainstay.schema import format_type


@dataclass
class Emission:
    """The columns that go out. ``sources`` says which of them are taken from one that came in, once
    all rows that go out have been seen."""

    schema: pa.Schema
    sources: dict[int, int] = field(default_factory=dict)
    seen: dict[int, set[int | None]] = field(default_factory=dict)
    is_settled: bool = False

    # ------------------------------------------------------------ what is emitted

    def yielded(self, frame: Frame, node: ast.expr | None, at: ast.AST) -> None:
        """What a yield gives, or a return of several rows."""
        is_list = isinstance(at, ast.Return) and isinstance(node, ast.List)
        if isinstance(node, ast.List) and is_list:
            for each in node.elts:
                self._row(frame, states.row_like(frame, each), at)
            return
        if isinstance(node, ast.List):
            # A yielded list is a row, as a tuple is.
            values = [
                snapshot(frame.write, expressions.value_of(frame, each)) for each in node.elts
            ]
            self._row(frame, expressions.tuple_of(values), at)
            return
        if node is None:
            frame.refuse(at, "a yield without a row", "Write return to emit nothing.")
        assert node is not None
        value = states.row_like(frame, node)
        if value.type.optional or value.type.kind == "none":
            # A row that is None is an error, of which the function itself tells.
            frame.write.trap_unless(value.ok or "False")
            value = value.plain
        if value.type.kind != "none":
            self._row(frame, value, at)

    def returned(self, frame: Frame, value: Value | None, at: ast.AST) -> None:
        """What a function that does not yield returns: a row, or None."""
        if value is None or value.type.kind == "none":
            return
        if value.ok is None:
            self._row(frame, value, at)
            return
        frame.write(f"if {value.ok}:")
        with frame.write.block():
            self._row(frame, value.plain, at)

    def _row(self, frame: Frame, value: Value, at: ast.AST) -> None:
        write = frame.write
        fields = list(self.schema)
        values = self._in_order(frame, value, at)
        columns = [
            self._column(frame, number, field, value, at)
            for number, (field, value) in enumerate(zip(fields, values, strict=True))
        ]
        write("if n >= room:")
        with write.block():
            write("raise Full")
        if self.sources:
            write("origin[n] = i")
        for stores in columns:
            for store in stores:
                write(store)
        write("n += 1")

    def _in_order(self, frame: Frame, value: Value, at: ast.AST) -> list[Value]:
        names = list(self.schema.names)
        kind = value.type.kind
        if kind == "row":
            visible = frame.kernel.visible
            given = list(visible)
            items = [frame.kernel.column(number) for number in visible.values()]
        elif kind == "tuple":
            given = list(value.type.names) if value.type.names is not None else []
            items = value.items()
        elif len(names) == 1:
            return [value]
        else:
            frame.refuse(
                at,
                f"{value.type} is no row",
                f"Give a tuple with a value for each of the columns {', '.join(names)}.",
            )
        if given and given != names:
            return self._by_name(frame, given, items, at)
        if len(items) != len(names):
            told = "value" if len(items) == 1 else "values"
            frame.refuse(
                at,
                f"a row has {len(items)} {told} and the schema {len(names)} columns "
                f"({', '.join(names)})",
                "Give a value for each column, or change the schema.",
            )
        return items

    def _by_name(
        self, frame: Frame, given: list[str], items: list[Value], at: ast.AST
    ) -> list[Value]:
        names = list(self.schema.names)
        if sorted(given) != sorted(names):
            frame.refuse(
                at,
                f"a row has the columns {', '.join(given)}, and the schema {', '.join(names)}",
                "Give each column of the schema by its name.",
            )
        by_name = dict(zip(given, items, strict=True))
        return [by_name[name] for name in names]

    # ------------------------------------------------------------ one column

    def _column(
        self, frame: Frame, number: int, field: pa.Field, value: Value, at: ast.AST
    ) -> list[str]:
        """Notes where a column is from, and gives the lines that store it."""
        write = frame.write
        is_source = value.type.kind == "column" and value.type.arrow == field.type
        self.seen.setdefault(number, set()).add(value.type.column if is_source else None)
        if not field.nullable:
            if value.ok is not None:
                write.trap_unless(value.ok)
            value = value.plain
        if number in self.sources:
            return []
        if of_arrow(field.type) is None:
            return self._passed_on(frame, field, is_source, at)
        return self._stores(frame, number, field, value, at)

    def _passed_on(self, frame: Frame, field: pa.Field, is_source: bool, at: ast.AST) -> list[str]:
        """A column of values that a kernel cannot hold, which can only be passed on as it is."""
        if is_source and not self.is_settled:
            # The first draft, in which nothing is known of other rows.
            return []
        frame.refuse(
            at,
            f"the column {field.name!r} is declared as {format_type(field.type)}, which compiled "
            "code can only take from one column that came in, the same for all rows",
            f"Leave it out of the schema, or compute it behind this function. {WITHOUT}",
        )

    def _stores(
        self, frame: Frame, number: int, field: pa.Field, value: Value, at: ast.AST
    ) -> list[str]:
        if value.type.kind == "none":
            if not field.nullable:
                frame.write("raise Trap")
                return []
            return [f"o{number}_ok[n] = False"]
        try:
            stores: list[str] = []
            if value.ok is None:
                code = fitted(frame.kernel, value, field.type, is_kept=False).code
            else:
                code = frame.write.name()
                to = of_arrow(field.type)
                zero = "0" if to is None else to.parts[0][1]
                frame.write(f"{code} = {zero}")
                frame.write(f"if {value.ok}:")
                with frame.write.block():
                    own = fitted(frame.kernel, value.plain, field.type, is_kept=False)
                    frame.write(f"{code} = {own.code}")
            stores.append(f"o{number}[n] = {code}")
            if field.nullable:
                stores.append(f"o{number}_ok[n] = {value.ok or 'True'}")
            return stores
        except WrongFormError:
            frame.refuse(
                at,
                f"the column {field.name!r} is declared as {format_type(field.type)} and is given "
                f"{value.type}",
                "Convert it, with int(...) or float(...), or change the schema.",
            )

    # ------------------------------------------------------------ when all is seen

    def settle(self) -> None:
        """Columns that are always taken from one column are passed through."""
        self.is_settled = True
        for number, seen in self.seen.items():
            (only,) = seen if len(seen) == 1 else (None,)
            if only is not None:
                self.sources[number] = only

    def uses(self) -> tuple[OutUse, ...]:
        found = []
        for number, each in enumerate(self.schema):
            source = self.sources.get(number)
            type_ = of_arrow(each.type)
            form = "int" if type_ is None else type_.form
            found.append(OutUse(form, each.nullable, source))
        return tuple(found)

    def arguments(self) -> list[tuple[str, str]]:
        """The arrays that go out, and their types."""
        told = []
        for number, use in enumerate(self.uses()):
            if use.source is None:
                told.append((f"o{number}", f"{dtype(use.form)}[:]*"))
                if use.optional:
                    told.append((f"o{number}_ok", "bool[:]*"))
        return [*told, ("origin", "int64[:]*")]
