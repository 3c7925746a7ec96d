"""``python -m benchmarks peers``: measure ours and the peers, and write the report."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.harness.environments import Missing, Ready, prepare
from benchmarks.harness.plot import draw
from benchmarks.harness.schedule import Run, run_all
from benchmarks.harness.summary import summaries
from benchmarks.harness.systems import ENVIRONMENTS, OURS, SYSTEMS, WORKLOADS, Contender, contenders
from benchmarks.harness.tables import document
from benchmarks.picture import NoPlotError

ROOT = Path(__file__).resolve().parents[2]
FORMAT = 1


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks peers")
    made.add_argument("--only", choices=WORKLOADS, action="append", help="measure only this")
    made.add_argument("--systems", help=f"of these only, by commas: {', '.join(SYSTEMS)}")
    made.add_argument("--exclude", default="", help="not these, by commas")
    made.add_argument("--ours-only", action="store_true", help="ours and the bare loops")
    made.add_argument("--seconds", type=float, default=10.0, help="measured in each run")
    made.add_argument("--repeats", type=int, default=5, help="runs of each")
    made.add_argument("--no-install", action="store_true", help="make no environment")
    made.add_argument("--cache", type=Path, default=ROOT / ".bench", help="where they are")
    made.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results")
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


def main(arguments: list[str] | None = None) -> None:
    options = parser().parse_args(arguments)
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
        output=options.output,
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
    """Run everyone and write ``peers.md``, ``peers.json`` and ``peers.svg`` into ``output``."""
    for name, environment in environments.items():
        if isinstance(environment, Missing):
            print(f"{name} is missing: {environment.reason}")
    runs = run_all(
        who,
        environments,
        seconds=seconds,
        repeats=repeats,
        directory=ROOT,
        timeout_s=timeout_s,
        tell=lambda line: print(line, flush=True),
    )
    output.mkdir(parents=True, exist_ok=True)
    text = document(runs, environments, who, seconds=seconds, repeats=repeats)
    (output / "peers.md").write_text(text, encoding="utf-8")
    (output / "peers.json").write_text(_raw(runs, environments, seconds), encoding="utf-8")
    print(f"\n{text}")
    try:
        draw(summaries(runs), output / "peers.svg")
    except NoPlotError as error:
        print(error)


def _raw(runs: Sequence[Run], environments: Mapping[str, Ready | Missing], seconds: float) -> str:
    """Every run as it was, for whoever wants other statistics."""
    versions = {
        name: environment.version if isinstance(environment, Ready) else environment.reason
        for name, environment in environments.items()
    }
    rows = [
        {
            "workload": run.contender.workload,
            "system": run.contender.system,
            "setting": run.contender.setting,
            "round": run.round,
            **dataclasses.asdict(run.outcome),
        }
        for run in runs
    ]
    document = {"format": FORMAT, "seconds": seconds, "environments": versions, "runs": rows}
    return json.dumps(document, indent=1) + "\n"
