"""A schema of its own for every test, on one private server."""

from __future__ import annotations

import pytest

from tests.services.postgres import PostgresServer, ServiceMissing, shared


@pytest.fixture(autouse=True)
def needs_the_driver() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")


@pytest.fixture
def server() -> PostgresServer:
    try:
        return shared()
    except ServiceMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def dsn(server: PostgresServer) -> str:
    return server.schema()
