"""Checking what epochs and savepoints need, byte by byte, against the checksums kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mainstay.errors import MainstayError
from mainstay.inspect.survey import Flaw, KeptEpoch
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.savepoint import Savepoint
from mainstay.snapshot.savepoint_files import read_units
from mainstay.snapshot.storage import NotFound, Storage
from mainstay.snapshot.verifying import Check, file_checks, parquet_check, whole_check

Tell = Callable[[FileRef], None]


@dataclass(frozen=True, slots=True)
class FlawOf:
    """A flaw, and the epochs that cannot be restored because of it."""

    flaw: Flaw
    epochs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was read, and what is wrong with it."""

    files: int
    size_bytes: int
    flaws: tuple[FlawOf, ...]


def verify_epochs(storage: Storage, epochs: Iterable[KeptEpoch], tell: Tell) -> Verdict:
    """Read everything that these epochs need, each file once; ``tell`` hears of each before."""
    epochs = tuple(epochs)
    checks: dict[str, tuple[FileRef, Check]] = {}
    for epoch in epochs:
        checks.update(_checks_of(storage, epoch))
    flaws = dict(_run(checks, tell))
    found = [
        FlawOf(flaws[path], tuple(epoch.epoch for epoch in epochs if _needs(epoch, path)))
        for path in sorted(flaws)
    ]
    gone = {epoch.epoch for epoch in epochs if flaws and _is_retired(storage, epoch)}
    real = tuple(each for each in found if not gone.issuperset(each.epochs))
    return Verdict(len(checks), _size_of(checks), real)


def verify_savepoint(storage: Storage, savepoint: Savepoint, tell: Tell) -> Verdict:
    """Read every file of a savepoint."""
    checks: dict[str, tuple[FileRef, Check]] = {}
    for operator in savepoint.operators.values():
        for state in operator.states:
            for item in state.files:
                check = (
                    _units_check(storage, item.file, operator.parallelism)
                    if item.first_group is None
                    else parquet_check(storage, item.file, savepoint.key_groups(operator.uid) - 1)
                )
                checks[item.file.path] = (item.file, check)
    flaws = tuple(FlawOf(flaw, (savepoint.epoch,)) for _, flaw in _run(checks, tell))
    return Verdict(len(checks), _size_of(checks), flaws)


def _checks_of(storage: Storage, epoch: KeptEpoch) -> Iterator[tuple[str, tuple[FileRef, Check]]]:
    place = epoch.record.manifest
    yield place.path, (place, whole_check(storage, place))
    if epoch.manifest is not None:
        yield from file_checks(storage, epoch.manifest)


def _units_check(storage: Storage, file: FileRef, parallelism: int) -> Check:
    return lambda: read_units(storage, file, parallelism)


def _run(checks: dict[str, tuple[FileRef, Check]], tell: Tell) -> Iterator[tuple[str, Flaw]]:
    for path, (file, check) in checks.items():
        tell(file)
        try:
            check()
        except MainstayError as error:
            yield path, Flaw(path, str(error))


def _needs(epoch: KeptEpoch, path: str) -> bool:
    return path == epoch.record.manifest.path or path in epoch.files


def _is_retired(storage: Storage, epoch: KeptEpoch) -> bool:
    """Whether a running job has retired an epoch meanwhile: its manifest goes first."""
    if epoch.manifest is None:
        return False
    try:
        storage.read(epoch.record.manifest.path, 0, 1)
    except NotFound:
        return True
    return False


def _size_of(checks: dict[str, tuple[FileRef, Check]]) -> int:
    return sum(file.size_bytes for file, _ in checks.values())
