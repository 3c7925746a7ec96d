"""A job's state is asked by its snapshots: a key, some keys, or some rows, of any kept epoch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import (
    EpochGoneError,
    GraphError,
    MainstayError,
    QueryError,
    RestoreError,
    SqlError,
)
from mainstay.inspect import reading, sql
from mainstay.inspect.reading import Origin
from mainstay.inspect.sql import run_sql
from mainstay.inspect.stored_connection import StoredConnection
from mainstay.snapshot.object_storage import ObjectStorage
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


@pytest.fixture(scope="module", params=["path", "url"])
def job(request: Any, places: dict[str, str]) -> Iterator[ms.Connection]:
    """The same directory, by its path and over HTTP."""
    if request.param == "path":
        yield ms.connect(places["snapshots"])
        return
    served = pytest.importorskip("mainstay.serve.server").Server(ms.Ui())
    served.show(import_module("mainstay.serve.stored").StoredView(places["snapshots"]))
    yield ms.connect(served.url)
    served.close()


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


def test_a_key_may_be_a_value_a_tuple_or_a_dictionary(job: ms.Connection) -> None:
    key = next(iter(BY_KEY))
    answer = job.query("all.total", key={"customer": key[0], "region": key[1]})
    assert answer.value == sum(BY_KEY[key]) == job.query("all.total", key=key).value
    assert job.query("all.total", key=("nobody", 1)).value is None
    assert job.query("sums.aggregates", key=key[0]).value is not None


def test_an_answer_says_of_which_moment_it_is(places: dict[str, str], job: ms.Connection) -> None:
    manifest = Origin.open(places["snapshots"]).manifest
    answer = job.query("all.total", key=next(iter(BY_KEY)))
    assert (answer.epoch, answer.moment.attempt) == (manifest.epoch, manifest.attempt)
    assert answer.moment.job == "everything"
    assert answer.moment.position == {"numbers": {"even": 300, "odd": 301}}
    assert answer.moment.committed_at.utcoffset() == timedelta(0)
    assert answer.age_s >= 0
    assert answer.took_s > 0
    assert repr(answer).startswith(f"<all.total at epoch {manifest.epoch}, ")


def test_a_scan_shows_as_many_rows_as_are_asked_for(job: ms.Connection) -> None:
    assert len(job.query("all.total", limit=3).rows()) == 3
    assert job.query("all.total", limit=0).rows() == []
    assert len(job.query("all.total", limit=10_000).rows()) == len(BY_KEY)
    assert job.query("numbered.seen").table.num_rows == 10


def test_a_scan_opens_each_file_once_and_the_next_one_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped_half_way(tmp_path)
    place = str(tmp_path / "snapshots")
    files = {ref.file.path for ref in Origin.open(place).view("all", "total").refs()}
    read: list[str] = []
    as_it_is = ObjectStorage.read

    def noted(self: ObjectStorage, path: str, *part: Any) -> bytes:
        read.append(path)
        return as_it_is(self, path, *part)

    monkeypatch.setattr(ObjectStorage, "read", noted)
    job = ms.connect(place)
    whole = job.query("all.total", limit=10_000)
    assert set(whole.values()) == set(BY_KEY)
    assert sorted(path for path in read if path in files) == sorted(files)
    read.clear()
    assert job.query("all.last", limit=10_000).table.num_rows == len(BY_KEY)
    assert job.query("all.total", limit=10_000).values() == whole.values()
    assert not [path for path in read if path in files]


@pytest.mark.parametrize("stored_as_small", [True, False])
def test_the_first_rows_are_those_of_the_first_key_groups(
    places: dict[str, str], monkeypatch: pytest.MonkeyPatch, stored_as_small: bool
) -> None:
    monkeypatch.setattr(reading, "FIRST_SLICE_BYTES", 1 << 20 if stored_as_small else 1)
    job = ms.connect(places["snapshots"])
    whole = sorted(job.query("all.total").rows(), key=itemgetter("key_group"))
    groups = [row["key_group"] for row in whole]
    for limit in (1, 7, len(BY_KEY) - 1, len(BY_KEY)):
        found = job.query("all.total", limit=limit).rows()
        assert [row["key_group"] for row in found] == groups[:limit]
        assert all(row in whole for row in found)


def test_what_is_asked_wrongly_is_answered_with_what_there_is(job: ms.Connection) -> None:
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
        with pytest.raises(MainstayError, match=message) as raised:
            job.query(**asked)
        assert type(raised.value) is not MainstayError
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
    job = ms.connect(tmp_path / "copy")
    for name, columns in job.states().items():
        if not columns.is_keyed:
            continue
        whole = job.query(name)
        plain = columns.key_columns()
        for row in whole.rows()[:20]:
            found = job.query(name, key={each: row[each] for each in plain})
            same = [each for each in whole.rows() if all(each[c] == row[c] for c in plain)]
            assert sorted(found.rows(), key=repr) == sorted(same, key=repr)


def test_an_unknown_epoch_names_those_that_are_kept(job: ms.Connection) -> None:
    with pytest.raises(RestoreError, match="999"):
        job.states(epoch=999)


def test_both_ways_give_the_same(places: dict[str, str], job: ms.Connection) -> None:
    """The answer over HTTP is that of the snapshots themselves, errors and all."""
    stored = ms.connect(places["snapshots"])
    assert job.states() == stored.states()
    names = sorted(stored.states())
    whole, expected = job.query_states(names), stored.query_states(names)
    for name in names:
        assert whole[name].table == expected[name].table
        assert whole[name].columns == expected[name].columns
        assert whole[name].moment == expected[name].moment
    wrong: list[dict[str, Any]] = [
        {"state": "all.totl"},
        {"state": "all.total", "key": "c1"},
        {"state": "all.total", "key": ("c1", "x")},
        {"state": "all.total", "key": ("c1", 1), "keys": []},
        {"state": "all.total", "keys": "c1"},
        {"state": "all.total", "epoch": 999},
        {"state": "all.total", "at": "lively"},
        {"state": "all.total", "epoch": 1, "after": 2},
        {"state": "all.total", "after": {"nowhere": 1}},
        {"state": "all.total", "after": 999, "timeout": 0.05},
    ]
    for asked in wrong:
        with pytest.raises(MainstayError) as here:
            stored.query(**asked)
        with pytest.raises(type(here.value)) as there:
            job.query(**asked)
        assert str(there.value) == str(here.value), asked


def test_live_state_needs_a_job_that_runs(job: ms.Connection) -> None:
    with pytest.raises(QueryError, match="address"):
        job.query("all.total", key=("c1", 1), at="live")


# ---------------------------------------------------------------- SQL


def test_states_are_joined_and_counted_with_sql(job: ms.Connection) -> None:
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
    job: ms.Connection, tmp_path: Path, statement: str
) -> None:
    file = tmp_path / "file.csv"
    file.write_text("secret\n1\n")
    with pytest.raises(MainstayError):
        job.sql(statement.format(file=file))
    assert file.read_text() == "secret\n1\n"
    assert list(tmp_path.iterdir()) == [file]


def test_a_state_that_is_not_there_is_named_with_those_that_are(job: ms.Connection) -> None:
    with pytest.raises(SqlError, match=r"(?s)totl.*there are .*all.total"):
        job.sql('select * from "all".totl')


def test_a_statement_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(SqlError, match="stopped after"):
        run_sql("select count(*) from range(100000000000) a, range(1000) b", {}, _none, seconds=0.2)


def test_a_statement_without_an_end_is_cut_where_no_more_rows_are_wanted() -> None:
    table = run_sql("select * from range(100000000000)", {}, _none, most=10)
    assert table["range"].to_pylist()[:11] == list(range(11))
    assert table.num_rows < 10_000


def test_rows_beyond_the_memory_of_a_statement_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "MOST_BYTES", 1 << 20)
    with pytest.raises(SqlError, match="take more than 1GB"):
        run_sql("select * from range(100000000000)", {}, _none)


def test_what_goes_wrong_after_the_first_rows_is_said_as_at_the_beginning() -> None:
    late = "select cast(case when n < 50000 then '1' else 'x' end as int) from range(60000) t(n)"
    with pytest.raises(SqlError, match="cannot be run: Conversion Error"):
        run_sql(late, {}, _none)
    with pytest.raises(SqlError, match="stopped after"):
        run_sql("select * from range(100000000000)", {}, _none, seconds=0.2)


ENDING = """
import threading
from mainstay.inspect import sql

