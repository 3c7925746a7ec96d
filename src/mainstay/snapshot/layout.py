"""Where everything lies in a job's snapshot storage: the one module that spells paths.

::

    log/0000000042                            a slot of the commit log
    epochs/0000000007-a0003.json              the manifest of epoch 7, written by attempt 3
    state/<uid>/a0003/s0001-<segment>.msty    a segment of subtask 1 of an operator
    state/%shared/a0003/w0001-12.msts         small segments of several operators in worker 1
    state/<uid>/a0003/s0001-<file>            a file of a database or loop of subtask 1
    state/<uid>/a0003/s0001-<state>-e7.units  many units of an operator state, of epoch 7
    statistics/0000000107-a0003.json          figures of the epochs up to 107
    failures/0000000003-<leader>-0001.json    why attempt 3 failed: a leader's first
    graphs/0000000003.json                    how the operators of attempt 3 are joined
    leader/0000000002                         the lease of the second leader, and its .beat
    probe/<token>                             written and deleted when a job starts
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from urllib.parse import quote

LOG_PREFIX = "log/"
MANIFEST_PREFIX = "epochs/"
STATE_PREFIX = "state/"
STATISTICS_PREFIX = "statistics/"
FAILURES_PREFIX = "failures/"
GRAPHS_PREFIX = "graphs/"
LEASE_PREFIX = "leader/"
PROBE_PREFIX = "probe/"

# A name on a local disk has at most 255 bytes.
_LONGEST_NAME = 200

_SLOT = re.compile(r"log/(\d{10,})")
_LEASE = re.compile(r"leader/(\d{10,})")
_NUMBERS = re.compile(r"\d+")
_OF_ATTEMPT = re.compile(r"epochs/\d+-a(\d+)\.json|state/[^/]+/a(\d+)/[^/]+")


def by_number(paths: Iterable[str]) -> list[str]:
    """Paths of one prefix in the order of their numbers.

    That of their letters is another as soon as a number has more digits than the others.
    """
    return sorted(paths, key=lambda path: ([int(each) for each in _NUMBERS.findall(path)], path))


def log_slot(index: int) -> str:
    """The path of a slot of the commit log; the first is slot 0."""
    return f"{LOG_PREFIX}{index:010d}"


def slot_index(path: str) -> int | None:
    """The index of the slot at a path, or None when the path is no slot."""
    match = _SLOT.fullmatch(path)
    return int(match[1]) if match else None


def manifest_path(epoch: int, attempt: int) -> str:
    """The path of an epoch's manifest."""
    return f"{MANIFEST_PREFIX}{epoch:010d}-a{attempt:04d}.json"


def statistics_path(epoch: int, attempt: int) -> str:
    """The path of a chunk of statistics; ``epoch`` is its last."""
    return f"{STATISTICS_PREFIX}{epoch:010d}-a{attempt:04d}.json"


def failure_path(attempt: int, leader: str, number: int) -> str:
    """The path of the failure of an attempt, 0 where none had begun; each leader counts its own."""
    return f"{FAILURES_PREFIX}{attempt:010d}-{safe_name(leader)}-{number:04d}.json"


def graph_path(attempt: int) -> str:
    """The path of the graph of an attempt."""
    return f"{GRAPHS_PREFIX}{attempt:010d}.json"


def lease_path(number: int) -> str:
    """The path of a leader's lease; the first is number 1."""
    return f"{LEASE_PREFIX}{number:010d}"


def beat_path(number: int) -> str:
    """The path of the counter that a leader raises while it leads."""
    return f"{lease_path(number)}.beat"


def probe_path(token: str) -> str:
    """The path of an object that a storage is tried with; nobody uses it again."""
    return f"{PROBE_PREFIX}{token}"


def lease_number(path: str) -> int | None:
    """The number of the lease at a path, or None when the path is no lease."""
    match = _LEASE.fullmatch(path)
    return int(match[1]) if match else None


def segment_path(uid: str, subtask: int, attempt: int, segment_id: str) -> str:
    """The path of a segment or base file; ``segment_id`` is path-safe already."""
    return f"{STATE_PREFIX}{safe_name(uid)}/a{attempt:04d}/s{subtask:04d}-{segment_id}.msty"


def shared_path(worker: int, attempt: int, number: int) -> str:
    """The path of a worker's so many-th file that several operators share.

    No operator has this folder: ``safe_name`` never gives its name.
    """
    return f"{STATE_PREFIX}%shared/a{attempt:04d}/w{worker:04d}-{number}.msts"


def units_path(uid: str, subtask: int, attempt: int, state: str, epoch: int) -> str:
    """The path of the units of an operator state, where they are not in the manifest."""
    folder = f"{STATE_PREFIX}{safe_name(uid)}/a{attempt:04d}"
    return f"{folder}/s{subtask:04d}-{safe_name(state)}-e{epoch}.units"


def operator_file_path(uid: str, subtask: int, attempt: int, name: str) -> str:
    """The path of a file of a checkpoint or a loop; ``name`` is path-safe already."""
    return f"{STATE_PREFIX}{safe_name(uid)}/a{attempt:04d}/s{subtask:04d}-{name}"


def attempt_of(path: str) -> int | None:
    """The attempt that wrote a manifest or state file, or None for any other path."""
    match = _OF_ATTEMPT.fullmatch(path)
    return int(match[1] or match[2]) if match else None


def safe_name(uid: str) -> str:
    """A uid as one path segment. Different uids give different names.

    Everything outside ``[A-Za-z0-9_.-]`` is percent-encoded. A bare ``%`` or ``%-`` never comes
    out of that, so they mark the two cases with a form of their own: the empty and the long uid.
    """
    name = quote(uid, safe="", errors="surrogatepass").replace("~", "%7E")
    if not name.strip("."):
        name = name.replace(".", "%2E") or "%"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{name[:100]}%-{digest}"
