"""Whole numbers as texts: decimal digits, as Python and Spark read them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


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