def ask():
    sql.run_sql("select sum(a.range * b.range) from range(9999999) a, range(9999999) b", {}, None)

threading.Thread(target=ask, daemon=True).start()
while not sql._UNDER_WAY._databases:
    threading.Event().wait(0.01)
threading.Event().wait(0.3)  # the statement is inside the database
print("the program ends")
"""


def test_a_program_that_ends_stops_the_statement_that_it_runs() -> None:
    command = [sys.executable, "-c", ENDING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (0, "the program ends\n"), done.stderr
    assert "FATAL" not in done.stderr


def _none(name: str, keys: Any) -> Any:
    raise AssertionError(name)


def test_an_epoch_that_is_deleted_while_it_is_read_gives_way_to_a_later_one(
    places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = StoredConnection(places["snapshots"])
    latest = job.query("all.total", limit=1).epoch
    gone = Origin.open(places["snapshots"]).manifest.epoch - 3
    found = job._number
    for ask in (
        lambda: job.query("all.total", limit=1).epoch,
        lambda: job.sql('select 1 from "all".total limit 1').num_rows and latest,
    ):
        numbers = iter([gone, gone])
        monkeypatch.setattr(job, "_number", lambda epoch, n=numbers: next(n, None) or found(epoch))
        assert ask() == latest
        assert next(numbers, None) is None, "the epoch that is gone was tried"
    monkeypatch.undo()
    with pytest.raises(EpochGoneError, match="is not kept any more"):
        job.query("all.total", limit=1, epoch=gone)
