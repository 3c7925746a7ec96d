"""Settings as a job's author writes them, and the numbers in them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from mainstay.errors import GraphError
from mainstay.masking import refuse_login
from mainstay.own_frames import with_settings
from mainstay.quantities import seconds, size, whole_number
from mainstay.runtime.options import LocalRecoveryOptions, RestartOptions, SnapshotOptions
from mainstay.snapshot.storage import absolute
from mainstay.snapshot.store_urls import refuse_torn


@with_settings
@dataclass(frozen=True, slots=True)
class Snapshots:
    """Where snapshots go, how often they are taken, and how many are kept."""

    dir: str | os.PathLike[str]
    every: str | float = "10s"
    retain: int = 3
    timeout: str | float = "10min"
    min_pause: str | float = "0s"
    tolerable_failures: int = 3
    alignment_timeout: str | float = "0s"
    """With ``mode="unaligned"``: how long markers wait in line before they overtake rows."""
    local_recovery: bool | None = None
    """Whether each host keeps copies of the state files of its workers, to restore from. None: it
    does where workers are processes of their own and ``dir`` is an object store."""
    local_dir: str | os.PathLike[str] | None = None
    """Where: without it in the directory of ``RocksDB``, else below that for temporary files."""
    local_size: str | int = "10GiB"
    """How many bytes of copies a host keeps at most, of all jobs of a user together."""

    def __post_init__(self) -> None:
        if not isinstance(self.dir, str | os.PathLike) or not os.fspath(self.dir):
            raise GraphError(
                f'Snapshots({self.dir!r}) needs a directory or URL, as in Snapshots("./snapshots").'
            )
        refuse_login(os.fspath(self.dir), GraphError)
        refuse_torn(os.fspath(self.dir), GraphError)
        # Absolute, because workers may run in another directory, or be started from another.
        object.__setattr__(self, "dir", absolute(self.dir))
        if self.local_dir is not None:
            object.__setattr__(self, "local_dir", absolute(self.local_dir))
        self.parsed()

    def parsed(self) -> SnapshotOptions:
        return SnapshotOptions(
            every_s=seconds(self.every, "every", positive=True),
            retain=whole_number(self.retain, "retain"),
            timeout_s=seconds(self.timeout, "timeout", positive=True),
            min_pause_s=seconds(self.min_pause, "min_pause"),
            alignment_timeout_s=seconds(self.alignment_timeout, "alignment_timeout"),
            tolerable_failures=whole_number(self.tolerable_failures, "tolerable_failures", least=0),
            local_recovery=self._local_recovery(),
        )

    def _local_recovery(self) -> LocalRecoveryOptions:
        if self.local_recovery not in (None, True, False):
            raise GraphError(f"local_recovery={self.local_recovery!r} must be True, False or None.")
        directory = None if self.local_dir is None else os.fspath(self.local_dir)
        if directory is not None and "://" in directory:
            raise GraphError(f"local_dir={directory!r} must be a folder of each worker's machine.")
        most_bytes = size(self.local_size, "local_size")
        return LocalRecoveryOptions(self.local_recovery, directory, most_bytes)


@with_settings
@dataclass(frozen=True, slots=True)
class Restart:
    """How a failed job is started again: how often within a window, and after what wait.

    This is what happens on Spark if nothing else is said. A job with ``spark="embedded"`` is
    started again only where it was given one. What no restart heals ends any job at once.
    """

    max_failures: int = 10
    window: str | float = "10min"
    backoff: str | float = "1s"
    max_backoff: str | float = "1min"

    def __post_init__(self) -> None:
        self.parsed()

    def parsed(self) -> RestartOptions:
        return RestartOptions(
            max_failures=whole_number(self.max_failures, "max_failures", least=0),
            window_s=seconds(self.window, "window"),
            backoff_s=seconds(self.backoff, "backoff"),
            max_backoff_s=seconds(self.max_backoff, "max_backoff"),
        )
