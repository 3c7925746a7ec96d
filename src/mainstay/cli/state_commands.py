"""Commands that show what a job has stored, whether it runs or not."""

from __future__ import annotations

import typer

from mainstay.cli.job_commands import PID, TOKEN, job_names
from mainstay.cli.screen import console

PLACE = "A job's snapshot directory, or a savepoint: a folder or an s3, gs or az URL."
ASKED = typer.Argument(
    help="A job, by its name or address; or a snapshot directory, or a savepoint.",
    autocompletion=job_names,
    metavar="JOB|PATH",
)


def snapshots(
    path: str = typer.Argument(help=PLACE),
    epoch: str | None = typer.Option(
        None, "--epoch", metavar="N", help="Show what this epoch holds: a number, or latest."
    ),
    verify: bool = typer.Option(
        False, "--verify", help="Read every file of the kept epochs and check its checksum."
    ),
    history: int = typer.Option(
        0,
        "--history",
        min=0,
        metavar="N",
        help="Show the newest N epochs, also those no longer kept.",
    ),
    failures: bool = typer.Option(
        False, "--failures", help="Show why attempts have failed, and what was done about it."
    ),
    orphans: bool = typer.Option(False, "--orphans", help="List files that no kept epoch needs."),
    remove_orphans: bool = typer.Option(
        False, "--remove-orphans", help="List orphans, ask, and delete them."
    ),
    yes: bool = typer.Option(False, "--yes", help="Delete without asking."),
    as_json: bool = typer.Option(False, "--json", help="Print everything as one JSON object."),
) -> None:
    """Show what a snapshot directory or a savepoint holds.

    And whether it is complete. Without options: the job, its attempts and the epochs that are kept.
    """
    from mainstay.survey.command import Request, run_snapshots

    def confirm(question: str) -> bool:
        # Asked on the other stream: what is printed may be read by a program.
        return yes or typer.confirm(question, err=True)

    request = Request(epoch, verify, orphans, remove_orphans, history, as_json, failures)
    is_sound = run_snapshots(console(), path, request, confirm)
    raise typer.Exit(0 if is_sound else 1)


def query(
    place: str = ASKED,
    state: str | None = typer.Argument(
        None, help="The state, as operator.state; without it the states are listed."
    ),
    key: list[str] | None = typer.Option(  # noqa: B008
        None,
        "--key",
        metavar="KEY",
        help="A key, bytes in hexadecimal; for one of several columns a JSON object. May be "
        "repeated.",
    ),
    null_key: bool = typer.Option(False, "--null-key", help="The key that is null."),
    live: bool = typer.Option(
        False, "--live", help="Ask the owners of the keys, in a job that runs."
    ),
    epoch: str = typer.Option("latest", "--epoch", metavar="N", help="Any epoch that is kept."),
    after: str | None = typer.Option(
        None,
        "--after",
        metavar="WHAT",
        help="Wait for this epoch, or for offsets of sources as a JSON object.",
    ),
    timeout: float | None = typer.Option(
        None, "--timeout", min=0.0, metavar="S", help="How many seconds to wait; 10."
    ),
    limit: int | None = typer.Option(
        None, "--limit", min=0, metavar="N", help="Rows that are shown where no key is given; 20."
    ),
    pid: int | None = PID,
    token: str | None = TOKEN,
    as_json: bool = typer.Option(False, "--json", help="Print the answer as a JSON object."),
) -> None:
    """Look keys up in the state of a job, running or not."""
    from mainstay.control.asked import asked
    from mainstay.survey.asking import When, run_query

    job, when = asked(place, token, pid, is_live=live), When(epoch, live, after, timeout)
    keys = [*(key or ()), *([None] if null_key else ())]
    run_query(console(), job, state, keys, when, limit=limit, as_json=as_json)


def sql(
    place: str = ASKED,
    statement: str = typer.Argument(help="A SELECT over states, each the table operator.state."),
    epoch: str = typer.Option("latest", "--epoch", metavar="N", help="Any epoch that is kept."),
    pid: int | None = PID,
    token: str | None = TOKEN,
    as_json: bool = typer.Option(False, "--json", help="Print the rows as a JSON array."),
) -> None:
    """Run a SELECT over the committed state of a job, running or not."""
    from mainstay.control.asked import asked
    from mainstay.survey.asking import run_sql

    run_sql(console(), asked(place, token, pid), statement, epoch=epoch, as_json=as_json)


def ui(
    path: str = typer.Argument(help="A job's snapshot directory: a folder or an s3, gs or az URL."),
    port: int = typer.Option(
        0, "--port", min=0, max=65_535, metavar="N", help="0 takes one that is free."
    ),
    host: str = typer.Option("127.0.0.1", "--host", help="The address to listen at."),
) -> None:
    """Serve what a job has stored over HTTP, whether it runs or not."""
    from mainstay.survey.serving import run_ui

    run_ui(path, host, port)
