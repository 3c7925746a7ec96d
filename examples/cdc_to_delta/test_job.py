"""Every change goes on once, in its order, whatever is sent again and whatever crashes."""

import json

import pytest

import mainstay as ms
from examples.cdc_to_delta.job import CHANGE, DATA, build
from mainstay.testing import rows, run


def build_in_memory(env):
    build(env, ms.connectors.Memory())


def changes():
    return [json.loads(line) for line in DATA.read_text().splitlines()]


def test_a_change_that_is_sent_again_is_left_out():
    sent = [("c", 10, 1, "Anna", "Oslo"), ("u", 20, 1, "Anna", "Graz")]
    result = run(build_in_memory, {"changes": rows(CHANGE, [*sent, *sent])})
    assert result.output("out") == [
        (1, 1, 10, False, "Anna", "Oslo", None),
        (1, 2, 20, False, "Anna", "Graz", "Oslo"),
    ]


def test_a_row_that_was_deleted_is_not_revived():
    sent = [("c", 10, 1, "Anna", "Oslo"), ("d", 20, 1, None, None), ("c", 10, 1, "Anna", "Oslo")]
    result = run(build_in_memory, {"changes": rows(CHANGE, sent)})
    assert [row[3] for row in result.output("out")] == [False, True]


@pytest.mark.parametrize("seed", range(5))
def test_every_change_of_the_file_goes_on_once_whatever_crashes(seed):
    sent = {(change["id"], change["lsn"]) for change in changes()}
    assert len(sent) < len(changes())
    result = run(build_in_memory, seed=seed, crashes=2, rescales=[3])
    taken = [(row[0], row[2]) for row in result.output("out")]
    assert sorted(taken) == sorted(sent)


def test_the_delta_table_has_the_history(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(tmp_path / "snapshots"))
    build(env, ms.connectors.DeltaSink(str(tmp_path / "customers")))
    env.start("customers").wait(60)
    table = deltalake.DeltaTable(str(tmp_path / "customers")).to_pyarrow_table()
    assert table.num_rows == len({change["lsn"] for change in changes()})
