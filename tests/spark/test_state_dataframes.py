"""States as DataFrames: read from snapshots and savepoints, edited, written, rebucketed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import mainstay as ms
from mainstay.errors import (
    EpochGoneError,
    GraphError,
    RestoreError,
    SavepointError,
    SparkSetupError,
    StateTypeError,
)
from mainstay.inspect.reading import Origin
from mainstay.runtime.messages import Epoch
from mainstay.spark.states.source import frame_of
from tests.spark.states import build, numbers_by_key, start, stopped_half_way
from tests.unit.drive.test_embedded import (
    HALF,
    PATIENCE_S,
    ROWS,
    Gated,
    Telling,
    environment,
)

pytestmark = pytest.mark.spark

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
KEYED = ("last", "total", "numbers", "parities", "session", "recent", "pages", "anything")
BY_KEY = numbers_by_key()


class HalfWay:
    """A job that was stopped half-way, and where its state is."""

    def __init__(self, folder: Path) -> None:
        self.source, self.sink, saved = stopped_half_way(folder)
        self.places = {"snapshots": str(folder / "snapshots"), "savepoint": saved}
        self.saved = saved


@pytest.fixture(scope="module")
def half_way(tmp_path_factory: pytest.TempPathFactory) -> HalfWay:
    return HalfWay(tmp_path_factory.mktemp("half-way"))


@pytest.fixture
def pushdown(spark: Any) -> Iterator[None]:
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


@pytest.fixture
def far_away(spark: Any) -> Iterator[None]:
    """A session whose clock is not UTC."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def read(spark: Any, place: Any, state: str, operator: str = "all", **options: Any) -> Any:
    options = {"partitions": 2, **options}
    return ms.spark.read_state(spark, place, operator=operator, state=state, **options)


def write(path: Path, **given: Any) -> str:
    return ms.spark.write_savepoint(path, **{"partitions": 2, **given})


def by_key(frame: Any, column: str) -> dict[tuple[str, int], Any]:
    return {(row.customer, row.region): row[column] for row in frame.collect()}


def saved_rows(place: str, operator: str, state: str) -> list[dict[str, Any]]:
    """What the files of a savepoint say, in an order of its own."""
    rows = pq.read_table(f"{place}/state/{operator}/{state}").to_pylist()
    return sorted(rows, key=lambda row: json.dumps(row, default=str, sort_keys=True))


def totals_of(job: Any, sink: Telling) -> dict[str, int]:
    assert job.wait(PATIENCE_S) == "finished"
    found: dict[str, int] = {}
    for customer, _, total in sink.rows():
        found[customer] = max(found.get(customer, 0), total)
    return found


# ---------------------------------------------------------------- reading


def test_states_are_read_as_tables(spark: Any, half_way: HalfWay) -> None:
    """What is in them for each kind of state and place is tested without Spark."""
    path = half_way.places["snapshots"]
    total = read(spark, path, "total")
    assert total.columns == ["customer", "region", "total", "key_group"]
    assert by_key(total, "total") == {key: sum(numbers) for key, numbers in BY_KEY.items()}
    recent = read(spark, path, "recent")
    assert dict(recent.dtypes)["touched_at"] == "array<timestamp>"
    lists = by_key(recent, "recent")
    assert {key: sorted(found) for key, found in lists.items()} == BY_KEY
    sums = read(spark, half_way.saved, "aggregates", "sums").select("customer", "aggregates.*")
    expected = {(c, sum(numbers), len(numbers)) for (c, _), numbers in BY_KEY.items()}
    assert set(map(tuple, sums.collect())) == expected
    units = read(spark, path, "seen", "numbered")
    assert units.columns == ["subtask", "unit"]
    assert sorted(row.unit for row in units.collect()) == list(range(10))


def test_an_epoch_that_goes_while_spark_plans_is_gone_and_no_error_of_spark(
    spark: Any, half_way: HalfWay
) -> None:
    origin = Origin.open(half_way.places["snapshots"])
    # As it was opened when epoch 1 was still kept.
    opened = replace(origin, manifest=replace(origin.manifest, epoch=Epoch(1)))
    with pytest.raises(EpochGoneError, match=r"epoch 1 .*is not kept any more") as raised:
        frame_of(spark, opened, opened.view("all", "total"))
    assert "Traceback" not in str(raised.value)


