"""Numbers as texts: as Python and Spark read them, and none that its type cannot hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_INFINITE = r"^[+-]?[iI][nN][fF]"


def integers_of(texts: pa.Array, to: pa.DataType) -> pa.Array:
    """Texts as whole numbers, with or without spaces around them.

    Arrow by itself takes ``0x10`` for 16, and ``0xFFFFFFFFFFFFFFFF`` for -1.
    """
    # One look at all the bytes is quick; a text that has such a letter is looked for only then.
    letters = _bytes_of(texts)
    if b" " in letters or b"\t" in letters:
        texts = pc.utf8_trim_whitespace(texts)
    if b"x" in letters or b"X" in letters:
        _refuse_hexadecimal(texts, to)
    return texts.cast(to)


def floats_of(texts: pa.Array, to: pa.DataType) -> pa.Array:
    """Texts as numbers, with or without spaces around them; ``inf`` is one, ``1e400`` is not."""
    letters = _bytes_of(texts)
    if b" " in letters or b"\t" in letters:
        texts = pc.utf8_trim_whitespace(texts)
    numbers = texts.cast(pa.float64())
    is_large = pc.fill_null(pc.is_inf(numbers), False)
    if pc.any(is_large).as_py():
        found = texts.filter(pc.and_not(is_large, pc.match_substring_regex(texts, _INFINITE)))
        if len(found):
            raise pa.ArrowInvalid(f"the number {found[0].as_py()!r} is too large for a double")
    return narrowed(numbers, to)


def narrowed(numbers: pa.Array, to: pa.DataType) -> pa.Array:
    """Numbers of double precision as those of a type, which may have no place for the largest."""
    if to == numbers.type:
        return numbers
    narrow = numbers.cast(to)
    is_lost = pc.and_not(pc.is_inf(narrow), pc.is_inf(numbers))
    if pc.any(is_lost).as_py():
        beyond = numbers.filter(pc.fill_null(is_lost, False))[0].as_py()
        raise pa.ArrowInvalid(f"the number {beyond!r} is too large for a float")
    return narrow


def _bytes_of(texts: pa.Array) -> bytes:
    """All letters of the texts; the array may be a slice of a longer one."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return b""
    ends = np.frombuffer(offsets, np.int32)
    first, after = int(ends[texts.offset]), int(ends[texts.offset + len(texts)])
    return data.slice(first, after - first).to_pybytes()  # type: ignore[no-any-return]


def _refuse_hexadecimal(texts: pa.Array, to: pa.DataType) -> None:
    is_hexadecimal = pc.fill_null(pc.match_substring(texts, "x", ignore_case=True), False)
    found = texts.filter(is_hexadecimal)
    if len(found):
        raise pa.ArrowInvalid(
            f"Failed to parse string: {found[0].as_py()!r} as a scalar of type {to}"
        )
