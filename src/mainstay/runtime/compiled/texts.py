"""Texts and bytes of a batch by codes, as kernels have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.state.fixed_width import Array


class Texts:
    """The texts, or bytes, of a batch by codes: equal ones have one code, null has none."""

    def __init__(self, arrow: pa.DataType) -> None:
        self._arrow = arrow
        self._columns: list[pa.Array] = []
        self._takers: list[Callable[[Array], None]] = []
        self._dictionary = pa.array([], arrow)
        self._more: list[Any] = []
        self._places: dict[Any, int] | None = None

    def ask(self, column: pa.Array, take: Callable[[Array], None]) -> None:
        """Have ``take`` given the codes of a column, when all have asked."""
        self._columns.append(column.cast(self._arrow))
        self._takers.append(take)

    def tell(self) -> None:
        """Give all who have asked their codes, which are of one dictionary."""
        if not self._columns:
            return
        encoded = pa.concat_arrays(self._columns).dictionary_encode()
        self._dictionary = encoded.dictionary
        indices = encoded.indices
        if indices.null_count:
            indices = indices.fill_null(-1)
        codes = indices.to_numpy(zero_copy_only=False).astype(np.int64)
        ends = np.cumsum([len(column) for column in self._columns])
        for take, own in zip(self._takers, np.split(codes, ends[:-1]), strict=True):
            take(own)
        self._columns, self._takers = [], []

    def code(self, value: Any) -> int:
        """The code of one more text; -1 of None."""
        if value is None:
            return -1
        if self._places is None:
            known = self._dictionary.to_pylist()
            self._places = {each: place for place, each in enumerate(known)}
        if value not in self._places:
            self._places[value] = len(self._dictionary) + len(self._more)
            self._more.append(value)
        return self._places[value]

    def column(self, codes: Array, ok: Array | None, arrow: pa.DataType) -> pa.Array:
        """The texts of some codes; null where they are not there."""
        dictionary = self._dictionary
        if self._more:
            dictionary = pa.concat_arrays([dictionary, pa.array(self._more, self._arrow)])
        mask = codes < 0 if ok is None else ~ok | (codes < 0)
        column = dictionary.take(pa.array(codes, mask=mask if mask.any() else None))
        return column if column.type == arrow else column.cast(arrow)


CODED_AS = {"str": pa.string(), "bytes": pa.binary()}
"""The type of what has codes."""


class AllTexts:
    """The dictionaries of a batch, each made when it is first asked for."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[str, Texts] = {}

    def __getitem__(self, form: str) -> Texts:
        made = self._made.get(form)
        if made is None:
            made = self._made[form] = Texts(CODED_AS[form])
        return made

    def tell(self) -> None:
        """Give all who have asked their codes."""
        for texts in self._made.values():
            texts.tell()
