"""A job goes on with another program from a snapshot that an older one has written."""

from __future__ import annotations

import logging
import operator
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import RestoreError
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import committed_state, latest_manifest
from tests.unit.drive.test_embedded import (
    KEYS,
    PATIENCE_S,
    ROWS,
    TOTALS,
    Gated,
    Telling,
    environment,
)

LISTS = {key: sorted(range(key, ROWS, KEYS)) for key in range(KEYS)}
OUT = "k string, n long"


class Before(ms.KeyedProcess):
    total = ms.ReducingState("int", operator.add)
    numbers = ms.ListState("int")
    by_parity = ms.MapState("byte", "struct<sum:int,note:string>")

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        self.numbers.add(row.n)
        known = self.by_parity.get(row.n % 2)
        self.by_parity.put(row.n % 2, ((known.sum if known else 0) + row.n, "seen"))
        yield str(ctx.key), row.n


class Wider(ms.KeyedProcess):
    """Every type widened, a field added and one dropped, a state added."""

    total = ms.ReducingState("long", operator.add)
    numbers = ms.ListState("long")
    by_parity = ms.MapState("int", "struct<n:long,sum:long>")
    last = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        self.numbers.add(row.n)
        known = self.by_parity.get(row.n % 2)
        counted = 0 if known is None or known.n is None else known.n
        self.by_parity.put(row.n % 2, (counted + 1, (known.sum if known else 0) + row.n))
        self.last.update(row.n)
        yield str(ctx.key), row.n


class Renamed(Before):
    """Another class, the same states."""


class Fewer(ms.KeyedProcess):
    total = ms.ReducingState("int", operator.add)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        yield str(ctx.key), row.n


class Migrated(Fewer):
    """What was a sum is now a text; twice the length if it were migrated twice."""

    total = ms.ValueState("string", migrate=lambda old: "x" * old)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.update((self.total.get() or "") + "x" * row.n)
        yield str(ctx.key), row.n


class Texted(Fewer):
    total = ms.ValueState("string")


class Expiring(Before):
    total = ms.ReducingState("int", operator.add, ttl="1 hour")
    numbers = ms.ListState("int", ttl=ms.Ttl("1 hour", update="read"))
    by_parity = ms.MapState("byte", "struct<sum:int,note:string>", ttl="1 hour")


def build(env: ms.Environment, source: Any, sink: Any, function: Any, key: Any = "k") -> None:
    keyed = env.source(source, uid="numbers").key_by(*(key if isinstance(key, tuple) else (key,)))
    keyed.process(function, OUT, uid="sums").sink(sink, uid="out")


def half(directory: Path, function: Any, parallelism: int = 2) -> tuple[Gated, Telling]:
    """Run the older program until half of the rows are committed."""
    source, sink = Gated(), Telling()
    env = environment(directory, parallelism=parallelism)
    build(env, source, sink, function)
    job = env.start("numbers")
    sink.await_half()
    job.cancel()
    source.open_gate()
    return source, sink


def go_on(
    directory: Path, ends: tuple[Gated, Telling], function: Any, **settings: Any
) -> tuple[Any, Any]:
    """Run the newer program to the end; the job and its specification."""
    env = environment(directory, restore="latest", **settings)
    build(env, *ends, function)
    job = env.start("numbers")
    assert job.wait(PATIENCE_S) == "finished"
    assert sorted(n for _, n in ends[1].rows()) == list(range(ROWS))
    return job, env.plan()


def one_epoch(directory: Path, sink: Telling, function: Any) -> Any:
    """Run another program from the snapshot until it has written one of its own; the job."""
    env = environment(directory, restore="latest")
    build(env, Gated(), sink, function)
    job = env.start("numbers")
    while not any(record.status == "complete" for record in job.snapshots()):
        job.wait(0.01)
    job.cancel()
    return job


