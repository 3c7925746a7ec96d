"""Asking the state of a running job over HTTP: rows as Arrow streams, errors as they are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from mainstay.client.service import ARROW, Service
from mainstay.errors import GraphError, QueryError
from mainstay.inspect.answer_streams import answers_of_streams, columns_of
from mainstay.inspect.answers import Answer
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.connection import COMMITTED, LIVE, PATIENCE_S, Connection, is_live
from mainstay.inspect.exact_values import encoded
from mainstay.inspect.key_values import ALL_KEYS, check_keys, check_limit, listed
from mainstay.inspect.live import check_around
from mainstay.inspect.positions import After
from mainstay.inspect.reading import LATEST, epoch_number
from mainstay.inspect.sql import SECONDS

CUT = "x-mainstay-cut"
MOST_KEYS = 10_000


class HttpConnection(Connection):
    """A job by its address, as ``job.url`` shows it, and what it tells while it can be reached."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __repr__(self) -> str:
        return f"<Connection to {self._service.address}>"

    def job(self) -> dict[str, Any]:
        """Name, status, epoch, rows per second and what else ``GET /job`` tells."""
        found: dict[str, Any] = self._service.get("/job")
        return found

    def query_states(
        self,
        states: Sequence[str],
        *,
        key: Any = ALL_KEYS,
        keys: Iterable[Any] | None = None,
        limit: int | None = None,
        at: str = COMMITTED,
        epoch: int | str = LATEST,
        after: After | None = None,
        timeout: float | None = None,
    ) -> dict[str, Answer]:
        level = LIVE if is_live(at, epoch, after) else COMMITTED
        asked = {
            "states": list(states),
            "at": level,
            **_whose(key, keys, limit, check_around if level == LIVE else check_limit),
            **_when(epoch, after),
        }
        patience_s = PATIENCE_S if timeout is None else timeout
        reply = self._service.post("/query", asked, patience_s, ARROW)
        found = {}
        for name, answer, is_cut in answers_of_streams(reply.body):
            if is_cut and (limit is None or answer.table.num_rows < limit):
                raise _too_many(name, answer.table.num_rows)
            found[name] = answer
        return found

    def sql(
        self, statement: str, *, epoch: int | str = LATEST, timeout: float = SECONDS
    ) -> pa.Table:
        asked = {"statement": statement, **_when(epoch, None)}
        reply = self._service.post("/sql", asked, timeout, ARROW)
        table = pa.ipc.open_stream(reply.body).read_all()
        if reply.headers.get(CUT) == "true":
            raise _too_many("the statement", table.num_rows)
        return table

    def states(self, epoch: int | str = LATEST) -> dict[str, StateColumns]:
        number = epoch_number(epoch, None)
        of = "" if number is None else f"?epoch={number}"
        found = self._service.get(f"/states{of}")
        return {each["name"]: columns_of(each["columns"]) for each in found}


def _whose(
    key: Any, keys: Iterable[Any] | None, limit: int | None, check: Callable[[Any], object]
) -> dict[str, Any]:
    """Of which keys, or how many: refused here with the words of a connection to snapshots."""
    if key is ALL_KEYS and keys is None:
        check(limit)
        return {"limit": limit}
    check_keys(key, keys, limit)
    wanted = [encoded(each) for each in (listed(keys) if keys is not None else [key]) or ()]
    if len(wanted) > MOST_KEYS:
        raise GraphError(
            f"{len(wanted):,} keys were given, and a query over HTTP takes {MOST_KEYS:,}. Ask for "
            "them in parts, at one epoch=, or by the snapshot directory."
        )
    return {"keys": wanted, "exact_keys": True}


def _when(epoch: int | str, after: After | None) -> dict[str, Any]:
    number = epoch_number(epoch, None)
    found: dict[str, Any] = {"epoch": LATEST if number is None else number}
    if isinstance(after, Mapping):
        found["after"] = {"sources": {uid: _offsets(each) for uid, each in after.items()}}
    elif after is not None:
        found["after"] = {"epoch": after}
    return found


def _offsets(given: Any) -> Any:
    return dict(given) if isinstance(given, Mapping) else given


def _too_many(what: str, rows: int) -> QueryError:
    return QueryError(
        f"{what}: there are more than the {rows:,} rows that an answer over HTTP has. Ask with "
        "limit=, or by the snapshot directory."
    )
