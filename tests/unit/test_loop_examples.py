"""The loops of the examples come to what a plain program comes to, with crashes on the way."""

from __future__ import annotations

import random
import sys
from functools import partial
from pathlib import Path
from typing import Any

import networkx
import pytest

import mainstay as ms
from examples import connected_components, page_rank, retries
from mainstay.errors import GraphError
from mainstay.runtime import feedback_log
from mainstay.runtime.spec import Tuning
from mainstay.snapshot.operator_files import OperatorFiles
from mainstay.testing import rows, run
from tests.drive.ledger import await_until


@pytest.mark.parametrize(("seed", "crashes"), [(1, 0), (2, 4), (3, 4)])
def test_connected_components_are_those_of_networkx(seed: int, crashes: int) -> None:
    rng = random.Random(seed)
    edges = [(rng.randrange(300), rng.randrange(300)) for _ in range(250)]
    source = rows("a long, b long", edges, splits=3)
    result = run(
        lambda env: connected_components.build(env, source, ms.connectors.Memory()),
        parallelism=3,
        seed=seed,
        crashes=crashes,
    )
    parts = networkx.connected_components(networkx.Graph(edges))
    expected = {node: min(part) for part in parts for node in part}
    assert result.state("labels", "label") == expected
    last = {}
    for node, label in result.output("out"):
        last[node] = min(label, last.get(node, label))
    assert last == expected


def test_rank_flows_until_it_is_spread() -> None:
    pages = rows("page string, links array<string>", page_rank.PAGES, splits=2)

    def rank(crashes: int) -> dict[str, float]:
        result = run(
            lambda env: page_rank.build(env, pages, ms.connectors.Memory()),
            seed=4,
            crashes=crashes,
        )
        ranks: dict[str, float] = result.state("ranks", "rank")
        return ranks

    expected = dict.fromkeys(dict(page_rank.PAGES), 1.0)
    for _ in range(100):
        flows = dict.fromkeys(expected, 1 - page_rank.PASSED_ON)
        for page, links in page_rank.PAGES:
            for link in links:
                flows[link] += page_rank.PASSED_ON * expected[page] / len(links)
        expected = flows
    assert rank(0) == pytest.approx(expected, abs=0.01)
    assert rank(4) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("crashes", [0, 3])
def test_what_fails_is_tried_again_but_not_for_ever(crashes: int) -> None:
    payments = rows("id long, amount long", [(n, 500 if n == 7 else n) for n in range(40)])
    result = run(
        lambda env: retries.build(env, payments, ms.connectors.Memory()), seed=9, crashes=crashes
    )
    found = {id: (attempt, status) for id, _, attempt, status in result.output("out")}
    assert len(result.output("out")) == 40
    assert found.pop(7) == (retries.MOST_ATTEMPTS - 1, "declined")
    assert found == {n: (n % 2, "accepted") for n in range(40) if n != 7}


# ---------------------------------------------------------------- rounds and mistakes


def endless(head: Any) -> Any:
    return head, head.map(tuple, "n long, round int")


def test_rows_go_round_no_more_often_than_they_may() -> None:
    source = rows("n long, round int", [(n, 0) for n in range(20)])

    def build(env: Any) -> None:
        looped = env.source(source, uid="in").iterate(
            endless, uid="loop", round_column="round", max_rounds=3
        )
        looped.sink(ms.connectors.Memory(), uid="out")

    found = sorted(run(build, crashes=2, seed=1).output("out"))
    assert found == [(n, round) for n in range(20) for round in range(4)]


def test_epochs_pass_a_loop_that_is_never_empty(tmp_path: Path) -> None:
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(tmp_path, every="20ms"))
    source = rows("n long, round int", [(n, 0) for n in range(10_000)])
    looped = env.source(source, uid="in").iterate(endless, uid="loop", round_column="round")
    looped.filter(lambda row: False).sink(ms.connectors.Memory(), uid="out")
    job: Any = env.start("endless")
    try:
        await_until(
            lambda: sum(record.status == "complete" for record in job.snapshots()) >= 5,
            "five epochs are complete",
        )
        assert job.status == "running"
    finally:
        job.cancel()


@pytest.mark.parametrize(
    ("body", "more", "message"),
    [
        (lambda head: head, {}, "must return two streams"),
        (lambda head: (head.key_by("n"), head), {}, "leave its key_by"),
        (
            lambda head: (head.map(tuple, "n string"), head),
            {},
            "the loop is of 'n long, round",
        ),
        (endless, {"max_rounds": 3}, "needs a column to count rounds in"),
        (endless, {"max_rounds": 0, "round_column": "round"}, "max_rounds=0 must be"),
        (endless, {"round_column": "turn"}, "there is no column 'turn'"),
        ("again", {}, "'again'"),
    ],
)
def test_mistakes_are_named(body: Any, more: dict[str, Any], message: str) -> None:
    env = ms.Environment()
    stream = env.source(rows("n long, round int", [(1, 0)]), uid="in")
    with pytest.raises(GraphError, match=message):
        stream.iterate(body, uid="loop", **more)


def test_what_goes_back_must_come_from_the_loop() -> None:
    env = ms.Environment()
    stream = env.source(rows("n long", [(1,)]), uid="in")
    with pytest.raises(GraphError, match="does not come from the loop"):
        stream.iterate(lambda head: (stream, head), uid="loop")
    with pytest.raises(GraphError, match=r"call iterate\(...\) before key_by"):
        stream.key_by("n").iterate(lambda head: (head, head), uid="loop")


SPLIT = "n long, round int"


def test_a_loop_that_makes_more_and_more_rows_comes_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two rows of one, eight times over, with next to no memory for those that wait."""
    stored: list[str] = []
    write = OperatorFiles.write

    def noted(self: OperatorFiles, name: str, data: bytes) -> Any:
        stored.append(name)
        return write(self, name, data)

    monkeypatch.setattr(feedback_log, "CHUNK_BYTES", 200)
    monkeypatch.setattr(OperatorFiles, "write", noted)
    # With room for little on the channels, rows wait at the head.
    module = sys.modules["mainstay.testing.run"]
    monkeypatch.setattr(module, "Tuning", partial(Tuning, window_bytes=100))

    def twice(row: Any) -> Any:
        if row.round == 8:
            yield tuple(row)
        else:
            yield row.n * 2, row.round
            yield row.n * 2 + 1, row.round

    def body(head: Any) -> Any:
        split = (
            head.flat_map(twice, "n long, round int").rebalance().map(tuple, "n long, round int")
        )
        back = split.filter(lambda row: row.round < 8)
        return back, split.filter(lambda row: row.round == 8)

    def build(env: Any) -> None:
        source = rows(SPLIT, [(n, 0) for n in range(6)])
        looped = env.source(source, uid="in").iterate(
            body, uid="loop", round_column="round", memory=1000
        )
        looped.sink(ms.connectors.Memory(), uid="out")

    result = run(build, parallelism=2, crashes=3, seed=2)
    assert sorted(result.output("out")) == [(n, 8) for n in range(6 * 2**8)]
    assert len(stored) > 20, "rows waited in files"
