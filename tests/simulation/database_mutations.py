"""Bugs to plant in the RocksDB backend, whose databases the simulation keeps in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from mainstay.state.backends.cached.lists import ListCells
from mainstay.state.backends.cached.tables import CachedTable
from mainstay.state.backends.contract import Work
from mainstay.state.backends.rocksdb.backend import RocksBackend
from mainstay.state.backends.rocksdb.checkpoint import Descriptor, StoredFiles
from mainstay.state.backends.rocksdb.disk import ROWS
from mainstay.state.backends.rocksdb.generations import Generations
from mainstay.state.subtask import KeyedSubtask, Owner
from tests.simulation.planting import planting

MUTATIONS, mutation = planting()


@mutation
def a_segment_absorbed_before_it_is_durable() -> Iterator[None]:
    right = KeyedSubtask.freeze

    def early(self: Any, name: str) -> Any:
        segment = right(self, name)
        if segment is not None:
            *_, tables = self.backend.encode(segment.frozen)
            self.backend.on_durable(segment.id, tables)
        return segment

    with patch.object(KeyedSubtask, "freeze", early):
        yield


@mutation
def segments_absorbed_out_of_order() -> Iterator[None]:
    def newest(self: Any) -> Any:
        durable = [each for each in self.waiting if each.tables is not None]
        return durable[-1] if durable else None

    def absorbed(self: Any, generation: Any) -> None:
        self.generations.waiting.remove(generation)
        for table in self.tables.values():
            table.frozen = [part for part in table.frozen if part[0] != generation.number]
        self._attach()

    with (
        patch.object(Generations, "next", newest),
        patch.object(RocksBackend, "absorbed", absorbed),
    ):
        yield


@mutation
def a_checkpoint_taken_while_a_segment_is_absorbed() -> Iterator[None]:
    right = RocksBackend.next_work

    def beside(self: Any) -> Any:
        if not self.is_busy or self._wanted is None:
            return right(self)
        base, self._wanted = self._wanted, None

        def done(checkpoint: Any) -> None:
            self._to_store = (base, checkpoint)

        return Work(self.take_checkpoint, done, base.failed)

    def impatient(self: Any, storage: Any) -> Any:
        work = None
        if self._longest_due is not None and not self.chain.compacting:
            work = self._compaction(storage)
        return work or self.backend.next_work()

    with (
        patch.object(RocksBackend, "next_work", beside),
        patch.object(KeyedSubtask, "next_work", impatient),
    ):
        yield


@mutation
def a_checkpoint_stands_for_segments_that_it_does_not_hold() -> Iterator[None]:
    with patch.object(RocksBackend, "not_absorbed", frozenset()):
        yield


@mutation
def the_changes_of_a_frozen_segment_are_forgotten() -> Iterator[None]:
    right = CachedTable.freeze_as

    def forgetful(self: Any, generation: int) -> Any:
        parts = right(self, generation)
        self.frozen = []
        return parts

    with patch.object(CachedTable, "freeze_as", forgetful):
        yield


@mutation
def a_list_has_elements_that_the_database_and_memory_have_twice() -> Iterator[None]:
    right = ListCells.decode

    def of_no_generation(self: Any, cell: bytes) -> Any:
        return -1, right(self, cell)[1]

    with patch.object(ListCells, "decode", of_no_generation):
        yield


@mutation
def a_restore_forgets_the_segments_after_the_checkpoint() -> Iterator[None]:
    right = RocksBackend.restore

    def forgetful(self: Any, start: Any) -> Any:
        checkpoints = [ref for ref in start.chain if ref.format == self.disk.format]
        return right(self, replace(start, chain=checkpoints or start.chain))

    with patch.object(RocksBackend, "restore", forgetful):
        yield


@mutation
def a_rescaled_subtask_reads_too_few_files_of_a_checkpoint() -> Iterator[None]:
    right = Descriptor.needed

    def first_only(self: Any, *groups: int) -> Any:
        return right(self, *groups)[:1]

    with patch.object(Descriptor, "needed", first_only):
        yield


@mutation
def what_changes_between_checkpoints_is_stored_once() -> Iterator[None]:
    right = StoredFiles.store

    def by_name(self: Any, storage: Any, checkpoint: Any, *arguments: Any) -> Any:
        known = self.__dict__.setdefault("once", {})
        found = right(self, storage, checkpoint, *arguments)
        for name, ref in found.items():
            if not name.endswith(ROWS):
                found[name] = known.setdefault(name, ref)
        return found

    with patch.object(StoredFiles, "store", by_name):
        yield


@mutation
def attempts_store_files_of_databases_under_the_same_names() -> Iterator[None]:
    right = Owner.file_path

    def shared(self: Any, name: str) -> str:
        return right(replace(self, attempt=1), name)

    with patch.object(Owner, "file_path", shared):
        yield
