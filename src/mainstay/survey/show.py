"""What ``mainstay snapshots`` shows in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from rich.console import Console
from rich.text import Text

from mainstay.inspect.survey import AttemptSurvey, Directory, KeptEpoch
from mainstay.inspect.survey_checks import Verdict
from mainstay.inspect.survey_condition import Condition
from mainstay.inspect.survey_orphans import Orphans
from mainstay.inspect.survey_state import OperatorSurvey, Spread, StateSurvey
from mainstay.quantities import shown_size as size
from mainstay.runtime.failure_record import FailureRecord
from mainstay.snapshot.listing import StoredFile
from mainstay.snapshot.savepoint import Savepoint
from mainstay.snapshot.statistics import EpochStatistics
from mainstay.spelling import counted as count
from mainstay.survey.listing import Listing, show_table

_SHOWN_FILES = 20


def when(seconds: float | None) -> str:
    """A time in UTC, which is the same for everybody who looks."""
    if seconds is None:
        return "unknown"
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


# ---------------------------------------------------------------- a job's directory


def show_job(console: Console, place: str, directory: Directory, condition: Condition) -> None:
    """The job, what has become of it, and what is wrong with its files."""
    begin = directory.begin
    console.print(Text.assemble(("job ", "dim"), (begin.job, "bold"), ("  in ", "dim"), place))
    console.print(
        f"  lineage {begin.lineage!r}, {count(begin.max_parallelism, 'key-group')}, "
        f"{count(len(directory.files), 'file')}, {size(directory.size_bytes)}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(_condition(condition), highlight=False, soft_wrap=True)
    _show_flaws(console, {flaw.path: flaw.why for _, flaw in directory.flaws()})


def show_directory(console: Console, directory: Directory) -> None:
    """Its attempts, its epochs and its savepoints."""
    show_table(console, _attempts(directory.attempts()))
    if directory.epochs:
        show_table(console, _epochs(directory))
    else:
        console.print("no epoch is complete yet")
    if directory.savepoints:
        show_table(console, _savepoints(directory))


_STYLES = {"finished": "green", "failed": "bold red", "unknown": "yellow"}


def _condition(condition: Condition) -> Text:
    at = "" if condition.at is None else f" {when(condition.at)} UTC"
    reason = f": {condition.reason}" if condition.reason else ""
    state = (condition.state, _STYLES.get(condition.state, "bold"))
    return Text.assemble("  ", state, f"{at}{reason}")


def _attempts(attempts: Iterable[AttemptSurvey]) -> Listing:
    table = Listing("Attempts", "attempt>", "begun (UTC)", "restored from", "epochs>", "leader")
    for each in attempts:
        begin = each.begin
        origin = (
            f"epoch {begin.restored_from}" if begin.restored_from else begin.origin or "nothing"
        )
        leader = begin.leader[:12]
        table.add(str(begin.attempt), when(each.begun_at), origin, f"{each.epochs:,}", leader)
    return table


def _epochs(directory: Directory) -> Listing:
    title = f"Epochs: {len(directory.epochs)} kept of {directory.completed:,} completed"
    table = Listing(
        title, "epoch>", "attempt>", "taken (UTC)", "size>", "chain>", "files", "lineage"
    )
    for epoch in directory.epochs:
        taken = None if epoch.manifest is None else epoch.manifest.created_at
        known = epoch.manifest is not None
        table.add(
            str(epoch.epoch),
            str(epoch.record.attempt),
            when(taken),
            size(epoch.size_bytes) if known else "?",
            str(epoch.longest_chain) if known else "?",
            _soundness(epoch),
            _standing(epoch),
        )
    return table


def _soundness(epoch: KeptEpoch) -> Text:
    if epoch.manifest is None:
        return Text("no manifest", style="bold red")
    files = f"{len(epoch.files):,}"
    if epoch.flaws:
        return Text(f"{files}, {len(epoch.flaws)} damaged", style="bold red")
    return Text.assemble(f"{files}, ", ("all there", "green"))


def _standing(epoch: KeptEpoch) -> Text:
    if epoch.is_latest:
        return Text("latest", style="bold")
    return Text("" if epoch.on_lineage else "abandoned", style="dim")


def _savepoints(directory: Directory) -> Listing:
    table = Listing("Savepoints that were taken", "epoch>", "path")
    for each in directory.savepoints:
        table.add(str(each.epoch), each.name)
    return table


def show_history(console: Console, epochs: Sequence[EpochStatistics]) -> None:
    """Epochs that have ended, kept or not, in figures."""
    if not epochs:
        console.print(
            "no statistics are stored yet: a running job stores those of a hundred epochs at a "
            "time, a job that ends the rest"
        )
        return
    names = ("epoch>", "attempt>", "begun (UTC)", "status", "took>", "size>")
    measured = ("alignment>", "sync>", "async>")
    table = Listing("Epochs that have ended", *names, *measured, "why")
    for each in epochs:
        times = (each.alignment_s, each.sync_s, each.async_s)
        table.add(
            *(str(each.epoch), str(each.attempt), when(each.triggered_at), each.status),
            *(f"{each.duration_s:.3f} s", size(each.size_bytes)),
            *(f"{1000 * time:,.1f} ms" for time in times),
            each.reason,
        )
    show_table(console, table, less=("attempt", "alignment", "sync", "async"))


def show_failures(console: Console, failures: Sequence[FailureRecord]) -> None:
    """Attempts that have failed, each with the author's frames below it."""
    if not failures:
        console.print("no attempt has failed")
    for each in failures:
        head = f"{when(each.at)} UTC  {each}"
        console.print(Text(head), highlight=False, soft_wrap=True)
        for line in each.traceback.rstrip().splitlines():
            console.print(Text(f"    {line}", style="dim"), highlight=False, soft_wrap=True)


