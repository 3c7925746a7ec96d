"""Noting a job while its process lives. Nothing of it may fail the job."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from pathlib import Path

from mainstay.registry.entry import Entry
from mainstay.registry.folder import registry_folder, remove, write_entry

_log = logging.getLogger("mainstay")
_warned = threading.Event()


class Registration:
    """Takes the entry back at the end; one that was killed leaves it, and is seen to be gone."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._pid = os.getpid()
        atexit.register(self.end)

    def end(self) -> None:
        """The job has no page any more, or the process ends."""
        atexit.unregister(self.end)
        # A process that was forked from this one has not run the job.
        if os.getpid() == self._pid:
            remove(self._file)


def register(name: str, page: str | None, place: str, started_at: float) -> Registration | None:
    """Note a job of this process; None where that cannot be, which is said once."""
    try:
        entry = Entry.of_this_process(name, page, place, started_at)
        return Registration(write_entry(entry, registry_folder()))
    except Exception as error:
        if not _warned.is_set():
            _warned.set()
            _log.warning(
                "job %r is not in the list of `mainstay jobs`, and runs all the same: %s. Give a "
                "folder that can be written to in MAINSTAY_REGISTRY.",
                name,
                error,
            )
        return None
