"""What ``mainstay snapshots --json`` prints: everything that was found, as one JSON object.

Times are seconds since 1970, sizes are bytes. The object says its ``format``; names that are in it
stay, new ones may come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from mainstay.inspect.survey import Directory, KeptEpoch
from mainstay.inspect.survey_checks import Verdict
from mainstay.inspect.survey_condition import Condition
from mainstay.inspect.survey_orphans import Orphans
from mainstay.inspect.survey_state import OperatorSurvey, Spread, StateSurvey
from mainstay.snapshot.listing import StoredFile
from mainstay.snapshot.savepoint import Savepoint

DOCUMENT_FORMAT = 1


def directory_document(place: str, directory: Directory, condition: Condition) -> dict[str, Any]:
    """A job's snapshot directory."""
    begin, latest = directory.begin, directory.history.latest_epoch
    return {
        "format": DOCUMENT_FORMAT,
        "kind": "snapshots",
        "place": place,
        "job": begin.job,
        "lineage": begin.lineage,
        "key_groups": begin.max_parallelism,
        "hash_id": begin.hash_id,
        "state": condition.state,
        "ended_at": condition.at,
        "reason": condition.reason,
        "finished": condition.state == "finished",
        "may_be_running": condition.may_be_running,
        "latest": None if latest is None else latest.epoch,
        "completed": directory.completed,
        "files": len(directory.files),
        "size_bytes": directory.size_bytes,
        "attempts": [
            {
                "attempt": each.begin.attempt,
                "begun_at": each.begun_at,
                "restored_from": each.begin.restored_from,
                "origin": each.begin.origin,
                "lineage": each.begin.lineage,
                "leader": each.begin.leader,
                "epochs": each.epochs,
            }
            for each in directory.attempts()
        ],
        "epochs": [_epoch(epoch) for epoch in directory.epochs],
        "savepoints": [{"path": each.name, "epoch": each.epoch} for each in directory.savepoints],
    }


def _epoch(epoch: KeptEpoch) -> dict[str, Any]:
    manifest = epoch.manifest
    return {
        "epoch": epoch.epoch,
        "attempt": epoch.record.attempt,
        "created_at": None if manifest is None else manifest.created_at,
        "is_latest": epoch.is_latest,
        "on_lineage": epoch.on_lineage,
        "manifest": asdict(epoch.record.manifest),
        "size_bytes": epoch.size_bytes,
        "files": len(epoch.files),
        "longest_chain": epoch.longest_chain,
        "flaws": [asdict(flaw) for flaw in epoch.flaws],
    }


def savepoint_document(place: str, savepoint: Savepoint) -> dict[str, Any]:
    """A savepoint."""
    files = [item.file for item in savepoint.files()]
    return {
        "format": DOCUMENT_FORMAT,
        "kind": "savepoint",
        "place": place,
        "job": savepoint.job,
        "epoch": savepoint.epoch,
        "created_at": savepoint.created_at,
        "mode": savepoint.mode,
        "key_groups": savepoint.max_parallelism,
        "hash_id": savepoint.hash_id,
        "files": len(files),
        "size_bytes": sum(file.size_bytes for file in files),
    }


def operators_document(operators: Iterable[OperatorSurvey]) -> list[dict[str, Any]]:
    """What the operators of an epoch or a savepoint hold."""
    return [
        {
            "uid": each.uid,
            "parallelism": each.parallelism,
            "key_type": each.key_type,
            "chains": list(each.chains),
            "files": each.files,
            "size_bytes": each.size_bytes,
            "checkpoint_bytes": each.checkpoint_bytes,
            "states": [_state(state) for state in each.states],
            "flaws": [asdict(flaw) for flaw in each.flaws],
        }
        for each in operators
    ]


def _state(state: StateSurvey) -> dict[str, Any]:
    return {
        **asdict(state.schema),
        "rows": state.rows,
        "size_bytes": state.size_bytes,
        "by_key_group": _spread(state.by_group),
        "by_subtask": _spread(state.by_subtask),
    }


def _spread(spread: Spread | None) -> dict[str, Any] | None:
    if spread is None:
        return None
    heaviest = [{"number": place, "rows": rows} for place, rows in spread.heaviest()]
    return {
        "skew": spread.skew,
        "mean": spread.mean,
        "heaviest": heaviest,
        "rows": list(spread.rows),
    }


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """What reading every file has shown."""
    return {
        "files": verdict.files,
        "size_bytes": verdict.size_bytes,
        "flaws": [{**asdict(each.flaw), "epochs": list(each.epochs)} for each in verdict.flaws],
    }


def orphans_document(orphans: Orphans, removed: bool) -> dict[str, Any]:
    """What no epoch reaches."""
    return {
        "files": _files(orphans.files),
        "size_bytes": orphans.size_bytes,
        "removed": removed,
        "of_the_newest_attempt": _files(orphans.left_alone),
        "unsure": orphans.unsure,
    }


def _files(files: Iterable[StoredFile]) -> list[dict[str, Any]]:
    return [asdict(file) for file in files]