def state(directory: Path, spec: Any, name: str) -> Any:
    return committed_state(open_storage(str(directory)), spec, "sums", name)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_widened_types_and_a_new_state(
    tmp_path: Path, parallelism: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mainstay")
    ends = half(tmp_path, Before())
    job, spec = go_on(
        tmp_path,
        ends,
        Wider(),
        parallelism=parallelism,
        allow_dropped=["sums.by_parity.note"],
    )
    assert state(tmp_path, spec, "total") == TOTALS
    numbers = state(tmp_path, spec, "numbers")
    assert {key: sorted(found) for key, found in numbers.items()} == LISTS
    for key, entries in state(tmp_path, spec, "by_parity").items():
        assert sum(entry.sum for entry in entries.values()) == TOTALS[key]
    assert set(state(tmp_path, spec, "last")) == set(range(KEYS))
    news = [line for line in job.restored if "state 'sums." in line]
    assert news == [
        "converted state 'sums.total': int to long",
        "converted state 'sums.numbers': int to long",
        "converted state 'sums.by_parity': sum: int to long, n: added, null, map key: byte to int, "
        "dropped field note",
        "added state 'sums.last': starts empty",
    ]
    rescaled = f"rescaled operator 'sums' from 2 to {parallelism} subtasks"
    assert (rescaled in job.restored) == (parallelism != 2)
    logged = {f"job 'numbers', attempt 2: {line}" for line in job.restored}
    assert logged <= {record.getMessage() for record in caplog.records}


def test_what_was_converted_is_stored_in_the_new_types_and_not_converted_again(
    tmp_path: Path,
) -> None:
    ends = half(tmp_path, Fewer())
    job = one_epoch(tmp_path, ends[1], Migrated())
    assert "migrated state 'sums.total': int to string, reducing to value" in job.restored
    manifest = latest_manifest(open_storage(str(tmp_path)))
    assert manifest is not None
    assert [each.value_type for each in manifest.operators["sums"].states] == ["string"]
    again, spec = go_on(tmp_path, ends, Migrated())
    assert "matched state 'sums.total': value of string" in again.restored
    assert {key: len(x) for key, x in state(tmp_path, spec, "total").items()} == TOTALS


def test_a_crash_after_the_upgrade_changes_nothing(tmp_path: Path) -> None:
    ends = half(tmp_path, Fewer())
    source = Gated()
    env = environment(tmp_path, restore="latest")
    build(env, source, ends[1], Migrated())
    job = env.start("numbers")
    while not any(record.status == "complete" for record in job.snapshots()):
        job.wait(0.01)
    job.crash_worker(0)
    source.open_gate()
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 2
    found = state(tmp_path, env.plan(), "total")
    assert {key: len(text) for key, text in found.items()} == TOTALS


def test_a_renamed_class_finds_its_states_by_uid_and_name(tmp_path: Path) -> None:
    job, spec = go_on(tmp_path, half(tmp_path, Before()), Renamed())
    assert state(tmp_path, spec, "total") == TOTALS
    assert all(line.startswith("matched state") for line in job.restored)


def test_dropped_states_go_with_a_word(tmp_path: Path) -> None:
    job, spec = go_on(
        tmp_path,
        half(tmp_path, Before()),
        Fewer(),
        allow_dropped=["sums.numbers", "sums.by_parity"],
    )
    assert state(tmp_path, spec, "total") == TOTALS
    assert "dropped state 'sums.numbers'" in job.restored


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (Fewer(), r"state 'sums\.numbers' is in the snapshot, but operator 'sums' no longer"),
        (Wider(), r"allow_dropped=\['sums\.by_parity\.note'\]"),
        (Texted(), r"'sums\.total' was stored as reducing of int .* value of string"),
    ],
)
def test_a_program_that_does_not_fit_is_refused_before_any_worker_starts(
    tmp_path: Path, function: Any, message: str
) -> None:
    ends = half(tmp_path, Before())
    env = environment(tmp_path, restore="latest")
    build(env, *ends, function)
    job = env.start("numbers")
    with pytest.raises(RestoreError, match=message):
        job.wait(PATIENCE_S)
    assert job.attempts() == []


@pytest.mark.parametrize("parallelism", [1, 3])
def test_keys_are_migrated_to_wherever_they_belong_now(tmp_path: Path, parallelism: int) -> None:
    ends = half(tmp_path, Fewer())
    env = environment(tmp_path, restore="latest", parallelism=parallelism)
    keyed = env.source(ends[0], uid="numbers").key_by(
        lambda row: f"key-{row.k}", "string", uid="name", migrate_key=lambda old: f"key-{old}"
    )
    keyed.process(Fewer(), OUT, uid="sums").sink(ends[1], uid="out")
    job = env.start("numbers")
    assert job.wait(PATIENCE_S) == "finished"
    assert "migrated the key of operator 'sums': long to string" in job.restored
    expected = {f"key-{key}": total for key, total in TOTALS.items()}
    assert state(tmp_path, env.plan(), "total") == expected


def test_keys_that_would_become_one_end_the_job_with_both_names(tmp_path: Path) -> None:
    ends = half(tmp_path, Fewer())
    env = environment(tmp_path, restore="latest", parallelism=1)
    keyed = env.source(ends[0], uid="numbers").key_by(
        lambda row: "all", "string", uid="name", migrate_key=lambda old: "all"
    )
    keyed.process(Fewer(), OUT, uid="sums").sink(ends[1], uid="out")
    job = env.start("numbers")
    with pytest.raises(RestoreError, match=r"the keys \d and \d both become 'all'"):
        job.wait(PATIENCE_S)
    # It would be the same again, so it is not tried again.
    assert len(job.attempts()) == 1


@pytest.mark.parametrize("function", [Expiring(), Before(), Wider()])
def test_a_savepoint_is_upgraded_as_a_snapshot_is(tmp_path: Path, function: Any) -> None:
    source, sink = Gated(), Telling()
    env = environment(tmp_path / "snapshots")
    build(env, source, sink, Expiring())
    job = env.start("numbers")
    sink.await_half()
    savepoint = job.savepoint(str(tmp_path / "savepoint"))
    job.cancel()
    source.open_gate()
    env = environment(
        tmp_path / "fork", restore=savepoint, allow_dropped=["sums.by_parity.note"], parallelism=3
    )
    build(env, source, Telling(), function)
    assert env.start("fork").wait(PATIENCE_S) == "finished"
    assert state(tmp_path / "fork", env.plan(), "total") == TOTALS


def test_a_time_to_live_is_added_and_taken_away_again(tmp_path: Path) -> None:
    ends = half(tmp_path, Before())
    job = one_epoch(tmp_path, ends[1], Expiring())
    assert "converted state 'sums.total': ttl none to 3600 s" in job.restored
    again, spec = go_on(tmp_path, ends, Before())
    assert "converted state 'sums.total': ttl 3600 s to none" in again.restored
    assert state(tmp_path, spec, "total") == TOTALS
    numbers = state(tmp_path, spec, "numbers")
    assert {key: sorted(found) for key, found in numbers.items()} == LISTS
