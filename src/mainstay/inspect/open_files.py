"""State files that are kept open, for all that is asked of the same epochs and the next ones."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator

from mainstay.snapshot.manifest import PARQUET, SegmentRef
from mainstay.snapshot.statefile import StateFile, StateTable, open_state_file
from mainstay.snapshot.storage import Storage
from mainstay.state.segments import read_segment

OPEN_FILES = 512


class OpenFiles:
    """Those that were read lately. They never change, so an open one is good for ever.

    An epoch shares most of its files with the one before. Threads may use it side by side.
    """

    def __init__(self, storage: Storage, most: int = OPEN_FILES) -> None:
        self.storage = storage
        self._most = most
        self._files: OrderedDict[tuple[str, str], StateFile] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, ref: SegmentRef) -> StateFile:
        name = (ref.file.name, ref.file.checksum)
        with self._lock:
            found = self._files.get(name)
            if found is not None:
                self._files.move_to_end(name)
                return found
        file = open_state_file(self.storage, ref.file)
        with self._lock:
            self._files[name] = file
            while len(self._files) > self._most:
                self._files.popitem(last=False)
        return file

    def read(self, ref: SegmentRef, state: str) -> Iterator[StateTable]:
        """The rows of a state in the key-groups of a segment, whatever the format of its files."""
        if ref.is_backends_own or ref.format == PARQUET:
            yield from read_segment(self.storage, ref, state)
            return
        file = self.open(ref)
        if state in file.states:
            yield from file.read(state, ref.first_group, ref.last_group).in_arrays()
