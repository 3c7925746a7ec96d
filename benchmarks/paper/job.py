"""The job that is measured: running totals of pages, behind as many shuffles as wanted.

Every shuffle has state behind it. A row out comes for each row in, and a total changes with each,
so states and output say whether every row counted exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import mainstay as ms
from benchmarks.ours.visits import Visits, relayed
from benchmarks.paper.arrivals import Arrivals
from benchmarks.paper.board import Place
from benchmarks.paper.gated import SCHEMA, Gated
from mainstay.bench.entries import kept_entries
from mainstay.bench.orders import totals_of
from mainstay.bench.progress import SplitProgress, manifest_of, progress_of, records_at
from mainstay.bench.running import SOURCE
from mainstay.bench.totals import RunningTotals
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.storage import Storage

TOTALS = "totals"
OUTPUT_SCHEMA = "key long, total long, due_ns long"


class Totals(RunningTotals):
    """Running totals that pass on when their rows were due."""

    def process(self, batch: Any, ctx: Any) -> pa.RecordBatch:
        totals = super().process(batch, ctx)
        due = batch.batch.column("due_ns")
        return pa.record_batch([*totals.columns, due], names=[*totals.schema.names, "due_ns"])


class Relay(RunningTotals):
    """Running totals that send their rows on to other pages: the next shuffle has work."""

    def __init__(self, pages: int) -> None:
        self.pages = pages

    def process(self, batch: Any, ctx: Any) -> pa.RecordBatch:
        super().process(batch, ctx)
        rows = batch.batch
        pages = pa.array(relayed(rows.column("key").to_numpy(), self.pages))
        columns = [pages, rows.column("amount"), rows.column("due_ns")]
        return pa.record_batch(columns, names=["key", "amount", "due_ns"])


@dataclass(frozen=True, slots=True)
class PaperJob:
    """What runs, with a sink that lives where the job was built."""

    pages: int
    shuffles: int
    place: Place
    sink: Arrivals

    @staticmethod
    def at(place: Place, pages: int, shuffles: int) -> PaperJob:
        return PaperJob(pages, shuffles, place, Arrivals(place))

    def build(self, env: ms.Environment) -> None:
        stream = env.source(Gated(Visits(self.pages), self.place), uid=SOURCE)
        for uid in self._uids[:-1]:
            keyed = stream.key_by("key")
            stream = keyed.process_batches(Relay(self.pages), SCHEMA, uid=uid)
        totals = stream.key_by("key").process_batches(Totals(), OUTPUT_SCHEMA, uid=TOTALS)
        totals.sink(self.sink, uid="out")

    @property
    def _uids(self) -> list[str]:
        """The operators with state, in the order in which a row comes to them."""
        return [*(f"relay-{number}" for number in range(1, self.shuffles)), TOTALS]

    def is_right(self, storage: Storage, env: ms.Environment) -> bool:
        """Whether every row that was read by the last epoch is in each state, and came out, once.

        The last epoch must be one without in-flight rows.
        """
        latest = read_history(storage).latest_epoch
        assert latest is not None, "there is no epoch to look at"
        manifest = manifest_of(storage, latest.epoch)
        splits = progress_of(manifest, SOURCE)
        plan = env.plan()
        states_are_right = all(
            dict(kept_entries(storage, plan, uid, "total")) == self.expected(splits, relays)
            for relays, uid in enumerate(self._uids)
        )
        return states_are_right and self.sink.rows_until(latest.epoch) == records_at(
            manifest, SOURCE
        )

    def expected(self, splits: Iterable[SplitProgress], relays: int) -> Mapping[Any, int]:
        """The totals behind so many relays, by plain addition."""
        visits = Visits(self.pages)
        ranges = (each for split in splits for each in split.ranges())
        return totals_of(self._arriving(visits(*each), relays) for each in ranges)

    def _arriving(self, batch: pa.RecordBatch, relays: int) -> pa.RecordBatch:
        pages = batch.column("key").to_numpy()
        for _ in range(relays):
            pages = relayed(pages, self.pages)
        return pa.record_batch([pa.array(pages), batch.column("amount")], names=["key", "amount"])
