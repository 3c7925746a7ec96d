"""Scouts, with tasks as threads of this process: what they find is said, and in which words."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from mainstay.errors import SlotsError, SparkSetupError
from mainstay.spark.launch import scouts
from mainstay.spark.launch.scouts import send_scouts
from mainstay.transport.address import LOOPBACK

WAY = "the address that the test has chosen"


class Territory:
    """So many threads for tasks. What is cancelled while it waits for one never begins."""

    workers_python: str | None = None

    def __init__(
        self,
        slots: int,
        host: str = LOOPBACK,
        found: Callable[[dict[str, Any]], None] = lambda found: None,
    ) -> None:
        self.host = host
        self._found = found
        self._pool = ThreadPoolExecutor(max_workers=slots)
        self.cancelled = threading.Event()

    def run(self, main: Any, tasks: int, columns: str, tag: str, description: str) -> list[Any]:
        assert columns == "found string"
        futures = [self._pool.submit(self._task, main) for _ in range(tasks)]
        rows = [row for future in futures for row in future.result()]
        if self.cancelled.is_set():
            raise RuntimeError("[OPERATION_CANCELED] it was cancelled")
        return rows

    def _task(self, main: Any) -> list[Any]:
        if self.cancelled.is_set():
            return []
        return [self._row(text) for batch in main(iter(())) for text in batch["found"].to_pylist()]

    def _row(self, text: str) -> Any:
        found = scouts.json.loads(text)
        self._found(found)
        return SimpleNamespace(found=scouts.json.dumps(found))

    def cancel(self, tag: str) -> None:
        self.cancelled.set()


def refusal(territory: Territory, count: int = 1) -> str:
    with pytest.raises(SparkSetupError) as raised:
        send_scouts(territory, count, WAY)
    return str(raised.value)


def test_as_many_as_there_are_slots_meet() -> None:
    territory = Territory(slots=3)
    send_scouts(territory, 3, WAY)
    assert not territory.cancelled.is_set()


def test_fewer_slots_than_scouts_are_refused_with_both_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scouts, "NEXT_S", 0.5)
    territory = Territory(slots=2)
    with pytest.raises(SlotsError, match="needs 3 free slots, and 2 of its tasks were seen"):
        send_scouts(territory, 3, WAY)
    assert not territory.cancelled.is_set(), "the third was let go when it came"


def test_scouts_that_do_not_return_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scouts, "NEXT_S", 0.2)
    monkeypatch.setattr(scouts, "LATE_S", 0.2)
    territory = Territory(slots=2)
    real = territory._task
    first = threading.Lock()

    def task(main: Any) -> list[Any]:
        if first.acquire(blocking=False):
            return real(main)
        territory.cancelled.wait()
        return []

    territory._task = task  # type: ignore[method-assign]
    with pytest.raises(SlotsError, match="needs 2 free slots, and 1 of its tasks was seen"):
        send_scouts(territory, 2, WAY)
    assert territory.cancelled.is_set()


def test_one_that_cannot_reach_where_another_can_is_no_lack_of_slots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scouts, "NEXT_S", 0.5)
    territory = Territory(slots=2)
    real = territory._task
    first = threading.Lock()

    def task(main: Any) -> list[Any]:
        if first.acquire(blocking=False):
            return real(main)
        # It runs on a host that has no way here.
        elsewhere = scouts._main(("nowhere.invalid", 9), b"", (), 1.0, 1.0)
        return real(elsewhere)

    territory._task = task  # type: ignore[method-assign]
    message = refusal(territory, 2)
    assert "executors cannot reach the coordinator" in message


def test_a_cluster_that_runs_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scouts, "FIRST_S", 0.2)

    class Busy(Territory):
        def run(self, *arguments: Any) -> list[Any]:
            self.cancelled.wait()
            raise RuntimeError("[OPERATION_CANCELED] it was cancelled")

    with pytest.raises(SlotsError, match=r"no task of this job has answered within 0 s") as raised:
        send_scouts(Busy(slots=1), 2, WAY)
    for cause in ("has no executor", "other jobs have all its slots", "Python is slower"):
        assert cause in str(raised.value)


def test_an_address_that_is_not_reached_is_refused_with_both_ends_and_its_origin() -> None:
    message = refusal(Territory(slots=1, host="nowhere.invalid"))
    assert f"from {socket.gethostname()} (" in message
    assert ") to nowhere.invalid:" in message
    assert f"The address is {WAY}" in message
    assert "Environment(coordinator_host=...)" in message


def test_a_stranger_who_connects_is_not_counted() -> None:
    territory = Territory(slots=2)
    real = territory.run

    def run(main: Any, *arguments: Any) -> list[Any]:
        address = main.__closure__[0].cell_contents
        assert isinstance(address, tuple)
        with socket.create_connection(address) as stranger:
            stranger.sendall(b"x" * 32)
            assert stranger.recv(1) == b""
        return real(main, *arguments)

    territory.run = run  # type: ignore[method-assign]
    send_scouts(territory, 2, WAY)


def test_another_python_is_refused_with_both_versions_and_its_place() -> None:
    def older(found: dict[str, Any]) -> None:
        found["python"] = [3, 5]

    message = refusal(Territory(slots=1, found=older))
    own = ".".join(map(str, sys.version_info[:2]))
    assert f"this is Python {own} and the workers' Python, {sys.executable} on" in message
    assert "is 3.5" in message


@pytest.mark.parametrize(
    ("python", "shown"), [("python3", ", which is 'python3' on the executors,"), (None, "")]
)
def test_a_python_that_cannot_run_a_task_at_all_is_named_where_it_is_known(
    python: str | None, shown: str
) -> None:
    class Bare(Territory):
        workers_python = python

        def run(self, *arguments: Any) -> list[Any]:
            raise RuntimeError("ModuleNotFoundError: No module named 'pyarrow'")

    message = refusal(Bare(slots=1))
    assert f"No module named 'pyarrow'. The workers' Python{shown} lacks it. Set" in message


def test_what_a_python_lacks_is_named() -> None:
    def poorer(found: dict[str, Any]) -> None:
        found["missing"] = ["pyarrow", "zmq"]

    assert "lacks pyarrow, zmq. Install mainstay there" in refusal(Territory(1, found=poorer))


def test_tasks_that_cannot_run_are_refused_with_what_spark_says() -> None:
    class Broken(Territory):
        def run(self, *arguments: Any) -> list[Any]:
            raise RuntimeError(
                "(org.apache.spark.api.python.PythonException) [PYTHON_VERSION_MISMATCH] 3.9"
            )

    message = refusal(Broken(slots=1))
    assert message == "Spark cannot run Python tasks of this job: [PYTHON_VERSION_MISMATCH] 3.9"


def test_a_module_that_tasks_need_is_named_with_the_place_where_python_is_chosen() -> None:
    class Poor(Territory):
        def run(self, *arguments: Any) -> list[Any]:
            raise RuntimeError(
                "Traceback (most recent call last):\n"
                '  File "worker.py", line 1, in read_udfs\n'
                "ModuleNotFoundError: No module named 'pyarrow'\n"
            )

    message = refusal(Poor(slots=1))
    assert "ModuleNotFoundError: No module named 'pyarrow'. The workers' Python lacks it" in message
    assert "Set PYSPARK_PYTHON" in message
    assert "for Spark Connect that is the server" in message