def test_each_task_reads_its_own_key_groups(spark: Any, half_way: HalfWay) -> None:
    frame = read(spark, half_way.places["snapshots"], "total", partitions=5)
    ranges = [
        sorted({row.key_group for row in part}) for part in frame.rdd.glom().collect() if part
    ]
    assert frame.rdd.getNumPartitions() == 5
    for earlier, later in pairwise(ranges):
        assert earlier[-1] < later[0]


def test_the_data_source_is_read_with_options(spark: Any, half_way: HalfWay) -> None:
    spark.dataSource.register(ms.spark.StateDataSource)
    options = {"path": half_way.saved, "operator": "all", "state": "total"}
    frame = spark.read.format("mainstay").options(**options).load()
    assert by_key(frame, "total") == {key: sum(numbers) for key, numbers in BY_KEY.items()}
    with pytest.raises(Exception, match="needs the option 'state'"):
        spark.read.format("mainstay").options(path=half_way.saved, operator="all").load()
    with pytest.raises(Exception, match=r"no option 'epock'.*Did you mean 'epoch'"):
        spark.read.format("mainstay").options(**options, epock="3").load()


# ---------------------------------------------------------------- one key


def damage_all_but(place: str, operator: str, group: int) -> int:
    """Cut off every file of an operator's keyed state that has nothing of a key-group."""
    document = json.loads((Path(place) / "savepoint.json").read_bytes())
    files = [f for s in document["operators"][operator]["states"] for f in s["files"]]
    others = [f for f in files if not f["key_groups"][0] <= group <= f["key_groups"][1]]
    for file in others:
        (Path(place) / file["path"]).write_bytes(b"")
    return len(others)


def test_a_filter_on_the_key_reads_its_key_group_and_no_other_file(
    spark: Any, tmp_path: Path, pushdown: None
) -> None:
    customers = spark.range(1000).selectExpr("concat('c', id) as customer", "id as total")
    place = write(
        tmp_path / "saved",
        states={("totals", "total"): customers},
        declarations={("totals", "total"): ms.ValueState("long")},
        keys={"totals": "customer string"},
        partitions=4,
    )
    frame = read(spark, place, "total", "totals", pushdown=True)
    (row,) = frame.where("customer = 'c7'").collect()
    assert frame.count() == 1000, "a filter is forgotten by the next query"
    assert damage_all_but(place, "totals", row.key_group) == 3
    with pytest.raises(Exception, match="is damaged"):
        frame.count()
    assert frame.where("customer = 'c7'").collect() == [row]
    assert frame.where("customer = 'c7' and total > 5").rdd.getNumPartitions() == 1
    assert row in frame.where(f"key_group = {row.key_group}").collect()
    # Without push-down the key is given by name.
    spark.conf.set(PUSHDOWN, "false")
    assert read(spark, place, "total", "totals", key="c7").collect() == [row]
    with pytest.raises(GraphError, match=f"needs {PUSHDOWN}, which is off"):
        read(spark, place, "total", "totals", pushdown=True)


def test_without_pushdown_a_frame_may_be_filtered_in_two_ways(
    spark: Any, half_way: HalfWay, pushdown: None
) -> None:
    frame = read(spark, half_way.saved, "total")
    both = frame.where("customer = 'c3'").union(frame.where("customer = 'c4'"))
    assert sorted(row.customer for row in both.collect()) == ["c3", "c4"]


def test_a_key_of_several_columns_is_found(spark: Any, half_way: HalfWay, pushdown: None) -> None:
    for path in half_way.places.values():
        frame = read(spark, path, "total", pushdown=True)
        wanted = frame.where("customer = 'c3' and region = 1")
        assert [row.total for row in wanted.collect()] == [sum(BY_KEY[("c3", 1)])]
        assert wanted.rdd.getNumPartitions() == 1
        assert read(spark, path, "total", key=("c3", 1)).collect() == wanted.collect()
    with pytest.raises(GraphError, match=r"must give a value for each of \['customer', 'region'\]"):
        read(spark, half_way.saved, "total", key="c3")


