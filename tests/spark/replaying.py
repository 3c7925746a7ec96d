"""What tests have done with operators a slice at a time, done again as branches of one job.

A test of ``tests/processors`` says in its own words what an operator is given and what it emits.
Its ``Slices`` remember that, and here every one of them is a branch of a job on Spark: all branches
are given their first slice, then all of them their second, and so on. ``group="epoch"`` holds the
rows of a slice together until the epoch that ends it.
"""

from __future__ import annotations

import inspect
import itertools
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import mainstay as ms
from mainstay.connectors import Source
from mainstay.runtime.connector import Json, Polled, Split, SplitReader
from mainstay.schema import rows_to_batch, to_schema
from tests.processors.slices import Recorded, recording

PATIENCE_S = 180.0
LOOK_S = 0.05
COMMIT_S = 1.0
"""How long is waited for the sink before another epoch is taken."""
SHARED = "rows"
"""The source of all branches without event time."""


@dataclass(frozen=True, slots=True)
class Branch:
    """An operator of a test, under a name of its own."""

    name: str
    slices: Recorded

    @property
    def source(self) -> str:
        """Event time is of a source, so a branch that goes by it has one to itself."""
        return SHARED if self.slices.time is None else self.name

    @property
    def rounds(self) -> list[Round]:
        found: list[Round] = []
        waited_s = 0.0
        for step in self.slices.steps:
            if step.watermark_s is not None or (step.rows and step.port == 0):
                found.append(Round(waited_s, step.rows, step.watermark_s))
                waited_s = 0.0
            waited_s += step.waited_s
            if found:
                found[-1].emitted += len(step.found)
        return found

    @property
    def expected(self) -> Counter[str]:
        return Counter(repr(row) for step in self.slices.steps for row in step.found)

    @property
    def waits_s(self) -> float:
        return sum(step.waited_s for step in self.slices.steps)

    @property
    def why_not(self) -> str | None:
        """Why a job on Spark cannot give the same to the operator."""
        if self.slices.is_clock_moved:
            return "the test moves the clock"
        if self.slices.is_touched:
            return "the test changes states behind the back of the processor"
        return None if any(round.rows for round in self.rounds) else "it is given no rows"


@dataclass(slots=True)
class Round:
    """What a branch is given at a time, and how much it emits then."""

    after_s: float
    rows: tuple[Any, ...]
    watermark_s: float | None
    emitted: int = 0


# ---------------------------------------------------------------- what tests have done


def branches_of(test: str, folder: Path | None = None, **given: Any) -> Iterator[Branch]:
    """The operators of a test, which is run for it: with all its parameters but those given, and
    where there is a folder, with a ``tmp_path`` in it."""
    file, _, name = test.partition("::")
    module: Any = import_module(file.removesuffix(".py").replace("/", "."))
    function = getattr(module, name)
    wanted = inspect.signature(function).parameters.keys()
    known = {key: value for key, value in given.items() if key in wanted}
    for number, drawn in enumerate(_parameters(module, function, known)):
        given = {**drawn, **known}
        if folder is not None and "tmp_path" in wanted:
            given["tmp_path"] = folder / f"{name}-{number}"
            given["tmp_path"].mkdir()
        if given.keys() != wanted:
            return  # It needs more than its parameters.
        with recording() as made:
            function(**given)
        for place, slices in enumerate(made):
            yield Branch(f"{name}-{number}-{place}", slices)


