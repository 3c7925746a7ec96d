"""What is made of the error of a failed Spark job, and which Spark jobs are cancelled when."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from mainstay.spark.launcher import summary

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
