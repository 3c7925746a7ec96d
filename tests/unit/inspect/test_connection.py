"""A job's state is asked by its snapshots: a key, some keys, or some rows, of any kept epoch."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import GraphError, MainstayError, RestoreError, SqlError
from mainstay.inspect.connection import Connection
from mainstay.inspect.reading import Origin
from mainstay.inspect.sql import run_sql
from mainstay.testing import rows
from tests.spark.states import numbers_by_key, stopped_half_way
from tests.unit.drive.test_embedded import PATIENCE_S

BY_KEY = numbers_by_key()
STATES = ("last", "total", "numbers", "parities", "session", "recent", "pages", "anything")
GOLDEN = Path(__file__).parents[2] / "golden" / "data"


@pytest.fixture(scope="module", params=["heap", "rocksdb"])
def places(request: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where a job that was stopped half-way has its state."""
    folder = tmp_path_factory.mktemp("half-way")
    settings = {} if request.param == "heap" else {"state": ms.RocksDB()}
    _, _, saved = stopped_half_way(folder, **settings)
    return {"snapshots": str(folder / "snapshots"), "savepoint": saved}


@pytest.mark.parametrize("place", ["snapshots", "savepoint"])
@pytest.mark.parametrize("state", STATES)
def test_a_key_that_is_looked_up_has_what_a_scan_shows(
    places: dict[str, str], place: str, state: str
) -> None:
    job = ms.connect(places[place])
    scanned = job.query(f"all.{state}").values()
    assert set(scanned) == set(BY_KEY)
    for key, value in scanned.items():
        assert job.query(f"all.{state}", key=key).value == value
    some = [*list(BY_KEY)[:5], ("nobody", 7)]
    assert job.query(f"all.{state}", keys=some).values() == {k: scanned[k] for k in some[:5]}


def test_a_key_may_be_a_value_a_tuple_or_a_dictionary(places: dict[str, str]) -> None:
    job = ms.connect(places["snapshots"])
    key = next(iter(BY_KEY))
    answer = job.query("all.total", key={"customer": key[0], "region": key[1]})
    assert answer.value == sum(BY_KEY[key]) == job.query("all.total", key=key).value
    assert job.query("all.total", key=("nobody", 1)).value is None
    assert job.query("sums.aggregates", key=key[0]).value is not None


def test_an_answer_says_of_which_moment_it_is(places: dict[str, str]) -> None:
    manifest = Origin.open(places["snapshots"]).manifest
    answer = ms.connect(places["snapshots"]).query("all.total", key=next(iter(BY_KEY)))
    assert (answer.epoch, answer.moment.attempt) == (manifest.epoch, manifest.attempt)
    assert answer.moment.job == "everything"
    assert answer.moment.position == manifest.sources
    assert answer.moment.committed_at.utcoffset() == timedelta(0)
    assert answer.age_s >= 0
    assert answer.took_s > 0
    assert repr(answer).startswith(f"<all.total at epoch {manifest.epoch}, ")


def test_a_scan_shows_as_many_rows_as_are_asked_for(places: dict[str, str]) -> None:
    job = ms.connect(places["snapshots"])
    assert len(job.query("all.total", limit=3).rows()) == 3
    assert job.query("all.total", limit=0).rows() == []
    assert len(job.query("all.total", limit=10_000).rows()) == len(BY_KEY)
    assert job.query("numbered.seen").table.num_rows == 10


def test_what_is_asked_wrongly_is_answered_with_what_there_is(places: dict[str, str]) -> None:
    job = ms.connect(places["snapshots"])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"state": "all.totl"}, r"no state 'all.totl'.*all.total.*Did you mean 'all.total'"),
        ({"state": "total"}, r"Name it by operator and state"),
        ({"state": "all.total", "key": "c1"}, r"a value for each of \['customer', 'region'\]"),
        ({"state": "all.total", "key": ("c1", "x")}, "region"),
        ({"state": "all.total", "key": ("c1", 1), "keys": []}, "Give one of them"),
        ({"state": "all.total", "key": ("c1", 1), "limit": 1}, "limit= is for a scan"),
        ({"state": "all.total", "limit": -1}, "number of rows"),
        ({"state": "sums.aggregates", "keys": "c1"}, "is one key"),
        ({"state": "numbered.seen", "key": 1}, "has no key"),
        ({"state": "all.total", "epoch": 999}, "999"),
        ({"state": "all.total", "epoch": "newest"}, "latest"),
    ]
    for asked, message in wrong:
        with pytest.raises(MainstayError, match=message):
            job.query(**asked)
    with pytest.raises(GraphError, match=r"values\(\)"):
        _ = job.query("all.total").value
    with pytest.raises(GraphError, match="has no key"):
        job.query("numbered.seen").values()


