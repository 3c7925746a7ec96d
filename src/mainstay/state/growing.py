"""Growing sets: distinct values that are only ever added to.

A ``Distinct`` is the first values of a set that grows, as many as there were when it was made.
Nobody can change it, and yet to add to it costs what is added and not what is there: the set is
shared, and what is added to its newest ``Distinct`` is appended to it. Adding to an older one
copies what that one has. A few values are a tuple instead: most keys may never have more.

Whole numbers, dates, timestamps, booleans and floating numbers are words of 64 bits; everything
else is kept as Python objects.

This is a hot file (benchmarks/distinct_path.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mainstay.state.codes import codes_of
from mainstay.state.freezing import NAN
from mainstay.state.grouping import Grouper, Words, is_word, words_of
from mainstay.state.partials import array_of_numbers, dtype_of
from mainstay.state.slots import WordSlots
from mainstay.state.values import ValueType

_BULK = 1024
"""Words that are added at once, from which on looking them up by columns is quicker."""
_MANY = 1 << 17
"""Words beyond which a set of Python's takes too much memory."""
FEW = 64
"""Values up to which a tuple is quicker and smaller than a set."""
_LONG = ValueType.of("long")

Few: TypeAlias = "tuple[Any, ...]"
"""A few distinct values: words, or objects."""


class Elements:
    """The type of what is in a set: how values become what is kept in it, and back."""

    def __init__(self, arrow: pa.DataType) -> None:
        self.arrow = arrow
        self.are_words = is_word(arrow) or dtype_of(arrow) is not None
        self.value = ValueType.of(arrow)
        self.dtype = np.dtype(np.int64 if self.are_words else object)
        self.are_values = not self.are_words or pa.types.is_integer(arrow)
        """Whether what is kept in a set is the value itself."""

    def flat(self, column: pa.Array) -> npt.NDArray[Any]:
        """The values of a column without nulls: equal ones are equal words or equal objects."""
        if not self.are_words:
            return np.fromiter(self.value.from_array(column), np.dtype(object), len(column))
        if pa.types.is_boolean(self.arrow):
            return column.cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]
        if is_word(self.arrow):
            return words_of(column)
        reals: npt.NDArray[Any] = column.to_numpy().astype(dtype_of(self.arrow))
        # Adding zero turns -0.0 into 0.0 and changes nothing else.
        reals += 0.0
        reals[np.isnan(reals)] = NAN
        return reals.view(f"i{reals.itemsize}").astype(np.int64, copy=False)

    def packed(self, column: pa.Array) -> Any:
        """The values of a column without nulls in columns: words, or as they are."""
        return self.flat(column) if self.are_words else column

    def codes(self, column: pa.Array, flat: Any) -> npt.NDArray[np.int64]:
        """A small number for each value, equal where the values are."""
        if not self.are_words:
            return codes_of(column)
        codes = Grouper().group(pa.array(flat)).codes
        return np.arange(len(flat)) if codes is None else codes

    def flat_of(self, values: Few | Distinct) -> npt.NDArray[Any]:
        """Kept values as an array."""
        if isinstance(values, Distinct):
            return values.flat()
        return np.fromiter(values, self.dtype, len(values))

    def growing(self, flat: npt.NDArray[Any]) -> GrowingWords | GrowingObjects:
        return GrowingWords(flat) if self.are_words else GrowingObjects(flat)

    def column(self, flat: npt.NDArray[Any]) -> pa.Array:
        """The column of kept values."""
        if not self.are_words:
            return self.value.to_array(flat.tolist())
        if pa.types.is_boolean(self.arrow):
            return pa.array(flat != 0)
        dtype = dtype_of(self.arrow)
        assert dtype is not None
        numbers = flat.astype(f"i{dtype.itemsize}", copy=False).view(dtype)
        return array_of_numbers((numbers, None), self.arrow)


class GrowingWords:
    """Words in the order in which they came. What was read of them stays as it is."""

    __slots__ = ("_index", "_known", "_words", "count")

    def __init__(self, words: Words) -> None:
        self._words = words
        self.count = len(words)
        self._known: set[int] | None = None
        self._index: WordSlots | None = None

    def first(self, count: int) -> Words:
        return self._words[:count]

    def add(self, words: Words) -> None:
        """Distinct words, of which some may be known."""
        if self._index is None and self._is_many(len(words)):
            self._known, self._index = None, WordSlots(_LONG)
            self._index.of(pa.array(self.first(self.count)))
        new = self._unknown_few(words) if self._index is None else self._unknown(words)
        if len(new):
            self._append(new)

    def _is_many(self, added: int) -> bool:
        return (added >= _BULK and self.count >= _BULK) or self.count + added > _MANY

    def _unknown(self, words: Words) -> Words:
        assert self._index is not None
        # Each new word gets the next slot.
        return words[self._index.of(pa.array(words)) >= self.count]

    def _unknown_few(self, words: Words) -> Sequence[int]:
        if self._known is None:
            self._known = set(self.first(self.count).tolist())
        known = self._known
        new = [word for word in words.tolist() if word not in known]
        known.update(new)
        return new

    def _append(self, new: Words | Sequence[int]) -> None:
        after = self.count + len(new)
        if after > len(self._words):
            # Another array, never the same one resized: somebody may be reading it.
            words = np.empty(max(after, 2 * len(self._words)), np.int64)
            words[: self.count] = self.first(self.count)
            self._words = words
        self._words[self.count : after] = new
        self.count = after


