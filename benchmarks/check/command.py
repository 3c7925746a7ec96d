"""``python -m benchmarks check``: which figures changed between two commits, beyond the noise."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.check.figures import FIGURES
from benchmarks.check.report import document
from benchmarks.check.rounds import Pair, figures_of, pairs
from benchmarks.check.trees import TreeError, checked_out, measuring_differs, uncommitted
from benchmarks.check.verdict import WORSE, Verdict, rounds_for, verdicts
from benchmarks.harness.machine import Machine, load, machine

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {"W1": "process", "W2": "aggregate", "W3": "process", "W6": "process"}
"""What is run of each workload where nothing is said: what most programs do."""
GATED = {"W1": 3, "W2": 3, "W3": 4, "W6": 3}
"""How many figures each workload has; at a fixed pace latencies take the place of the rate."""
FORMAT = 1
NOTHING_WORSE, SOMETHING_WORSE, NOT_MEASURED = 0, 1, 2


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks check",
        description="Exit status: 0 nothing became worse, 1 something did, 2 not measured.",
    )
    made.add_argument("--base", default="HEAD~1", help="the commit to compare with (HEAD~1)")
    made.add_argument("--head", default="HEAD", help="the commit that is checked (HEAD)")
    made.add_argument("--only", default="W1", help="workloads by commas, of W1, W2, W3, W6 (W1)")
    made.add_argument("--variant", help="what is run, as in process_batches")
    made.add_argument("--place", default="processes", choices=("processes", "spark"))
    made.add_argument("--seconds", type=float, default=5.0, help="measured in each run (5)")
    made.add_argument("--rounds", type=int, help="runs of each commit; enough where left out")
    made.add_argument("--output", type=Path, help="where the report and every run go")
    return made


def main(arguments: list[str] | None = None, repository: Path = ROOT) -> int:
    options = parser().parse_args(arguments)
    # Who ends a check ends what it measures, too, and leaves no tree behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    workloads = _workloads(options.only)
    settings = [
        (name, f"{options.variant or SETTINGS[name]}-{options.place}") for name in workloads
    ]
    rounds = options.rounds or rounds_for(sum(GATED[name] for name in workloads))
    try:
        return _check(options, settings, rounds, repository)
    except TreeError as error:
        print(f"Nothing was measured: {error}", file=sys.stderr)
        return NOT_MEASURED


def _workloads(only: str) -> list[str]:
    names = list(dict.fromkeys(filter(None, only.split(","))))
    if unknown := [name for name in names if name not in SETTINGS]:
        raise SystemExit(f"{', '.join(unknown)} cannot be checked; there are {', '.join(SETTINGS)}")
    return names


def _check(
    options: argparse.Namespace,
    settings: Sequence[tuple[str, str]],
    rounds: int,
    repository: Path,
) -> int:
    if options.head == "HEAD" and uncommitted(repository):
        _tell("What is not committed is not checked: HEAD is the last commit.")
    names = {"base": options.base, "head": options.head}
    with (
        tempfile.TemporaryDirectory(prefix="mainstay-check-") as folder,
        checked_out(repository, names, Path(folder)) as (base, head),
    ):
        on, before = machine(), load()
        _tell(f"{on}\nbase {base}, head {head}: {rounds} rounds of {options.seconds:g} s.")
        found = list(
            pairs(base, head, settings, seconds=options.seconds, rounds=rounds, tell=_tell)
        )
        differs = measuring_differs(repository, base, head)
    good = [pair for pair in found if not pair.failures]
    judged = judge(good)
    text = document(
        str(base), str(head), on, (before, load()), found, judged, differs, options.seconds
    )
    print(f"\n{text}")
    if options.output is not None:
        _write(options.output, text, on, found)
    return status(found, judged)


def judge(found: Sequence[Pair]) -> dict[str, Verdict]:
    """A verdict on every figure of the pairs."""
    gathered = figures_of(found)
    directions = {figure.name: figure.is_better_high for figure in FIGURES}
    return verdicts(gathered, {name: directions[name.partition(" ")[2]] for name in gathered})


def status(found: Sequence[Pair], judged: dict[str, Verdict]) -> int:
    """A run that failed is no measurement, whatever the others say."""
    if not judged or any(pair.failures for pair in found):
        return NOT_MEASURED
    is_worse = any(verdict.word == WORSE for verdict in judged.values())
    return SOMETHING_WORSE if is_worse else NOTHING_WORSE


def _tell(line: str) -> None:
    print(line, flush=True)


def _write(output: Path, text: str, on: Machine, found: Sequence[Pair]) -> None:
    """The report, and every run as it was beside it."""
    output.mkdir(parents=True, exist_ok=True)
    (output / "check.md").write_text(text, encoding="utf-8")
    raw = {"format": FORMAT, "machine": on.to_json(), "pairs": [asdict(pair) for pair in found]}
    (output / "check.json").write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
