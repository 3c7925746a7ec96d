"""Asking the state of a job by its snapshots: it need not run, and is not disturbed.

::

    state = ms.connect("./snapshots")
    state.query("totals.total", key="ada").value
    state.query("totals.total", keys=["ada", "bo"], epoch=17).values()
    state.query("totals.total", limit=10).rows()
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from mainstay.errors import GraphError, RestoreError
from mainstay.inspect.answers import Answer, Moment, in_utc
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.key_values import key_values
from mainstay.inspect.lookup import OpenFiles, look_up
from mainstay.inspect.reading import LATEST, Origin, StateView
from mainstay.inspect.sql import run_sql
from mainstay.runtime.coordinator.origin import place_of
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.object_storage import open_existing
from mainstay.snapshot.savepoint import is_savepoint
from mainstay.snapshot.storage import shared
from mainstay.spelling import did_you_mean

NO_KEY: Any = ...
"""Stands for no key in particular: None is a key like others."""
EPOCHS = 8


class Connection:
    """The complete epochs of a job, for queries. Any thread may ask."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        place, self._marked = place_of(self._path)
        self.place = shared(place)
        self._storage = open_existing(self.place)
        self._is_savepoint = is_savepoint(self._storage)
        self._origins: OrderedDict[int | None, Origin] = OrderedDict()
        self._files = OpenFiles(self._storage)
        self._lock = threading.Lock()

    def query(
        self,
        state: str,
        *,
        key: Any = NO_KEY,
        keys: Iterable[Any] | None = None,
        limit: int | None = None,
        epoch: int | str = LATEST,
    ) -> Answer:
        """What a state, named ``operator.state``, holds: of a key, of some keys, or of all.

        ``key`` is a value, None for the null key, or for a key of several columns a tuple or a
        dictionary. Without keys it is a scan, of which ``limit`` bounds the rows. ``epoch`` is any
        that is kept; the latest is the one that is the latest now.
        """
        began = time.monotonic()
        with self._lock:
            origin = self._origin(epoch)
            view = named(origin, state)
            if key is NO_KEY and keys is None:
                table = _scanned(view, limit)
            else:
                wanted = _wanted(view.columns, key, keys, limit)
                table = look_up(view, self._files, wanted)
        took_s = time.monotonic() - began
        manifest = origin.manifest
        moment = Moment(
            manifest.job,
            manifest.epoch,
            manifest.attempt,
            in_utc(manifest.created_at),
            manifest.sources,
        )
        age_s = max(0.0, time.time() - manifest.created_at)
        return Answer(view.columns, table, moment, age_s, took_s)

    def sql(self, statement: str, *, epoch: int | str = LATEST) -> pa.Table:
        """The rows of a ``SELECT`` over states, each the table ``operator.state``.

        All of them are read at one epoch. Needs DuckDB: ``pip install 'mainstay[sql]'``.
        """
        with self._lock:
            origin = self._origin(epoch)
        known = [
            f"{uid}.{schema.name}"
            for uid, stored in origin.manifest.operators.items()
            for schema in stored.states
        ]
        return run_sql(statement, known, lambda name: _scanned(named(origin, name), None))

    def states(self, epoch: int | str = LATEST) -> dict[str, StateColumns]:
        """The states that can be asked for, by their names."""
        with self._lock:
            manifest = self._origin(epoch).manifest
        return {
            f"{uid}.{schema.name}": StateColumns(uid, schema, stored.key_type, stored.key_names)
            for uid, stored in manifest.operators.items()
            for schema in stored.states
        }

    def _origin(self, epoch: int | str) -> Origin:
        """The manifest of an epoch never changes; which is the latest is asked each time."""
        number = self._number(epoch)
        if number not in self._origins:
            self._origins[number] = Origin.open(self._path, LATEST if number is None else number)
            while len(self._origins) > EPOCHS:
                self._origins.popitem(last=False)
        self._origins.move_to_end(number)
        return self._origins[number]

    def _number(self, epoch: int | str) -> int | None:
        if epoch != LATEST or self._is_savepoint or self._marked is not None:
            # What is wrong with it says the one who opens it.
            is_number = not isinstance(epoch, bool) and str(epoch).isdigit()
            if epoch == LATEST or not is_number:
                return (
                    self._marked
                    if epoch == LATEST
                    else Origin.open(self._path, epoch).manifest.epoch
                )
            return int(epoch)
        latest = read_history(self._storage).latest_epoch
        return None if latest is None else latest.epoch


def named(origin: Origin, state: str) -> StateView:
    """The view of a state that is named ``operator.state``."""
    uid, dot, name = state.rpartition(".") if isinstance(state, str) else ("", "", "")
    known = sorted(
        f"{each}.{schema.name}"
        for each, stored in origin.manifest.operators.items()
        for schema in stored.states
    )
    if f"{uid}.{name}" not in known or not dot:
        raise RestoreError(
            f"there is no state {state!r} at {origin.name!r}. Name it by operator and state; there "
            f"are {', '.join(known) or 'none'}.{did_you_mean(str(state), known)}"
        )
    return origin.view(uid, name)


def _wanted(
    columns: StateColumns, key: Any, keys: Iterable[Any] | None, limit: int | None
) -> Sequence[tuple[Any, ...]]:
    if limit is not None:
        raise GraphError("limit= is for a scan. Leave it out where keys are given.")
    if key is not NO_KEY and keys is not None:
        raise GraphError("key= and keys= were both given. Give one of them.")
    if keys is None:
        return [key_values(columns, key)]
    if isinstance(keys, str):
        raise GraphError(f"keys={keys!r} is one key. Give it as key={keys!r}, or give a list.")
    return list(dict.fromkeys(key_values(columns, each) for each in keys))


def _scanned(view: StateView, limit: int | None) -> pa.Table:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise GraphError(f"limit={limit!r} must be a number of rows.")
    tables, rows = [pa.schema(view.columns.fields()).empty_table()], 0
    # With a limit key-group by key-group, so that no more is read than is shown.
    for part in view.slices(least=1 if limit is None else view.manifest.max_parallelism):
        if limit is not None and rows >= limit:
            break
        tables.append(part.read())
        rows += tables[-1].num_rows
    whole = pa.concat_tables(tables)
    return whole if limit is None else whole.slice(0, limit)


def connect(path: str | os.PathLike[str]) -> Connection:
    """Ask the state of a job, running or not, by its snapshot directory or a savepoint."""
    return Connection(path)
