"""Which query a DataFrame is: so that a job does not go on with the rows of another one.

Spark has no name for a query that is the same in every session. What is compared is the analysed
plan without the numbers that a session gives to its columns, and for everything that the plan reads
its paths and options. Options may hold passwords, so only a digest of them is stored. The data
itself is not looked at.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mainstay.connectors.ingest.log import IngestLog, QueryNote
from mainstay.errors import SourceError
from mainstay.spark.ingest.connect_identity import analysed_plan, facts_read
from mainstay.spark.launch.cluster import is_of_connect

_LONGEST = 2000
_OF_CONNECT = "connect-"
"""Begins the digest of a query of Spark Connect."""
_NUMBERS = re.compile(r"#\d+L?|@[0-9a-f]{4,}|(?<=EventTimeWatermark )[0-9a-f-]{36}")
"""What a session makes up: ids of columns and objects, and the name of a watermark."""


@dataclass(frozen=True, slots=True)
class QueryIdentity:
    """The plan for people, and a digest of the plan with what it reads."""

    plan: str
    digest: str


def identity_of(df: Any) -> QueryIdentity:
    """The identity of a DataFrame's query."""
    if is_of_connect(df):
        return _identity(analysed_plan(df), facts_read(df), _OF_CONNECT)
    analysed = df._jdf.queryExecution().analyzed()
    leaves = analysed.collectLeaves()
    read = [line for at in range(leaves.size()) for line in _facts(leaves.apply(at))]
    return _identity(analysed.toString(), read)


def _identity(analysed: str, read: list[str], kind: str = "") -> QueryIdentity:
    plan = _NUMBERS.sub("", analysed).strip()
    digest = hashlib.sha256("\n".join([plan, *read]).encode()).hexdigest()
    return QueryIdentity(plan[:_LONGEST], f"{kind}{digest}")


def check_query(df: Any, log: IngestLog, *, allow_changed: bool) -> None:
    """Refuse a DataFrame whose query is another than that of the rows in the log."""
    identity = identity_of(df)
    noted = log.query_note()
    is_same = noted is not None and _is_same(noted, identity)
    if noted is None or (allow_changed and not is_same):
        log.note_query(QueryNote(identity.plan, identity.digest))
    elif not is_same:
        raise SourceError(
            f"the DataFrame of {log.uid!r} is another query than the one whose rows this job has "
            f"taken so far.\n{_compared(noted.plan, identity.plan)}\nGive the new one a uid of its "
            "own, or start in another snapshot directory. To go on with this one after the rows "
            "that were taken, say allow_changed_query=True where the DataFrame enters the job."
        )


def _is_same(noted: QueryNote, now: QueryIdentity) -> bool:
    """What is read is described otherwise in a session of the other kind: plans alone compare."""
    if noted.digest.startswith(_OF_CONNECT) != now.digest.startswith(_OF_CONNECT):
        return noted.plan == now.plan
    return noted.digest == now.digest


def _compared(before: str, now: str) -> str:
    if before == now:
        return "The plan is the same; a path or an option of what it reads is not."
    return f"Before:\n{_indented(before)}\nNow:\n{_indented(now)}"


def _indented(plan: str) -> str:
    return "\n".join(f"    {line}" for line in plan.splitlines())


def _facts(leaf: Any) -> Iterator[str]:
    """What a leaf of a plan reads, beyond what the plan says in words."""
    name = leaf.getClass().getSimpleName()
    yield name
    if name == "StreamingRelationV2":
        options = leaf.extraOptions()
        yield from sorted(f"{key}={options[key]}" for key in options)
    elif name == "StreamingRelation":
        source = leaf.dataSource()
        yield source.className()
        yield _text(source.paths())
        yield _entries(source.options())
    elif name == "LogicalRelation" and hasattr(leaf.relation(), "location"):
        yield from _files(leaf.relation())


def _files(relation: Any) -> Iterator[str]:
    if relation.getClass().getSimpleName() == "HadoopFsRelation":
        yield _text(relation.location().rootPaths())
        yield _entries(relation.options())


def _entries(options: Any) -> str:
    """A map of Scala, whose order is not always the same."""
    found = options.toSeq()
    return ",".join(sorted(_text(found.apply(at)) for at in range(found.size())))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value.toString())
