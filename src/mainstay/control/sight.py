"""How the jobs of the registry are doing: asked themselves, or told by what they have stored."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mainstay.client.address import Address
from mainstay.client.service import Service
from mainstay.errors import MainstayError
from mainstay.inspect.survey import survey
from mainstay.registry.entry import Entry
from mainstay.registry.folder import read_entries, registry_folder
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.object_storage import open_existing

ASK_S = 3.0
AT_A_TIME = 16
GONE, UNREACHABLE = "gone", "unreachable"
ENDS = ("finished", "stopped", "cancelled", "failed")


@dataclass(frozen=True, slots=True)
class Sight:
    """One job as it is now. ``gone``: its process has ended without a word."""

    file: Path
    entry: Entry
    status: str
    since_at: float | None = None
    parallelism: int | None = None
    epoch: int | None = None
    rows_per_s: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, and its program goes on."""
        return self.status in ENDS

    def document(self) -> dict[str, Any]:
        """For programs; without the token."""
        entry = asdict(self.entry)
        told = {name: entry[name] for name in ("name", "pid", "host", "url", "place", "started_at")}
        return {
            **told,
            "status": self.status,
            "since_at": self.since_at,
            "parallelism": self.parallelism,
            "epoch": self.epoch,
            "rows_per_s": self.rows_per_s,
        }


def all_jobs() -> list[Sight]:
    """Those of the registry, oldest first, all asked at once."""
    entries = read_entries(registry_folder())
    if not entries:
        return []
    with ThreadPoolExecutor(min(AT_A_TIME, len(entries))) as pool:
        return list(pool.map(lambda each: look(*each), entries))


def look(file: Path, entry: Entry) -> Sight:
    """How one of them is doing."""
    if entry.is_gone:
        return Sight(file, entry, GONE, epoch=last_epoch(entry.place))
    if entry.url is None:
        return _stored(file, entry)
    try:
        found = Service(Address.of(entry.url, entry.token)).get("/job", ASK_S)
    except MainstayError:
        return Sight(file, entry, UNREACHABLE, epoch=last_epoch(entry.place))
    return Sight(
        file,
        entry,
        found["status"],
        found["status_since_at"],
        found["parallelism"],
        found["epoch"],
        found["rows_in_per_s"],
    )


def last_epoch(place: str) -> int | None:
    """The latest complete epoch at a place; None where there is none, or nothing can be read."""
    try:
        latest = read_history(open_existing(place)).latest_epoch
    except MainstayError:
        return None
    return None if latest is None else latest.epoch


def stored_end(place: str) -> str | None:
    """How the last leader at a place has said that the job ended, if it has."""
    try:
        ended = read_history(open_existing(place)).ended
    except MainstayError:
        return None
    return None if ended is None else ended.how


def _stored(file: Path, entry: Entry) -> Sight:
    """Of a job without a page its storage tells, and that its process is there."""
    try:
        directory = survey(open_existing(entry.place))
    except MainstayError:
        directory = None
    ended = None if directory is None else directory.history.ended
    status = "running" if ended is None else ended.how
    return Sight(file, entry, status, epoch=last_epoch(entry.place))
