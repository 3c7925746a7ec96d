"""The key hash ``mainstay-1``: which key-group a key belongs to. Part of the durable format.

State is stored by key-group, so this function may never change: the same key must give the same
group on every machine and with every version. What follows defines it completely; the vectors in
``tests/golden`` hold the code to it. All arithmetic is on unsigned 64-bit words, modulo 2^64.

::

    G = 0x9E3779B97F4A7C15    A = 0xBF58476D1CE4E5B9    B = 0x94D049BB133111EB
    S = 0xD6E8FEB86659FD93    NULL = 0xA0761D6478BD642F

    mix(x):  x ^= x >> 30;  x *= A;  x ^= x >> 27;  x *= B;  x ^= x >> 31

- **Integers, booleans, dates, timestamps** become a word ``w``, the value in two's complement:
  an integer itself whatever its width, false 0 and true 1, a date the days and a timestamp the
  microseconds since 1970-01-01 (UTC, or local where the type has no zone). Their hash is
  ``mix(w + G)``.
- **Floats** become the word of their IEEE 754 double bit pattern (a narrower float is widened
  first), where -0.0 counts as 0.0 and every NaN as 0x7FF8000000000000. Their hash is
  ``mix(w + G)``.
- **Strings** (their UTF-8 bytes) **and binary** of ``n`` bytes: ``h = (n + 1) * G``; then for each
  word ``w`` of the value ``h ^= w;  h *= S;  h ^= h >> 32``; the hash is ``mix(h)``. The words are
  the bytes taken eight at a time, little-endian, the last filled up with zeros. A value of more
  than 256 bytes has one word instead, its 8-byte BLAKE2b digest read as little-endian.
- **Decimals** hash as the ASCII string ``<c>e<x>`` where ``c`` and ``x`` are the decimal numerals
  of the integers with value = c * 10^x and ``c`` not a multiple of ten; zero is ``0e0``. So 1.50
  is ``15e-1`` at any precision and scale.
- **Null** of any type hashes to ``NULL``.
- **Structs and keys of several columns**: ``h`` is the hash of the first field; then for each
  further field, whose hash is ``f``, ``h = mix(h * S + f)``. A null struct is a null.
- **Dictionary-encoded** values hash as the values; timestamps in other units and dates in
  milliseconds as what they are in microseconds and days, cut off towards zero.

The key-group is the hash modulo ``max_parallelism``. A type is hashed the same as every type it may
be widened to (int to long, float to double, decimal to a wider decimal), or a widening would move
keys to other groups.

This file is hot: everything but decimals and very long strings is vectorised, and worked on in
place.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.errors import GraphError, SchemaError
from mainstay.schema.ddl import format_type
from mainstay.state.keygroups import check_max_parallelism

Words = npt.NDArray[np.uint64]

_G = np.uint64(0x9E3779B97F4A7C15)
_A = np.uint64(0xBF58476D1CE4E5B9)
_B = np.uint64(0x94D049BB133111EB)
_S = np.uint64(0xD6E8FEB86659FD93)
_NULL = np.uint64(0xA0761D6478BD642F)
_G_INT, _A_INT, _B_INT, _S_INT = int(_G), int(_A), int(_B), int(_S)
_30, _27, _31, _32 = (np.uint64(bits) for bits in (30, 27, 31, 32))

_WORD_BYTES = 8
_LONGEST_IN_WORDS_BYTES = 256
_NAN = np.uint64(0x7FF8000000000000)
# _TAIL[r] keeps the first r bytes of a little-endian word.
_TAIL = np.array([(1 << 8 * r) - 1 for r in range(_WORD_BYTES + 1)], np.uint64)
# Mixing takes eight passes; a block of this many words stays in the cache between them.
_BLOCK = 8192
# Strings need nine arrays at a time, so fewer values stay in the cache.
_STRING_BLOCK = 4096
# Up to so many texts or whole numbers are hashed one by one: calls of numpy would take longer.
_FEW = 16
_MASK = (1 << 64) - 1
_AS_BYTES = {pa.string().id: pa.binary(), pa.large_string().id: pa.large_binary()}
_IN_BYTES = (*_AS_BYTES, pa.binary().id, pa.large_binary().id)


def hash_columns(columns: Sequence[pa.Array]) -> Words:
    """The hash of the key in each row, from the key's columns (of equal length).

    Depends on the values only, not on slicing, offsets or chunking.
    """
    if not columns:
        raise GraphError("a key needs at least one column; name the columns in key_by")
    hashes = _hash_column(columns[0])
    for column in columns[1:]:
        hashes *= _S
        hashes += _hash_column(column)
        _mix(hashes)
    return hashes


def groups_of(hashes: Words, max_parallelism: int) -> npt.NDArray[np.uint16]:
    """The key-groups of hashes. In 16 bits, which numpy sorts with a radix sort."""
    check_max_parallelism(max_parallelism)
    groups: Words = hashes % np.uint64(max_parallelism)
    return groups.astype(np.uint16)


def key_groups(columns: Sequence[pa.Array], max_parallelism: int) -> npt.NDArray[np.uint16]:
    """The key-group of the key in each row, from the key's columns."""
    return groups_of(hash_columns(columns), max_parallelism)


