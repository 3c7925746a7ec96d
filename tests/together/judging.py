"""Reads everything that a run has left, and has it checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainstay.snapshot.history import Begin
from mainstay.snapshot.object_storage import open_storage
from tests.ha.histories import check_files
from tests.together.checker import (
    check_answers,
    check_log,
    check_rows,
    check_state,
)
from tests.together.generator import events, moves
from tests.together.jobs import TogetherJob
from tests.together.model import Expected, expected_of_accounts, expected_of_orders
from tests.together.report import Report
from tests.together.states import state_of

if TYPE_CHECKING:
    from tests.together.running import Running

RETAIN = 3
MOST_REASONS = 4


def judge(run: Running, minutes: float) -> Report:
    report = Report(run.seed, minutes, run.chaos.done, run.chaos.skipped, run.spared)
    count_events, count_moves = run.amounts()
    report.rows = {"events in": count_events, "moves in": count_moves}
    expected = {
        "orders": expected_of_orders(events(run.seed, count_events)),
        "accounts": expected_of_accounts(moves(run.seed, count_moves)),
    }
    for job in run.jobs:
        _judge_job(run, job, expected[job.name], report)
    report.differences += [*run.chaos.findings, *run.clients.findings]
    return report


def _judge_job(run: Running, job: TogetherJob, expected: Expected, report: Report) -> None:
    differences = report.differences
    for name, rows in expected.outputs.items():
        found = run.output(job, name)
        report.rows[f"{name} out"] = sum(found.values())
        differences += check_rows(name, rows, found)
    place = str(job.current.snapshots)
    for name, values in _states(job, expected).items():
        found_state = _plain(state_of(place, name))
        differences += check_state(name, values, found_state)
    for incarnation, log in zip(job.incarnations, job.logs, strict=True):
        differences += check_log(incarnation.name, log.records, log.missed)
        differences += _check_kept(str(incarnation.snapshots))
    differences += check_answers(job.name, run.books[job.name], job.logs)
    differences += _check_savepoints(run, job)
    differences += job.findings
    report.figures |= _figures(job)
    book = run.books[job.name]
    report.answers[job.name] = book.counts
    report.refusals[job.name] = dict(book.reasons.most_common(MOST_REASONS))


def _states(job: TogetherJob, expected: Expected) -> dict[str, dict[Any, Any]]:
    """Those of all versions, too: each counts from when the job went on with it."""
    seen = expected.states[f"{job.operator}.seen"]
    since = {
        f"{job.operator}.since_{version}": {
            key: count - base.get(key, 0) for key, count in seen.items() if count > base.get(key, 0)
        }
        for version, base in job.bases.items()
    }
    return expected.states | since


def _plain(state: dict[Any, Any]) -> dict[Any, Any]:
    return {k: dict(v) if isinstance(v, dict) else v for k, v in state.items()}


def _check_kept(place: str) -> list[str]:
    try:
        check_files(open_storage(place), RETAIN)
    except Exception as error:
        return [f"what {place} keeps: {error!r}"]
    return []


def _check_savepoints(run: Running, job: TogetherJob) -> list[str]:
    """Of each key a savepoint has a count and the last row, and those belong together."""
    found: list[str] = []
    for place in job.savepoints if job.name == "orders" else ():
        seen = state_of(place, "totals.seen")
        last = state_of(place, "totals.last")
        expected = {k: run.prefixes.last_of(k, count) for k, count in seen.items()}
        found += check_state(f"totals.last of {place}", expected, last)
    return found


def _figures(job: TogetherJob) -> dict[str, str]:
    records = [record for log in job.logs for record in log.records]
    begins = [record for record in records if isinstance(record, Begin)]
    return {
        f"{job.name}, epochs": str(sum(len(log.epochs) for log in job.logs)),
        f"{job.name}, attempts": str(len(begins)),
        f"{job.name}, leaders": str(len({record.leader for record in begins})),
        f"{job.name}, drivers started": str(job.started),
        f"{job.name}, histories": str(len(job.incarnations)),
        f"{job.name}, version": str(job.version),
        f"{job.name}, savepoints": str(len(job.savepoints)),
    }
