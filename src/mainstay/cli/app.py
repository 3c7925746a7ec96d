"""All commands, in the groups in which the help shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

import mainstay
from mainstay.cli.job_commands import cancel, jobs, rescale, savepoint, stop
from mainstay.cli.program_commands import check, init, run
from mainstay.cli.state_commands import query, snapshots, sql, ui
from mainstay.cli.trying_commands import bench, demo

GROUPS: tuple[tuple[str, tuple[Callable[..., Any], ...]], ...] = (
    ("Programs", (init, run, check)),
    ("Jobs that run", (jobs, savepoint, stop, rescale, cancel)),
    ("What a job has stored", (query, sql, snapshots, ui)),
    ("See it work", (demo, bench)),
)


def app() -> typer.Typer:
    """The command with everything below it."""
    made = typer.Typer(
        name="mainstay",
        help="Managed state and consistent snapshots for PySpark programs.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        # An error says what to do; pages of source around it do not.
        pretty_exceptions_enable=False,
    )
    made.callback()(options)
    for title, commands in GROUPS:
        for command in commands:
            made.command(rich_help_panel=title)(command)
    return made


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mainstay {mainstay.__version__}")
        raise typer.Exit


def options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Managed state and consistent snapshots for PySpark programs."""
