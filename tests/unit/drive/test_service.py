"""What systemd is told, over a real socket; and what supervisors see of the end of a job."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstay.drive.exit_codes import exit_code
from mainstay.drive.service import ServiceManager
from mainstay.errors import (
    FencedError,
    GraphError,
    JobFailedError,
    SessionStoppedError,
    SnapshotStorageError,
    UserFunctionError,
)
from mainstay.runtime.status import Status


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(str(tmp_path / "notify"))
        found.setblocking(False)
        yield found


def heard(listener: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(listener.recv(1000).decode())
        except BlockingIOError:
            return found


def test_a_service_is_ready_once_and_says_what_is_new(listener: socket.socket) -> None:
    service = ServiceManager({"NOTIFY_SOCKET": listener.getsockname()})
    service.update("totals: standby", 0.0)
    service.update("totals: standby", 1.0)
    service.update("totals: running", 2.0)
    assert heard(listener) == ["READY=1\nSTATUS=totals: standby", "STATUS=totals: running"]


def test_a_service_that_is_watched_beats_twice_in_its_time(listener: socket.socket) -> None:
    settings = {"NOTIFY_SOCKET": listener.getsockname(), "WATCHDOG_USEC": "2000000"}
    service = ServiceManager(settings)
    for tenth in range(25):
        service.update("totals: running", tenth / 10)
    beats = [text for text in heard(listener) if "WATCHDOG=1" in text]
    assert len(beats) == 3


def test_a_watchdog_of_another_process_is_not_ours(listener: socket.socket) -> None:
    settings = {"NOTIFY_SOCKET": listener.getsockname(), "WATCHDOG_USEC": "10", "WATCHDOG_PID": "1"}
    ServiceManager(settings).update("totals: running", 0.0)
    assert heard(listener) == ["READY=1\nSTATUS=totals: running"]


def test_without_a_service_manager_nothing_is_sent_and_one_that_is_gone_harms_nobody(
    tmp_path: Path,
) -> None:
    ServiceManager({}).update("totals: running", 0.0)
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).update("totals: running", 0.0)


def failed(cause: Exception) -> JobFailedError:
    error = JobFailedError("the job failed")
    error.original = cause
    return error


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (Status.RUNNING, None, None),
        (Status.STANDBY, None, None),
        (Status.FINISHED, None, 0),
        (Status.STOPPED, None, 0),
        (Status.CANCELLED, None, 0),
        (Status.FAILED, FencedError("another driver"), 75),
        (Status.FAILED, failed(SnapshotStorageError("away")), 75),
        (Status.FAILED, failed(SessionStoppedError("gone")), 75),
        (Status.FAILED, failed(ConnectionError("refused")), 75),
        (Status.FAILED, GraphError("wrong"), 78),
        (Status.FAILED, UserFunctionError("totals", 0, "ValueError: x", ""), 1),
        (Status.FAILED, failed(ZeroDivisionError()), 1),
        (Status.FAILED, JobFailedError("in the process that led it before"), 1),
    ],
    ids=str,
)
def test_the_exit_code_says_what_a_supervisor_should_do(
    status: Status, error: Exception | None, code: int | None
) -> None:
    assert exit_code(status, error) == code
