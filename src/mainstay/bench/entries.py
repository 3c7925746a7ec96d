"""The entries of a keyed state at the last epoch, read in bulk.

``testing.inspect`` gives what a function's ``get()`` would, key by key. A check of a hundred
thousand keys wants the entries as they are kept, which a backend gives many at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.storage import Storage
from mainstay.testing.inspect import latest_manifest, restored_backends


def kept_entries(storage: Storage, job: JobSpec, uid: str, state: str) -> Iterator[tuple[Any, Any]]:
    """Every key and what is kept for it; a struct comes as the tuple of its fields."""
    manifest = latest_manifest(storage)
    spec = next(operator for _, operator in job.operators() if operator.uid == uid)
    if manifest is None or spec.key is None:
        return
    stored = manifest.operators[uid]
    for _, backend in restored_backends(storage, job, spec, stored, manifest.created_at):
        yield from backend.entries(state)
