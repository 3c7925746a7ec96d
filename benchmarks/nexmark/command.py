"""``python -m benchmarks nexmark``: our queries beside Flink SQL over the same Parquet.

Systems run one at a time, the first round of all before the second of any. Each run is a process
of its own, which runs the query over a thousand events twice before it is measured: once to get
warm, and once for what the start and the end of a job take by themselves.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.environments import Missing, Ready, prepare
from benchmarks.harness.measurement import Outcome, measure
from benchmarks.harness.systems import ENVIRONMENTS
from benchmarks.nexmark import flink_jars
from benchmarks.nexmark.contract import QUERIES
from benchmarks.nexmark.flink_sql import STATEMENTS
from benchmarks.nexmark.generator import Generator
from benchmarks.nexmark.parquet_input import write_parquet
from benchmarks.nexmark.queries.registry import BUILDERS
from benchmarks.nexmark.reference import expected, stored_tables
from benchmarks.nexmark.summary import FLINK, OURS, Measured, report

ROOT = Path(__file__).resolve().parents[2]
FEW_EVENTS = 1_000
TIMEOUT_S = 900.0
JARS = "flink-jars"


@dataclass(frozen=True)
class Inputs:
    """Events in a directory, and a few of them in another."""

    directory: Path
    few: Path
    events: int

    @staticmethod
    def write(directory: Path, events: int, seed: int) -> Inputs:
        made = Inputs(directory / "events", directory / "few", events)
        write_parquet(made.directory, events, Generator(seed))
        write_parquet(made.few, FEW_EVENTS, Generator(seed))
        return made


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks nexmark")
    made.add_argument("--events", type=int, default=1_000_000, help="of all kinds together")
    made.add_argument("--queries", default=",".join(BUILDERS), help="by commas")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--ours-only", action="store_true", help="without Flink")
    made.add_argument("--no-install", action="store_true", help="make no environment")
    made.add_argument("--cache", type=Path, default=ROOT / ".bench", help="where it is")
    made.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "nexmark.md")
    return made


def chosen(names: str) -> list[str]:
    queries = [name for name in names.split(",") if name]
    unknown = [name for name in queries if name not in BUILDERS]
    if unknown:
        raise SystemExit(f"no program for {', '.join(unknown)}; there are {', '.join(BUILDERS)}")
    return queries


def flink(cache: Path, may_install: bool) -> Ready | Missing:
    """Flink's environment, which needs the jars of its Parquet format besides."""
    if may_install and (why_not := flink_jars.fetch(cache / JARS)) is not None:
        return Missing(why_not)
    if flink_jars.missing(cache / JARS):
        return Missing("its jars are not in the cache; leave out --no-install")
    return prepare(ENVIRONMENTS["flink"], cache, may_install)


def commands(
    query: str, given: Inputs, peer: Ready | Missing, cache: Path
) -> Iterator[tuple[str, list[str]]]:
    """Who is measured at a query, and by what command."""
    inputs = ["--input", str(given.directory), "--few", str(given.few)]
    asked = [query, *inputs, "--events", str(given.events)]
    yield OURS, [sys.executable, "-m", "benchmarks.nexmark.ours", *asked]
    if isinstance(peer, Ready) and query in STATEMENTS:
        jars = ["--jars", str((cache / JARS).resolve())]
        python = str(Path(peer.python).absolute())
        yield FLINK, [python, "-m", "benchmarks.nexmark.flink", *asked, *jars]


def one_round(
    number: int, queries: Sequence[str], given: Inputs, peer: Ready | Missing, cache: Path
) -> Iterator[Measured]:
    for query in queries:
        for system, command in commands(query, given, peer, cache):
            outcome = measure(command, TIMEOUT_S, ROOT)
            print(f"round {number + 1}  {query} {system}: {_in_short(outcome)}", flush=True)
            yield Measured(query, system, number, outcome)


def _in_short(outcome: Outcome) -> str:
    if outcome.answer is None:
        return outcome.failure
    return f"{outcome.answer['records_per_s']:,.0f} events/s"


def right_rows(query: str, given: Inputs) -> int | None:
    """How many rows a query has to give, or None where that depends on when it gives them."""
    if QUERIES[query].key:
        return None
    rows: int = expected(query, stored_tables(query, given.directory)).num_rows
    return rows


def main(arguments: list[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    queries = chosen(options.queries)
    peer = (
        Missing("left out") if options.ours_only else flink(options.cache, not options.no_install)
    )
    found: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="mainstay-nexmark-") as directory:
        given = Inputs.write(Path(directory), options.events, options.seed)
        wanted = {query: right_rows(query, given) for query in queries}
        for number in range(options.rounds):
            found += one_round(number, queries, given, peer, options.cache)
            # After each round, so that a run that is broken off leaves those it has made.
            text = report(found, wanted, peer, events=options.events, rounds=number + 1)
            options.output.write_text(text, encoding="utf-8")
    print(f"\n{text}")