def test_the_null_key_is_a_key_like_others(spark: Any, tmp_path: Path) -> None:
    totals = spark.createDataFrame([(None, 1), ("a", 2)], "customer string, total long")
    place = write(
        tmp_path / "saved",
        states={("o", "total"): totals},
        declarations={("o", "total"): ms.ValueState("long")},
        keys={"o": "customer string"},
    )

    def found(**key: Any) -> list[int]:
        return sorted(row.total for row in read(spark, place, "total", "o", **key).collect())

    assert found() == [1, 2]
    assert found(key=None) == found(key={"customer": None}) == [1]
    assert found(key="a") == found(key={"customer": "a"}) == [2]


# ---------------------------------------------------------------- writing back


def description(place: str) -> dict[str, Any]:
    """What a savepoint says of itself, without what differs from one writing to the next."""
    document: dict[str, Any] = json.loads((Path(place) / "savepoint.json").read_bytes())
    for name in ("created_at", "checksum"):
        document.pop(name, None)
    for operator in document["operators"].values():
        for state in operator["states"]:
            state["files"] = sum(file["rows"] for file in state["files"])
    return document


@pytest.mark.parametrize(
    ("place", "replaced"), [("snapshots", ("last", "recent")), ("savepoint", ("numbers", "pages"))]
)
def test_states_that_are_read_and_written_are_the_same(
    spark: Any,
    half_way: HalfWay,
    tmp_path: Path,
    far_away: None,
    place: str,
    replaced: tuple[str, ...],
) -> None:
    path = half_way.places[place]
    states = {("all", name): read(spark, path, name) for name in replaced}
    states[("numbered", "seen")] = read(spark, path, "seen", "numbered")
    copy = write(tmp_path / "copy", base=path, states=states)
    for name in KEYED:
        assert saved_rows(copy, "all", name) == saved_rows(half_way.saved, "all", name)
    sums = [saved_rows(at, "sums", "aggregates") for at in (copy, half_way.saved)]
    assert sums[0] == sums[1]
    assert description(copy) == description(half_way.saved)
    assert not (Path(copy) / "_unfinished").exists()


def test_an_edited_savepoint_restores_with_the_edit(
    spark: Any, half_way: HalfWay, tmp_path: Path
) -> None:
    edited = read(spark, half_way.saved, "total").selectExpr(
        "customer", "region", "total + 1000000 as total"
    )
    repaired = write(tmp_path / "repaired", base=half_way.saved, states={("all", "total"): edited})
    source, sink = Gated(), Telling()
    source.open_gate()
    job = start(tmp_path / "job", source, sink, parallelism=3, restore=repaired)
    assert totals_of(job, sink) == {
        customer: sum(numbers) + 1_000_000
        for (customer, _), numbers in numbers_by_key(ROWS).items()
    }
    assert len(sink.rows()) == ROWS - HALF, "the source went on where it was"


def test_operator_state_is_replaced(spark: Any, half_way: HalfWay, tmp_path: Path) -> None:
    units = spark.createDataFrame([(1, 77), (0, 5), (1, 78)], "subtask int, unit long")
    place = write(tmp_path / "saved", base=half_way.saved, states={("numbered", "seen"): units})
    found = read(spark, place, "seen", "numbered").collect()
    assert sorted(map(tuple, found)) == [(0, 5), (1, 77), (1, 78)]
    with pytest.raises(StateTypeError, match="numbered from 0 to 1"):
        write(
            tmp_path / "other",
            base=half_way.saved,
            states={("numbered", "seen"): units.selectExpr("subtask + 1 as subtask", "unit")},
        )


# ---------------------------------------------------------------- from a table


def program(directory: Path, source: Gated, sink: Telling, **settings: Any) -> ms.Environment:
    env = environment(directory, **settings)
    build(env, source, sink)
    return env


