"""The job that a command is for: a name of the registry, or an address."""

from __future__ import annotations

import os
from dataclasses import dataclass

from mainstay.client.address import Address, is_address
from mainstay.client.service import Service
from mainstay.control.sight import last_epoch
from mainstay.errors import MainstayError, UnreachableError
from mainstay.registry.entry import Entry
from mainstay.registry.folder import read_entries, registry_folder
from mainstay.spelling import did_you_mean, one_of

TOKEN = "MAINSTAY_TOKEN"
"""The environment variable with the token for an address that has none."""


class NoSuchJobError(MainstayError):
    """No job is meant by what was given, or several are, or one that is gone."""


@dataclass(frozen=True, slots=True)
class Target:
    """A job that can be asked, and what the registry says of it."""

    service: Service
    shown: str
    entry: Entry | None = None

    def explained(self, error: UnreachableError) -> MainstayError:
        """Why nothing answers, as far as the registry and the storage tell."""
        if self.entry is None:
            return error
        if self.entry.is_gone:
            return _gone(self.entry)
        return NoSuchJobError(
            f"{error} Its process {self.entry.pid} is there; `mainstay jobs` shows how it is doing."
        )


def target_of(job: str, token: str | None = None, pid: int | None = None) -> Target:
    """The one job that is meant, which need not answer."""
    token = token or os.environ.get(TOKEN)
    if is_address(job):
        address = Address.of(job, token)
        return Target(Service(address), str(address))
    entry = _named(job, pid)
    if entry.url is None:
        raise NoSuchJobError(
            f"job {job!r} (process {entry.pid}) serves no page, so it cannot be asked. Start it "
            "with `mainstay run --ui`, or end it by SIGTERM."
        )
    return Target(Service(Address.of(entry.url, token or entry.token)), f"job {job!r}", entry)


def place_of_job(job: str, pid: int | None = None) -> str:
    """Where the snapshots of a job of the registry are, whether it runs or not."""
    return _named(job, pid, is_gone_allowed=True).place


def is_name(job: str) -> bool:
    """Whether the registry has a job of this name."""
    return any(entry.name == job for _, entry in read_entries(registry_folder()))


def unknown_place(job: str) -> NoSuchJobError:
    """What is neither a job of the registry nor a folder."""
    known = [entry for _, entry in read_entries(registry_folder())]
    return NoSuchJobError(f"there is no folder {job!r}, and {_unknown(job, None, known)}")


def _named(job: str, pid: int | None, *, is_gone_allowed: bool = False) -> Entry:
    known = [entry for _, entry in read_entries(registry_folder())]
    found = [each for each in known if each.name == job and pid in (None, each.pid)]
    if not found:
        raise _unknown(job, pid, known)
    live = [each for each in found if not each.is_gone]
    if not live and not is_gone_allowed:
        raise _gone(found[-1])
    if len(live) > 1:
        raise _ambiguous(job, live)
    return live[0] if live else found[-1]


def _unknown(job: str, pid: int | None, known: list[Entry]) -> NoSuchJobError:
    names = sorted({each.name for each in known})
    if job in names:
        pids = one_of([str(each.pid) for each in known if each.name == job])
        return NoSuchJobError(f"job {job!r} has no process {pid}. Give --pid one of: {pids}.")
    there = f"there are {one_of(names)}" if names else "there are none"
    of = "" if pid is None else f" with the process {pid}"
    return NoSuchJobError(
        f"no job {job!r}{of} has noted itself on this machine; {there}.{did_you_mean(job, names)} "
        "A job notes itself when it is started with ui=True or by `mainstay run`; one that runs "
        "elsewhere is named by its address, as job.url shows it."
    )


def _gone(entry: Entry) -> NoSuchJobError:
    epoch = last_epoch(entry.place)
    last = "no epoch was complete" if epoch is None else f"its last epoch is {epoch}"
    how = "latest-or-new" if epoch is None else "latest"
    return NoSuchJobError(
        f"job {entry.name!r} is gone: its process {entry.pid} was killed; {last}, at "
        f"{entry.place!r}. Start it again with restore={how!r} (mainstay run --restore {how}); "
        "`mainstay jobs --prune` forgets it."
    )


def _ambiguous(job: str, found: list[Entry]) -> NoSuchJobError:
    each = "; ".join(f"--pid {entry.pid} {entry.url or ''} in {entry.place}" for entry in found)
    return NoSuchJobError(
        f"{len(found)} jobs are named {job!r}: {each}. Say which by --pid, or give its address."
    )