def test_a_directory_without_an_epoch_says_so(tmp_path: Path) -> None:
    with pytest.raises(MainstayError):
        ms.connect(tmp_path / "nowhere").query("a.b")


class Last(ms.KeyedProcess):
    """Keeps the row it saw last."""

    seen = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.seen.update(row.n)
        yield row


def test_the_latest_epoch_is_the_one_that_is_the_latest_now(tmp_path: Path) -> None:
    def run(count: int) -> None:
        env = ms.Environment(
            spark="embedded",
            parallelism=1,
            snapshots=ms.Snapshots(tmp_path, retain=10),
            restore="latest-or-new",
        )
        source = rows("k string, n long", [(None, n) for n in range(count)], splits=count)
        keyed = env.source(source, uid="in").key_by("k")
        keyed.process(Last(), "k string, n long", uid="last").sink(Memory(), uid="out")
        env.start("job").wait(PATIENCE_S, progress=False)

    run(1)
    job = ms.connect(tmp_path)
    first = job.query("last.seen", key=None)
    assert first.value == 0
    run(2)
    assert job.query("last.seen", key=None).value == 1
    assert job.query("last.seen", key=None, epoch=first.epoch).value == 0
    assert ms.connect(f"{tmp_path}#{first.epoch}").query("last.seen", key=None).value == 0


@pytest.mark.parametrize("place", ["snapshot-v1", "savepoint-v1", "namespaces-snapshot-v6"])
def test_files_of_earlier_versions_are_searched_too(tmp_path: Path, place: str) -> None:
    shutil.copytree(GOLDEN / place, tmp_path / "copy")
    job = Connection(tmp_path / "copy")
    for name, columns in job.states().items():
        if not columns.is_keyed:
            continue
        whole = job.query(name)
        plain = columns.key_columns()
        for row in whole.rows()[:20]:
            found = job.query(name, key={each: row[each] for each in plain})
            same = [each for each in whole.rows() if all(each[c] == row[c] for c in plain)]
            assert sorted(found.rows(), key=repr) == sorted(same, key=repr)


def test_an_unknown_epoch_names_those_that_are_kept(places: dict[str, str]) -> None:
    with pytest.raises(RestoreError, match="999"):
        ms.connect(places["snapshots"]).states(epoch=999)


# ---------------------------------------------------------------- SQL


def test_states_are_joined_and_counted_with_sql(places: dict[str, str]) -> None:
    job = ms.connect(places["snapshots"])
    found = job.sql(
        'select t.region, count(*) as n, sum(t.total) as total from "all".total t '
        'join "all".session s using (customer, region) group by t.region order by t.region'
    )
    expected = [
        {
            "region": region,
            "n": sum(key[1] == region for key in BY_KEY),
            "total": sum(sum(n) for key, n in BY_KEY.items() if key[1] == region),
        }
        for region in (0, 1)
    ]
    assert found.to_pylist() == expected
    assert job.sql("select * from numbered.seen order by unit").column("unit").to_pylist() == [
        *range(10)
    ]


REFUSED = [
    "copy (select 1) to '{file}'",
    "select 1; select 2",
    "create table x as select 1",
    "attach '{file}'",
    "install httpfs",
    "set enable_external_access = true",
    "select * from read_csv('{file}')",
    "select * from read_text('{file}')",
    "select * from '{file}'",
    "select * from glob('/*')",
    "export database '{file}'",
    "select * from BY_KEY",
    "select * from \"all\".total; copy (select 1) to '{file}'",
    "nonsense",
    "",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_a_statement_reaches_nothing_but_states(
    places: dict[str, str], tmp_path: Path, statement: str
) -> None:
    file = tmp_path / "file.csv"
    file.write_text("secret\n1\n")
    with pytest.raises(MainstayError):
        ms.connect(places["snapshots"]).sql(statement.format(file=file))
    assert file.read_text() == "secret\n1\n"
    assert list(tmp_path.iterdir()) == [file]


def test_a_state_that_is_not_there_is_named_with_those_that_are(places: dict[str, str]) -> None:
    with pytest.raises(MainstayError, match=r"(?s)totl.*there are .*all.total"):
        ms.connect(places["snapshots"]).sql('select * from "all".totl')


def test_a_statement_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(SqlError, match="stopped after"):
        run_sql("select count(*) from range(100000000000) a, range(1000) b", [], _none, seconds=0.2)


def _none(name: str) -> Any:
    raise AssertionError(name)