def _parameters(module: Any, function: Any, known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    own = getattr(module, "pytestmark", [])
    marks = [*(own if isinstance(own, list) else [own]), *getattr(function, "pytestmark", [])]
    drawn = [mark.args for mark in marks if mark.name == "parametrize"]
    axes = [list(_values(*args)) for args in drawn if args[0] not in known]
    for some in itertools.product(*axes):
        yield {name: value for each in some for name, value in each.items()}


def _values(names: Any, values: Sequence[Any]) -> Iterator[dict[str, Any]]:
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    for value in values:
        yield dict(zip(split, value if len(split) > 1 else [value], strict=True))


# ---------------------------------------------------------------- the source

_SCHEMA = to_schema("branch string, row binary, at timestamp")


class Rounds(Source):
    """Rows of one file after the other, each as soon as it is there."""

    schema = _SCHEMA
    bounded = False
    tells_time = True
    replan_s = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [] if seen else [Split("all", {})]

    def read(self, split: Split, offset: Json | None) -> SplitReader:
        return _Reader(self.folder, offset or 0)


class _Reader(SplitReader):
    def __init__(self, folder: Path, round: int) -> None:
        self._folder, self._round = folder, round

    def poll(self, max_rows: int) -> Polled:
        # What the last poll has given is taken when there is another.
        (self._folder / f"before-{self._round}").touch()
        place = self._folder / str(self._round)
        if not place.exists():
            return Polled(None, self._round, ready_in_s=LOOK_S)
        rows, watermark_s = pickle.loads(place.read_bytes())
        self._round += 1
        batch = rows_to_batch(rows, _SCHEMA, "rounds") if rows else None
        time_us = None if watermark_s is None else int(watermark_s * 1_000_000)
        return Polled(batch, self._round, ready_in_s=0.0, watermark_us=time_us)


# ---------------------------------------------------------------- the job


class Replay:
    """A job with a branch for each operator; it may be stopped and started between rounds."""

    def __init__(
        self, spark: Any, folder: Path, branches: Sequence[Branch], state: Any = "heap"
    ) -> None:
        self._spark = spark
        self._state = state
        self._folder = folder
        self._branches = branches
        self._rounds = {branch.name: branch.rounds for branch in branches}
        self._sources = {branch.source for branch in branches}
        self._starts: list[Any] = []
        self._job: Any = None
        for source in self._sources:
            (folder / source).mkdir()

    def run(self, parallelism: Mapping[int, int]) -> dict[str, Counter[str]]:
        """Play all rounds; what each branch has emitted. The job is started before the rounds that
        are named, with so many subtasks."""
        for round in range(max(map(len, self._rounds.values()))):
            if round in parallelism:
                if self._job is not None:
                    self._job.stop(timeout=PATIENCE_S)
                self._start(parallelism[round])
            if not self._play(round):
                break  # What is missing now would be missing in all that follows.
        self._job.stop(timeout=PATIENCE_S)
        return self.found()

    def found(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {branch.name: Counter() for branch in self._branches}
        for out in self._starts:
            for branch, shown in out.rows():
                found[branch][shown] += 1
        return found

    def _start(self, parallelism: int) -> None:
        snapshots = ms.Snapshots(self._folder / "snapshots", every="1h")
        env = ms.Environment(
            spark=self._spark,
            parallelism=parallelism,
            max_parallelism=16,
            snapshots=snapshots,
            state=self._state,
            restore="latest-or-new",
        )
        rows = {
            name: env.source(
                Rounds(self._folder / name),
                uid=f"{name}-source",
                parallelism=1,
                watermark=ms.Watermark("at"),
            )
            for name in self._sources
        }
        streams = [self._branch(env, branch, rows[branch.source]) for branch in self._branches]
        self._starts.append(ms.connectors.Memory())
        first, *others = streams
        first.union(*others).sink(self._starts[-1], uid="out")
        self._job = env.start("replay")

    def _branch(self, env: Any, branch: Branch, rows: Any) -> Any:
        name, slices = branch.name, branch.slices
        mine = rows.map_batches(_decoding(name, slices.schema), slices.schema, uid=f"{name}-rows")
        keyed = _Keyed(mine.key_by(*slices.key), name)
        if slices.initial is None:
            made = slices.build(keyed)
        else:
            made = slices.build(keyed, slices.initial(_Initial(env, branch)))
        return made.map_batches(_showing(name), "branch string, shown string", uid=f"{name}-shown")

    def _play(self, round: int) -> bool:
        """Give all branches what is theirs; whether all has come of it that is expected."""
        rounds = [each[round] for each in self._rounds.values() if round < len(each)]
        time.sleep(max(each.after_s for each in rounds))  # as long as the test has the clock run on
        for source in self._sources:
            self._write(source, round)
        for source in self._sources:
            read = self._folder / source / f"before-{round + 1}"
            assert self._await(read.exists), f"round {round} of {source} was not read"
        wanted = {each.name: self._wanted(each, round) for each in self._branches}

        def is_over() -> bool:
            return all(found.total() >= wanted[name] for name, found in self.found().items())

        def is_over_with_an_epoch() -> bool:
            self._job.snapshot(timeout=PATIENCE_S)
            return self._await(is_over, COMMIT_S)

        return self._await(is_over_with_an_epoch)

    def _wanted(self, branch: Branch, round: int) -> int:
        """How many rows it has emitted when a round is over."""
        return sum(each.emitted for each in self._rounds[branch.name][: round + 1])

    def _write(self, source: str, round: int) -> None:
        rows: list[Any] = []
        watermark_s = None
        for branch in self._branches:
            rounds = self._rounds[branch.name]
            if branch.source == source and round < len(rounds):
                rows += [(branch.name, pickle.dumps(row), None) for row in rounds[round].rows]
                watermark_s = rounds[round].watermark_s
        draft = self._folder / source / f".{round}"
        draft.write_bytes(pickle.dumps((rows, watermark_s)))
        draft.rename(draft.with_name(str(round)))

    def _await(self, is_so: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
        deadline = time.monotonic() + patience_s
        while not is_so():
            assert not self._job.failures(), self._job.failures()
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_S)
        return True


class _Keyed:
    """The keyed stream that a test builds on, which names its operator as the branch."""

    def __init__(self, keyed: Any, uid: str) -> None:
        self._keyed, self._uid = keyed, uid

    def transform_with_state(self, *given: Any, uid: str, **options: Any) -> Any:
        options = {"group": "epoch", **options}
        if options.get("time_mode", "None").lower() == "eventtime":
            options.setdefault("on", _time_of(self._keyed))
        return self._keyed.transform_with_state(*given, uid=self._uid, **options)

    def apply_in_pandas_with_state(self, *given: Any, uid: str, **options: Any) -> Any:
        if "EventTimeTimeout" in given:
            options.setdefault("on", _time_of(self._keyed))
        return self._keyed.apply_in_pandas_with_state(*given, uid=self._uid, **options)


def _time_of(keyed: Any) -> str:
    """The one timestamp of a stream."""
    (name,) = (field.name for field in keyed.schema if pa.types.is_timestamp(field.type))
    return str(name)


class _Initial:
    """The environment in which a test makes its initial state: with the rows it has given."""

    def __init__(self, env: Any, branch: Branch) -> None:
        self._env, self._branch = env, branch

    def source(self, source: Any, *, uid: str) -> Any:
        given = [row for step in self._branch.slices.steps if step.port == 1 for row in step.rows]
        rows = ms.connectors.Rows(source.schema, given)
        return self._env.source(rows, uid=f"{self._branch.name}-{uid}")


def _decoding(name: str, schema: pa.Schema) -> Callable[[pa.RecordBatch], Any]:
    def decode(batch: pa.RecordBatch) -> Any:
        mine = batch.filter(pc.equal(batch.column("branch"), name)).column("row").to_pylist()
        return rows_to_batch([pickle.loads(row) for row in mine], schema, name) if mine else None

    return decode


def _showing(name: str) -> Callable[[pa.RecordBatch], Any]:
    def show(batch: pa.RecordBatch) -> Any:
        shown = [repr(tuple(row.values())) for row in batch.to_pylist()]
        return pa.RecordBatch.from_pydict({"branch": [name] * len(shown), "shown": shown})

    return show
