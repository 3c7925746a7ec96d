"""What reading state in PostgreSQL costs: no key is searched in all of a table."""

from __future__ import annotations

import pytest

import mainstay as ms
from mainstay.connectors.postgres.states.sessions import shared_sessions
from mainstay.state.declaration import ValueState
from tests.contract.conftest import OpenBackend
from tests.services.postgres import asked, name_of

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]


def test_keys_are_looked_up_before_the_server_has_analyzed_the_table(dsn: str) -> None:
    asked(dsn, "CREATE TABLE t (k bytea, s bytea, PRIMARY KEY (k, s))")
    asked(dsn, "INSERT INTO t SELECT int4send(n), '' FROM generate_series(1, 20000) n")
    sessions = shared_sessions(ms.Postgres(dsn).server)
    keys = [number.to_bytes(4, "big") for number in range(0, 20_000, 200)]
    with sessions.connection() as connection:
        query = "EXPLAIN SELECT k, s FROM t WHERE k = ANY(%b::bytea[])"
        plan = [line for (line,) in connection.execute(query, [keys]).fetchall()]
    assert not any("Seq Scan" in line for line in plan)


def test_a_backend_that_is_closed_leaves_its_cache_to_the_others(dsn: str) -> None:
    opening = OpenBackend(ms.Postgres(dsn, schema=name_of(dsn), cache="8MiB"))
    first, second = opening({"n": ValueState("long")}), opening({"n": ValueState("long")})
    part = second.keyed.backend._remote.part_bytes
    assert part() == 4 << 20
    first.keyed.backend.close()
    assert part() == 8 << 20
    second.keyed.backend.close()