class GrowingObjects:
    """The same for values that are Python objects."""

    __slots__ = ("_known", "_values", "count")

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._values: list[Any] = values.tolist()
        self.count = len(self._values)
        self._known: set[Any] | None = None

    def first(self, count: int) -> npt.NDArray[Any]:
        return np.fromiter(islice(self._values, count), np.dtype(object), count)

    def add(self, values: Iterable[Any]) -> None:
        if self._known is None:
            self._known = set(self._values)
        known = self._known
        new = [value for value in values if value not in known]
        known.update(new)
        self._values += new
        self.count += len(new)


class Distinct:
    """Distinct values that nobody changes: the first ``count`` of what grows."""

    __slots__ = ("_elements", "_grown", "count")

    def __init__(
        self, elements: Elements, grown: GrowingWords | GrowingObjects | npt.NDArray[Any]
    ) -> None:
        self._elements = elements
        self._grown = grown
        self.count = len(grown) if isinstance(grown, np.ndarray) else grown.count

    def flat(self) -> npt.NDArray[Any]:
        """The values, in the order in which they came."""
        grown = self._grown
        return grown if isinstance(grown, np.ndarray) else grown.first(self.count)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        """The values in the form that state keeps."""
        return iter(self._elements.value.from_array(self._elements.column(self.flat())))

    def is_after(self, other: Distinct) -> bool:
        """Whether it has the values of another one, and then others of the same set."""
        return self._grown is other._grown and self.count >= other.count

    def with_all(self, given: Few | Distinct) -> Distinct:
        """Those of both."""
        grown = self._grown
        if isinstance(grown, np.ndarray):
            # This one is then known to be the beginning of what it grows into.
            grown = self._grown = self._elements.growing(grown)
        elif grown.count > self.count:
            grown = self._elements.growing(self.flat())
        grown.add(self._elements.flat_of(given))
        if grown is self._grown and grown.count == self.count:
            return self
        return Distinct(self._elements, grown)


def continues(new: Few | Distinct, old: Few | Distinct) -> bool:
    """Whether it is known of values that they are others with more behind them."""
    if type(old) is tuple:
        return len(new) >= len(old) and _first(new, len(old)) == old
    return isinstance(new, Distinct) and isinstance(old, Distinct) and new.is_after(old)


def rest_of(elements: Elements, values: Few | Distinct, stored: Few | Distinct | None) -> Any:
    """The values that continue others; all of them where there are no others."""
    if not stored:
        return values
    if not isinstance(values, Distinct):
        return values[len(stored) :]
    flat = values.flat()[len(stored) :]
    return tuple(flat.tolist()) if len(flat) <= FEW else Distinct(elements, flat)


def _first(values: Few | Distinct, count: int) -> Few:
    return tuple(values.flat()[:count].tolist()) if isinstance(values, Distinct) else values[:count]


def joined(elements: Elements, kept: Few | Distinct, given: Few | Distinct) -> Few | Distinct:
    """The distinct values of both, in a tuple as long as they are few."""
    if type(kept) is not tuple:
        return kept.with_all(given) if len(given) else kept  # type: ignore[union-attr]
    if type(given) is not tuple:
        # A copy: the array may be a part of one that has the values of many keys.
        flat = np.array(elements.flat_of(given)) if not kept else elements.flat_of(kept)
        begun = Distinct(elements, flat)
        return begun.with_all(given) if kept else begun
    if not kept:
        return given
    new = [value for value in given if value not in kept]
    if not new:
        return kept
    both = (*kept, *new)
    return both if len(both) <= FEW else Distinct(elements, elements.flat_of(both))


def distinct_pairs(
    groups: npt.NDArray[np.int64], values: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """One position for each pair of a group and a value's code, ordered by group."""
    width = int(values.max(initial=0)) + 1
    rows = Grouper().group(pa.array(groups * width + values)).rows
    return rows[np.argsort(groups[rows], kind="stable")]


def lengths_of(lists: pa.Array) -> npt.NDArray[np.int64]:
    """How many elements each list has; none where it is null."""
    lengths = pc.fill_null(lists.value_lengths(), 0)
    return lengths.to_numpy().astype(np.int64)  # type: ignore[no-any-return]