def test_a_job_starts_from_tables(spark: Any, tmp_path: Path) -> None:
    source, sink = Gated(), Telling()
    source.open_gate()
    keys = [(customer, region) for customer, region in BY_KEY if customer != "c6"]
    stamp = datetime.now(timezone.utc)
    old = stamp - timedelta(hours=2)
    totals = spark.createDataFrame(
        [(c, r, 10_000) for c, r in keys], "customer string, region int, total int"
    )
    pages = spark.createDataFrame(
        [("c1", 1, "odd", 1, stamp), ("c2", 0, "even", 1, old)],
        "customer string, region int, map_key string, pages int, touched_at timestamp",
    )
    recent = spark.createDataFrame(
        [("c1", 1, [1, 2]), ("c2", 0, [])], "customer string, region int, recent array<long>"
    )
    sums = spark.createDataFrame(
        [("c0", (5, 1))], "customer string, aggregates struct<total:long,n:long>"
    )
    place = write(
        tmp_path / "first",
        states={
            ("all", "total"): totals,
            ("all", "pages"): pages,
            ("all", "recent"): recent,
            ("sums", "aggregates"): sums,
        },
        program=program(tmp_path / "planned", source, sink, parallelism=2),
    )
    shown = read(spark, place, "pages").collect()
    assert [row.customer for row in shown] == ["c1"], "what has expired is not shown"
    (found,) = read(spark, place, "recent").collect()
    assert (found.recent, len(found.touched_at)) == ([1, 2], 2), "an empty list is none"

    env = program(tmp_path / "job", source, sink, parallelism=2, restore=place)
    expected = {
        customer: sum(numbers) + (10_000 if (customer, region) in keys else 0)
        for (customer, region), numbers in numbers_by_key(ROWS).items()
    }
    assert totals_of(env.start("everything"), sink) == expected
    assert len(sink.rows()) == ROWS, "its source begins at the beginning"
    row = read(spark, tmp_path / "job", "aggregates", "sums", key="c0").collect()[0]
    assert row.aggregates.total == 5 + sum(numbers_by_key(ROWS)[("c0", 0)])


TYPES = {
    "small": ("byte", [1, -128]),
    "single": ("float", [0.5, float("nan")]),
    "amount": ("decimal(12,2)", ["1.50", "-7.25"]),
    "day": ("date", ["2020-02-29", "1969-12-31"]),
    "moment": ("timestamp", ["2020-03-08 06:59:59.123456", "1969-12-31 23:59:59"]),
    "local": ("timestamp_ntz", ["2020-03-08 02:30:00", "1900-01-01 00:00:00"]),
    "raw": ("binary", ["ab", ""]),
    "flag": ("boolean", ["true", "false"]),
}


def test_values_of_all_types_come_back(spark: Any, tmp_path: Path, far_away: None) -> None:
    columns = ", ".join(f"cast(t.{name} as {kind}) as {name}" for name, (kind, _) in TYPES.items())
    rows = list(zip(*(map(str, values) for _, values in TYPES.values()), strict=True))
    table = spark.createDataFrame(rows, ", ".join(f"{name} string" for name in TYPES))
    typed = table.selectExpr("struct(*) as t").selectExpr(f"struct({columns}) as each")
    frame = typed.selectExpr(
        "each.day as day",
        "each.moment as moment",
        "each",
        "map(each.small, array(each.single, null)) as nested",
    )
    fields = ",".join(f"{name}:{kind}" for name, (kind, _) in TYPES.items())
    each = frame.select("day", "moment", "each")
    nested = frame.select("day", "moment", "nested")
    place = write(
        tmp_path / "saved",
        states={("o", "each"): each, ("o", "nested"): nested},
        declarations={
            ("o", "each"): ms.ValueState(
                f"struct<{fields}>".replace("small:byte", "small:byte NOT NULL")
            ),
            ("o", "nested"): ms.ValueState("map<byte,array<float>>"),
        },
        keys={"o": "day date, moment timestamp"},
    )
    for name, given in (("each", each), ("nested", nested)):
        found = read(spark, place, name, "o").drop("key_group")
        assert sorted(map(repr, found.collect())) == sorted(map(repr, given.collect()))
    moment = datetime(2020, 3, 8, 10, 59, 59, 123456, tzinfo=timezone.utc)
    day = date(2020, 2, 29)
    assert read(spark, place, "each", "o", key=(day, moment)).count() == 1


# ---------------------------------------------------------------- other key-groups


