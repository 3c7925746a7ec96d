"""Side outputs: rows that a function emits beside its own, as the job's author declares them.

::

    class Parse(KeyedProcess):
        errors = SideOutput("line string, why string")

        def process(self, row, ctx):
            if row.line.count(",") != 1:
                self.errors.emit((row.line, "no two fields"))
                return
            yield tuple(row.line.split(","))

    parsed = lines.key_by("file").process(Parse(), "name string, value string")
    parsed.side("errors").sink(...)

When the job runs, each instance of the function gets something of the same methods in its place;
outside a running job the methods raise, because the rows would go nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import pyarrow as pa

from mainstay.errors import GraphError, MainstayError, SchemaError
from mainstay.own_frames import made_with_own_frames
from mainstay.runtime.spec import SideSpec
from mainstay.schema import format_schema, to_schema


@made_with_own_frames
class SideOutput:
    """An output of a function beside its own rows, read with ``stream.side(name)``.

    ``schema`` is that of its rows, written as for any operator. The name is that of the attribute.
    """

    def __init__(self, schema: Any) -> None:
        self.name = "?"
        try:
            self.schema: pa.Schema = to_schema(schema)
        except GraphError as error:
            raise SchemaError(f"SideOutput: {error}") from error

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"SideOutput({format_schema(self.schema)!r})"

    def __set__(self, function: Any, value: Any) -> None:
        # There is no __get__, so that reading the attribute finds what the instance has.
        raise MainstayError(
            f"{type(function).__name__}.{self.name} is a SideOutput and cannot be assigned. Write "
            f"self.{self.name}.emit(row) to emit a row into it."
        )

    def emit(self, row: Any) -> None:
        """Emit one row: a tuple, a dict or a Row, as ``process`` may yield it."""
        self._unbound()

    def emit_many(self, rows: Iterable[Any]) -> None:
        """Emit several rows."""
        self._unbound()

    def emit_batch(self, batch: pa.RecordBatch) -> None:
        """Emit a ``pyarrow.RecordBatch`` of the declared columns."""
        self._unbound()

    def _unbound(self) -> NoReturn:
        raise MainstayError(
            f"side output {self.name!r} was used outside a running job, where its rows would go "
            "nowhere. Emit inside process(), or test the job with mainstay.testing.run()."
        )


def sides_of(function: Any) -> tuple[SideSpec, ...]:
    """The side outputs that a function's class declares, base classes first, as written."""
    found: dict[str, SideSpec] = {}
    for cls in reversed(type(function).__mro__):
        for name, attribute in vars(cls).items():
            if isinstance(attribute, SideOutput):
                # By the name it is found under: one declaration may stand under several.
                found[name] = SideSpec(name, attribute.schema)
            else:
                found.pop(name, None)
    return tuple(found.values())
