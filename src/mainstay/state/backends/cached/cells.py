"""Cells: the bytes that stand for a value in a database. Part of the durable format, version 1.

Numbers, dates, timestamps (microseconds) and decimals (128 bits) are the little-endian bytes of
their Arrow column, a boolean is one byte, strings are UTF-8, binary and pickled values are as they
are. What is nested is written field by field: a byte that says whether the value is there (1) or
null (0), then the value; where a length is not fixed it comes first, in four bytes.

What has a time to live has its stamp before it, and a byte that says whether it is there.

In a key, equal values must be equal bytes: a negative zero is written as zero, every NaN as one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.schema import row_class
from mainstay.state.freezing import NAN
from mainstay.state.ttl import StampedType
from mainstay.state.values import ValueType

LENGTH = struct.Struct("<I")
STAMP = struct.Struct("<q?")
FEW = 16
"""Cells below which decoding them one by one is quicker than as a column."""

Pack = Callable[[Any, bytearray], None]
Unpack = Callable[[bytes, int], tuple[Any, int]]


def cells_of(value: ValueType, *, is_key: bool = False) -> Cells:
    """How values of a type are written."""
    if isinstance(value, StampedType):
        return StampedCells(value)
    if pa.types.is_nested(value.arrow):
        return NestedCells(value, is_key)
    if width_of(value.arrow) is not None:
        return FixedCells(value, is_key)
    return BytesCells(value)


class Cells:
    """Cells of one type: from a column, and back to what is kept."""

    one: Callable[[bytes], Any] | None = None
    """Decodes one cell by itself, where that is quicker for a few than a column is."""

    def __init__(self, value: ValueType) -> None:
        self.value = value

    def encode(self, column: pa.Array) -> list[bytes]:
        """A cell for each value; anything where it is null."""
        raise NotImplementedError

    def cell(self, kept: Any) -> bytes:
        """The cell of one value that is not null."""
        return self.encode(self.value.to_array([kept]))[0]

    def decode(self, cells: Sequence[bytes]) -> list[Any]:
        """What is kept, of cells that are not null."""
        if self.one is not None and len(cells) < FEW:
            return [self.one(cell) for cell in cells]
        return self.decode_many(cells)

    def decode_many(self, cells: Sequence[bytes]) -> list[Any]:
        raise NotImplementedError


class FixedCells(Cells):
    """Values of which all have the same width."""

    def __init__(self, value: ValueType, is_key: bool) -> None:
        super().__init__(value)
        width = width_of(value.arrow)
        assert width is not None
        self.width = width
        self._is_real_key = is_key and pa.types.is_floating(value.arrow)
        if not (pa.types.is_temporal(value.arrow) or pa.types.is_decimal(value.arrow)):
            _, unpack = _scalar_packing(value.arrow, is_key)
            self.one = lambda cell: unpack(cell, 0)[0]

    def matrix(self, column: pa.Array) -> npt.NDArray[np.uint8]:
        """The cells as rows of bytes."""
        if not len(column):
            return np.empty((0, self.width), np.uint8)
        if pa.types.is_boolean(self.value.arrow):
            column = column.cast(pa.uint8())
        if self._is_real_key:
            column = _canonical(column)
        size = len(column) * self.width
        raw = np.frombuffer(column.buffers()[1], np.uint8, size, column.offset * self.width)
        return raw.reshape(len(column), self.width)

    def encode(self, column: pa.Array) -> list[bytes]:
        return as_bytes(self.matrix(column))

    def cell(self, kept: Any) -> bytes:
        if pa.types.is_integer(self.value.arrow):
            return int(kept).to_bytes(self.width, "little", signed=True)
        return super().cell(kept)

    def decode_many(self, cells: Sequence[bytes]) -> list[Any]:
        data = b"".join(cells)
        if pa.types.is_boolean(self.value.arrow):
            column = pa.array(np.frombuffer(data, np.uint8) != 0)
        else:
            column = pa.Array.from_buffers(self.value.arrow, len(cells), [None, pa.py_buffer(data)])
        return self.value.from_array(column)


class BytesCells(Cells):
    """Strings, binary, and what is pickled."""

    def __init__(self, value: ValueType) -> None:
        super().__init__(value)
        if pa.types.is_string(value.arrow):
            self.one = bytes.decode

    def cell(self, kept: Any) -> bytes:
        return kept.encode() if pa.types.is_string(self.value.arrow) else super().cell(kept)

    def encode(self, column: pa.Array) -> list[bytes]:
        if column.null_count:
            column = column.fill_null(b"" if pa.types.is_binary(column.type) else "")
        cells: list[bytes] = column.cast(pa.binary()).to_pylist()
        return cells

    def decode_many(self, cells: Sequence[bytes]) -> list[Any]:
        return self.value.from_array(pa.array(cells, pa.binary()).cast(self.value.arrow))


class NestedCells(Cells):
    """Structs, arrays and maps, one value at a time."""

    def __init__(self, value: ValueType, is_key: bool) -> None:
        super().__init__(value)
        self._pack, self._unpack = _packing(value.arrow, is_key)

    def encode(self, column: pa.Array) -> list[bytes]:
        cells = []
        for kept in self.value.from_array(column):
            out = bytearray()
            if kept is not None:
                self._pack(kept, out)
            cells.append(bytes(out))
        return cells

    def decode_many(self, cells: Sequence[bytes]) -> list[Any]:
        unpack = self._unpack
        return [unpack(cell, 0)[0] for cell in cells]


class StampedCells(Cells):
    """Elements with a stamp: the stamp in eight bytes, whether there is an element, its cell."""

    def __init__(self, value: StampedType) -> None:
        super().__init__(value)
        self._cells = cells_of(value.inner)

    def encode(self, column: pa.Array) -> list[bytes]:
        stamps, values = column.flatten()
        is_there = values.is_valid().to_pylist()
        cells = zip(
            stamps.fill_null(0).to_pylist(), is_there, self._cells.encode(values), strict=True
        )
        return [STAMP.pack(at, there) + (cell if there else b"") for at, there, cell in cells]

    def decode(self, cells: Sequence[bytes]) -> list[Any]:
        heads = [STAMP.unpack_from(cell) for cell in cells]
        there = [cell[STAMP.size :] for cell, head in zip(cells, heads, strict=True) if head[1]]
        kept = iter(self._cells.decode(there))
        return [(at, next(kept) if is_there else None) for at, is_there in heads]


def width_of(arrow: pa.DataType) -> int | None:
    """How many bytes a value takes; None where that depends on the value."""
    if pa.types.is_boolean(arrow):
        return 1
    if (
        pa.types.is_integer(arrow)
        or pa.types.is_floating(arrow)
        or pa.types.is_temporal(arrow)
        or pa.types.is_decimal(arrow)
    ):
        return int(arrow.bit_width) // 8
    return None


def as_bytes(matrix: npt.NDArray[np.uint8]) -> list[bytes]:
    """Each row of a matrix as a value of its own."""
    if not matrix.size:
        return [b""] * len(matrix)
    rows = np.ascontiguousarray(matrix).view(np.dtype((np.void, matrix.shape[1])))
    return rows.ravel().tolist()  # type: ignore[return-value]


def _canonical(column: pa.Array) -> pa.Array:
    values = column.to_numpy(zero_copy_only=False).astype(column.type.to_pandas_dtype(), copy=True)
    values += 0.0
    values[np.isnan(values)] = NAN
    return pa.array(values, column.type)


# ------------------------------------------------------------ what is nested


def _packing(arrow: pa.DataType, is_key: bool) -> tuple[Pack, Unpack]:
    if pa.types.is_struct(arrow):
        return _tuple_packing(list(arrow), row_class(pa.schema(list(arrow))), is_key)
    if pa.types.is_map(arrow):
        entry = [pa.field("key", arrow.key_type), pa.field("value", arrow.item_type)]
        return _many_packing(_optional(_tuple_packing(entry, tuple, is_key)))
    if pa.types.is_list(arrow):
        return _many_packing(_optional(_packing(arrow.value_type, is_key)))
    return _scalar_packing(arrow, is_key)


def _scalar_packing(arrow: pa.DataType, is_key: bool) -> tuple[Pack, Unpack]:
    if pa.types.is_boolean(arrow):
        return _number_packing("<?")
    if pa.types.is_floating(arrow):
        return _real_packing("<f" if arrow.bit_width == 32 else "<d", is_key)
    if pa.types.is_integer(arrow):
        return _number_packing({8: "<b", 16: "<h", 32: "<i", 64: "<q"}[arrow.bit_width])
    if pa.types.is_date(arrow):
        return _through_number(lambda day: day.toordinal(), date.fromordinal)
    if pa.types.is_timestamp(arrow):
        return _timestamp_packing(zoned=arrow.tz is not None)
    if pa.types.is_duration(arrow):
        tick = timedelta(microseconds=1)
        return _through_number(lambda span: span // tick, lambda ticks: ticks * tick)
    if pa.types.is_decimal(arrow):
        return _text_packing(_decimal_text, lambda data: Decimal(data.decode()))
    if pa.types.is_string(arrow):
        return _text_packing(str.encode, bytes.decode)
    return _text_packing(bytes, bytes)


def _optional(packing: tuple[Pack, Unpack]) -> tuple[Pack, Unpack]:
    pack_value, unpack_value = packing

    def pack(value: Any, out: bytearray) -> None:
        out.append(value is not None)
        if value is not None:
            pack_value(value, out)

    def unpack(data: bytes, at: int) -> tuple[Any, int]:
        return unpack_value(data, at + 1) if data[at] else (None, at + 1)

    return pack, unpack


def _tuple_packing(
    of: Sequence[pa.Field], make: Callable[[list[Any]], Any], is_key: bool
) -> tuple[Pack, Unpack]:
    fields = [_optional(_packing(field.type, is_key)) for field in of]

    def pack(value: Any, out: bytearray) -> None:
        for (pack_field, _), item in zip(fields, value, strict=True):
            pack_field(item, out)

    def unpack(data: bytes, at: int) -> tuple[Any, int]:
        items = []
        for _, unpack_field in fields:
            item, at = unpack_field(data, at)
            items.append(item)
        return make(items), at

    return pack, unpack


def _many_packing(packing: tuple[Pack, Unpack]) -> tuple[Pack, Unpack]:
    pack_item, unpack_item = packing

    def pack(value: Any, out: bytearray) -> None:
        out += LENGTH.pack(len(value))
        for item in value:
            pack_item(item, out)

    def unpack(data: bytes, at: int) -> tuple[Any, int]:
        (count,) = LENGTH.unpack_from(data, at)
        at += LENGTH.size
        items = []
        for _ in range(count):
            item, at = unpack_item(data, at)
            items.append(item)
        return tuple(items), at

    return pack, unpack


def _number_packing(format: str) -> tuple[Pack, Unpack]:
    number = struct.Struct(format)

    def pack(value: Any, out: bytearray) -> None:
        out += number.pack(value)

    def unpack(data: bytes, at: int) -> tuple[Any, int]:
        return number.unpack_from(data, at)[0], at + number.size

    return pack, unpack


def _real_packing(format: str, is_key: bool) -> tuple[Pack, Unpack]:
    pack_number, unpack_number = _number_packing(format)

    def pack(value: Any, out: bytearray) -> None:
        # Adding zero turns a negative zero into zero and changes nothing else.
        pack_number(NAN if value != value else value + 0.0 if is_key else value, out)

    def unpack(data: bytes, at: int) -> tuple[Any, int]:
        value, at = unpack_number(data, at)
        return value if value == value else NAN, at

    return pack, unpack


def _through_number(
    to_number: Callable[[Any], int], from_number: Callable[[int], Any]
) -> tuple[Pack, Unpack]:
    pack_number, unpack_number = _number_packing("<q")

    def pack(value: Any, out: bytearray) -> None:
        pack_number(to_number(value), out)

    def unpack(data: bytes, at: int) -> tuple[Any, int]:
        number, at = unpack_number(data, at)
        return from_number(number), at

    return pack, unpack


def _timestamp_packing(*, zoned: bool) -> tuple[Pack, Unpack]:
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc if zoned else None)
    tick = timedelta(microseconds=1)
    return _through_number(
        lambda value: (value - epoch) // tick, lambda ticks: epoch + timedelta(microseconds=ticks)
    )


def _text_packing(
    to_bytes: Callable[[Any], bytes], from_bytes: Callable[[bytes], Any]
) -> tuple[Pack, Unpack]:
    def pack(value: Any, out: bytearray) -> None:
        data = to_bytes(value)
        out += LENGTH.pack(len(data))
        out += data

    def unpack(data: bytes, at: int) -> tuple[Any, int]:
        (length,) = LENGTH.unpack_from(data, at)
        start = at + LENGTH.size
        return from_bytes(data[start : start + length]), start + length

    return pack, unpack


def _decimal_text(value: Decimal) -> bytes:
    # Zero has two signs, and keys that are equal must be equal bytes.
    return str(value if value else abs(value)).encode()
