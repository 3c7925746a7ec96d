"""``mainstay snapshots``: looks at a place, shows what is asked for, says if all is well."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from mainstay.errors import RestoreError
from mainstay.inspect.survey import Directory, KeptEpoch, survey
from mainstay.inspect.survey_checks import Tell, Verdict, verify_epochs, verify_savepoint
from mainstay.inspect.survey_condition import condition_of
from mainstay.inspect.survey_orphans import find_orphans, remove_orphans
from mainstay.inspect.survey_savepoint import survey_savepoint
from mainstay.inspect.survey_state import survey_epoch
from mainstay.quantities import shown_size as size
from mainstay.runtime.failure_record import FailureRecord
from mainstay.snapshot.failures import read_failures, with_end
from mainstay.snapshot.listing import ListedStorage
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.object_storage import open_existing
from mainstay.snapshot.savepoint import UNFINISHED_FILE, is_savepoint, read_savepoint
from mainstay.snapshot.statistics import read_statistics
from mainstay.spelling import counted
from mainstay.survey import document, show

Confirm = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for."""

    epoch: str | None = None
    verify: bool = False
    orphans: bool = False
    remove_orphans: bool = False
    history: int = 0
    as_json: bool = False
    failures: bool = False


def run_snapshots(console: Console, place: str, request: Request, confirm: Confirm) -> bool:
    """Show it; False when a file is missing or damaged."""
    storage = open_existing(place)
    if is_savepoint(storage):
        return _Savepoint(console, place, storage, request).run()
    directory = survey(storage)
    if directory is None:
        raise _nothing_there(storage, place)
    return _Snapshots(console, place, storage, request, directory, confirm).run()


def _nothing_there(storage: ListedStorage, place: str) -> RestoreError:
    if UNFINISHED_FILE in storage.list(""):
        return RestoreError(
            f"the savepoint at {place!r} was never finished: it is being written, or was given up. "
            "If no job is writing it, delete the folder."
        )
    return RestoreError(
        f"there are no snapshots at {place!r}: it holds neither a commit log (log/) nor a "
        "savepoint.json. Name the directory that was given to Snapshots(...), or a savepoint."
    )


class _Report:
    """Shows parts to people as they come, or gathers them to print one JSON object at the end."""

    def __init__(self, console: Console, place: str, storage: ListedStorage, request: Request):
        self._console = console
        self._place = place
        self._storage = storage
        self._request = request
        self._document: dict[str, Any] = {}
        self._is_sound = True

    def run(self) -> bool:
        self._parts()
        if self._request.as_json:
            # Not through rich, which would wrap and colour it.
            print(json.dumps(self._document, indent=1), file=self._console.file)
        return self._is_sound

    def _parts(self) -> None:
        raise NotImplementedError

    def _add(self, name: str | None, found: Any, shown: Callable[[], None]) -> None:
        if not self._request.as_json:
            shown()
        elif name is None:
            self._document.update(found)
        else:
            self._document[name] = found

    def _add_verdict(self, what: str, check: Callable[[Tell], Verdict]) -> None:
        with self._console.status("reading ...") as status:

            def tell(file: FileRef) -> None:
                status.update(f"reading {file.path} ...")

            verdict = check(tell)
        self._is_sound &= not verdict.flaws
        self._add(
            "verified",
            document.verdict_document(verdict),
            lambda: show.show_verdict(self._console, what, verdict),
        )


class _Savepoint(_Report):
    """A savepoint."""

    def _parts(self) -> None:
        request = self._request
        asks_more = request.epoch is not None or request.orphans or request.remove_orphans
        if asks_more or request.history or request.failures:
            raise RestoreError(
                f"{self._place!r} is a savepoint: it holds one epoch, and nothing in it is an "
                "orphan. Leave out --epoch, --history, --failures and --orphans, or name a job's "
                "snapshot directory."
            )
        savepoint = read_savepoint(self._storage, self._place)
        self._add(
            None,
            document.savepoint_document(self._place, savepoint),
            lambda: show.show_savepoint(self._console, self._place, savepoint),
        )
        operators = survey_savepoint(self._storage, savepoint)
        self._is_sound &= not any(operator.flaws for operator in operators)
        self._add(
            "operators",
            document.operators_document(operators),
            lambda: show.show_operators(self._console, "\nWhat it holds", operators),
        )
        if request.verify:
            self._add_verdict("savepoint", lambda t: verify_savepoint(self._storage, savepoint, t))


