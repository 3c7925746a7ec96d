"""What a terminal shows of things that a job's author has made: one line, without secrets."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Files, Json, ParquetSink, Rows, Sequence, Webhook
from mainstay.connectors import Sink as SinkBase


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (Sequence(0, 5, rows_per_second=3), "Sequence(end=5, rows_per_second=3)"),
        (ParquetSink("/out"), "ParquetSink(path='/out')"),
        (Rows("n long", [(n,) for n in range(1000)]), "Rows(schema='n int64')"),
        (Json("n long"), "Json(schema='n int64')"),
        (ms.ValueState("long"), "ValueState('long')"),
        (ms.MapState("string", "long"), "MapState('string', 'long')"),
        (
            ms.ListState("string", ttl="1h"),
            "ListState('string', ttl=Ttl(duration='1h', update='write'))",
        ),
    ],
)
def test_what_was_set_fits_on_a_line(thing: Any, expected: str) -> None:
    assert repr(thing) == expected


def test_an_environment_shows_what_was_set() -> None:
    env = ms.Environment(
        spark="embedded", parallelism=4, snapshots=ms.Snapshots("/snapshots", every="3s")
    )
    assert repr(env) == (
        "Environment(spark='embedded', parallelism=4, snapshots=Snapshots(dir='/snapshots', "
        "every='3s'))"
    )


class Target(SinkBase):
    """A sink of a job's author's own, with a secret under each kind of name."""

    def __init__(self, url: str, password: str, options: dict[str, str]) -> None:
        self.url = url
        self._password = password
        self.options = options

    def writer(self, *arguments: Any) -> Any:
        raise NotImplementedError


def test_no_secret_is_shown() -> None:
    Target.__abstractmethods__ = frozenset()
    own = Target("postgresql://app:s3cret@db/shop", "s3cret", {"sasl.password": "s3cret"})
    hook = Webhook(
        "https://example.org/services/T0001abcdefghij12345k",
        headers={"Authorization": "Bearer s3cret-token"},
    )
    for thing in (own, hook):
        assert "***" in repr(thing)
        assert "s3cret" not in repr(thing)
        assert "T0001" not in repr(thing)


def test_a_schema_takes_one_line() -> None:
    assert "\n" not in repr(Files("/in/*.jsonl", schema="a long, b string"))
