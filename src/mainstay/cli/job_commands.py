"""Commands for jobs that run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from mainstay.cli.screen import console

if TYPE_CHECKING:
    from mainstay.control.acting import Action

PATIENCE_S = 300.0
"""The longest that a job waits with an answer; what takes longer goes on."""


def job_names(incomplete: str) -> list[str]:
    """For completion in a shell: the jobs of the registry."""
    from mainstay.registry.folder import read_entries, registry_folder

    names = {entry.name for _, entry in read_entries(registry_folder())}
    return sorted(name for name in names if name.startswith(incomplete))


JOB = typer.Argument(
    help="Its name, or its address with '#token=...'.", autocompletion=job_names, metavar="JOB"
)
PID = typer.Option(
    None, "--pid", metavar="PID", help="Which of several jobs of one name, by its process."
)
TOKEN = typer.Option(
    None,
    "--token",
    metavar="TOKEN",
    help="The token, where the address has none; also MAINSTAY_TOKEN.",
)
JSON = typer.Option(False, "--json", help="Print the result as a JSON object.")
TIMEOUT = typer.Option(
    PATIENCE_S,
    "--timeout",
    min=1.0,
    max=PATIENCE_S,
    metavar="S",
    help="Seconds to wait; then it goes on.",
)


def jobs(
    as_json: bool = typer.Option(False, "--json", help="Print them as a JSON array."),
    is_all: bool = typer.Option(
        False, "--all", help="Also those that have ended and whose program goes on."
    ),
    prune: bool = typer.Option(False, "--prune", help="Forget those whose process is gone."),
) -> None:
    """List the jobs of this machine, and how they are doing.

    Those that were started with a page, or by `mainstay run`.
    """
    from mainstay.control.listing import run_jobs

    run_jobs(console(), as_json=as_json, is_all=is_all, prune=prune)


def savepoint(
    job: str = JOB,
    path: str = typer.Argument(help="An empty or new folder, or the URL of an object store."),
    pid: int | None = PID,
    token: str | None = TOKEN,
    timeout: float = TIMEOUT,
    as_json: bool = JSON,
) -> None:
    """Write a savepoint of a running job, which goes on meanwhile."""
    from mainstay.control import acting

    _ask(job, acting.savepoint(str(path)), pid, token, timeout, as_json)


def stop(
    job: str = JOB,
    path: str | None = typer.Option(
        None, "--savepoint", metavar="PATH", help="Write a savepoint there, too."
    ),
    drain: bool = typer.Option(
        False, "--drain", help="End the input first: operators emit what they hold back."
    ),
    pid: int | None = PID,
    token: str | None = TOKEN,
    timeout: float = TIMEOUT,
    as_json: bool = JSON,
) -> None:
    """Bring a job to a standstill: one last epoch, then the end.

    Every sink has confirmed that epoch, so nothing is repeated afterwards.
    """
    from mainstay.control import acting

    _ask(job, acting.stop(path, drain=drain), pid, token, timeout, as_json)


def rescale(
    job: str = JOB,
    parallelism: int = typer.Argument(min=1, metavar="N", help="How many workers are to run."),
    pid: int | None = PID,
    token: str | None = TOKEN,
    timeout: float = TIMEOUT,
    as_json: bool = JSON,
) -> None:
    """Go on at another parallelism, with new workers from an epoch."""
    from mainstay.control import acting

    _ask(job, acting.rescale(parallelism), pid, token, timeout, as_json)


def cancel(
    job: str = JOB,
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    pid: int | None = PID,
    token: str | None = TOKEN,
    timeout: float = TIMEOUT,
    as_json: bool = JSON,
) -> None:
    """End a job at once; its last epoch can be restored.

    What came after that epoch is read again by the next start.
    """
    from mainstay.control import acting

    if not yes:
        _confirm(f"Cancel {job!r}?")
    _ask(job, acting.cancel(), pid, token, timeout, as_json)


def _confirm(question: str) -> None:
    """Where nobody can answer, nobody is asked."""
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to ask in. Say --yes.", param_hint="--yes")
    typer.confirm(question, abort=True, err=True)


def _ask(
    job: str, action: Action, pid: int | None, token: str | None, timeout: float, as_json: bool
) -> None:
    from mainstay.control.acting import run_action
    from mainstay.control.target import target_of

    raise typer.Exit(run_action(target_of(job, token, pid), action, timeout, as_json=as_json))
