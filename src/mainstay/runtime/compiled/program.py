"""What a compiled function is as the runtime gets it: a text, and what its arguments stand for.

The plan makes it from the author's class, and it is shipped beside the function itself. The text
defines ``kernel``; its arguments are, in this order: how far it has come, the number of rows, the
group of each row, columns, constants, codes of literals, states and columns that go out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mainstay.state.fixed_width import FieldUse, Form


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column of the rows that the kernel reads, by its number in the batches that come in."""

    number: int
    part: Literal["value", "valid"]
    form: Form


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the function finds outside of its body: in a global, or in an attribute.

    ``path`` leads to it from the function object. It is asked for again with every batch; where it
    is of another type by then, the function itself is called.
    """

    path: Path
    form: Form
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Guard:
    """Something that was taken as it was when the job started, such as a tuple of names."""

    path: Path
    marks: Any
    """What tells it from others (``plain.marks_of``)."""


Step = tuple[str, str]
Path = tuple[Step, ...]
"""How to get from a function object to a value, step by step (see ``finding``)."""
NOW: Path = (("ctx", "now"), ("call", ""))
"""The clock. A kernel is told of it once for a batch."""


@dataclass(frozen=True, slots=True)
class StateUse:
    """A state that the kernel reads and writes."""

    name: str
    fields: tuple[FieldUse, ...]
    is_struct: bool


@dataclass(frozen=True, slots=True)
class OutUse:
    """A column that goes out: values of a form, or rows of a column that came in.

    ``source`` is the number of that column, where each row has the value of a row that came in.
    """

    form: Form
    optional: bool
    source: int | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled function."""

    name: str
    text: str
    columns: tuple[ColumnUse, ...]
    constants: tuple[Constant, ...]
    guards: tuple[Guard, ...]
    literals: tuple[tuple[Form, Any], ...]
    states: tuple[StateUse, ...]
    outs: tuple[OutUse, ...]
    signature: tuple[str, ...]
    """The type of each argument: int64, float64, bool, int64[:], float64[:], bool[:], and with a
    ``*`` arrays that the kernel writes to."""