def test_a_rebucketed_savepoint_goes_on_with_the_right_results(
    spark: Any, half_way: HalfWay, tmp_path: Path
) -> None:
    source, sink = Gated(), Telling()
    source.open_gate()
    refused = start(
        tmp_path / "refused", source, Telling(), restore=half_way.saved, max_parallelism=77
    )
    with pytest.raises(RestoreError, match=r"mainstay\.spark\.rebucket\(spark, source, target, "):
        refused.wait(PATIENCE_S)
    target = ms.spark.rebucket(spark, half_way.saved, tmp_path / "for-77", max_parallelism=77)
    for name in KEYED:
        rows = [saved_rows(at, "all", name) for at in (target, half_way.saved)]
        assert {row.pop("key_group") < 77 for row in rows[0]} == {True}
        for row in rows[1]:
            del row["key_group"]
        assert sorted(map(repr, rows[0])) == sorted(map(repr, rows[1]))
    settings = {"parallelism": 3, "max_parallelism": 77}
    job = start(tmp_path / "job", source, sink, restore=target, **settings)
    expected = {customer: sum(numbers) for (customer, _), numbers in numbers_by_key(ROWS).items()}
    assert totals_of(job, sink) == expected
    assert len(sink.rows()) == ROWS - HALF
    lists = by_key(read(spark, tmp_path / "job", "numbers"), "numbers")
    assert {key: sorted(found) for key, found in lists.items()} == numbers_by_key(ROWS)
    sums = read(spark, tmp_path / "job", "aggregates", "sums").select("customer", "aggregates.*")
    assert {row.customer: row.total for row in sums.collect()} == expected


def test_one_operator_is_rebucketed_and_the_others_are_carried_over(
    spark: Any, half_way: HalfWay, tmp_path: Path
) -> None:
    target = ms.spark.rebucket(
        spark, half_way.saved, tmp_path / "moved", max_parallelism={"sums": 5}
    )
    described = json.loads(Path(target, "savepoint.json").read_bytes())
    assert described["max_parallelism"] == 128
    own = {uid: each.get("max_parallelism") for uid, each in described["operators"].items()}
    assert {uid: most for uid, most in own.items() if most} == {"sums": 5}
    assert {row["key_group"] < 5 for row in saved_rows(target, "sums", "aggregates")} == {True}
    assert saved_rows(target, "all", "total") == saved_rows(half_way.saved, "all", "total")
    sums = read(spark, target, "aggregates", "sums", key="c1").select("aggregates.*").collect()
    assert [row.total for row in sums] == [sum(n for n in range(HALF) if n % 7 == 1)]
    # Such a savepoint is a base like any other: what it says of the operator is kept.
    again = write(tmp_path / "again", base=target, states={}, spark=spark)
    assert saved_rows(again, "sums", "aggregates") == saved_rows(target, "sums", "aggregates")
    with pytest.raises(GraphError, match="names operator 'sum', which is unknown"):
        ms.spark.rebucket(spark, target, tmp_path / "none", max_parallelism={"sum": 5})


def test_a_savepoint_for_a_program_has_the_numbers_of_its_operators(
    spark: Any, tmp_path: Path
) -> None:
    sink = ms.connectors.Memory()

    def program(**settings: Any) -> ms.Environment:
        env = environment(tmp_path / "job", max_parallelism=32, **settings)
        rows = env.source(ms.connectors.Rows("k string, n long", [("a", 1), ("b", 2)]), uid="in")
        totals = rows.key_by("k").process(
            Total(), "k string, n long", uid="totals", max_parallelism=3
        )
        totals.sink(sink, uid="out")
        return env

    frame = spark.createDataFrame([("a", 100), ("c", 7)], "k string, total long")
    place = write(tmp_path / "made", states={("totals", "total"): frame}, program=program())
    assert {row["key_group"] < 3 for row in saved_rows(place, "totals", "total")} == {True}
    assert program(restore=place).start("totals").wait(PATIENCE_S) == "finished"
    assert sorted(sink.rows()) == [("a", 101), ("b", 2)]


