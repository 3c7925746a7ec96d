"""Files that an operator keeps in the job's storage beside its state."""

from __future__ import annotations

from mainstay.snapshot.checked import read_checked, reference
from mainstay.snapshot.layout import operator_file_path
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.storage import Storage


class OperatorFiles:
    """The files of one subtask of one attempt. All of it is for use in the background."""

    def __init__(self, storage: Storage, uid: str, subtask: int, attempt: int) -> None:
        self._storage = storage
        self._place = (uid, subtask, attempt)

    def write(self, name: str, data: bytes) -> FileRef:
        """Store a file under a name that this subtask has not used before."""
        path = operator_file_path(*self._place, name)
        self._storage.write(path, data)
        return reference(path, data)

    def read(self, file: FileRef) -> bytes:
        """A file of this job, of any attempt."""
        return read_checked(self._storage, file)

    def delete(self, file: FileRef) -> None:
        self._storage.delete(file.path)