def few_key_groups(columns: Sequence[pa.Array], max_parallelism: int) -> list[int] | None:
    """The same as ``key_groups`` for a few keys of one whole number each; None for others."""
    (column, *others) = columns
    if others or len(column) > _FEW or column.null_count or not pa.types.is_integer(column.type):
        return None
    return [hash_of_whole(number) % max_parallelism for number in column.to_pylist()]


def hash_of_whole(number: int) -> int:
    """The hash of one whole number."""
    return _mixed(number + _G_INT & _MASK)


def _mixed(word: int) -> int:
    """``mix`` of one word."""
    word = (word ^ word >> 30) * _A_INT & _MASK
    word = (word ^ word >> 27) * _B_INT & _MASK
    return word ^ word >> 31


def _mix(words: Words) -> None:
    scratch = np.empty(min(len(words), _BLOCK), np.uint64)
    for start in range(0, len(words), _BLOCK):
        block = words[start : start + _BLOCK]
        shifted = scratch[: len(block)]
        block ^= np.right_shift(block, _30, out=shifted)
        block *= _A
        block ^= np.right_shift(block, _27, out=shifted)
        block *= _B
        block ^= np.right_shift(block, _31, out=shifted)


def _hash_column(column: pa.Array | pa.ChunkedArray) -> Words:
    if isinstance(column, pa.ChunkedArray):
        chunks = column.chunks or [pa.array([], column.type)]
        return np.concatenate([_hash_array(chunk) for chunk in chunks])
    return _hash_array(column)


