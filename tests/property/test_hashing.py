"""Laws of the key hash, and its agreement with a plain reading of its definition."""

from __future__ import annotations

import hashlib
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.errors import GraphError
from mainstay.state.hashing import few_key_groups, hash_columns, key_groups
from tests.key_hashes import hash_keys
from tests.searching import examples

WORD = (1 << 64) - 1
NULL = 0xA0761D6478BD642F
G, S = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93

ints = st.integers(-(2**63), 2**63 - 1)
short_ints = st.integers(-(2**7), 2**7 - 1)
texts = st.text(max_size=40)
columns = st.lists(st.tuples(st.none() | ints, st.none() | texts), min_size=1, max_size=50)


def mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return x ^ x >> 31


def reference_bytes(value: bytes) -> int:
    h = (len(value) + 1) * G & WORD
    if len(value) > 256:
        value = hashlib.blake2b(value, digest_size=8).digest()
    for start in range(0, len(value), 8):
        h = (h ^ int.from_bytes(value[start : start + 8], "little")) * S & WORD
        h ^= h >> 32
    return mix(h)


def hashes(values: list[object], data_type: pa.DataType) -> list[int]:
    return hash_columns([pa.array(values, data_type)]).tolist()


@given(st.lists(ints))
def test_integers_hash_as_defined(values):
    assert hashes(values, pa.int64()) == [mix(v + G & WORD) for v in values]


@given(st.lists(st.floats(allow_nan=False)))
def test_floats_hash_as_defined(values):
    words = [int.from_bytes(struct.pack("<d", v + 0.0), "little") for v in values]
    assert hashes(values, pa.float64()) == [mix(w + G & WORD) for w in words]


@given(st.lists(st.binary(max_size=300)))
def test_bytes_hash_as_defined(values):
    assert hashes(values, pa.binary()) == [reference_bytes(v) for v in values]


@given(st.lists(st.integers(0, 300), min_size=1))
def test_strings_of_any_mixture_of_lengths_hash_as_defined(lengths):
    values = [("abcdefghijk" * 30)[:n] for n in lengths]
    assert hashes(values, pa.string()) == [reference_bytes(v.encode()) for v in values]


@given(st.lists(st.none() | st.binary(max_size=300), min_size=1), st.sampled_from("sbSB"))
def test_few_values_hash_as_they_do_among_many(values, kind):
    data_type = {"s": "string", "b": "binary", "S": "large_string", "B": "large_binary"}[kind]
    few = pa.array(values, pa.large_binary() if kind in "SB" else pa.binary()).view(data_type)
    many = pa.concat_arrays([few] * 40)
    assert hash_columns([many]).tolist() == hash_columns([few]).tolist() * 40
    assert hash_columns([many.slice(1, 5)]).tolist() == hash_columns([many]).tolist()[1:6]


@given(st.data(), st.sampled_from([8, 16, 32, 64]), st.booleans(), st.integers(2, 32768))
def test_few_whole_numbers_are_in_the_groups_in_which_they_are_among_many(
    data, bits, is_signed, max_parallelism
):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if is_signed else (0, 2**bits)
    values = data.draw(st.lists(st.integers(low, high - 1), max_size=16))
    column = pa.array(values, f"{'' if is_signed else 'u'}int{bits}")
    few = few_key_groups([column], max_parallelism)
    assert few == key_groups([column], max_parallelism).tolist()
    assert few_key_groups([pa.array([None], column.type)], max_parallelism) is None


def test_a_column_longer_than_a_block_hashes_as_defined():
    values = [f"{i:0{i % 30}d}" for i in range(20_000)]
    assert hashes(values, pa.string()) == [reference_bytes(v.encode()) for v in values]


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=4, max_value=10**9)))
def test_decimals_hash_as_their_shortest_numeral(values):
    small = [v for v in values if abs(v) < 10**9]
    expected = []
    for value in small:
        coefficient, exponent = int(value.scaleb(4)), -4
        while coefficient and coefficient % 10 == 0:
            coefficient, exponent = coefficient // 10, exponent + 1
        text = f"{coefficient}e{exponent if coefficient else 0}"
        expected.append(reference_bytes(text.encode()))
    assert hashes(small, pa.decimal128(20, 4)) == expected


@given(columns, st.data())
def test_a_slice_hashes_as_the_whole_does(rows, data):
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    whole = pa.record_batch(
        [pa.array([r[0] for r in rows], pa.int64()), pa.array([r[1] for r in rows], pa.string())],
        names=["a", "b"],
    )
    part = whole.slice(start, stop - start)
    assert hash_columns(part.columns).tolist() == hash_columns(whole.columns).tolist()[start:stop]
    structs, nested = whole.to_struct_array(), part.to_struct_array()
    assert hash_columns([nested]).tolist() == hash_columns([structs]).tolist()[start:stop]


@given(st.lists(st.lists(st.none() | texts)))
def test_chunks_hash_as_one_array_does(chunks):
    chunked = pa.chunked_array(chunks, pa.string())
    whole = [value for chunk in chunks for value in chunk]
    assert hash_columns([chunked]).tolist() == hashes(whole, pa.string())


@given(st.lists(st.none() | short_ints))
def test_an_integer_hashes_the_same_at_every_width(values):
    widths = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    assert len({tuple(hashes(values, width)) for width in widths}) == 1


