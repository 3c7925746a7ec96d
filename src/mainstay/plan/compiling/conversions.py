"""Values in another form, and what is asked of them: whether they are there, and true."""

from __future__ import annotations

from mainstay.plan.compiling.types import FLOAT, INT, Type, coded
from mainstay.plan.compiling.values import Value
from mainstay.plan.compiling.writer import Writer
from mainstay.state.fixed_width import Form


class Codes:
    """What stands for the texts of columns and literals in a kernel."""

    def of_column(self, number: int, form: Form) -> str:
        raise NotImplementedError

    def of_literal(self, form: Form, value: object) -> str:
        raise NotImplementedError


def there(write: Writer, value: Value) -> Value:
    """The same without None: the row traps where it is None."""
    if value.type.kind == "none":
        write("raise Trap")
        return value
    if value.ok is not None and value.ok != "True":
        write.trap_unless(value.ok)
    return value.plain


def zeros(type_: Type) -> tuple[str, ...]:
    return tuple(zero for _, zero in type_.parts)


def converted(write: Writer, codes: Codes, value: Value, to: Type) -> Value:
    """A value as one of another type, which has room for it."""
    if value.type == to:
        return value
    if value.type.kind == "none":
        if to.optional or to.kind == "none":
            return Value(to, zeros(to))
        write("raise Trap")
        return Value(to, zeros(to))
    if not to.optional:
        value = there(write, value)
    ok = () if not to.optional else (value.ok or "True",)
    plain = _converted_plain(write, codes, value.plain, to.plain)
    return Value(to, (*plain.parts, *ok), value.literal)


def _converted_plain(write: Writer, codes: Codes, value: Value, to: Type) -> Value:
    kind = value.type.kind
    if value.type == to:
        return value
    if to.kind == "number":
        if kind == "int":
            code = (
                f"{float(value.literal)!r}"
                if _is_small(value)
                else write.temp(f"exact({value.code})")
            )
            return Value(to, (code, "True"))
        return Value(to, (value.code, "False"))
    if to.kind in ("str", "bytes") and kind == "column":
        return Value(to, (write.temp(codes.of_column(value.type.column, to.form)),))
    if to.kind == kind == "tuple":
        pairs = zip(value.items(), to.items, strict=True)
        parts = [
            part for item, type_ in pairs for part in converted(write, codes, item, type_).parts
        ]
        return Value(to, tuple(parts))
    assert kind == to.kind, f"{value.type} is never converted to {to}"
    return Value(to, value.parts, value.literal)


def _is_small(value: Value) -> bool:
    return isinstance(value.literal, int) and abs(value.literal) <= 1 << 53


def as_code(write: Writer, codes: Codes, value: Value) -> Value:
    """A text of a column by its code; anything else as it is."""
    kind = coded(value.type)
    if value.type.kind != "column" or kind is None:
        return value
    return converted(write, codes, value, Type(kind, value.type.optional))


def as_int(write: Writer, value: Value) -> Value:
    """A boolean as a whole number."""
    if value.type.kind != "bool":
        return value
    return Value(INT, (write.temp(f"(1 if {value.code} else 0)"),))


def as_float(write: Writer, value: Value) -> Value:
    """A number that is there as a float, rounded as Python does."""
    match value.type.kind:
        case "float":
            return value
        case "number":
            return Value(FLOAT, value.parts[:1])
        case _:
            whole = as_int(write, value)
            if isinstance(whole.literal, int):
                return Value(FLOAT, (repr(float(whole.literal)),))
            return Value(FLOAT, (write.temp(f"float({whole.code})"),))


def truth(write: Writer, codes: Codes, value: Value) -> str:
    """Whether a value is true, as an expression without a trap."""
    plain = value.plain
    match value.type.kind:
        case "none":
            return "False"
        case "bool":
            told = plain.code
        case "int" | "delta":
            told = f"{plain.code} != 0"
        case "float" | "number":
            told = f"{plain.code} != 0.0"
        case "tuple":
            told = "True" if value.type.items else "False"
        case "str" | "bytes" | "column" if coded(value.type) is not None:
            form: Form = "str" if coded(value.type) == "str" else "bytes"
            own = as_code(write, codes, plain)
            told = f"{own.code} != {codes.of_literal(form, '' if form == 'str' else b'')}"
        case _:
            told = "True"
    return told if value.ok is None else f"({value.ok} and {told})"


def stored(write: Writer, prefix: str, value: Value) -> None:
    """Put the parts of a value into variables."""
    for (end, zero), part in zip(value.type.parts, value.parts, strict=True):
        name = f"{prefix}_{end}"
        write.zeros.setdefault(name, zero)
        if name != part:
            write(f"{name} = {part}")


def loaded(prefix: str, type_: Type) -> Value:
    """The value in variables."""
    return Value(type_, tuple(f"{prefix}_{end}" for end, _ in type_.parts))


def snapshot(write: Writer, value: Value) -> Value:
    """The same in names of its own, which no later assignment changes."""
    return Value(value.type, tuple(_held(write, part) for part in value.parts), value.literal)


def _held(write: Writer, part: str) -> str:
    return write.temp(part) if part.startswith(("v_", "h", "st")) else part
