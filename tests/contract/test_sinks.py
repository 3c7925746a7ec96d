"""The contract of a sink: hidden until committed, committed once however often, by anybody.

One suite over every sink there is (``sinks.py``). A handle is all that a snapshot keeps of what a
subtask has written, so every commit here may be of another program than the one that wrote.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

from mainstay.connectors import Sink, SinkContext, SinkRecovery
from mainstay.errors import SinkError
from mainstay.schema.ipc import from_ipc, to_ipc
from tests.contract.sinks import EXAMPLES, GROUPS, Example, batch_of
from tests.sinks import prepare, write

PARALLELISM = 2


def _param(name: str) -> Any:
    if name not in GROUPS:
        return name
    return pytest.param(name, marks=[pytest.mark.services, pytest.mark.xdist_group(GROUPS[name])])


@pytest.fixture(params=[_param(name) for name in EXAMPLES])
def example(request: pytest.FixtureRequest) -> Example:
    return EXAMPLES[request.param](request)


class Handles(list[list[bytes]]):
    """The handles of an epoch, those of each subtask by itself."""

    def __add__(self, other: Handles) -> Handles:  # type: ignore[override]
        return Handles([mine + theirs for mine, theirs in zip(self, other, strict=True)])

    @property
    def all(self) -> list[bytes]:
        return [handle for of_subtask in self for handle in of_subtask]


class Attempt:
    """A sink at the driver, and its copies on the workers, in one attempt of a job."""

    def __init__(self, example: Example, number: int, restored: Handles | None = None) -> None:
        self.example, self.number = example, number
        self.sink = example.make()
        handles = Handles([[] for _ in range(PARALLELISM)]) if restored is None else restored
        if self.sink.is_global:
            self.commit(0, handles)
        self.sink.recover(SinkRecovery("out", example.lineage, number, tuple(handles.all)))
        self.workers = [self._copy() for _ in range(PARALLELISM)]
        self.writers = [
            worker.open(SinkContext("out", subtask, number, example.lineage))
            for subtask, worker in enumerate(self.workers)
        ]
        if not self.sink.is_global:
            self.commit(0, handles)

    def _copy(self) -> Sink:
        copy: Sink = cloudpickle.loads(cloudpickle.dumps(self.sink))
        return copy

    def write(self, subtask: int, *ids: int) -> None:
        write(self.writers[subtask], batch_of(*ids))

    def prepare(self, epoch: int) -> Handles:
        found = [prepare(writer, epoch) for writer in self.writers]
        return Handles([[] if handle is None else [handle] for handle in found])

    def epoch(self, epoch: int, *ids: Sequence[int]) -> Handles:
        """Rows for each subtask, and the handles of them."""
        for subtask, given in enumerate(ids):
            if given:
                self.write(subtask, *given)
        return self.prepare(epoch)

    def commit(self, epoch: int, handles: Handles) -> None:
        if self.sink.is_global:
            if handles.all:
                self.sink.commit_epoch(epoch, handles.all)
            return
        for worker, of_subtask in zip(self.workers, handles, strict=True):
            if of_subtask:
                worker.commit(of_subtask)

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


def sees(example: Example, *ids: int) -> bool:
    """Whether a reader sees these rows and no others, each once."""
    found = list(example.seen())
    assert sorted(found) == sorted(ids)
    return True


# ---------------------------------------------------------------- hidden until committed


def test_rows_are_seen_when_their_epoch_is_committed_and_not_before(example: Example) -> None:
    attempt = Attempt(example, 1)
    attempt.write(0, 1, 2)
    attempt.write(0, 3)
    assert not example.hides or sees(example)
    handles = attempt.prepare(1)
    assert not example.hides or sees(example)
    attempt.commit(1, handles)
    assert sees(example, 1, 2, 3)
    attempt.close()
    assert sees(example, 1, 2, 3)


def test_an_epoch_is_what_all_subtasks_have_written(example: Example) -> None:
    attempt = Attempt(example, 1)
    handles = attempt.epoch(1, [1, 2], [11, 12])
    later = attempt.epoch(2, [3], [13])
    attempt.commit(1, handles)
    assert not example.hides or sees(example, 1, 2, 11, 12)
    attempt.commit(2, later)
    assert sees(example, 1, 2, 11, 12, 3, 13)


def test_an_epoch_without_rows_shows_nothing(example: Example) -> None:
    attempt = Attempt(example, 1)
    for epoch in (1, 2):
        attempt.commit(epoch, attempt.epoch(epoch))
    write(attempt.writers[0], batch_of())
    attempt.commit(3, attempt.prepare(3))
    assert sees(example)
    attempt.commit(4, attempt.epoch(4, [1]))
    assert sees(example, 1)


# ---------------------------------------------------------------- committed once


def test_committing_again_changes_nothing(example: Example) -> None:
    attempt = Attempt(example, 1)
    handles = attempt.epoch(1, [1, 2], [11])
    for epoch in (1, 1, 2):
        attempt.commit(epoch, handles)
        assert sees(example, 1, 2, 11)


def test_a_handle_may_come_again_with_later_ones(example: Example) -> None:
    attempt = Attempt(example, 1)
    first = attempt.epoch(1, [1], [11])
    second = attempt.epoch(2, [2])
    third = attempt.epoch(3, [], [13])
    attempt.commit(1, first)
    attempt.commit(2, first + second)
    attempt.commit(3, second + third)
    attempt.commit(3, third)
    assert sees(example, 1, 11, 2, 13)


def test_the_handles_of_an_epoch_that_failed_go_with_the_next(example: Example) -> None:
    attempt = Attempt(example, 1)
    handles = attempt.epoch(1, [1], [11]) + attempt.epoch(2, [2], [12]) + attempt.epoch(3, [3])
    attempt.commit(3, handles)
    assert sees(example, 1, 11, 2, 12, 3)


def test_epochs_are_seen_in_their_order(example: Example) -> None:
    if not example.is_ordered:
        pytest.skip("readers of this target go by no order")
    attempt = Attempt(example, 1)
    attempt.commit(1, attempt.epoch(1, [5, 4]))
    attempt.commit(3, attempt.epoch(2, [3, 9]) + attempt.epoch(3, [1]))
    assert example.seen() == [5, 4, 3, 9, 1]


# ---------------------------------------------------------------- by anybody


def test_a_handle_can_be_committed_by_another_program(example: Example) -> None:
    handles = Attempt(example, 1).epoch(1, [1, 2], [11])  # and it crashes
    restored = Handles([[bytes(handle) for handle in of_subtask] for of_subtask in handles])
    attempt = Attempt(example, 2, restored)
    assert sees(example, 1, 2, 11)
    attempt.commit(2, restored + attempt.epoch(2, [3]))
    assert not example.remembers or sees(example, 1, 2, 11, 3)


def test_what_was_committed_is_known_to_another_program(example: Example) -> None:
    if not example.remembers:
        pytest.skip("this target forgets with the program that wrote to it")
    first = Attempt(example, 1)
    handles = first.epoch(1, [1, 2], [11])
    first.commit(1, handles)
    second = Attempt(example, 2, handles)
    second.commit(2, handles)
    assert sees(example, 1, 2, 11)


def test_the_handles_of_two_subtasks_can_be_committed_by_one(example: Example) -> None:
    handles = Attempt(example, 1).epoch(1, [1], [11])
    Attempt(example, 2, Handles([handles.all, []]))
    assert sees(example, 1, 11)


# ---------------------------------------------------------------- what no snapshot knows of


def test_rows_that_no_restored_epoch_knows_of_are_never_seen(example: Example) -> None:
    if not example.hides:
        pytest.skip("rows are written as they come")
    first = Attempt(example, 1)
    known = first.epoch(1, [1], [11])
    first.epoch(2, [2], [12])
    first.write(0, 3)  # and it crashes
    second = Attempt(example, 2, known)
    assert sees(example, 1, 11)
    second.commit(3, second.epoch(3, [2, 3], [12]))
    assert sees(example, 1, 11, 2, 3, 12)
    Attempt(example, 3)
    assert sees(example, 1, 11, 2, 3, 12)


def test_a_writer_can_be_closed_at_any_time_and_again(example: Example) -> None:
    for number in (1, 2, 3):
        attempt = Attempt(example, number)
        if number > 1:
            attempt.write(0, number)
        if number > 2:
            attempt.prepare(1)
        attempt.close()
        attempt.close()
    assert not example.hides or sees(example)


# ---------------------------------------------------------------- handles


def newer(handle: bytes) -> bytes:
    """The handle as a version of Mainstay to come would write it, in whichever form it is."""
    head, _, rest = handle.partition(b"\n")
    try:
        about: Any = json.loads(head)
    except ValueError:
        table = from_ipc(handle)
        noted = {key: json.loads(text) for key, text in _notes(table.schema).items()}
        notes = {key: json.dumps([99, *about[1:]]) for key, about in noted.items()}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **notes})
        return to_ipc(table.to_batches(), table.schema)
    if isinstance(about, list):
        return json.dumps([99, *about[1:]]).encode() + b"\n" + rest
    version = "version" if "version" in about else "format"
    assert version in about, f"{about} does not say its version"
    return json.dumps({**about, version: 99}).encode()


def _notes(schema: pa.Schema) -> dict[bytes, bytes]:
    """What the sink itself has noted in the schema of the rows."""
    metadata: dict[bytes, bytes] = schema.metadata
    notes = {key: text for key, text in metadata.items() if text.startswith(b"[")}
    assert notes
    assert all(isinstance(json.loads(text)[0], int) for text in notes.values()), "has no version"
    return notes


def test_a_handle_of_a_newer_version_is_refused(
    example: Example, request: pytest.FixtureRequest
) -> None:
    if request.node.callspec.params["example"] == "two_phase":
        pytest.skip("the handles are those of whoever writes the sink")
    attempt = Attempt(example, 1)
    handles = attempt.epoch(1, [1, 2])
    if not handles.all:
        pytest.skip("it has no handles")
    with pytest.raises(SinkError, match=r"(?i)version|format"):
        attempt.commit(1, Handles([[newer(handle) for handle in each] for each in handles]))
    assert sees(example)
    attempt.commit(1, handles)
    assert sees(example, 1, 2)
