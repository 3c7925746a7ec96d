"""Preflight: what is known of a job before anything that takes long is started for it.

A wrong path, a directory that holds another history, a finished job without new input: to know of
these takes no worker, and nobody should wait for a JVM only to read it. The job finds all of it
again by itself, so what cannot be known here is left to it.
"""

from __future__ import annotations

from mainstay.errors import SnapshotStorageError
from mainstay.runtime.coordinator.loading import choose_first, load
from mainstay.runtime.coordinator.news import with_news
from mainstay.runtime.coordinator.starting import check_same_job
from mainstay.runtime.options import RestoreOptions
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.object_storage import open_storage


def has_work(name: str, spec: JobSpec, directory: str, restore: RestoreOptions) -> bool:
    """Whether workers will be needed, as far as is known; raises what the job would fail with."""
    try:
        storage = open_storage(directory)
        loaded = load(
            storage,
            lambda history: choose_first(history, restore, frozenset(), storage),
            restore.origin,
            open_storage,
        )
    except SnapshotStorageError:
        return True  # trying again may help, which is up to the job
    check_same_job(loaded.history, name)
    if loaded.damage is not None:
        return True
    return bool(with_news(spec, loaded.manifest)) or not loaded.is_finished