def _hash_array(array: pa.Array) -> Words:
    """A fresh array of hashes, which the caller may change in place."""
    hashes = _hash_values(array)
    if array.null_count:
        hashes[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashes


def _hash_values(array: pa.Array) -> Words:
    """The hashes of the values that are not null; anything for the others."""
    data_type = array.type
    if data_type.id in _IN_BYTES:
        return _hash_bytes(array) if len(array) > _FEW else _hash_few_bytes(array)
    if pa.types.is_integer(data_type) or pa.types.is_date32(data_type):
        return _hash_integers(array)
    if pa.types.is_boolean(data_type):
        return _hash_integers(array.cast(pa.int8()))
    if pa.types.is_timestamp(data_type):
        return _hash_integers(array.cast(pa.timestamp("us", tz=data_type.tz), safe=False))
    if pa.types.is_floating(data_type):
        return _hash_floats(array)
    if pa.types.is_decimal(data_type):
        return _hash_decimals(array)
    if pa.types.is_dictionary(data_type):
        return _hash_dictionary(array)
    if pa.types.is_struct(data_type) and data_type.num_fields:
        return hash_columns(array.flatten())
    return _hash_others(array)


def _hash_others(array: pa.Array) -> Words:
    data_type = array.type
    if pa.types.is_null(data_type):
        return np.full(len(array), _NULL)
    if pa.types.is_date64(data_type):
        return _hash_integers(array.cast(pa.date32()))
    is_view = str(data_type) in ("string_view", "binary_view")
    if is_view or pa.types.is_fixed_size_binary(data_type):
        return _hash_bytes(array.cast(pa.large_binary()))
    raise GraphError(
        f"a key cannot have the type {_shown(data_type)}; use a struct of its parts or a string "
        "that stands for it"
    )


def _shown(data_type: pa.DataType) -> str:
    """The type as an author writes it, where the DDL has it."""
    try:
        return format_type(data_type)
    except SchemaError:
        return str(data_type)


def _hash_integers(array: pa.Array) -> Words:
    data_type = array.type
    kind = "u" if str(data_type).startswith("uint") else "i"
    words = _fixed_width(array, f"<{kind}{data_type.bit_width // 8}").astype(np.int64)
    return _hash_words(words.view(np.uint64))


def _hash_floats(array: pa.Array) -> Words:
    doubles = _fixed_width(array, f"<f{array.type.bit_width // 8}").astype(np.float64)
    # Adding zero turns -0.0 into 0.0 and changes nothing else.
    doubles += 0.0
    words = doubles.view(np.uint64)
    words[np.isnan(doubles)] = _NAN
    return _hash_words(words)


def _fixed_width(array: pa.Array, dtype: str) -> npt.NDArray[Any]:
    """The values of a fixed-width array without a copy; those of nulls are arbitrary."""
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(
        array.buffers()[1], dtype, len(array), array.offset * np.dtype(dtype).itemsize
    )


def _hash_words(words: Words) -> Words:
    words += _G
    _mix(words)
    return words


def _hash_few_bytes(array: pa.Array) -> Words:
    # As bytes: whether they are a text is nobody's business here.
    values = array.view(_AS_BYTES.get(array.type.id, array.type)).to_pylist()
    return np.array([0 if value is None else _hash_of_bytes(value) for value in values], np.uint64)


def _hash_of_bytes(data: bytes) -> int:
    hashed = (len(data) + 1) * _G_INT & _MASK
    if len(data) > _LONGEST_IN_WORDS_BYTES:
        data = blake2b(data, digest_size=8).digest()
    for start in range(0, len(data), _WORD_BYTES):
        hashed ^= int.from_bytes(data[start : start + _WORD_BYTES], "little")
        hashed = hashed * _S_INT & _MASK
        hashed ^= hashed >> 32
    return _mixed(hashed)


def _hash_bytes(array: pa.Array) -> Words:
    offsets, data = _bytes_of(array)
    lengths = np.diff(offsets)
    hashes = lengths.astype(np.uint64)
    hashes += np.uint64(1)
    hashes *= _G
    for row in np.flatnonzero(lengths > _LONGEST_IN_WORDS_BYTES).tolist():
        digest = blake2b(data[offsets[row] : offsets[row + 1]].tobytes(), digest_size=8).digest()
        _absorb(hashes[row : row + 1], np.frombuffer(digest, "<u8"))
        lengths[row] = 0
    for start in range(0, len(hashes), _STRING_BLOCK):
        block = slice(start, start + _STRING_BLOCK)
        _absorb_values(hashes[block], offsets[:-1][block], lengths[block], data.view("<u8"))
    _mix(hashes)
    return hashes


def _bytes_of(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The offsets of each value from zero on, and the bytes as whole words with one to spare."""
    if not len(array):
        return np.zeros(1, np.int64), np.zeros(_WORD_BYTES, np.uint8)
    _, offset_buffer, data_buffer = array.buffers()
    width = 8 if str(array.type).startswith("large") else 4
    raw = np.frombuffer(offset_buffer, f"<i{width}", len(array) + 1, array.offset * width)
    offsets = raw.astype(np.int64)
    offsets -= offsets[0]
    size = int(offsets[-1])
    data = np.zeros((size // _WORD_BYTES + 2) * _WORD_BYTES, np.uint8)
    if size:
        data[:size] = np.frombuffer(data_buffer, np.uint8, size, int(raw[0]))
    return offsets, data


def _absorb_values(
    hashes: Words,
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    data: Words,
) -> None:
    """Absorb the words of every value into its hash, in place; ``lengths`` is used up.

    A value's word lies across two words of the data, of which the second is also the first one
    under the value's next word; so a word costs one read. Values that have ended are carried along
    unchanged until they are the majority, then the others go on by themselves.
    """
    index = starts >> 3
    low = ((starts & 7) << 3).view(np.uint64)
    # For a value at a word's start this shifts by 64 bits, which gives zero in numpy.
    high = np.uint64(64) - low
    first = data.take(index)
    second, word, spare = np.empty_like(first), np.empty_like(first), np.empty_like(first)
    while True:
        going_on = lengths > 0
        count = np.count_nonzero(going_on)
        if not count or 2 * count < len(hashes):
            break
        index += 1
        data.take(index, out=second, mode="clip")
        np.right_shift(first, low, out=word)
        word |= np.left_shift(second, high, out=spare)
        word &= _TAIL.take(lengths, out=spare, mode="clip")
        word ^= hashes
        word *= _S
        word ^= np.right_shift(word, _32, out=spare)
        np.copyto(hashes, word, where=going_on)
        lengths -= _WORD_BYTES
        first, second = second, first
    if count:
        rows = np.flatnonzero(going_on)
        rest = hashes.take(rows)
        starts = (index.take(rows) << 3) + (starts.take(rows) & 7)
        _absorb_values(rest, starts, lengths.take(rows), data)
        np.put(hashes, rows, rest)


def _absorb(hashes: Words, words: Words) -> None:
    hashes ^= words
    hashes *= _S
    hashes ^= hashes >> _32


def _hash_decimals(array: pa.Array) -> Words:
    if not pa.types.is_decimal128(array.type) and not pa.types.is_decimal256(array.type):
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    encoded = array.dictionary_encode()
    texts = pa.array([_decimal_text(value) for value in encoded.dictionary.to_pylist()], "string")
    return _hash_dictionary(pa.DictionaryArray.from_arrays(encoded.indices, texts))


def _decimal_text(value: Decimal) -> str:
    sign, digits, exponent = value.as_tuple()
    numeral = "".join(map(str, digits))
    coefficient = numeral.rstrip("0")
    if not coefficient:
        return "0e0"
    shift = int(exponent) + len(numeral) - len(coefficient)
    return f"{'-' if sign else ''}{coefficient}e{shift}"


def _hash_dictionary(array: pa.DictionaryArray) -> Words:
    if len(array.dictionary) > len(array):
        return _hash_array(array.dictionary_decode())
    # A null index points at the place after the last: at a null.
    hashes = np.append(_hash_array(array.dictionary), _NULL)
    indices = array.indices.cast(pa.int64()).fill_null(len(array.dictionary))
    positions: npt.NDArray[np.int64] = indices.to_numpy(zero_copy_only=False)
    return hashes.take(positions)
