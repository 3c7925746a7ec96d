"""A file for a reader that goes by positions, as that of Parquet does, wherever its bytes are."""

from __future__ import annotations

import io
from abc import abstractmethod


class Positioned(io.RawIOBase):
    """A file of a known size. Only what is asked for has to be there."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self._size_bytes = size_bytes
        self._position = 0

    @abstractmethod
    def bytes_at(self, start: int, after: int) -> bytes:
        """The bytes from one position up to another, which is within the file."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return self._size_bytes

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}
        self._position = base[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        after = self._size_bytes if size < 0 else min(self._size_bytes, self._position + size)
        data = self.bytes_at(self._position, after)
        self._position += len(data)
        return data
