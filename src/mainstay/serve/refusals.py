"""Errors as answers: which status and kind each has, and that it says what to do."""

from __future__ import annotations

import logging
from typing import Literal

from mainstay.errors import (
    DamagedFileError,
    GraphError,
    JobOverError,
    MainstayError,
    NotLeadingError,
    RestoreError,
    SavepointError,
    SnapshotStorageError,
    SqlError,
    StateTypeError,
)
from mainstay.masking import masked
from mainstay.serve.documents import ErrorDocument

_log = logging.getLogger("mainstay")

Kind = Literal["not_found", "bad_request", "conflict", "refused", "timeout", "internal"]


class RefusedError(Exception):
    """A request that is not answered."""

    def __init__(self, status: int, kind: Kind, error: str, type_: str = "") -> None:
        super().__init__(error)
        self.status = status
        self.kind = kind
        self.type = type_


_STATUSES: tuple[tuple[type[Exception], int, Kind], ...] = (
    (DamagedFileError, 500, "internal"),
    (RestoreError, 404, "not_found"),
    (SqlError, 400, "bad_request"),
    (GraphError, 400, "bad_request"),
    (StateTypeError, 400, "bad_request"),
    (JobOverError, 409, "conflict"),
    (NotLeadingError, 409, "conflict"),
    (SavepointError, 409, "conflict"),
    (SnapshotStorageError, 503, "internal"),
    (TimeoutError, 504, "timeout"),
    (MainstayError, 409, "conflict"),
)


def refusal_of(error: Exception) -> RefusedError:
    """What an error of a view means for who has asked."""
    if isinstance(error, RefusedError):
        return error
    for cls, status, kind in _STATUSES:
        if isinstance(error, cls):
            return RefusedError(status, kind, masked(str(error)), type(error).__name__)
    _log.error("a request to the page of a job failed", exc_info=error)
    return RefusedError(500, "internal", "the request failed; the log of the driver says why.")


def document_of(refusal: RefusedError) -> ErrorDocument:
    return ErrorDocument(error=str(refusal), kind=refusal.kind, type=refusal.type)
