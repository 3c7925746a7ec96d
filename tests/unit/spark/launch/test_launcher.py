"""What is made of the error of a failed Spark job, and which Spark jobs are cancelled when."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from mainstay.spark.launch import launcher
from mainstay.spark.launch.slots import Slots
from mainstay.spark.launch.spark_errors import summary

CALL = "An error occurred while calling o65.collectToPython.\n: org.apache.spark.SparkException: "
BARRIER = (
    "Job aborted due to stage failure: Could not recover from a failed barrier ResultStage. Most "
    "recent failure reason: Stage failed because barrier task ResultTask(0, 1) finished "
    "unsuccessfully.\n"
)
STACK = "\n\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1143)\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"{CALL}{BARRIER}org.apache.spark.SparkException: Python worker exited unexpectedly "
            f"(crashed): \n{STACK}",
            "Python worker exited unexpectedly (crashed)",
        ),
        (
            f"{CALL}{BARRIER}org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An "
            "exception was thrown from the Python worker: Traceback (most recent call last):\n"
            '  File "job.py", line 10, in f\n    raise ValueError("boom")\nValueError: boom\n'
            f" SQLSTATE: 38000{STACK}",
            "ValueError: boom",
        ),
        (
            f"{CALL}{BARRIER}ExecutorLostFailure (executor 1 exited caused by one of the running "
            f"tasks) Reason: Command exited with code 137\nDriver stacktrace:{STACK}",
            "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: "
            "Command exited with code 137",
        ),
        (
            f"{CALL}[SPARK_JOB_CANCELLED] Job 2 cancelled part of cancelled job group g1 SQLSTATE: "
            f"XXKDA{STACK}",
            "[SPARK_JOB_CANCELLED] Job 2 cancelled part of cancelled job group g1 SQLSTATE: XXKDA",
        ),
        ("[SESSION_OR_CONTEXT_NOT_EXISTS] create one first", None),
        (f"{CALL}{BARRIER}", "An error occurred while calling o65.collectToPython."),
        ("", ""),
    ],
    ids=["crash", "exception", "executor", "cancelled", "plain", "only noise", "nothing"],
)
def test_the_line_that_says_what_happened_is_found(text: str, expected: str | None) -> None:
    assert summary(text) == (text if expected is None else expected)


class Waiting:
    """A launcher whose cluster has slots as a test says."""

    def __init__(self, slots: list[int]) -> None:
        self.asked = threading.Event()
        self.stopped = threading.Event()
        self._slots = slots
        self._launcher = launcher.SparkLauncher.__new__(launcher.SparkLauncher)
        self._launcher._cluster = SimpleNamespace(slots=self._look)

    def _look(self) -> Slots:
        self.asked.set()
        return Slots(self._slots.pop(0) if len(self._slots) > 1 else self._slots[0], 0)

    def wait_for(self, workers: int) -> None:
        self._launcher._await_slots(workers, self.stopped)


def test_slots_of_an_executor_that_died_are_waited_for() -> None:
    slots = [2, 2, 4]
    Waiting(slots).wait_for(3)
    assert slots == [4]


def test_slots_are_not_waited_for_once_the_attempt_is_over() -> None:
    waiting = Waiting([2])
    thread = threading.Thread(target=waiting.wait_for, args=(3,))
    thread.start()
    waiting.asked.wait()
    waiting.stopped.set()
    thread.join(30)
    assert not thread.is_alive()


def test_spark_is_asked_all_the_same_when_slots_do_not_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launcher, "SLOTS_S", 0.2)
    waiting = Waiting([2])
    waiting.wait_for(3)
    assert waiting.asked.is_set()
