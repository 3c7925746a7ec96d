"""The key hash ``mainstay-1``, held to values that were written down once.

Stored state is found by these hashes. If one of them comes out otherwise, the code is wrong, never
the vector: a new hash needs a new id and a way to read state that was stored under this one.
"""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from mainstay.state.hashing import hash_columns, key_groups
from mainstay.state.keygroups import HASH_ID
from tests.key_hashes import hash_keys

VECTORS = [
    (pa.int8(), 0, 0xE220A8397B1DCDAF),
    (pa.int8(), 1, 0x910A2DEC89025CC1),
    (pa.int8(), -1, 0xE4D971771B652C20),
    (pa.int8(), 127, 0x3FADB6BDE9285E98),
    (pa.int8(), -128, 0x91DE0036E7E6BC39),
    (pa.int32(), 0, 0xE220A8397B1DCDAF),
    (pa.int32(), 1, 0x910A2DEC89025CC1),
    (pa.int32(), -1, 0xE4D971771B652C20),
    (pa.int32(), 2147483647, 0x61FA36A6261A4BE7),
    (pa.int32(), -2147483648, 0xEE1591EA220FB185),
    (pa.int64(), 0, 0xE220A8397B1DCDAF),
    (pa.int64(), 1, 0x910A2DEC89025CC1),
    (pa.int64(), -1, 0xE4D971771B652C20),
    (pa.int64(), 42, 0xBDD732262FEB6E95),
    (pa.int64(), 9007199254740992, 0xCEC3603A0C3EA1CF),
    (pa.int64(), 9223372036854775807, 0x2A67D7552E039EA7),
    (pa.int64(), -9223372036854775808, 0x481EC0A212A9F3DB),
    (pa.bool_(), False, 0xE220A8397B1DCDAF),
    (pa.bool_(), True, 0x910A2DEC89025CC1),
    (pa.date32(), date(1970, 1, 1), 0xE220A8397B1DCDAF),
    (pa.date32(), date(2024, 2, 29), 0xDB8C04CA25F6E90D),
    (pa.date32(), date(1900, 1, 1), 0x4BE6CF18212CB44D),
    (pa.timestamp("us", tz="UTC"), datetime(1970, 1, 1, tzinfo=timezone.utc), 0xE220A8397B1DCDAF),
    (
        pa.timestamp("us", tz="UTC"),
        datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=timezone.utc),
        0x48CB13E4AE7EBFE6,
    ),
    (pa.timestamp("us"), datetime(2024, 2, 29, 12, 30, 15, 123456), 0x48CB13E4AE7EBFE6),
    (pa.timestamp("us"), datetime(1969, 12, 31, 23, 59, 59, 999999), 0xE4D971771B652C20),
    (pa.float32(), 0.5, 0xF456984DD1D8CE6D),
    (pa.float32(), -1.25, 0xA38E7A46BD2C22F3),
    (pa.float64(), 0.0, 0xE220A8397B1DCDAF),
    (pa.float64(), -0.0, 0xE220A8397B1DCDAF),
    (pa.float64(), 1.0, 0x88D7C35BBBF3EDED),
    (pa.float64(), -1.5, 0x5C4CE031A716B337),
    (pa.float64(), 0.1, 0xF823E4ED2FB12A7D),
    (pa.float64(), float("inf"), 0x249E5410C2F97D99),
    (pa.float64(), float("nan"), 0xC72971D82E15BB46),
    (pa.string(), "", 0xE220A8397B1DCDAF),
    (pa.string(), "a", 0x726FD6BC6EB6D126),
    (pa.string(), "user-0", 0xDAA44FECB3E0C548),
    (pa.string(), "1234567", 0x4D9D2040EF20B2EB),
    (pa.string(), "12345678", 0x091659949AB873BA),
    (pa.string(), "123456789", 0x84450D5C34D7A765),
    (pa.string(), "héllo wörld", 0x526BAD513030A60B),
    (pa.string(), "日本語", 0x40F7E50B701FCA3F),
    (pa.string(), "the quick brown fox jumps over the lazy dog", 0x81B22BFA675772EE),
    (pa.string(), "x" * 255, 0x9133D4051CFC9154),
    (pa.string(), "x" * 256, 0x748127E78CE6A90C),
    (pa.string(), "x" * 257, 0x74E4C3B700C3739A),
    (pa.string(), "x" * 10_000, 0xBDC5D082EC5CE23D),
    (pa.binary(), b"", 0xE220A8397B1DCDAF),
    (pa.binary(), b"\x00", 0xAAE74C86701DCA2C),
    (pa.binary(), b"\x00\x00", 0xDC04D78921F77564),
    (pa.binary(), b"user-0", 0xDAA44FECB3E0C548),
    (pa.binary(), b"\xff\xfe\xfd", 0x8D19CDC41B56CA9C),
    (pa.decimal128(10, 2), Decimal("0.00"), 0x2F95AB4A1368F85A),
    (pa.decimal128(10, 2), Decimal("1.50"), 0x6274766634E7E448),
    (pa.decimal128(10, 2), Decimal("-1.50"), 0x21B7B82A2CD4169B),
    (pa.decimal128(10, 2), Decimal("100.00"), 0x2B057715B85BDA0B),
    (pa.decimal128(10, 2), Decimal("12345678.91"), 0xB1753A545C99EC35),
    (pa.decimal128(38, 10), Decimal("1.5"), 0x6274766634E7E448),
    (pa.decimal128(38, 10), Decimal("1234567890123456789012345678.0123456789"), 0x7CC75E95FD68DFAD),
    (pa.int64(), None, 0xA0761D6478BD642F),
    (pa.string(), None, 0xA0761D6478BD642F),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), (1, "a"), 0xA5D338D0EBEA47AA),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), (1, None), 0xA52814D4E07C7145),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), (None, "a"), 0x058A9178A8163E3B),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), (None, None), 0xDAB966718F602ECE),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), None, 0xA0761D6478BD642F),
    (pa.struct([("a", pa.string()), ("b", pa.string())]), ("a", "b"), 0xAA4E1B9FFB1F56CB),
    (pa.struct([("a", pa.string()), ("b", pa.string())]), ("b", "a"), 0x9D29DADDD97BAE63),
    (pa.struct([("a", pa.string()), ("b", pa.string())]), ("", ""), 0x1A0EF22AE5DA1D03),
    (pa.struct([("a", pa.int64())]), (42,), 0xBDD732262FEB6E95),
    (
        pa.struct([("a", pa.struct([("x", pa.int64()), ("y", pa.int64())])), ("b", pa.bool_())]),
        ((1, 2), True),
        0xD9152733801B6165,
    ),
    (
        pa.struct([("a", pa.struct([("x", pa.int64()), ("y", pa.int64())])), ("b", pa.bool_())]),
        (None, False),
        0xA7C129EC39BCABCD,
    ),
    (
        pa.struct([("a", pa.int32()), ("b", pa.date32()), ("c", pa.decimal128(5, 1))]),
        (7, date(2024, 2, 29), Decimal("9.5")),
        0x9E9F5FB48CAA8468,
    ),
]