@given(st.lists(st.none() | st.floats(width=32)))
def test_a_float_hashes_the_same_as_a_double(values):
    assert hashes(values, pa.float32()) == hashes(values, pa.float64())


@given(st.lists(st.none() | st.integers(-(10**6), 10**6)), st.integers(0, 6))
def test_a_decimal_hashes_the_same_at_every_precision_and_scale(values, scale):
    decimals = [None if v is None else Decimal(v) for v in values]
    narrow = hashes(decimals, pa.decimal128(7, 0))
    assert hashes(decimals, pa.decimal128(7 + scale, scale)) == narrow
    assert hashes(decimals, pa.decimal128(38, scale)) == narrow
    assert hashes(decimals, pa.decimal256(60, scale)) == narrow


@given(st.lists(st.none() | texts))
def test_the_layout_of_strings_does_not_matter(values):
    expected = hashes(values, pa.string())
    assert hashes(values, pa.large_string()) == expected
    encoded = pa.array(values, pa.string()).dictionary_encode()
    assert hash_columns([encoded]).tolist() == expected
    binary = [None if v is None else v.encode() for v in values]
    assert hashes(binary, pa.large_binary()) == expected


def test_a_dictionary_larger_than_the_array_or_with_nulls_changes_nothing():
    words = pa.array(["a", None, "b", "c", "d"])
    encoded = pa.DictionaryArray.from_arrays(pa.array([2, None, 1], pa.int8()), words)
    assert hash_columns([encoded]).tolist() == hashes(["b", None, None], pa.string())
    many = pa.DictionaryArray.from_arrays(pa.array([2, None, 1] * 3, pa.int8()), words)
    assert hash_columns([many]).tolist() == hashes(["b", None, None] * 3, pa.string())


@given(columns)
def test_a_key_of_several_columns_hashes_as_the_struct_of_them(rows):
    key_type = pa.struct([("a", pa.int64()), ("b", pa.string())])
    a = pa.array([r[0] for r in rows], pa.int64())
    b = pa.array([r[1] for r in rows], pa.string())
    expected = hash_columns([a, b]).tolist()
    assert hash_columns([pa.StructArray.from_arrays([a, b], ["a", "b"])]).tolist() == expected
    assert hash_keys(rows, key_type).tolist() == expected


@given(st.lists(st.none() | texts))
def test_a_key_of_one_column_hashes_as_that_column(values):
    expected = hashes(values, pa.string())
    assert hash_keys(values, pa.string()).tolist() == expected
    tuples = [(value,) for value in values]
    assert hash_keys(tuples, pa.struct([("a", pa.string())])).tolist() == expected


@given(ints, ints)
def test_the_order_of_the_columns_matters(a, b):
    one, other = hash_columns([pa.array([a, b]), pa.array([b, a])]).tolist()
    assert (one == other) == (a == b)


@given(ints)
def test_the_place_of_a_null_matters(x):
    first = hash_columns([pa.array([None], pa.int64()), pa.array([x])])
    second = hash_columns([pa.array([x]), pa.array([None], pa.int64())])
    assert first.tolist() != second.tolist()


def test_a_null_struct_hashes_as_a_null():
    key_type = pa.struct([("a", pa.int64()), ("b", pa.string())])
    assert hash_keys([None], key_type).tolist() == [NULL]
    assert hash_keys([(None, None)], key_type).tolist() != [NULL]


def test_zeros_are_equal_and_so_are_nans():
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
    zero, minus_zero, nan, also_nan = hashes([0.0, -0.0, float("nan"), other_nan], pa.float64())
    assert zero == minus_zero
    assert nan == also_nan


@pytest.mark.parametrize(
    "data_type", [pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64()), pa.struct([])], ids=str
)
def test_a_type_that_cannot_be_a_key_is_refused_by_name_with_the_remedy(data_type):
    with pytest.raises(GraphError, match=r"array<|map<|struct<") as caught:
        hash_columns([pa.array([], data_type)])
    assert "use a struct of its parts or a string" in str(caught.value)


def test_a_key_without_columns_is_refused():
    with pytest.raises(GraphError, match="at least one column"):
        hash_columns([])


@pytest.mark.parametrize("max_parallelism", [0, 32769])
def test_an_impossible_max_parallelism_is_refused(max_parallelism):
    with pytest.raises(GraphError, match=str(max_parallelism)):
        key_groups([pa.array([1])], max_parallelism)


@given(st.lists(ints), st.integers(1, 32768))
@settings(max_examples=examples(50))
def test_a_group_is_the_hash_modulo_the_number_of_groups(values, max_parallelism):
    array = pa.array(values, pa.int64())
    expected = [h % max_parallelism for h in hash_columns([array]).tolist()]
    assert key_groups([array], max_parallelism).tolist() == expected


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(np.arange(100_000)),
        pa.array(np.arange(100_000) * 128),
        pa.array(np.arange(100_000, dtype=np.float64)),
        pa.array([f"user-{i}" for i in range(100_000)]),
        pa.array([f"{i:036d}" for i in range(100_000)]),
    ],
    ids=["integers", "multiples of 128", "floats", "short strings", "long strings"],
)
def test_keys_spread_evenly_over_the_groups(keys):
    counts = np.bincount(key_groups([keys], 128), minlength=128)
    expected = len(keys) / 128
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    # 127 degrees of freedom: an even spread stays between these with a probability of 1 - 10^-6.
    assert 60 < chi_square < 220
