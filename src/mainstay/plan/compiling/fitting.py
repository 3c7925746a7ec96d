"""Values that are kept in state or emitted: of the declared type, or the row traps."""

from __future__ import annotations

import pyarrow as pa

from mainstay.plan.compiling.conversions import as_code, there
from mainstay.plan.compiling.kernel import Kernel
from mainstay.plan.compiling.types import coded, of_arrow
from mainstay.plan.compiling.values import Value

_SINGLE_EXACT = 1 << 24


class WrongFormError(Exception):
    """No value of the one type is one of the other."""


def fitted(kernel: Kernel, value: Value, arrow: pa.DataType, *, is_kept: bool) -> Value:
    """A plain value that is there, as one of a type. State keeps one NaN, and is in single
    precision at once where that is declared."""
    to = of_arrow(arrow)
    if to is None:
        raise WrongFormError
    value = there(kernel.write, value)
    match to.kind:
        case "int":
            return Value(to, (_whole(kernel, value, arrow),))
        case "float":
            return Value(to, (_float(kernel, value, arrow, is_kept=is_kept),))
        case "str" | "bytes":
            if coded(value.type) != to.kind:
                raise WrongFormError
            return as_code(kernel.write, kernel, value)
        case "time" | "zoned":
            if value.type.kind not in ("time", "zoned"):
                raise WrongFormError
            return Value(to, value.parts)
        case _:
            if value.type.kind != to.kind:
                raise WrongFormError
            return value


def _whole(kernel: Kernel, value: Value, arrow: pa.DataType) -> str:
    write = kernel.write
    if value.type.kind == "number":
        code = write.temp(f"whole({value.parts[0]}, {value.parts[1]})")
    elif value.type.kind == "int":
        code = value.code
    else:
        raise WrongFormError
    if arrow.bit_width == 64:
        return code
    most = (1 << (arrow.bit_width - 1)) - 1
    return write.temp(f"fit({code}, {-most - 1}, {most})")


def _float(kernel: Kernel, value: Value, arrow: pa.DataType, *, is_kept: bool) -> str:
    write = kernel.write
    is_single = arrow.bit_width == 32
    match value.type.kind:
        case "int":
            if is_single and not is_kept:
                code = write.temp(f"float(fit({value.code}, {-_SINGLE_EXACT}, {_SINGLE_EXACT}))")
            else:
                code = write.temp(f"exact({value.code})")
        case "number":
            code = value.parts[0]
            if is_single and not is_kept:
                bound = f"-{_SINGLE_EXACT}.0 <= {code} <= {_SINGLE_EXACT}.0"
                write.trap_unless(f"(not {value.parts[1]} or {bound})")
        case "float":
            code = value.code
        case _:
            raise WrongFormError
    if not is_kept:
        return code
    return write.temp(f"{'single' if is_single else 'canonical'}({code})")
