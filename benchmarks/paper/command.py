"""``python -m benchmarks paper``: ways to take a snapshot, beside each other.

Every run is a line of ``paper.jsonl`` as soon as it has ended, so nothing is lost when a long
measurement is interrupted: ``--resume`` goes on with it, ``--draw-only`` makes the report of it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.paper import figures, tables
from benchmarks.paper.grid import AMOUNTS, AXES, Amount, in_turn
from benchmarks.paper.modes import MODES, NONE
from benchmarks.paper.running import Case, Run, measure
from benchmarks.paper.tables import Runs
from benchmarks.picture import NoPlotError
from mainstay.drive.process import settle_process

RESULTS = Path(__file__).parents[1] / "results"


def main(arguments: Sequence[str]) -> None:
    chosen = _parser().parse_args(arguments)
    amount = AMOUNTS[chosen.size or ("quick" if chosen.quick else "full")]
    amount = replace(
        amount,
        rounds=chosen.rounds or amount.rounds,
        seconds=chosen.seconds or amount.seconds,
    )
    axes = chosen.axis or list(AXES)
    # What the others are compared with, and take their pace from, is always measured.
    modes = [name for name in MODES if not chosen.mode or name in (*chosen.mode, NONE.name)]
    record = chosen.output.with_suffix(".jsonl")
    if not chosen.resume and not chosen.draw_only:
        record.unlink(missing_ok=True)
    if not chosen.draw_only:
        _measure_all(amount, axes, modes, record)
    runs = Runs([run for run in _recorded(record) if run.case in amount.all_cases(axes)])
    _write(runs, amount, axes, chosen.output)
    if runs.wrong:
        raise SystemExit(f"{len(runs.wrong)} runs had a wrong result; see {chosen.output}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks paper")
    parser.add_argument("--quick", action="store_true", help="small cases, one short round")
    parser.add_argument("--size", choices=AMOUNTS, help="how much is measured")
    parser.add_argument("--axis", choices=AXES, action="append", help="vary only this")
    parser.add_argument("--mode", choices=MODES, action="append", help="only this, beside none")
    parser.add_argument("--rounds", type=int, help="how often each is measured, in turn")
    parser.add_argument("--seconds", type=float, help="how long a window is at least")
    parser.add_argument("--resume", action="store_true", help="go on with what was interrupted")
    parser.add_argument("--draw-only", action="store_true", help="measure nothing")
    parser.add_argument("--output", type=Path, default=RESULTS / "paper.md", help="the report")
    return parser


def _measure_all(amount: Amount, axes: Sequence[str], modes: Sequence[str], record: Path) -> None:
    # As a worker's process does: the coordinator is not held up by the collector.
    settle_process()
    known = {(run.case, run.mode, run.round) for run in _recorded(record)}
    for number, order in in_turn(modes, amount.rounds):
        for case in amount.all_cases(axes):
            pace = _pace(case, record)
            # The first run of a case finds out the pace of all others.
            for mode in order if pace else [NONE.name, *(m for m in order if m != NONE.name)]:
                if (case, mode, number) not in known:
                    run = measure(case, MODES[mode], amount.seconds, pace)
                    pace = pace or run.paced["pace"]
                    _keep(replace(run, round=number), record)


def _pace(case: Case, record: Path) -> float | None:
    """The pace of a case, once a run has found it."""
    return next((run.paced["pace"] for run in _recorded(record) if run.case == case), None)


def _keep(run: Run, record: Path) -> None:
    with record.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(run)) + "\n")
    verdict = "" if run.is_right else ", WRONG"
    print(
        f"round {run.round + 1}, {run.case}: {run.mode}: {run.full['rows_per_s']:,.0f} records/s, "
        f"longest gap {run.full['gap_ms']:.0f} ms; p99 {run.paced['p99_ms']:.0f} ms{verdict}",
        flush=True,
    )


def _recorded(record: Path) -> list[Run]:
    if not record.exists():
        return []
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    return [Run(**{**line, "case": Case(**line["case"])}) for line in lines]


def _write(runs: Runs, amount: Amount, axes: Sequence[str], output: Path) -> None:
    try:
        drawn = figures.draw(runs, amount, axes, output.parent, output.stem)
    except NoPlotError as error:
        print(error, file=sys.stderr)
        drawn = []
    output.write_text(tables.document(runs, amount, axes, drawn), encoding="utf-8")
    print(f"see {output}")
