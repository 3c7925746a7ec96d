"""``select``, ``with_columns``, ``rename`` and ``drop``: what they give and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow.compute as pc
import pytest

import mainstay as ms
from mainstay.errors import GraphError, MainstayError
from mainstay.schema import format_schema
from mainstay.testing import rows, run

T0 = datetime(2026, 1, 1, tzinfo=timezone.utc)
BIDS = "auction long, price long NOT NULL, at timestamp, who struct<name:string,age:int>"
ROWS = [(n % 3, 10 * n, T0 + timedelta(seconds=n), (f"p{n}", n)) for n in range(12)]
WATERMARK = ms.Watermark("at")


def bids(env: ms.Environment | None = None, watermark: ms.Watermark | None = None) -> ms.Stream:
    source = rows(BIDS, ROWS, splits=2)
    env = env or ms.Environment()
    return env.source(source, uid="bids", watermark=watermark)


def given(
    build: Callable[[ms.Stream], ms.Stream], watermark: ms.Watermark | None = None, **how: Any
) -> list[Any]:
    def program(env: ms.Environment) -> None:
        build(bids(env, watermark)).sink(ms.connectors.Memory(), uid="out")

    return sorted(run(program, **how).output("out"))


def schema(stream: ms.Stream) -> str:
    return format_schema(stream.schema)


def test_select_gives_columns_in_order_under_names_and_computed() -> None:
    def build(stream: ms.Stream) -> ms.Stream:
        return stream.select("price", "auction", twice=ms.col("price") * 2, again="auction")

    assert schema(build(bids())) == "price long NOT NULL, auction long, twice long, again long"
    assert given(build, crashes=1) == [(10 * n, n % 3, 20 * n, n % 3) for n in range(12)]


def test_a_field_of_a_struct_is_called_as_it_is_there() -> None:
    stream = bids().select("who.name", ms.col("who.age"), years="who.age")
    assert schema(stream) == "name string, age int, years int"
    assert given(lambda s: s.select("who.age")) == [(n,) for n in range(12)]


def test_with_columns_replaces_in_place_and_appends() -> None:
    def build(stream: ms.Stream) -> ms.Stream:
        return stream.with_columns(price=ms.col("price") + 1, old="price").drop("at", "who")

    assert schema(build(bids())) == "auction long, price long, old long NOT NULL"
    assert given(build) == sorted((n % 3, 10 * n + 1, 10 * n) for n in range(12))


def test_a_mapping_takes_names_that_are_arguments() -> None:
    stream = bids().with_columns({"uid": "auction"}).rename({"auction": "parallelism"})
    assert stream.schema.names == ["parallelism", "price", "at", "who", "uid"]


def test_columns_can_change_places() -> None:
    swapped = bids().rename(auction="price", price="auction")
    assert swapped.schema.names == ["price", "auction", "at", "who"]


def test_types_are_those_that_a_stream_can_have() -> None:
    stream = bids().select(
        hour=pc.hour(pc.field("at")),
        cs=pc.count_substring(pc.field("who", "name"), "p"),
        euros=ms.col("price").cast("decimal(19,0)") * Decimal("0.908"),
        flag=ms.col("price") > 5,
        word=ms.lit("x"),
        then=ms.lit(T0.astimezone(timezone(timedelta(hours=2)))),
    )
    assert schema(stream) == (
        "hour long, cs int, euros decimal(23,3), flag boolean, word string, then timestamp"
    )


def test_a_keyed_stream_has_no_key_afterwards() -> None:
    keyed = bids().key_by(ms.col("auction") % 2)
    for stream in (keyed.select("price"), keyed.drop("at"), keyed.rename(at="when")):
        assert not isinstance(stream, ms.KeyedStream)
    assert given(lambda s: s.key_by(lambda r: r.auction, "long").select("price")) == [
        (10 * n,) for n in range(12)
    ]


def test_chains_of_them_stay_in_one_task() -> None:
    env = ms.Environment()
    stream = bids(env).with_columns(x=ms.col("price") * 2).rename(x="y").select("y")
    stream.sink(ms.connectors.Memory(), uid="out")
    chain = "[bids -> with_columns-1 -> rename-1 -> select-1 -> out] x 2"
    assert chain in str(env.explain())


def test_what_cannot_be_computed_of_a_row_ends_the_job_and_names_the_operator() -> None:
    with pytest.raises(MainstayError, match=r"'ratios'.*divide by zero"):
        given(lambda s: s.select(ratio=ms.lit(1) / ms.col("price"), uid="ratios"))


# ---------------------------------------------------------------- the time of an event

PER_10S = [
    (T0 + timedelta(seconds=s), T0 + timedelta(seconds=s + 10), n) for s, n in ((0, 10), (10, 2))
]


def counted(stream: ms.Stream) -> ms.Stream:
    return stream.window(ms.tumbling("10s")).aggregate(n=ms.count(), uid="n")


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.select("at"),
        lambda s: s.select("price", when="at"),
        lambda s: s.rename(at="when").with_columns(x=ms.lit(1)),
        lambda s: s.drop("who").rename(at="price", price="at"),
        lambda s: s.with_columns(at=ms.col("at").cast("timestamp")),
        lambda s: s.rename(at="when").rename(when="at").filter(ms.col("price") >= 0),
    ],
)
def test_the_time_of_an_event_stays_known(change: Callable[[ms.Stream], ms.Stream]) -> None:
    assert given(lambda s: counted(change(s)), WATERMARK) == PER_10S


def test_the_end_of_a_window_that_is_renamed_is_no_part_of_it() -> None:
    def build(stream: ms.Stream) -> ms.Stream:
        ended = counted(stream).select("n", ended="window_end")
        return ended.window(ms.tumbling("10s")).aggregate(n=ms.sum("n"), uid="sums")

    assert given(build, WATERMARK) == PER_10S


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.drop("at"), "the time 'at' of its source is no longer in the stream"),
        (lambda s: s.with_columns(b="at"), "have their time in 'at' and 'b'"),
    ],
)
def test_a_time_that_is_gone_or_doubled_must_be_named(change: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        counted(change(bids(watermark=WATERMARK)))


def test_another_column_in_the_place_of_the_time_is_not_the_time() -> None:
    two = bids(watermark=WATERMARK).with_columns(other=pc.field("at"))
    with pytest.raises(GraphError, match="'at' of its source is no longer in the stream"):
        counted(two.drop("at").rename(other="at"))


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.select("prise"), r"no column 'prise'; the stream has 'auction', .*'price'\?"),
        (lambda s: s.select(x="prise"), r"column 'x': there is no column 'prise'.*'price'\?"),
        (lambda s: s.select(x=ms.col("prise") * 2), r"no column 'prise'.*Did you mean 'price'\?"),
        (lambda s: s.drop("prise"), r"no column 'prise'.*Did you mean 'price'\?"),
        (lambda s: s.rename(prise="x"), r"no column 'prise'.*Did you mean 'price'\?"),
        (lambda s: s.with_columns(x="who.nam"), r"no column 'nam'.*Did you mean 'name'\?"),
        (lambda s: s.select(["price", "at"]), r"is no column. Write each by its name"),
        (lambda s: s.select("*"), r"with_columns\(\.\.\.\) keeps all"),
        (lambda s: s.select(), "at least one column"),
        (lambda s: s.drop(), "columns to leave out"),
        (lambda s: s.rename(), "columns to rename"),
        (lambda s: s.with_columns(), "columns to add"),
        (lambda s: s.drop("auction", "price", "at", "who"), "leaves no column"),
        (lambda s: s.select("price", "price"), "several columns 'price'"),
        (lambda s: s.select("price", price="at"), "several columns 'price'"),
        (lambda s: s.rename(price="at"), "several columns 'at'"),
        (lambda s: s.rename({"price": "a"}, price="b"), "'price' is given twice"),
        (lambda s: s.rename(price=5), "5 is no name for a column"),
        (lambda s: s.rename("price"), r"as in rename\(\{"),
        (lambda s: s.select(ms.col("price") * 2), r"needs a name. Write select\(\.\.\., name="),
        (lambda s: s.with_columns(x=5), r"write ms.lit\(5\)"),
        (lambda s: s.with_columns(x=lambda row: 5), r"a function is for map\(\.\.\.\)"),
        (lambda s: s.with_columns(x=ms.col("at") - ms.col("at")), "column 'x'.*duration.*no Spark"),
        (lambda s: s.with_columns(x=ms.lit(None)), "column 'x'.*null has no Spark type"),
        (lambda s: s.with_columns(x=ms.col("who") * 2), "cannot be evaluated on rows of"),
        (lambda s: s.with_columns(x=pc.field("nothing")), "column 'x'.*cannot be evaluated"),
        (lambda s: s.drop("price", uidd="x"), r"drop\(\) has no argument 'uidd'"),
    ],
)
def test_mistakes_are_named_when_the_program_is_written(change: Any, said: str) -> None:
    with pytest.raises((GraphError, TypeError), match=f"(?s){said}"):
        change(bids())
