"""The task that a writer believes itself in.

Writers name files after ``TaskContext.get().partitionId()`` and ``taskAttemptId()``, and count on
Spark giving every call of ``write`` another attempt id. A worker of ours is one task of Spark for
days, or none at all. So a call of ``write`` gets a context of its own.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator

from pyspark import TaskContext

# PySpark has one context in a process; calls of ``write`` that need it come one after the other.
_lock = threading.Lock()


@contextlib.contextmanager
def task_of_its_own(subtask: int, attempt: int) -> Iterator[None]:
    """Within this, the process is in a task with the number of the subtask and a unique id."""
    context = object.__new__(TaskContext)
    context._partitionId = subtask
    context._attemptNumber = attempt - 1
    context._taskAttemptId = uuid.uuid4().int >> 65
    context._stageId = 0
    context._localProperties = {}
    with _lock:
        before = TaskContext.get()
        TaskContext._setTaskContext(context)
        try:
            yield
        finally:
            TaskContext._setTaskContext(before)