class _Snapshots(_Report):
    """A job's snapshot directory."""

    def __init__(
        self,
        console: Console,
        place: str,
        storage: ListedStorage,
        request: Request,
        directory: Directory,
        confirm: Confirm,
    ) -> None:
        super().__init__(console, place, storage, request)
        self._directory = directory
        self._confirm = confirm
        self._now = time.time()

    def _parts(self) -> None:
        request, directory = self._request, self._directory
        epoch = None if request.epoch is None else directory.epoch(request.epoch)
        self._add_directory(is_all=not self._asks_for_a_part)
        if epoch is not None:
            self._add_epoch(epoch)
        if request.history:
            self._add_history(request.history)
        if request.failures:
            self._add_failures()
        if request.verify:
            self._add_check(directory.epochs if epoch is None else (epoch,))
        if request.orphans or request.remove_orphans:
            self._add_orphans()

    @property
    def _asks_for_a_part(self) -> bool:
        """Whether something is asked for that is not to be looked for below an overview."""
        request = self._request
        shown = (request.epoch is not None, request.history, request.failures)
        done = (request.verify, request.orphans, request.remove_orphans)
        return any(shown) or any(done)

    def _add_directory(self, *, is_all: bool) -> None:
        condition = condition_of(self._directory, self._now)
        self._is_sound &= not any(self._directory.flaws())

        def shown() -> None:
            show.show_job(self._console, self._place, self._directory, condition)
            if is_all:
                show.show_directory(self._console, self._directory)

        found = document.directory_document(self._place, self._directory, condition)
        self._add(None, found, shown)

    def _add_epoch(self, epoch: KeptEpoch) -> None:
        if epoch.manifest is None:
            # What is wrong with it was said with the directory.
            return
        operators = survey_epoch(self._storage, epoch.manifest)
        self._is_sound &= not any(operator.flaws for operator in operators)
        self._add(
            "epoch",
            {"epoch": epoch.epoch, "operators": document.operators_document(operators)},
            lambda: show.show_operators(
                self._console, f"\nWhat epoch {epoch.epoch} holds", operators
            ),
        )

    def _add_history(self, most: int) -> None:
        epochs = read_statistics(self._storage, most)
        self._add(
            "history",
            [asdict(each) for each in epochs],
            lambda: show.show_history(self._console, epochs),
        )

    def _add_failures(self) -> None:
        stored = with_end(read_failures(self._storage), self._directory.history.ended)
        self._add(
            "failures",
            [asdict(each) for each in stored],
            lambda: show.show_failures(self._console, list(map(FailureRecord.known, stored))),
        )

    def _add_check(self, epochs: tuple[KeptEpoch, ...]) -> None:
        numbers = ", ".join(str(epoch.epoch) for epoch in epochs)
        self._add_verdict(
            f"epoch {numbers}" if len(epochs) == 1 else f"epochs {numbers}",
            lambda tell: verify_epochs(self._storage, epochs, tell),
        )

    def _add_orphans(self) -> None:
        orphans = find_orphans(self._directory, self._now)
        if not self._request.as_json:
            show.show_orphans(self._console, orphans)
        removed = False
        if self._request.remove_orphans and orphans.files:
            asked = f"{counted(len(orphans.files), 'file')}, {size(orphans.size_bytes)}"
            if orphans.unsure is not None or self._confirm(f"Remove {asked}?"):
                remove_orphans(self._storage, orphans)
                removed = True
        if removed:
            shown = f"removed {asked}"
        else:
            shown = "nothing was removed" if self._request.remove_orphans else ""
        self._add(
            "orphans",
            document.orphans_document(orphans, removed),
            lambda: self._console.print(shown, highlight=False) if shown else None,
        )