@pytest.mark.parametrize(("key_type", "key", "expected"), VECTORS)
def test_a_key_hashes_to_what_was_written_down(key_type, key, expected):
    assert hash_keys([key], key_type).tolist() == [expected]


@pytest.mark.parametrize(("key_type", "key", "expected"), VECTORS)
def test_a_key_among_others_hashes_to_what_was_written_down(key_type, key, expected):
    others = [k for t, k, _ in VECTORS if t == key_type]
    hashes = hash_keys([*others, key, *others], key_type)
    assert int(hashes[len(others)]) == expected


def test_columns_hash_to_what_was_written_down():
    columns = [pa.array([1, None], pa.int64()), pa.array(["a", "a"])]
    by_key = {key: expected for _, key, expected in VECTORS if isinstance(key, tuple)}
    assert hash_columns(columns).tolist() == [by_key[(1, "a")], by_key[(None, "a")]]


def test_keys_fall_into_the_groups_that_were_written_down():
    users = [pa.array([f"user-{i}" for i in range(12)])]
    numbers = [pa.array(range(12))]
    assert key_groups(users, 128).tolist() == [72, 73, 34, 0, 99, 27, 49, 73, 108, 126, 45, 121]
    assert key_groups(users, 32768)[:4].tolist() == [17736, 4681, 3874, 31744]
    assert key_groups(numbers, 128).tolist() == [47, 65, 78, 109, 74, 90, 0, 87, 54, 100, 74, 29]


def test_the_hash_has_its_name():
    assert HASH_ID == "mainstay-1"
