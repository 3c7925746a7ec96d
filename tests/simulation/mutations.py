"""Bugs to plant in the core, one at a time, each breaking one rule in a line or two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from mainstay.runtime.coordinator.attempt import RunningAttempt
from mainstay.runtime.coordinator.claims import Claims
from mainstay.runtime.coordinator.epochs import EpochBook
from mainstay.runtime.coordinator.global_commits import GlobalCommits
from mainstay.runtime.coordinator.manifests import manifest_of
from mainstay.runtime.coordinator.restart import Restarts
from mainstay.runtime.coordinator.savepoints import Savepoints
from mainstay.runtime.coordinator.snapshot_coordinator import SnapshotCoordinator
from mainstay.runtime.deferred import Late
from mainstay.runtime.messages import EndOfInput, Marker
from mainstay.runtime.operators.backlog import Backlog
from mainstay.runtime.operators.sink import SinkOperator
from mainstay.runtime.operators.source import ReadingSplit
from mainstay.runtime.worker.alignment import Action, Aligner, Verdict
from mainstay.runtime.worker.durability import Durability
from mainstay.runtime.worker.gate import Gate
from mainstay.runtime.worker.inputs.gated import GateInput
from mainstay.runtime.worker.inputs.source import SourceInput
from mainstay.runtime.worker.member import Cut, Member
from mainstay.runtime.worker.output import OutputChannel
from mainstay.runtime.worker.pace import Pace
from mainstay.runtime.worker.task import Task
from mainstay.snapshot import shared
from mainstay.snapshot.history import History
from mainstay.snapshot.retention import Retention
from mainstay.snapshot.shared import Stored
from mainstay.state import values
from mainstay.state.chain import SegmentChain
from mainstay.state.stored_key import StoredKey
from mainstay.state.subtask import KeyedSubtask
from tests.simulation.planting import planting

MUTATIONS, mutation = planting()


@mutation
def marker_not_broadcast() -> Iterator[None]:
    def first_only(self: Any, epoch: Any) -> None:
        for output in self.outputs[:1]:
            output.channels[0].send_control(Marker(epoch))

    with patch.object(Task, "_broadcast", first_only):
        yield


@mutation
def channel_unblocked_early() -> Iterator[None]:
    with patch.object(Gate, "block", lambda self, number: None):
        yield


@mutation
def snapshot_taken_before_all_markers() -> Iterator[None]:
    right = Aligner.on_marker

    def first_will_do(self: Any, channel: int, epoch: Any) -> Verdict:
        verdict = right(self, channel, epoch)
        if verdict.action is Action.BLOCK:
            self._finish(epoch)
            return Verdict(Action.SNAPSHOT, verdict.abandoned)
        return verdict

    with patch.object(Aligner, "on_marker", first_will_do):
        yield


@mutation
def sink_committed_before_the_slot() -> Iterator[None]:
    right = SinkOperator.before_marker

    def at_once(self: Any, epoch: Any) -> None:
        right(self, epoch)
        handles = [p.handle for p in self._prepared if p.epoch == epoch and p.handle]
        self._sink.commit(handles)  # what it should only do when the epoch is in the log

    with patch.object(SinkOperator, "before_marker", at_once):
        yield


@mutation
def an_old_attempts_acknowledgement_accepted() -> Iterator[None]:
    with patch.object(RunningAttempt, "_is_own", lambda self, message: True):
        yield


@mutation
def an_aborted_epochs_segment_dropped() -> Iterator[None]:
    right = Task.on_abort

    def drop(self: Any, epoch: Any) -> None:
        right(self, epoch)
        for member in self.members:
            if member.keyed is None:
                continue
            chain = member.keyed.chain
            chain.segments = tuple(s for s in chain.segments if not s.id.endswith(f"-e{epoch}"))

    with patch.object(Task, "on_abort", drop):
        yield


@mutation
def a_segment_applied_twice() -> Iterator[None]:
    right = Member.read

    def last_twice(self: Any, storage: Any, state: Any, origin: Any) -> Any:
        chain = (*state.chain, *state.chain[-1:])
        return right(self, storage, replace(state, chain=chain), origin)

    with patch.object(Member, "read", last_twice):
        yield


@mutation
def a_file_deleted_on_abort() -> Iterator[None]:
    right = SnapshotCoordinator._abort

    def delete(self: Any, epoch: Any, reason: str) -> None:
        pending = self.book.pending.get(epoch)
        paths = [] if pending is None else self.book.pending_files()
        right(self, epoch, reason)
        storage = self._ports.storage

        def work() -> None:
            for path in paths:
                storage.delete(path)

        self._ports.background.submit(work, lambda _: None, lambda _: None)

    with patch.object(SnapshotCoordinator, "_abort", delete):
        yield


@mutation
def a_mutable_value_stored_by_reference() -> Iterator[None]:
    freezer, thawer = values.freezer, values._thawer

    def by_reference(right: Any) -> Any:
        def conversion(arrow: Any) -> Any:
            return (lambda value: value) if str(arrow).startswith("list") else right(arrow)

        return conversion

    with (
        patch.object(values, "freezer", by_reference(freezer)),
        patch.object(values, "_thawer", by_reference(thawer)),
    ):
        yield


@mutation
def a_finished_source_stops_answering() -> Iterator[None]:
    right = SourceInput.on_trigger

    def silent(self: Any, epoch: Any, *, is_last: bool = False) -> None:
        if not self._chain.ended:
            right(self, epoch, is_last=is_last)

    with patch.object(SourceInput, "on_trigger", silent):
        yield


@mutation
def acknowledged_before_durable() -> Iterator[None]:
    right = Durability.begin

    def at_once(self: Any, pending: Any) -> None:
        right(self, pending)
        if pending in self._pending:
            self._pending.remove(pending)
            states = {}
            for operator, cut in pending.cuts:
                durable = tuple(s for s in cut.segments if s.is_durable)
                states[operator.uid] = operator.acknowledged(type(cut)(durable, cut.units))
            self._acknowledged(pending.epoch, states, type(self)._figures())

    with (
        patch.object(Durability, "begin", at_once),
        patch.object(Durability, "_figures", staticmethod(_no_figures), create=True),
    ):
        yield


def _no_figures() -> Any:
    from mainstay.runtime.messages import Figures

    return Figures()


@mutation
def acknowledged_before_deferred_work_is_done() -> Iterator[None]:
    def too_soon(self: Any) -> bool:
        return all(segment.is_durable for segment in self.segments)

    with (
        patch.object(Cut, "is_durable", property(too_soon)),
        patch.object(Late, "units", lambda self: self._units()),
    ):
        yield


@mutation
def the_deferred_part_of_a_cut_forgotten() -> Iterator[None]:
    with patch.object(Late, "units", lambda self: {}):
        yield


@mutation
def deferred_work_dropped_when_it_fails() -> Iterator[None]:
    right = Backlog._on_failure

    def drop(self: Any, error: Exception) -> None:
        right(self, error)
        self._pieces.popleft()
        self.done += 1
        self._settled()
        self.hurry()

    with patch.object(Backlog, "_on_failure", drop):
        yield


@mutation
def deferred_work_done_out_of_order() -> Iterator[None]:
    right = Backlog.add

    def overtaking(self: Any, work: Any, done: Any) -> None:
        right(self, work, done)
        if len(self._pieces) > 2:
            self._pieces[-2], self._pieces[-1] = self._pieces[-1], self._pieces[-2]

    with patch.object(Backlog, "add", overtaking):
        yield


@mutation
def a_handle_forgotten_when_its_epoch_is_given_up() -> Iterator[None]:
    right = SinkOperator._on_backlog_failure

    def forget(self: Any, error: Exception) -> None:
        right(self, error)
        for prepared in [p for p in self._prepared if p.handle is None]:
            self._prepared.remove(prepared)

    with patch.object(SinkOperator, "_on_backlog_failure", forget):
        yield


@mutation
def changes_after_the_marker_leak_into_the_snapshot() -> Iterator[None]:
    def shared(self: Any) -> Any:
        return [self.changes] if self.changes else []

    from mainstay.state.backends.heap.tables import HeapTable

    with patch.object(HeapTable, "freeze", shared):
        yield


@mutation
def a_marker_overtakes_rows() -> Iterator[None]:
    def overtaking(self: Any, element: Any) -> None:
        if isinstance(element, Marker) and self._gathered:
            self._enqueue(element)
            self.flush()
        else:
            self.flush()
            self._enqueue(element)

    with patch.object(OutputChannel, "send_control", overtaking):
        yield


@mutation
def what_is_left_of_a_slice_forgotten() -> Iterator[None]:
    with patch.object(Pace, "resume", lambda self, max_rows: self._rests.clear()):
        yield


@mutation
def rows_that_a_source_took_back_are_not_read_again() -> Iterator[None]:
    def lost(self: Any, place: int) -> int:
        self._rests.pop(place, None)
        return 0

    with patch.object(Pace, "give_back", lost):
        yield


@mutation
def a_marker_overtakes_what_is_left_of_a_slice() -> Iterator[None]:
    right = Task.step

    def markers_first(self: Any) -> bool:
        if self.chain._pace.has_rest and isinstance(self.input, GateInput):
            taken = self.input.gate.take_control()
            if taken is not None:
                self.input._take(*taken)
                return True
        return right(self)

    with (
        patch.object(Task, "step", markers_first),
        patch.object(Pace, "finish", lambda self, max_rows, *, behind_head: self.end()),
    ):
        yield


@mutation
def a_restored_reader_skips_nothing() -> Iterator[None]:
    right = ReadingSplit.from_unit

    def from_start(text: str) -> ReadingSplit:
        reading = right(text)
        reading.to_skip = 0
        return reading

    with patch.object(ReadingSplit, "from_unit", staticmethod(from_start)):
        yield


@mutation
def handles_of_a_restored_snapshot_are_forgotten() -> Iterator[None]:
    right = SinkOperator.open

    def forgetful(self: Any, context: Any) -> None:
        context.lists["handles"].clear()
        right(self, context)

    with (
        patch.object(SinkOperator, "open", forgetful),
        patch.object(GlobalCommits, "start", lambda self, restored: None),
    ):
        yield


@mutation
def a_global_sink_committed_when_the_manifest_is_written() -> Iterator[None]:
    right = SnapshotCoordinator._commit

    def early(self: Any, pending: Any) -> None:
        right(self, pending)
        manifest = manifest_of(pending, self._attempt, self._job, self._options)
        self._commits.epoch_complete(manifest)

    with patch.object(SnapshotCoordinator, "_commit", early):
        yield


@mutation
def the_slot_tried_for_before_the_manifest_is_durable() -> Iterator[None]:
    def early(self: Any, write: Any, won: Any, failed: Any, **_: Any) -> None:
        with patch.object(type(self._ports.storage), "write", lambda *_: None):
            record = write()  # nothing is written yet

        def then() -> None:
            self._ports.background.submit(write, lambda _: None, lambda _: None)
            won(record)

        self.claim(record, then, failed)

    with patch.object(Claims, "commit", early):
        yield


@mutation
def restart_does_not_wait_for_the_claim_under_way() -> Iterator[None]:
    def impatient(self: Any, now: float) -> bool:
        return self.at is not None and now >= self.at

    right = Claims.claim

    def twice(self: Any, *arguments: Any) -> None:
        self._is_busy = False
        right(self, *arguments)

    with (
        patch.object(Restarts, "_is_due", impatient),
        patch.object(Claims, "claim", twice),
    ):
        yield


@mutation
def retention_forgets_that_epochs_share_files() -> Iterator[None]:
    def careless(self: Any, place: Any, manifest: Any, *_: Any) -> list[str]:
        self._kept.append((place, frozenset(file.path for file in manifest.files())))
        retired, self._kept = self._kept[: -self._retain], self._kept[-self._retain :]
        return [path for _, files in retired for path in files]

    with patch.object(Retention, "completed", careless):
        yield


@mutation
def the_parts_of_a_shared_file_all_begin_at_its_beginning() -> Iterator[None]:
    right = shared._placed

    def misplaced(path: str, made: Any) -> Any:
        found = right(path, made)
        start = min(each.file.start for each in found if isinstance(each, Stored))
        return [
            replace(each, file=replace(each.file, start=start))
            if isinstance(each, Stored)
            else each
            for each in found
        ]

    with patch.object(shared, "_placed", misplaced):
        yield


@mutation
def compaction_loses_the_newest_segment() -> Iterator[None]:
    right = SegmentChain.end_compaction

    def lossy(self: Any, ref: Any) -> None:
        right(self, ref)
        if len(self.segments) > 1 and self.segments[-1].is_durable:
            self.segments = self.segments[:-1]

    with patch.object(SegmentChain, "end_compaction", lossy):
        yield


@mutation
def a_rescaled_subtask_reads_foreign_key_groups() -> Iterator[None]:
    from mainstay.snapshot.manifest import SegmentRef

    with patch.object(SegmentRef, "clipped", lambda self, first, last: self):
        yield


@mutation
def the_key_group_of_a_row_follows_from_its_namespace_too() -> Iterator[None]:
    with patch.object(StoredKey, "hashed", lambda self, column: [column]):
        yield


@mutation
def the_files_of_a_savepoint_are_not_pinned() -> Iterator[None]:
    with patch.object(Savepoints, "pinned", lambda self: set()):
        yield


@mutation
def the_savepoint_is_forgotten_while_there_is_no_epoch() -> Iterator[None]:
    with patch.object(History, "origin", None):
        yield


@mutation
def a_restored_job_builds_on_the_files_of_the_savepoint() -> Iterator[None]:
    right = KeyedSubtask.read

    def careless(self: Any, *arguments: Any, is_foreign: bool, is_converted: bool) -> Any:
        return right(self, *arguments, is_foreign=False, is_converted=is_converted)

    with patch.object(KeyedSubtask, "read", careless):
        yield


@mutation
def the_end_of_input_ends_the_markers() -> Iterator[None]:
    right = OutputChannel.send_control

    def deaf(self: Any, element: Any) -> None:
        if getattr(self, "_over", False):
            return
        self._over = isinstance(element, EndOfInput)
        right(self, element)

    with patch.object(OutputChannel, "send_control", deaf):
        yield


@mutation
def split_notes_taken_at_completion() -> Iterator[None]:
    right = EpochBook.acknowledge

    def late(self: Any, message: Any) -> Any:
        pending = right(self, message)
        if pending is not None:
            for notes in pending.sources.values():
                notes["complete"] = True
        return pending

    with patch.object(EpochBook, "acknowledge", late):
        yield


@mutation
def operator_state_not_copied() -> Iterator[None]:
    from mainstay.state.operator import OperatorList

    right_freeze = Member.freeze

    def aliased(self: Any, epoch: Any) -> Any:
        cut = right_freeze(self, epoch)
        return type(cut)(cut.segments, {name: h._kept for name, h in self.lists.items()})

    with (
        patch.object(Member, "freeze", aliased),
        patch.object(OperatorList, "update", _update_in_place),
    ):
        yield


def _update_in_place(self: Any, new: Any) -> None:
    self._kept[:] = [self._freeze(value) for value in new]
