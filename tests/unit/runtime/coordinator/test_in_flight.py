"""In-flight rows in a restore: who takes them, and what is refused with a way on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.errors import GraphError, RestoreError
from mainstay.plan.planning import plan_of
from mainstay.runtime.coordinator.in_flight import without_channels
from mainstay.runtime.coordinator.origin import manifest_of_savepoint
from mainstay.runtime.coordinator.recovery import plan_restore
from mainstay.runtime.coordinator.savepoint_writing import pieces_of, savepoint_of
from mainstay.runtime.deployment import InFlight
from mainstay.runtime.edge_names import EdgeName, edge_name
from mainstay.runtime.feedback_log import bytes_of, rows_of
from mainstay.runtime.options import JobOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.own_states import INCOMING
from mainstay.runtime.spec import Broadcast, Forward, HashByKey, JobSpec, Rebalance, Tuning
from mainstay.runtime.worker.replays import Replays, own_rows
from mainstay.snapshot.manifest import Manifest
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.units import with_units
from mainstay.state.keygroups import range_of
from mainstay.testing.inspect import latest_manifest
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation

ROW = "id long, key string"
ROWS = [(number, f"k{number % 5}") for number in range(200)]


class Seen(ms.KeyedProcess):
    """Every id under its key."""

    ids = ms.ListState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.ids.add(row.id)
        yield tuple(row)


def planned(build: Callable[[Any], Any], parallelism: int = 2, mode: str = "unaligned") -> JobSpec:
    env = ms.Environment(parallelism=parallelism, max_parallelism=16, mode=mode)
    rows = env.source(ms.connectors.Rows(ROW, ROWS, splits=3), uid="in")
    build(rows).sink(ms.connectors.Memory(), uid="out")
    graph, _ = replaced(env.graph(), {}, ms.connectors.Memory)
    return plan_of(graph)


def named(rows: Any) -> Any:
    return rows.rebalance().map(tuple, ROW, uid="map").key_by("key").process(Seen(), ROW, uid="s")


def unnamed(rows: Any) -> Any:
    return rows.rebalance().map(tuple, ROW).key_by("key").process(Seen(), ROW, uid="s")


def looped(rows: Any) -> Any:
    def body(head: Any) -> Any:
        mapped = head.map(lambda row: (row.id - 50, row.key), ROW, uid="map")
        back = mapped.filter(lambda row: row.id > 0, uid="back")
        return back, mapped.filter(lambda row: row.id <= 0, uid="on")

    return rows.iterate(body, uid="loop").key_by("key").process(Seen(), ROW, uid="s")


@cache
def simulated(build: Callable[[Any], Any]) -> Simulation:
    """A job that is cancelled when its second epoch is complete."""
    options = JobOptions(
        name="job",
        lineage="job",
        snapshots=SnapshotOptions(every_s=0.02, retain=1),
        restore=RestoreOptions("new"),
        tuning=Tuning(window_bytes=100, least_window_bytes=100, batch_rows=4, max_slice_rows=6),
    )
    settings = SimulationSettings(seed=1, stop_after_epochs=2)
    simulation = Simulation(planned(build), options, settings, MemoryStorage())
    simulation.run()
    return simulation


def epoch_of(build: Callable[[Any], Any]) -> Manifest:
    """An unaligned epoch with in-flight rows to two operators."""
    storage = simulated(build).storage
    manifest = latest_manifest(storage)
    assert manifest is not None
    return with_units(storage, manifest)


def taken(manifest: Manifest, job: JobSpec) -> dict[str, tuple[InFlight, ...]]:
    states = plan_restore(manifest, job, frozenset()).states
    return {uid: state.in_flight for (uid, _), state in states.items() if state.in_flight}


# ---------------------------------------------------------------- names


def test_the_name_of_an_edge_does_not_depend_on_chains_or_parallelism() -> None:
    def more_chained(rows: Any) -> Any:
        filtered = rows.filter(lambda row: True, uid="filter", parallelism=3)
        return named(filtered)

    def edge_to(uid: str, job: JobSpec) -> EdgeName:
        return next(e.name for task in job.tasks for e in task.inputs if e.receiver == uid)

    assert edge_to("s", planned(named)) == edge_to("s", planned(more_chained, parallelism=4))
    assert edge_to("s", planned(named)) == EdgeName("map", "HashByKey", "s", 0)
    assert edge_to("map", planned(named)).text == '["in", "Rebalance", "map", 0, null, 0]'


def test_a_name_is_read_back_and_so_is_one_of_an_older_version() -> None:
    name = EdgeName("a", "Rebalance", "b", 1, "0f", 3)
    assert edge_name(name.text) == name
    old = edge_name('["chain", 2, "b", 1]')
    assert (old.is_old, old.sender, old.place, old.consumer, old.port) == (True, "chain", 2, "b", 1)


# ---------------------------------------------------------------- who takes them


class Divided(ms.KeyedProcess):
    """Rows go to either of two outputs."""

    odd = ms.SideOutput(ROW)

    def process(self, row: Any, ctx: Any) -> Any:
        if row.id % 2:
            return self.odd.emit(tuple(row))
        return tuple(row)


class Rejoined(ms.CoKeyedProcess):
    def process_left(self, row: Any, ctx: Any) -> Any:
        return row

    process_right = process_left


def divided(rows: Any) -> Any:
    """What is in flight from a side goes to another input than what is from the main output."""
    even = rows.key_by("id").process(Divided(), ROW, uid="divided")
    both = even.key_by("key").connect(even.side("odd").key_by("key"))
    joined = both.process(Rejoined(), ROW, uid="joined")
    return joined.key_by("key").process(Seen(), ROW, uid="s")


def test_the_rows_of_a_side_go_to_the_input_that_reads_it() -> None:
    job = planned(divided)
    units = taken(epoch_of(divided), job)["joined"]
    sides = {edge_name(unit.edge).side: unit.port for unit in units}
    assert sides == {"": 0, "odd": 1}, "the epoch holds rows of both"
    for unit in units:
        numbers = [row["id"] % 2 for batch in rows_of(unit.rows) for row in batch.to_pylist()]
        assert set(numbers) == {unit.port}


def swapped(rows: Any) -> Any:
    """The same, with the inputs in the other order."""
    even = rows.key_by("id").process(Divided(), ROW, uid="divided")
    both = even.side("odd").key_by("key").connect(even.key_by("key"))
    joined = both.process(Rejoined(), ROW, uid="joined")
    return joined.key_by("key").process(Seen(), ROW, uid="s")


def test_rows_follow_their_sender_to_the_input_that_it_feeds_now() -> None:
    units = taken(epoch_of(divided), planned(swapped))["joined"]
    assert {edge_name(unit.edge).side: unit.port for unit in units} == {"": 1, "odd": 0}


def test_a_side_that_comes_or_goes_needs_no_word() -> None:
    def plain(rows: Any) -> Any:
        return rows.key_by("key").process(Seen(), ROW, uid="s")

    def with_a_side(rows: Any) -> Any:
        class SeenAndTold(Seen):
            told = ms.SideOutput("id long")

        seen = rows.key_by("key").process(SeenAndTold(), ROW, uid="s")
        seen.side("told").sink(ms.connectors.Memory(), uid="told")
        return seen

    for before, after in ((plain, with_a_side), (with_a_side, plain)):
        report = plan_restore(epoch_of(before), planned(after), frozenset()).report
        assert not any("s.ids" in line and "dropped" in line for line in report), report


def test_every_mode_and_parallelism_takes_them() -> None:
    stored = epoch_of(named)
    for mode in ("unaligned", "exactly_once", "at_least_once"):
        for parallelism in (1, 2, 5):
            assert set(taken(stored, planned(named, parallelism, mode))) == {"map", "s"}


def test_a_restore_reports_them_and_no_state_of_that_name() -> None:
    report = plan_restore(epoch_of(named), planned(named), frozenset()).report
    assert "in-flight rows go on to operator 'map'" in report
    assert not any("channels_" in line for line in report)


def test_an_operator_without_a_uid_takes_them_while_its_like_are_the_same() -> None:
    def inserted(rows: Any) -> Any:
        mapped = rows.map(tuple, ROW).map(tuple, ROW, uid="between")
        return mapped.filter(lambda row: True, uid="f").key_by("key").process(Seen(), ROW, uid="s")

    assert set(taken(epoch_of(unnamed), planned(inserted, 3, "exactly_once"))) == {"map-1", "s"}


def rows_of_keys(*keys: str) -> bytes:
    columns = [pa.array(range(len(keys))), pa.array(keys)]
    return bytes_of([pa.record_batch(columns, names=["id", "key"])])


def shares(partitioning: Any, units: int = 4, parallelism: int = 3) -> list[list[int]]:
    """How many rows each subtask gets, by the number of the unit that they are in."""
    data = rows_of_keys(*"abcdefgh")
    given = [InFlight(f"{n}", 0, n, partitioning, data, n) for n in range(units)]
    found = []
    for subtask in range(parallelism):
        groups = range_of(subtask, parallelism, 16)
        own = own_rows(given, subtask, parallelism, groups, 16)
        rows = {unit.subtask: batch.num_rows for unit, batch in own}
        found.append([rows.get(number, 0) for number in range(units)])
    return found


def test_rows_go_to_subtasks_as_the_edge_sends_them_now() -> None:
    task = next(task for task in planned(named).tasks if task.id == "s")
    hashed = shares(task.inputs[0].partitioning)
    assert isinstance(task.inputs[0].partitioning, HashByKey)
    assert [sum(of_unit) for of_unit in zip(*hashed, strict=True)] == [8, 8, 8, 8]
    assert all(sum(of_subtask) for of_subtask in hashed)
    assert shares(Broadcast()) == [[8, 8, 8, 8]] * 3
    assert shares(Rebalance()) == [[8, 0, 0, 8], [0, 8, 0, 0], [0, 0, 8, 0]]
    assert shares(Forward()) == [[8, 0, 0, 8], [0, 8, 0, 0], [0, 0, 8, 0]]


def test_what_is_not_taken_yet_is_in_flight_still() -> None:
    replays = Replays()
    batch = pa.record_batch([pa.array(range(10))], names=["id"])
    replays.add(2, 0, "later", batch)
    replays.add(0, 1, "first", batch)
    assert replays.take(4)[:2] == (2, 0)
    assert [(edge, rows.num_rows) for edge, rows in replays.kept()] == [("later", 6), ("first", 10)]
    assert replays.take(100)[3].column(0).to_pylist() == [4, 5, 6, 7, 8, 9]
    assert replays.take(100)[:2] == (0, 1)
    assert replays.is_empty


def test_a_savepoint_that_is_made_of_an_unaligned_epoch_has_its_in_flight_rows() -> None:
    storage, manifest, target = simulated(named).storage, epoch_of(named), MemoryStorage()
    written = [each for piece in pieces_of(manifest) for each in piece.write(storage, target)]
    savepoint = savepoint_of(manifest, planned(named), written)
    job = planned(named, 3, "exactly_once")
    assert taken(manifest_of_savepoint(target, savepoint), job) == taken(manifest, job)


# ---------------------------------------------------------------- what is refused


def refused(manifest: Manifest, job: JobSpec, *allowed: str) -> str:
    with pytest.raises(RestoreError) as raised:
        plan_restore(manifest, job, frozenset(allowed))
    text = str(raised.value)
    assert 'end it with a savepoint, job.stop("path")' in text
    assert "allow_dropped=[" not in text or allowed
    return text


def test_in_flight_rows_are_never_dropped() -> None:
    stored = epoch_of(named)
    told = refused(stored, planned(named, mode="exactly_once"), "map.channels_in")
    assert "allow_dropped=['map.channels_in']: this is no state of the program" in told


def test_an_operator_that_is_gone_leaves_its_in_flight_rows_to_nobody() -> None:
    def without(rows: Any) -> Any:
        return rows.key_by("key").process(Seen(), ROW, uid="s")

    told = refused(epoch_of(named), planned(without))
    assert "in-flight rows from operator 'in' to operator 'map' (input 0)" in told
    assert "the job has no operator 'map'" in told


def test_rows_of_other_columns_are_refused_with_those_that_there_are() -> None:
    def widened(rows: Any) -> Any:
        wide = rows.map(lambda row: (row.id, row.key, 1), f"{ROW}, n int", uid="widen")
        mapped = wide.rebalance().map(lambda row: tuple(row)[:2], ROW, uid="map")
        return mapped.key_by("key").process(Seen(), ROW, uid="s")

    told = refused(epoch_of(named), planned(widened))
    assert "the operator does not take such rows any more" in told
    assert "id long, key string" in told


def test_an_operator_without_a_uid_is_not_taken_for_another() -> None:
    def inserted(rows: Any) -> Any:
        mapped = rows.map(tuple, ROW).rebalance().map(tuple, ROW)
        return mapped.key_by("key").process(Seen(), ROW, uid="s")

    told = refused(epoch_of(unnamed), planned(inserted))
    assert "'map-1' may be another operator now" in told


def test_a_loop_that_is_gone_names_the_way_that_loses_nothing_first() -> None:
    stored = epoch_of(looped)
    with pytest.raises(RestoreError, match=r"job\.stop\(drain=True\).*allow_dropped=\['loop\."):
        plan_restore(stored, planned(named), frozenset())


def test_a_state_may_not_be_called_like_in_flight_rows_in_unaligned_mode() -> None:
    class Clashing(ms.Process):
        channels_in = ms.OperatorListState("long", redistribute="split")

        def process(self, row: Any, ctx: Any) -> Any:
            return tuple(row)

    env = ms.Environment(mode="unaligned")
    rows = env.source(ms.connectors.Rows(ROW, ROWS), uid="in").rebalance()
    rows.process(Clashing(), ROW, uid="clash").sink(ms.connectors.Memory(), uid="out")
    with pytest.raises(GraphError, match=r"operator 'clash' .*'channels_in'.*Call it another name"):
        env.plan()


def test_the_uid_of_an_operator_that_had_none_can_be_written_down() -> None:
    def written(rows: Any) -> Any:
        mapped = rows.map(tuple, ROW, uid="new").rebalance().map(tuple, ROW, uid="map-1")
        return mapped.key_by("key").process(Seen(), ROW, uid="s")

    assert set(taken(epoch_of(unnamed), planned(written))) == {"map-1", "s"}


def counted(*uids: str | None) -> Callable[[Any], Any]:
    """A program with keyed operators in a row."""

    def build(rows: Any) -> Any:
        for uid in uids:
            rows = rows.key_by("key").process(Seen(), ROW, uid=uid)
        return rows

    return build


one_unnamed = counted(None)


def test_state_is_not_given_to_another_operator_that_has_its_number_now() -> None:
    stored = without_channels(epoch_of(one_unnamed))
    with pytest.raises(RestoreError, match=r"'process-1' has no uid .*Write uid='process-1' at"):
        plan_restore(stored, planned(counted(None, None)), frozenset())
    for same in (one_unnamed, counted("new", "process-1"), counted(None, "new")):
        states = plan_restore(stored, planned(same, 3, "exactly_once"), frozenset()).states
        assert states["process-1", 0].chain


# ---------------------------------------------------------------- figures


def test_the_size_of_an_epoch_counts_in_flight_rows_in_the_manifest() -> None:
    manifest = epoch_of(named)
    record = next(r for r in simulated(named).records if r.epoch == manifest.epoch)
    tasks = [task for operator in manifest.operators.values() for task in operator.subtasks]
    units = [each for task in tasks for each in task.units.values() if each.count]
    new = [ref for task in tasks for ref in task.chain if ref.id.endswith(f"-e{manifest.epoch}")]
    assert any(task.units[INCOMING.name].count for task in tasks if INCOMING.name in task.units)
    assert record.size_bytes == sum(each.size_bytes for each in [*units, *new])