class Total(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        return ctx.key, self.total.get()


# ---------------------------------------------------------------- mistakes

KEYS_OF = {"totals": "customer string"}
VALUE = {("totals", "total"): ms.ValueState("long")}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", 1), ("b", None)], "the key 'b' has a null in the place of its value"),
        ([("a", 1), ("b", 2), ("a", 1)], r"the key 'a' occurs more than once \(2 such rows"),
    ],
)
def test_rows_that_a_state_cannot_hold_are_named_and_nothing_is_written(
    spark: Any, tmp_path: Path, rows: list[Any], message: str
) -> None:
    frame = spark.createDataFrame(rows, "customer string, total long")
    states = {("totals", "total"): frame}
    with pytest.raises(StateTypeError, match=f"operator 'totals', state 'total': {message}"):
        write(tmp_path / "saved", states=states, declarations=VALUE, keys=KEYS_OF)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ("select 'a' customer, 'b' total", r"'total' is string, but its type is long \(string to"),
        ("select 'a' customer, 1.5d total", "'total' is double, but its type is long"),
        ("select 1 customer, 1L total", "'customer' is int, but its type is string"),
        ("select 'a' customer", "'total' is missing; its columns are customer string, total long"),
        ("select 'a' customer, 1L total, 2 more", "'more' is none of its columns"),
    ],
)
def test_columns_that_do_not_fit_are_named(
    spark: Any, tmp_path: Path, frame: str, message: str
) -> None:
    states = {("totals", "total"): spark.sql(frame)}
    with pytest.raises(StateTypeError, match=message):
        write(tmp_path / "saved", states=states, declarations=VALUE, keys=KEYS_OF)
    assert not (tmp_path / "saved").exists()


def test_what_is_declared_nowhere_is_refused(spark: Any, half_way: HalfWay, tmp_path: Path) -> None:
    frame = spark.sql("select 'a' customer, 1L total")
    target = tmp_path / "saved"
    with pytest.raises(SavepointError, match="operator 'totals' is unknown; declared are"):
        write(target, base=half_way.saved, states={("totals", "total"): frame})
    with pytest.raises(SavepointError, match="operator 'all' has no state 'x'; declared are"):
        write(target, base=half_way.saved, states={("all", "x"): frame})
    with pytest.raises(GraphError, match=r"its key is not known. Give its columns: keys="):
        write(target, states={("totals", "total"): frame}, declarations=VALUE)
    assert not target.exists()
    with pytest.raises(SavepointError, match="there is something at"):
        write(half_way.saved, states={("totals", "total"): frame}, declarations=VALUE, keys=KEYS_OF)
    assert read(spark, half_way.saved, "total").count() == len(BY_KEY)


def test_a_dataframe_that_fails_leaves_nothing(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(10).selectExpr(
        "cast(id as string) as customer", "if(id < 9, id, raise_error('no more')) as total"
    )
    with pytest.raises(SavepointError, match=r"was not written: .*no more"):
        write(
            tmp_path / "saved",
            states={("totals", "total"): frame},
            declarations=VALUE,
            keys=KEYS_OF,
        )
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# ---------------------------------------------------------------- the Python of the workers


@pytest.mark.parametrize(
    "call",
    [
        lambda spark, place: ms.spark.read_state(spark, place, operator="all", state="total"),
        lambda spark, place: spark.dataSource.register(ms.spark.StateDataSource),
        lambda spark, place: ms.spark.rebucket(spark, place, f"{place}-other", max_parallelism=64),
    ],
    ids=["read_state", "the data source", "rebucket"],
)
def test_states_are_not_read_or_written_with_another_python(
    spark: Any, half_way: HalfWay, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: Any
) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3 5\n")
    other.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(other))
    with pytest.raises(SparkSetupError, match=rf"the workers' {other} is 3.5. Set PYSPARK_PYTHON="):
        call(spark, half_way.saved)


def test_reading_states_registers_the_data_source_once_in_a_session(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark warns of each registration that replaces another."""
    _, _, saved = stopped_half_way(tmp_path)
    registered = []
    real = type(spark.dataSource).register

    def register(self: Any, source: Any) -> None:
        registered.append(source)
        real(self, source)

    monkeypatch.setattr(type(spark.dataSource), "register", register)
    for _ in range(2):
        assert ms.spark.read_state(spark, saved, operator="all", state="total").count() > 0
    assert len(registered) <= 1
