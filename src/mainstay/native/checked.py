"""Whole numbers of 64 bits that are added and multiplied, and trap where they overflow.

The processor says so itself: LLVM has an instruction for it, which numba does not show.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from mainstay.runtime.compiled.arithmetic import Trap


def _with_overflow(name: str):
    """What an operation gives, and whether that is wrong."""

    @intrinsic
    def operate(typing_context, left, right):
        def generate(context, builder, signature, arguments):
            word, bit = ir.IntType(64), ir.IntType(1)
            pair = ir.LiteralStructType([word, bit])
            kind = ir.FunctionType(pair, [word, word])
            called = cgutils.get_or_insert_function(
                builder.module, kind, f"llvm.{name}.with.overflow.i64"
            )
            both = builder.call(called, arguments)
            parts = [builder.extract_value(both, 0), builder.extract_value(both, 1)]
            return context.make_tuple(builder, signature.return_type, parts)

        result = types.Tuple((types.int64, types.boolean))
        return result(types.int64, types.int64), generate

    return operate


_add, _sub, _mul = _with_overflow("sadd"), _with_overflow("ssub"), _with_overflow("smul")


@njit
def add(a, b):
    value, is_wrong = _add(a, b)
    if is_wrong:
        raise Trap
    return value


@njit
def sub(a, b):
    value, is_wrong = _sub(a, b)
    if is_wrong:
        raise Trap
    return value


@njit
def mul(a, b):
    value, is_wrong = _mul(a, b)
    if is_wrong:
        raise Trap
    return value
