"""``python -m benchmarks peers``: measure ours and the peers, and write the report."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.harness import record as records
from benchmarks.harness.environments import Missing, Ready, prepare
from benchmarks.harness.machine import commit, load, machine
from benchmarks.harness.plot import pictures
from benchmarks.harness.record import Record
from benchmarks.harness.schedule import run_all
from benchmarks.harness.systems import ENVIRONMENTS, OURS, SYSTEMS, WORKLOADS, Contender, contenders
from benchmarks.harness.tables import document

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
CACHE = ROOT / ".bench"
NAME = "peers"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks peers")
    made.add_argument("--only", choices=WORKLOADS, action="append", help="measure only this")
    made.add_argument("--systems", help=f"of these only, by commas: {', '.join(SYSTEMS)}")
    made.add_argument("--exclude", default="", help="not these, by commas")
    made.add_argument("--ours-only", action="store_true", help="ours and the bare loops")
    made.add_argument("--seconds", type=float, default=10.0, help="measured in each run")
    made.add_argument("--repeats", type=int, default=5, help="runs of each")
    made.add_argument("--no-install", action="store_true", help="make no environment")
    made.add_argument("--cache", type=Path, default=CACHE, help="where they are")
    made.add_argument(
        "--output",
        type=Path,
        help="where the report goes: benchmarks/results if everything is measured, else .bench",
    )
    made.add_argument("--redraw", type=Path, help="only draw the report of this peers.json again")
    return made


def chosen(arguments: argparse.Namespace) -> list[Contender]:
    """Who is asked for; a name that nobody has is refused."""
    wanted = set(arguments.systems.split(",")) if arguments.systems else set(SYSTEMS)
    excluded = {name for name in arguments.exclude.split(",") if name}
    unknown = (wanted | excluded) - set(SYSTEMS)
    if unknown:
        raise SystemExit(
            f"no system is called {', '.join(sorted(unknown))}; there are {', '.join(SYSTEMS)}"
        )
    if arguments.ours_only:
        wanted &= {OURS, "no engine"}
    return [
        contender
        for contender in contenders()
        if contender.system in wanted - excluded
        and contender.workload in (arguments.only or WORKLOADS)
    ]


def output_of(arguments: argparse.Namespace, who: Sequence[Contender]) -> Path:
    """A part of the comparison does not take the place of the whole, unless it is asked to."""
    if arguments.output is not None:
        return Path(arguments.output)
    return RESULTS if len(who) == len(contenders()) else CACHE / "results"


def main(arguments: list[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    if options.redraw is not None:
        found = records.read(options.redraw.read_text(encoding="utf-8"))
        _write(found, options.output or options.redraw.parent)
        return
    who = chosen(options)
    environments = {
        name: prepare(ENVIRONMENTS[name], options.cache, not options.no_install)
        for name in dict.fromkeys(contender.environment for contender in who)
    }
    measure_and_write(
        who,
        environments,
        seconds=options.seconds,
        repeats=options.repeats,
        output=output_of(options, who),
    )


def measure_and_write(
    who: Sequence[Contender],
    environments: Mapping[str, Ready | Missing],
    *,
    seconds: float,
    repeats: int,
    output: Path,
    timeout_s: float | None = None,
) -> None:
    """Run everyone and write ``peers.md``, ``peers.json`` and the pictures into ``output``."""
    found = _begun(who, environments, seconds, repeats)
    _say(f"{found.machine}. Load {found.load_before}. The report goes to {output}.")
    for system, reason in found.missing.items():
        _say(f"{system} is missing: {reason}")
    output.mkdir(parents=True, exist_ok=True)
    for run in run_all(
        who,
        environments,
        seconds=seconds,
        repeats=repeats,
        directory=ROOT,
        timeout_s=timeout_s,
        tell=_say,
    ):
        found.runs.append(run)
        found.load_after = load()
        # Hours of it are not lost when somebody stops it: --redraw makes a report of what is there.
        (output / f"{NAME}.json").write_text(found.to_json(), encoding="utf-8")
    _say(f"\n{_write(found, output)}")


def _begun(
    who: Sequence[Contender],
    environments: Mapping[str, Ready | Missing],
    seconds: float,
    repeats: int,
) -> Record:
    """A record without runs yet."""
    ready = {name: one.version for name, one in environments.items() if isinstance(one, Ready)}
    missing = {
        contender.system: environment.reason
        for contender in who
        if isinstance(environment := environments[contender.environment], Missing)
    }
    return Record(
        seconds,
        repeats,
        ready,
        missing,
        machine(),
        time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        commit(ROOT),
        load_before=load(),
    )


def _write(found: Record, output: Path) -> str:
    """The report and its pictures; gives the report."""
    output.mkdir(parents=True, exist_ok=True)
    text = document(found)
    (output / f"{NAME}.md").write_text(text, encoding="utf-8")
    for workload, picture in pictures(found).items():
        (output / f"{NAME}-{workload}.svg").write_text(picture, encoding="utf-8")
    return text


def _say(line: str) -> None:
    print(line, flush=True)
