"""What will be different, of what is seen in a processor. The page "Coming from transformWithState"
has the whole list."""

from __future__ import annotations

from collections.abc import Iterator

from mainstay.spark.checking.findings import DIFFERENT, UNSUPPORTED, Finding
from mainstay.spark.checking.source_calls import HANDLE, LIST, MAP, TIMES, VALUE, ClassCalls

_RULES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        HANDLE,
        ("registerTimer",),
        "timers also fire while no rows come; one that a handler sets for a time that has come "
        "waits for the next pass",
    ),
    (
        TIMES,
        ("getCurrentProcessingTimeInMs",),
        "the clock stands still for a slice, not for a micro-batch",
    ),
    (
        TIMES,
        ("getCurrentWatermarkInMs",),
        "the watermark moves between slices, and comes from watermark= of a source",
    ),
    (
        HANDLE,
        ("deleteIfExists",),
        "the state is dropped when a job is restored that had it",
    ),
    (MAP, ("iterator", "keys", "values"), "maps are iterated in the order of insertion"),
)
_WRITES = (
    (VALUE, ("update",)),
    (LIST, ("put", "appendValue", "appendList")),
    (MAP, ("updateValue",)),
)


def differences(calls: ClassCalls) -> Iterator[Finding]:
    """Findings about a processor, of what it does."""
    for call in calls.found():
        if not call.is_supported:
            text = f"{call} is no method that PySpark's class has in Python"
            yield Finding(UNSUPPORTED, text, call.lines[0])
    if "handleInputRows" in calls.methods:
        text = "handleInputRows is called for each key and slice; group= makes slices longer"
        yield Finding(DIFFERENT, text)
    for name, line in sorted(calls.changed.items(), key=lambda each: each[1]):
        yield Finding(
            DIFFERENT,
            f"self.{name} is changed outside of init: it lives as long as an attempt and is shared "
            "by keys, where Spark makes a new object for each partition and micro-batch. What must "
            "last belongs into a state",
            line,
        )
    for on, methods, text in _RULES:
        lines = calls.lines_of(on, *methods)
        if lines:
            yield Finding(DIFFERENT, text, lines[0])
    writes = [line for on, methods in _WRITES for line in calls.lines_of(on, *methods)]
    if writes:
        text = "a value that does not fit its type is refused, where Spark stores null or a part"
        yield Finding(DIFFERENT, text, min(writes))
    if "handleInitialState" in calls.methods:
        text = "initialState= is initial_state=: a stream that has an end, or a source"
        yield Finding(DIFFERENT, text)
