"""The entries of a keyed state at the last epoch, read in bulk.

``testing.inspect`` gives what a function's ``get()`` would, key by key. A check of a hundred
thousand keys wants the entries as they are kept, which a backend gives many at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mainstay.runtime.operators.base import ProcessContext
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.stateful import read_chain
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.heap import HeapBackend
from mainstay.testing.inspect import latest_manifest


def kept_entries(storage: Storage, job: JobSpec, uid: str, state: str) -> Iterator[tuple[Any, Any]]:
    """Every key and what is kept for it; a struct comes as the tuple of its fields."""
    manifest = latest_manifest(storage)
    spec = next(operator for _, operator in job.operators() if operator.uid == uid)
    if manifest is None or spec.key is None:
        return
    keyed = [info for info in spec.states if info.is_keyed]
    stored = manifest.operators[uid]
    for subtask in stored.subtasks:
        view = ProcessContext(uid, subtask.subtask, stored.parallelism)
        backend = HeapBackend(keyed, spec.key.type, job.max_parallelism, view)
        for table in read_chain(storage, subtask.chain):
            for _ in backend.apply(table):
                continue
        yield from backend.entries(state)
