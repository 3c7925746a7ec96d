"""Texts by the thousand, made of arrays of letters instead of one at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.int64]
Letters = npt.NDArray[np.uint8]

_SPECIAL_EVERY = 13
"""One letter of so many is a space, or what is used in its place."""


def letters(random: np.random.Generator, count: int) -> Letters:
    return random.integers(ord("a"), ord("z") + 1, count, dtype=np.uint8)


def texts_of(flat: Letters, lengths: Integers) -> pa.StringArray:
    """Texts of these lengths, cut from the letters one after the other."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.StringArray.from_buffers(
        len(lengths), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(flat))
    )


def short_texts(
    random: np.random.Generator, count: int, longest: int, special: str = " "
) -> pa.StringArray:
    """Texts of at least three letters and less than ``longest``, without spaces around them."""
    lengths = 3 + random.integers(0, longest - 3, count)
    flat = letters(random, int(lengths.sum()))
    flat[random.integers(0, _SPECIAL_EVERY, len(flat), dtype=np.uint8) == 0] = ord(special)
    return pc.ascii_trim_whitespace(texts_of(flat, lengths))


def slices(random: np.random.Generator, pool: Letters, lengths: Integers) -> pa.StringArray:
    """Texts of these lengths, each cut from the pool at a place of its own."""
    longest = int(lengths.max(initial=0))
    starts = random.integers(0, len(pool) - longest, len(lengths))
    rows = np.lib.stride_tricks.sliding_window_view(pool, max(longest, 1))[starts]
    return texts_of(rows[np.arange(rows.shape[1]) < lengths[:, None]], lengths)


def padding(
    random: np.random.Generator, pool: Letters, sizes: Integers, average: int
) -> pa.StringArray:
    """What brings rows of these sizes to an average size, give or take a fifth of it."""
    missing = np.maximum(average - sizes, 0)
    spread = np.floor(missing * 0.2 + 0.5).astype(np.int64)
    lengths = missing - spread + (random.random(len(sizes)) * 2 * spread).astype(np.int64)
    return slices(random, pool, lengths)


def lengths_of(*texts: pa.StringArray) -> Integers:
    """The summed lengths of the texts of each row."""
    total = np.zeros(len(texts[0]), np.int64)
    for each in texts:
        total += pc.binary_length(each).to_numpy()
    return total


def joined(separator: str, *parts: pa.StringArray | str) -> pa.StringArray:
    return pc.binary_join_element_wise(*parts, separator)


def choices(random: np.random.Generator, values: list[str], count: int) -> pa.StringArray:
    return pa.array(values).take(pa.array(random.integers(0, len(values), count)))
