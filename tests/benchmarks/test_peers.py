"""The programs of the peers in their smallest form, where what they need can be had.

The loops without an engine and what is fed to the peers run everywhere. The peers themselves run in
the environments that ``make bench`` has made; where there is none, their tests are skipped.
"""

from __future__ import annotations

import collections
import json
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

from benchmarks import workloads
from benchmarks.harness.command import CACHE
from benchmarks.harness.environments import Missing, prepare
from benchmarks.harness.measurement import measure
from benchmarks.harness.systems import ENVIRONMENTS, Contender, contenders
from benchmarks.peers import columns, pathway_files, side_by_side
from tests.pages import ROOT
from tests.services.kafka import KafkaBroker

NEW = ("polars", "duckdb", "pathway", "quix")
THEIRS = [one for one in contenders() if one.system in NEW]
SECONDS = 1.0
LONGEST_S = 300.0


@pytest.mark.parametrize("contender", THEIRS, ids=str)
def test_a_peer_answers_and_its_results_are_right(contender: Contender) -> None:
    ready = prepare(ENVIRONMENTS[contender.environment], CACHE, may_install=False)
    if isinstance(ready, Missing):
        pytest.skip(f"{contender.system}: {ready.reason} (make bench makes it)")
    found = measure(contender.command(ready.python, SECONDS), LONGEST_S, ROOT)
    assert found.failure == ""
    assert found.answer is not None
    assert found.answer["verified"] is True
    assert found.answer["records"] > 0
    assert found.window_cpu_s is not None
    assert found.peak_bytes > 0
    assert (found.answer["latency_ms"] is not None) == (contender.workload == "W3")


def test_a_loop_without_an_engine_answers_in_the_same_words() -> None:
    command = [sys.executable, "-m", "benchmarks.peers.baseline", "W6", "--seconds", "0.1"]
    found = measure(command, LONGEST_S, ROOT)
    assert found.failure == ""
    assert found.answer is not None
    assert found.answer["verified"] is True
    assert found.answer["records"] % (25_000 * workloads.WORDS_PER_LINE) == 0


class Ending:
    """A loop that ends its process, as one that has no memory left."""

    def __init__(self, process: int) -> None:
        if process == 1:
            sys.exit(3)

    def round(self) -> int:
        return 1

    def is_right(self, rounds: int) -> bool:
        return True


def test_a_loop_whose_process_ends_is_a_failure_and_does_not_hang() -> None:
    with pytest.raises(SystemExit, match="ended without a result"):
        side_by_side._paces(Ending, 0.1, 2)


@pytest.mark.parametrize("workload", columns.SETTINGS)
def test_duckdb_groups_what_the_reference_finds(
    workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.peers.duckdb import Grouping

    monkeypatch.setattr(columns, "ROWS", 8_000)
    monkeypatch.setattr(columns, "LINES", 1_000)
    grouping = Grouping(workload, 0, 1)
    assert grouping.round() == 8_000
    assert grouping.is_right(1)
    assert sum(grouping.pairs().values()) > 0


class Said:
    """A cluster of Pathway that has said this much and ends."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self.given = events

    def events(self) -> Iterator[dict[str, Any]]:
        yield from self.given


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(pathway_files.FILES, "W1", pathway_files.Files(10))
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def test_records_count_when_their_results_are_out_and_not_when_they_are_read(
    inbox: Path, tmp_path: Path
) -> None:
    said = Said(
        {"at": 1.0, "time": 100, "count": 10},
        {"at": 1.5, "time": 200, "count": 20},
        {"at": 2.0, "time": 100},
        {"at": 3.0, "time": 200},
        {"at": 3.1, "time": 200},
    )
    found = list(pathway_files.progress(said, "W1", tmp_path))  # type: ignore[arg-type]
    assert found == [(2.0, 10), (3.0, 20)]


def test_there_are_always_files_ahead_of_what_has_been_counted(inbox: Path, tmp_path: Path) -> None:
    said = Said({"at": 1.0, "time": 100, "count": 20}, {"at": 2.0, "time": 100})
    following = pathway_files.progress(said, "W1", tmp_path)  # type: ignore[arg-type]
    assert next(following) == (2.0, 20)
    assert list(following) == []
    files = sorted(inbox.iterdir())
    assert len(files) == 2 + pathway_files.AHEAD
    first = pyarrow.csv.read_csv(files[0])
    assert first.to_pylist() == workloads.orders(0, 10).to_pylist()
    assert pyarrow.csv.read_csv(files[1]).to_pylist() == workloads.orders(10, 10).to_pylist()


@pytest.mark.services
def test_a_topic_is_filled_with_the_records_of_the_workload(broker: KafkaBroker) -> None:
    from benchmarks.peers.quix_topics import fill

    topic = broker.create("filled", 2)
    fill(broker.servers, topic, "W1", 0, 1_000)
    found: dict[int, int] = collections.Counter()
    for message in broker.committed(topic, 2):
        (key,), (amount,) = struct.unpack(">i", message.key()), struct.unpack(">i", message.value())
        found[key] += amount
    assert found == workloads.sums(1_000)


@pytest.mark.services
def test_a_key_is_always_in_the_same_partition(broker: KafkaBroker) -> None:
    from benchmarks.peers.quix_topics import fill

    topic = broker.create("keyed", 2)
    fill(broker.servers, topic, "W1", 0, 1_000)
    fill(broker.servers, topic, "W1", 0, 1_000)
    places: dict[bytes, set[int]] = collections.defaultdict(set)
    for message in broker.committed(topic, 2):
        places[message.key()].add(message.partition())
    assert {len(partitions) for partitions in places.values()} == {1}
    assert set.union(*places.values()) == {0, 1}


@pytest.mark.services
def test_paced_records_carry_when_they_were_made(broker: KafkaBroker) -> None:
    from benchmarks.peers.quix_topics import STAMPED, pace

    topic, began = broker.create("paced", 2), time.time()
    pace(broker.servers, topic, 500.0, began + 1.0)
    made = [STAMPED.unpack(message.value())[1] for message in broker.committed(topic, 2)]
    assert made
    assert all(began <= stamp <= time.time() for stamp in made)
    assert len(made) <= 500 * (max(made) - began) + 1


def test_the_programs_of_peers_import_nothing_of_mainstay() -> None:
    program = """
import sys, json
from benchmarks.peers import answer, columns, pathway_files, quix_topics, side_by_side
print(json.dumps([name for name in sys.modules if name.partition(".")[0] == "mainstay"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []
