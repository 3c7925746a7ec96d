"""Hashes of keys as Python values, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.schema.arrays import array_of
from mainstay.state.hashing import hash_columns


def hash_keys(keys: Sequence[Any], key_type: pa.DataType) -> npt.NDArray[np.uint64]:
    """A key of several columns has a struct type and is a tuple."""
    return hash_columns([array_of(keys, key_type, "the key")])
