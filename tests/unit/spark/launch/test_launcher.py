"""What is made of the error of a failed Spark job, and which Spark jobs are cancelled when."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from mainstay.runtime.coordinator.silence import LostHost
from mainstay.spark.launch import launcher
from mainstay.spark.launch.reservations import reserve
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


# ---------------------------------------------------------------- hosts that are lost


class Spark:
    """A cluster that notes what is asked of it, in order."""

    is_local = False
    host = "10.0.0.9"
    application = "app"

    def __init__(self, master: threading.Event | None = None) -> None:
        self.asked: list[str] = []
        self._master = master

    def prepare(self) -> None:
        return

    def slots(self) -> Slots:
        return Slots(4, 4)

    def leave(self, host: str) -> list[str]:
        self.asked.append(f"leave {host}")
        if self._master is not None:
            self._master.wait(20)
        return ["2", "5"] if host == "b" else []

    def run_barrier(self, main: object, workers: int, tag: str, description: str) -> None:
        self.asked.append(f"run {workers}")


LOST = [LostHost("b", (1, 3), 10.2)]


def start(spark: Spark, lost: list[LostHost]) -> list[str]:
    """Start an attempt after hosts were lost; what it has come to."""
    ended: list[str] = []
    starting = launcher.SparkLauncher(spark, "orders")
    starting.leave(lost)
    starting.start(SimpleNamespace(attempt=2), 4, ended.append)
    starting.close()
    return ended


def test_lost_hosts_are_left_before_the_next_attempt_and_a_line_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    spark = Spark()
    assert start(spark, LOST) == ["its Spark job has ended"]
    assert spark.asked == ["leave b", "run 4"]
    (said,) = caplog.messages
    assert said == (
        "job 'orders': host b, with workers 1, 3, was not heard of for 10 s; taken out of Spark "
        "before the next attempt: executors 2, 5"
    )


def test_a_master_that_does_not_answer_does_not_keep_the_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launcher, "LEAVE_S", 0.01)
    answer = threading.Event()
    spark = Spark(answer)
    assert start(spark, LOST) == ["its Spark job has ended"]
    assert spark.asked == ["leave b", "run 4"]
    answer.set()


def test_in_local_mode_no_host_is_left() -> None:
    spark = Spark()
    spark.is_local = True
    start(spark, LOST)
    assert spark.asked == ["run 4"]


def test_there_is_room_for_what_others_were_not_promised() -> None:
    spark = Spark()
    own, other = reserve("app", 3), reserve("app", 2)
    try:
        assert launcher.SparkLauncher(spark, "orders", own).room() == 2
        assert launcher.SparkLauncher(spark, "orders", own, queries=1).room() == 1
    finally:
        own.release()
        other.release()


def test_room_is_counted_when_lost_hosts_have_been_left() -> None:
    """It was counted before: an attempt was launched with workers for which there were no slots."""
    spark = Spark()
    starting = launcher.SparkLauncher(spark, "orders")
    starting.leave(LOST)
    assert starting.room() == 4
    assert spark.asked == ["leave b"]
    starting.start(SimpleNamespace(attempt=2), 4, lambda reason: None)
    starting.close()
    assert spark.asked == ["leave b", "run 4"]
