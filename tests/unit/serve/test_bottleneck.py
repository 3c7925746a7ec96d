"""What limits a job: the busiest task behind those that are held back."""

from __future__ import annotations

from mainstay.serve.bottleneck import bottleneck_of, held_workers
from mainstay.serve.documents import (
    CountsDocument,
    EdgeDocument,
    GraphDocument,
    HotKeyDocument,
    OperatorDocument,
    SubtaskDocument,
    TaskFigures,
)


def graph(*edges: tuple[str, str]) -> GraphDocument:
    names = sorted({name for edge in edges for name in edge})
    return GraphDocument(
        is_live=True,
        operators=[
            OperatorDocument(uid=n, kind="rows", name=n, parallelism=2, task=n) for n in names
        ],
        edges=[EdgeDocument.model_validate({"from": a, "to": b, "kind": "key"}) for a, b in edges],
        tasks=[],
    )


def task(
    name: str, busy: list[float], held_back: float = 0.0, rows_per_s: list[float] | None = None
) -> TaskFigures:
    rates = rows_per_s or [100.0] * len(busy)
    subtasks = [
        SubtaskDocument(
            subtask=number,
            rows=0,
            rows_per_s=rates[number],
            emitted_per_s=0.0,
            busy=each,
            backpressured=held_back,
            idle=0.0,
            busy_total_s=0.0,
            backpressured_total_s=0.0,
            idle_total_s=0.0,
            waiting_rows=1234,
            row_s=0.002,
            watermark_at=None,
            skipped=0,
        )
        for number, each in enumerate(busy)
    ]
    return TaskFigures(
        task=name,
        operators=[name],
        parallelism=len(busy),
        rows=0,
        rows_per_s=sum(rates),
        busy=max(busy),
        backpressured=held_back,
        waiting_rows=0,
        subtasks=subtasks,
    )


LINE = graph(("in", "parse"), ("parse", "sums"), ("sums", "out"))


def test_nothing_limits_a_job_that_is_not_held_back() -> None:
    assert bottleneck_of([task("in", [0.9]), task("sums", [0.99])], LINE) is None


def test_it_is_the_busiest_task_behind_the_one_that_is_held_back() -> None:
    tasks = [
        task("in", [0.1], held_back=0.8),
        task("parse", [0.2], held_back=0.7),
        task("sums", [0.5, 0.97]),
        task("out", [0.3]),
    ]
    found = bottleneck_of(tasks, LINE)
    assert found is not None
    assert found.subject == "'sums', subtask 1"
    assert found.because == [
        "'in' is held back 80% of the time.",
        "It is at work 97% of the time, 2 ms a row, with 1,234 rows in line.",
    ]
    assert found.remedy == "More parallelism, or a faster function, would help."


def test_a_busy_task_before_the_one_that_is_held_back_is_not_to_blame() -> None:
    tasks = [task("in", [0.99]), task("parse", [0.1], held_back=0.6), task("sums", [0.6])]
    found = bottleneck_of(tasks, LINE)
    assert found is not None
    assert found.subject.startswith("'sums'")


def test_a_subtask_with_most_of_the_rows_is_said_to_have_them() -> None:
    tasks = [
        task("in", [0.1], held_back=0.5),
        task("sums", [0.9, 0.1, 0.1], rows_per_s=[900.0, 50.0, 50.0]),
    ]
    found = bottleneck_of(tasks, graph(("in", "sums")))
    assert found is not None
    assert found.because[-1] == "It gets 90% of the rows of its 3 subtasks."
    assert "divide such keys" in found.remedy


def hot(found: TaskFigures, subtask: int, share: float) -> TaskFigures:
    """The same task, with a key of one subtask that has many rows."""
    counts = CountsDocument(
        uid=found.task,
        rows_in=0,
        rows_out=0,
        rows_in_per_s=0.0,
        rows_out_per_s=0.0,
        hot_keys=[HotKeyDocument(key="ada", share=share), HotKeyDocument(key="bo", share=0.1)],
    )
    subtasks = list(found.subtasks)
    subtasks[subtask] = subtasks[subtask].model_copy(update={"operators": [counts]})
    return found.model_copy(update={"subtasks": subtasks})


def test_a_key_with_much_of_the_rows_is_named_and_its_remedy_is_not_parallelism() -> None:
    tasks = [task("in", [0.1], held_back=0.5), hot(task("sums", [0.9, 0.4]), 0, 0.31)]
    found = bottleneck_of(tasks, graph(("in", "sums")))
    assert found is not None
    assert found.subject == "'sums', subtask 0: key 'ada' has 31% of its rows"
    assert "does not help" in found.remedy


def test_a_key_is_not_to_blame_if_it_has_few_rows_or_its_subtask_waits() -> None:
    for figures in (hot(task("sums", [0.9]), 0, 0.2), hot(task("sums", [0.2]), 0, 0.9)):
        found = bottleneck_of([task("in", [0.1], held_back=0.5), figures], graph(("in", "sums")))
        assert found is not None
        assert found.subject == "'sums', subtask 0"


def test_a_task_that_is_held_back_with_nothing_behind_it_waits_for_the_outside() -> None:
    found = bottleneck_of([task("in", [0.1]), task("out", [0.1], held_back=0.9)], LINE)
    assert found is not None
    assert found.subject == "'out'"
    assert "sink" in found.because[1]


def test_a_task_behind_that_has_little_to_do_waits_for_something_else() -> None:
    tasks = [task("in", [0.1], held_back=0.5), task("sums", [0.2])]
    found = bottleneck_of(tasks, graph(("in", "sums")))
    assert found is not None
    assert found.because[-1].startswith("It waits for something else")


def test_a_thread_that_is_shared_may_be_what_is_used_up() -> None:
    tasks = [task("in", [0.3, 0.0], held_back=0.5), task("sums", [0.6, 0.1])]
    joined = graph(("in", "sums"))
    found = bottleneck_of(tasks, joined)
    assert found is not None
    assert found.because[-1] == (
        "The thread that it shares with others is at work 90% of the time."
    )
    one = bottleneck_of(tasks, joined, is_one_thread=True)
    assert one is not None
    assert "at work 100% of the time" in one.because[-1]
    assert "On Spark" in one.remedy


def test_a_loop_has_an_end() -> None:
    tasks = [task("a", [0.1], held_back=0.5), task("b", [0.9])]
    found = bottleneck_of(tasks, graph(("a", "b"), ("b", "a")))
    assert found is not None
    assert found.subject.startswith("'b'")


def heard(name: str, *ages_s: float | None) -> TaskFigures:
    found = task(name, [0.0] * len(ages_s))
    ages = zip(found.subtasks, ages_s, strict=True)
    subtasks = [each.model_copy(update={"report_age_s": age_s}) for each, age_s in ages]
    return found.model_copy(update={"subtasks": subtasks})


def test_workers_that_report_are_not_held() -> None:
    assert held_workers([heard("a", 0.4, 0.5), heard("b", None, 2.9)]) == ""
    # One of its subtasks was heard lately, so its thread goes on.
    assert held_workers([heard("a", 9.0), heard("b", 0.1)]) == ""


def test_a_worker_that_does_not_report_is_named() -> None:
    assert held_workers([heard("a", 0.4, 8.2), heard("b", 0.4, 8.2)]) == (
        "Worker 1 has not reported for 8 s: a call of one of its functions has not returned."
    )
    many = held_workers([heard("a", 5.0, 9.0, 7.0)])
    assert many.startswith("Worker 1 and 2 more have not reported for 9 s")
