"""Bytes that were good once: cut off, spoiled, doubled, and mixed with what trips parsers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TOKENS = [
    *(
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\xc3",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\x85",
    ),
    *(
        b'"',
        b'""',
        b"'",
        b"\\",
        b"\\u",
        b"\\ud800",
        b",",
        b";",
        b":",
        b"{",
        b"}",
        b"[",
        b"]",
        b"{}",
        b"[]",
    ),
    *(
        b"null",
        b"true",
        b"NaN",
        b'"NaN"',
        b"Infinity",
        b'"-Infinity"',
        b"1e400",
        b"1e39",
        b"-0",
        b"0x10",
    ),
    *(
        b"9223372036854775808",
        b"1.5",
        b"1e3",
        b" ",
        b"\t",
        b"\x0c",
        b'{"n":1}',
        b'"n":2,',
        b"a,1\n",
    ),
    *(b"[" * 200, b'{"x":' * 200, "\u2028".encode(), "👍".encode(), b"x" * 300),
]


@st.composite
def damaged(draw: Any, good: bytes, most: int = 4) -> bytes:
    """The bytes after a few accidents."""
    data = good
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.integers(0, len(data)))
        data = draw(st.sampled_from(_ACCIDENTS))(draw, data, at)
    return data


def _cut(draw: Any, data: bytes, at: int) -> bytes:
    return data[:at]


def _put(draw: Any, data: bytes, at: int) -> bytes:
    return data[:at] + draw(st.sampled_from(TOKENS)) + data[at:]


def _lose(draw: Any, data: bytes, at: int) -> bytes:
    return data[:at] + data[at + draw(st.integers(1, 8)) :]


def _spoil(draw: Any, data: bytes, at: int) -> bytes:
    return data[:at] + draw(st.binary(min_size=1, max_size=2)) + data[at + 1 :]


def _double(draw: Any, data: bytes, at: int) -> bytes:
    return data[:at] + data[max(0, at - draw(st.integers(1, 30))) :]


_ACCIDENTS = [_cut, _put, _put, _lose, _spoil, _double]
