"""News: whether there is new input for a job that has finished.

A finished job that is started again goes on only if one of its sources has something that no
earlier start has read, or a split that goes on after the end which it had for the last start. To
find out, its sources are planned as an attempt would plan them, before any worker is started. Where
there is nothing new nothing is written either; that the state could be restored is checked all the
same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from mainstay.errors import DamagedFileError
from mainstay.runtime.connector import UNAVAILABLE, Source
from mainstay.runtime.coordinator.epoch_history import record_of
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.coordinator.sourcing import refused, unfinished
from mainstay.runtime.coordinator.splits import SplitBook
from mainstay.runtime.messages import Epoch
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import EpochStatus
from mainstay.snapshot.manifest import Manifest
from mainstay.snapshot.statistics import read_statistics
from mainstay.snapshot.storage import Storage
from mainstay.snapshot.verifying import verify_manifest
from mainstay.tracebacks import has_own_frames

SHOWN_EPOCHS = 100
SHOWN_SPLITS = 3


@dataclass(frozen=True, slots=True)
class News:
    """What a finished job has come to: the sources with new input, or what to say of its end.

    ``report`` has a line for each source with new input, or tells of the end.
    """

    sources: tuple[str, ...]
    report: tuple[str, ...] = ()
    epochs: tuple[EpochRecord, ...] = ()


def look_for_news(storage: Storage, job: JobSpec, manifest: Manifest) -> News:
    """Plan the sources, and check every file if none has anything new. Runs in the background."""
    if new := with_news(job, manifest):
        return News(tuple(new), tuple(f"source {uid!r} {told}" for uid, told in new.items()))
    verify_manifest(storage, manifest)
    return News((), _report(job.sources(), manifest), _epochs(storage, manifest))


def with_news(job: JobSpec, manifest: Manifest | None) -> dict[str, str]:
    """The sources with input that an epoch does not know of, and what it is.

    Raises what is wrong with a source.
    """
    told = {uid: _news(uid, source, manifest) for uid, source in job.sources().items()}
    return {uid: text for uid, text in told.items() if text is not None}


def _news(uid: str, source: Source, manifest: Manifest | None) -> str | None:
    if not source.bounded:
        return "goes on with the input"
    if manifest is not None and (kept := unfinished(manifest, uid)):
        return f"looks for more input in splits that go on ({_named(list(kept))})"
    notes = None if manifest is None else manifest.sources.get(uid)
    book = SplitBook(1, bounded=True, notes=notes, plan_again=True)
    try:
        new = list(book.new(source.plan(book.seen)))
    except UNAVAILABLE:
        return "may have new input: it does not answer yet"  # an attempt waits until it is
    except Exception as error:
        raise refused(uid, error) from (error if has_own_frames(error) else None)
    return f"reads new input ({_named(new)})" if new else None


def _named(splits: Sequence[str]) -> str:
    named = ", ".join(splits[:SHOWN_SPLITS])
    more = f" and {len(splits) - SHOWN_SPLITS:,} more" if len(splits) > SHOWN_SPLITS else ""
    return named + more


def _report(sources: Mapping[str, Source], manifest: Manifest) -> tuple[str, ...]:
    at = datetime.fromtimestamp(manifest.created_at, timezone.utc)
    end = f"finished at epoch {manifest.epoch} on {at:%Y-%m-%d %H:%M:%S} UTC; no new input since"
    news = (f"new input of source {uid!r} would be {s.new_input}" for uid, s in sources.items())
    return (end, *news)


def _epochs(storage: Storage, manifest: Manifest) -> tuple[EpochRecord, ...]:
    """The newest epochs that something is known of; of the last one the manifest tells enough."""
    try:
        known = read_statistics(storage, SHOWN_EPOCHS)
    except DamagedFileError:
        known = []  # nothing depends on them
    if not any(each.epoch == manifest.epoch for each in known):
        return (_record(manifest),)
    return tuple(map(record_of, known))


def _record(manifest: Manifest) -> EpochRecord:
    """The last epoch, as far as its manifest tells; how long it took is not known any more."""
    return EpochRecord(
        epoch=Epoch(manifest.epoch),
        attempt=manifest.attempt,
        status=EpochStatus.COMPLETE,
        triggered_at=manifest.created_at,
        size_bytes=sum(file.size_bytes for file in manifest.files()),
        reason="of an earlier start",
    )