# ---------------------------------------------------------------- what an epoch holds


def show_savepoint(console: Console, place: str, savepoint: Savepoint) -> None:
    files = [item.file for item in savepoint.files()]
    console.print(
        Text.assemble(
            ("savepoint of job ", "dim"), (savepoint.job, "bold"), ("  in ", "dim"), place
        )
    )
    console.print(
        f"  epoch {savepoint.epoch}, taken {when(savepoint.created_at)} UTC, "
        f"{savepoint.mode.replace('_', ' ')}, {count(savepoint.max_parallelism, 'key-group')}, "
        f"{count(len(files), 'file')}, {size(sum(file.size_bytes for file in files))}",
        highlight=False,
    )


def show_operators(console: Console, title: str, operators: Iterable[OperatorSurvey]) -> None:
    """Every operator with its states."""
    console.print(Text(title, style="bold"))
    for operator in operators:
        console.print(_heading(operator), highlight=False)
        if operator.states:
            show_table(console, _states(operator.states), less=(HEAVIEST, SUBTASKS, GROUPS, "kind"))
        _show_flaws(console, {flaw.path: flaw.why for flaw in operator.flaws})


def _heading(operator: OperatorSurvey) -> Text:
    facts = [f"{count(operator.parallelism, 'subtask')}"]
    if operator.key_type is not None:
        facts.append(f"key {operator.key_type}")
    facts.append(f"{size(operator.size_bytes)} in {count(operator.files, 'file')}")
    if operator.checkpoint_bytes:
        facts.append(f"{size(operator.checkpoint_bytes)} of it in checkpoints, not counted below")
    if any(operator.chains):
        facts.append(f"chains of {_range(operator.chains)}")
    return Text.assemble("\n", (operator.uid, "bold"), (f"  {', '.join(facts)}", "dim"))


def _range(numbers: tuple[int, ...]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


HEAVIEST = "heaviest key-groups (rows)"
SUBTASKS, GROUPS = "subtask skew", "key-group skew"


def _states(states: Iterable[StateSurvey]) -> Listing:
    table = Listing(
        None, "state", "kind", "type", "rows>", "size>", f"{SUBTASKS}>", f"{GROUPS}>", HEAVIEST
    )
    for state in states:
        kind = state.schema.kind.replace("_", " ")
        is_named = state.by_group is not None or kind.startswith("operator")
        table.add(
            state.schema.name,
            kind if is_named else f"operator {kind}",
            _type(state),
            f"{state.rows:,}",
            size(state.size_bytes),
            _skew(state.by_subtask),
            _skew(state.by_group),
            _heaviest(state.by_group),
        )
    return table


def _type(state: StateSurvey) -> str:
    schema = state.schema
    named = schema.value_type
    if schema.map_key_type is not None:
        named = f"{schema.map_key_type} → {named}"
    return named if schema.ttl_us is None else f"{named}, ttl {schema.ttl_us / 1e6:g} s"


def _skew(spread: Spread | None) -> str:
    skew = None if spread is None else spread.skew
    return "" if skew is None else f"{skew:.2f}×"


def _heaviest(spread: Spread | None) -> str:
    heaviest = () if spread is None else spread.heaviest(3)
    return ", ".join(f"{place} ({rows:,})" for place, rows in heaviest)


# ---------------------------------------------------------------- checks and orphans


def show_verdict(console: Console, what: str, verdict: Verdict) -> None:
    read = f"{count(verdict.files, 'file')}, {size(verdict.size_bytes)}"
    if not verdict.flaws:
        console.print(Text(f"{what}: {read} read, every checksum is right", style="green"))
        return
    damaged = count(len(verdict.flaws), "file")
    console.print(Text(f"{what}: {read} to read, {damaged} missing or damaged", style="bold red"))
    for each in verdict.flaws:
        needed = f"needed by epoch {', '.join(map(str, each.epochs))}"
        console.print(f"  {each.flaw.why} ({needed})", highlight=False, soft_wrap=True)


def show_orphans(console: Console, orphans: Orphans) -> None:
    found = count(len(orphans.files), "orphan")
    console.print(f"{found}, {size(orphans.size_bytes)}", style="bold", highlight=False)
    _show_files(console, orphans.files)
    if orphans.left_alone:
        left = f"{count(len(orphans.left_alone), 'file')}, {size(orphans.left_alone_bytes)}"
        console.print(
            f"of the newest attempt no epoch reaches {left}: left alone, because an epoch under "
            "way may need them; the next attempt removes them",
            style="dim",
            highlight=False,
        )
    if orphans.files and orphans.unsure is not None:
        console.print(f"not to be removed now: {orphans.unsure}", style="yellow", highlight=False)


def _show_files(console: Console, files: tuple[StoredFile, ...]) -> None:
    for file in files[:_SHOWN_FILES]:
        line = f"  {file.path}  {size(file.size_bytes)}, {when(file.modified_at)}"
        console.print(line, highlight=False, soft_wrap=True)
    if len(files) > _SHOWN_FILES:
        console.print(f"  and {len(files) - _SHOWN_FILES:,} more; --json has all", style="dim")


def _show_flaws(console: Console, flaws: dict[str, str]) -> None:
    for path, why in flaws.items():
        line = why if why.startswith(path) else f"{path}: {why}"
        console.print(Text(line, style="red"), soft_wrap=True)
